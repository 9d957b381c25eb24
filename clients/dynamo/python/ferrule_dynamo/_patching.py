"""Puts the functions of `_core` into the place of torch's, in the running process."""

import contextlib
import os
import sys
from types import CodeType, FunctionType

from ferrule_dynamo import _core, _exclusive, _handover, _names, _torch_2_6


def set_c_recursion_limit(limit):
    """torch's function, which checks the number and keeps it; the hook heeds it."""
    originals["set_c_recursion_limit"](limit)
    _core.heed_c_recursion_limit(limit)


SERVED_BY = _names.CLASSES | _names.FUNCTIONS | {"set_c_recursion_limit": set_c_recursion_limit}

# torch's own objects by name, while they are replaced, and all that its extension has.
originals, torch_has = {}, {}
_names.own += [SERVED_BY, originals, torch_has, globals()]

is_changing = False
os.register_at_fork(after_in_child=_core.forked)


@contextlib.contextmanager
def change():
    """One installation or uninstallation at a time. RuntimeError: one is under way in this thread, which runs a destructor or a signal handler."""
    global is_changing
    with _exclusive.lock:
        if is_changing:
            raise RuntimeError("ferrule_dynamo is being installed or uninstalled")
        is_changing = True
        try:
            yield
        finally:
            is_changing = False


def missing():
    """What this process lacks for an installation, as a sentence; None: nothing."""
    if _core.version() == 0:
        return "this interpreter has no frame hooks: it is not Ferrule"
    return None


def installed():
    """Whether torch.compile runs on the hook."""
    return bool(originals)


def handover():
    """How marks are read and given back with this torch."""
    return _torch_2_6 if _torch_2_6.is_served(torch_has) else _handover


# Modules with functions of torch that run at each compiled call, outside of what is compiled.
OUTSIDE = ("torch._dynamo.eval_frame", "torch._dynamo.mutation_guard", "torch._dynamo.utils", "torch._guards",
           "torch.compiler", "torch.fx._symbolic_trace", "torch.utils._config_module",
           "torch._functorch._aot_autograd.runtime_wrappers", "torch._functorch._aot_autograd.utils",
           "torch._functorch.aot_autograd", "torch._inductor.output_code", "torch._inductor.utils")
still_outside = set()


def code_objects(code):
    """A code object and those that are made within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from code_objects(constant)


def functions_of(module):
    """The functions of a module, and those of its classes."""
    classes = [value for value in vars(module).values()
               if isinstance(value, type) and value.__module__ == module.__name__]
    for namespace in (vars(module), *map(vars, classes)):
        for value in list(namespace.values()):
            if isinstance(value, (staticmethod, classmethod)):
                value = value.__func__
            while isinstance(value, FunctionType):
                if value.__module__ == module.__name__:
                    yield value
                value = vars(value).get("__wrapped__")


def leave_torch_alone():
    """Disables the hook for functions of torch that torch never compiles.

    They run before and after each compiled call.
    """
    rules = sys.modules.get("torch._dynamo.trace_rules")
    for name in [name for name in still_outside if name in sys.modules] if rules else ():
        still_outside.discard(name)
        for function in functions_of(sys.modules[name]):
            if rules.check(function.__code__):
                for code in code_objects(function.__code__):
                    _core.leave_alone(code)


def set_classes_of_entries(evaluators_too):
    """Sets which entries `torch._dynamo.guards` takes. While the hook is there, those of the evaluator are still about."""
    guards = sys.modules.get("torch._dynamo.guards")
    for name in ("CacheEntry", "ExtraState") if guards is not None else ():
        torchs = originals["_" + name]
        setattr(guards, name, SERVED_BY["_" + name] | torchs if evaluators_too else torchs)


def take_settings_over(extension):
    """Gives the hook torch's settings."""
    if "get_c_recursion_limit" in torch_has:
        _core.heed_c_recursion_limit(extension.get_c_recursion_limit())
    hook = getattr(sys.modules.get("torch._dynamo.guards"), "guard_error_hook", None)
    if hook is not None:
        _core.set_guard_error_hook(hook)
    _handover.hand_over_settings(torch_has, _names.FUNCTIONS)


def remove():
    """Removes the hook, if it is there, and gives torch all back. RuntimeError: a compiled region is under way."""
    kept = _core.own_strategies(), _core.own_precompiled(), _core.guard_error_hook()
    try:
        _core.uninstall()       # Afterwards the functions do what torch's do. It forgets the marks.
        give_back(*kept)
    except BaseException:
        # After an interrupt, or without memory, the rest is done.
        if not _core.is_installed():
            give_back(*kept)
        raise


def give_back(marks, precompiled, guard_error_hook):
    """Gives torch its own functions back, and the marks and settings of the hook. It can be called again where it was interrupted."""
    if not installed():
        return
    handover().give_marks_back(torch_has, marks)
    for code, _, _ in precompiled:
        torch_has["_reset_precompile_entries"](code)
    for code, guard_manager, compiled in precompiled:
        torch_has["_load_precompile_entry"](code, guard_manager, compiled)
    _handover.hand_over_settings(_names.FUNCTIONS, torch_has)
    torch_has["set_guard_error_hook"](guard_error_hook)
    _core.set_guard_error_hook(None)
    _names.exchange([(SERVED_BY[name], value) for name, value in originals.items()])
    set_classes_of_entries(evaluators_too=False)
    originals.clear()
    torch_has.clear()


def functions_among(objects):
    return [it for it in objects if not isinstance(it, type)]


def install():
    """Has torch.compile run on a frame hook from now on, in all threads.

    Marks and settings that torch has hold for the hook. Functions that were compiled before are compiled again. RuntimeError: this
    interpreter has no frame hooks, a compiled region is under way, or something cannot be handed over. Does nothing where it is installed.
    """
    lacking = missing()
    if lacking:
        raise RuntimeError(f"ferrule_dynamo cannot be installed: {lacking}")
    # Before others are kept waiting: an import may wait for a thread that installs.
    import torch._C

    with change():
        if not installed():
            install_into(torch)


def install_into(torch):
    """Installs the hook, which is not installed."""
    extension = torch._C._dynamo.eval_frame
    if extension.get_eval_frame_callback() is not None or _core.is_compiling():
        raise RuntimeError("ferrule_dynamo cannot be installed in a torch.compile region")
    guards = vars(sys.modules.get("torch._dynamo.guards", sys))
    if "guard_error_hook" in guards and not _names.is_held_in_c(guards, "guard_error_hook"):
        raise RuntimeError(f"ferrule_dynamo cannot read a guard-error hook that is not torch's. {_handover.INSTEAD} it is set")
    found = {name: value for name, value in vars(extension).items() if name in SERVED_BY}
    _names.refuse_if_held(functions_among(found.values()), found)
    _core.prepare(extension)
    torch_has.update(vars(extension))
    take_settings_over(extension)
    try:
        originals.update(found)
        # Until the hook is there these do what torch's do: in other threads regions begin and end meanwhile.
        _names.exchange([(value, SERVED_BY[name]) for name, value in found.items()], found)
        handover().read_marks(torch_has)
        set_classes_of_entries(evaluators_too=True)
        still_outside.update(OUTSIDE)
        _core.install()
    except BaseException:
        remove()
        raise
    leave_torch_alone()


def uninstall():
    """Gives torch its own evaluator back, with the marks and settings made meanwhile.

    RuntimeError: a compiled region is under way, or something has a function of the hook, and cannot be given torch's.
    """
    with change():
        if installed():
            uninstall_from_torch()


def uninstall_from_torch():
    """Uninstalls the hook, which is installed."""
    _names.refuse_if_held(functions_among([SERVED_BY[name] for name in originals]))
    remove()
