"""Installs a frame hook in every interpreter that starts with this directory on PYTHONPATH: see run.py."""

import os


def install():
    kind, where = os.environ.get("FERRULE_SUITE_HOOK"), os.environ.get("FERRULE_SUITE_EXTENSION")
    if not kind or not where:
        return
    # With what is loaded anyhow: tests count modules, and look at where they come from.
    import _imp
    from _frozen_importlib import ModuleSpec
    module = _imp.create_dynamic(ModuleSpec("suitehooks", None, origin=where))
    _imp.exec_dynamic(module)
    if kind == "watch-python":
        watch_from_python(module)
    else:
        module.add(kind, *([private_observer(module.alone)] if kind == "observe" else []))


def watch_from_python(extension):
    """suitewatcher.watch(), with modules of its own."""
    import sys
    shared = set(sys.modules)
    try:
        import suitewatcher
    except ImportError:
        return      # no frame hooks here
    finally:
        for name in set(sys.modules) - shared:
            del sys.modules[name]
    suitewatcher.watch(extension)


def private_observer(alone):
    """suiteobserver.observe(), with modules of its own, and with copies of those that are there already.

    So tests do not find, count or patch what it uses.
    """
    import sys
    copies = {}
    for module in sys.modules.values():
        copies[module] = type(module)(module.__name__)
        vars(copies[module]).update(vars(module))
    shared = set(sys.modules)
    import suiteobserver
    for name in set(sys.modules) - shared:
        module = sys.modules.pop(name)
        if module in copies:
            continue        # another name for a module that was there: importlib gives _frozen_importlib one
        namespace = vars(module)
        for attribute, value in namespace.items():
            if isinstance(value, type(sys)):
                namespace[attribute] = copies.get(value, value)
    suiteobserver.alone = alone
    return suiteobserver.observe


install()
