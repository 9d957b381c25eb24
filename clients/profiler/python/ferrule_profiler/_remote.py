"""The script that a process executes for `python -m ferrule_profiler --pid`; _attach.py adds the call of _begin().

It runs in the main thread of a program, whose other threads may import modules meanwhile: so sys.path is left alone.
"""

import os
import sys
from _frozen_importlib import module_from_spec
from _frozen_importlib_external import PathFinder, spec_from_file_location
from _thread import get_ident

_NAME = "ferrule_profiler"


class _Library:
    """A block in which this thread finds modules in Python's own library, whatever comes before it in sys.path.

    Those of which the program has others of the same name are taken out of sys.modules at the end.
    """

    def __init__(self):
        self.thread = get_ident()
        self.hidden = set()
        library = os.path.dirname(os.__file__)
        self.path = sys.path[sys.path.index(library):] if library in sys.path else None

    def find_spec(self, name, path=None, target=None):
        if path is not None or get_ident() != self.thread:
            return None
        spec, theirs = PathFinder.find_spec(name, self.path), PathFinder.find_spec(name)
        if spec is not None and theirs is not None and theirs.origin != spec.origin:
            self.hidden.add(name)
        return spec

    def __enter__(self):
        # The program may have put other functions there, which start no threads: gevent does.
        self.threads = sys.modules["_thread"]
        if type(self.threads.start_new_thread) is not type(len):
            spec = self.threads.__spec__
            sys.modules["_thread"] = module_from_spec(spec)
            spec.loader.exec_module(sys.modules["_thread"])
        places = [place for place, finder in enumerate(sys.meta_path) if finder is PathFinder]
        sys.meta_path.insert(places[0] if places else len(sys.meta_path), self)

    def __exit__(self, *exception):
        sys.meta_path.remove(self)
        sys.modules["_thread"] = self.threads
        _forget(self.hidden)


def _forget(packages):
    for name in list(sys.modules):      # other threads may import modules meanwhile
        if name.partition(".")[0] in packages:
            sys.modules.pop(name, None)


def _load(package):
    """The package, from where the sender has it."""
    spec = spec_from_file_location(_NAME, os.path.join(package, "__init__.py"), submodule_search_locations=[package])
    module = sys.modules[_NAME] = module_from_spec(spec)
    spec.loader.exec_module(module)


def _begin(directory, package, options, sources):
    with _Library():
        import _json
        import _socket
    connection = _socket.socket(_socket.AF_UNIX)
    connection.settimeout(None)     # the program may have set a default
    failed = True
    # Without a sender no one else removes its directory.
    try:
        failed = connection.connect_ex(os.path.join(directory, "socket"))
        for name in os.listdir(directory):
            os.unlink(os.path.join(directory, name))
        os.rmdir(directory)
    except OSError:
        pass        # the sender does it
    if failed:
        return      # the sender has ended
    is_there = _NAME in sys.modules
    try:
        with _Library():
            if not is_there:
                _load(package)
            from ferrule_profiler import _attached
    except BaseException as error:
        if not is_there:
            _forget({_NAME})
        text = _json.encode_basestring_ascii(f"{type(error).__name__}: {error}")
        connection.sendall(f'{{"error": {text}}}\n'.encode(), _socket.MSG_NOSIGNAL)
        connection.close()
    else:
        _attached.begin(connection, options, sources)
