"""Puts the functions of `_core` into the place of torch's, in the running process."""

import os
import sys
from types import CodeType, FunctionType

from ferrule_dynamo import _core

# The module of torch whose functions and classes are replaced, and what serves in the place of each.
EXTENSION = "torch._C._dynamo.eval_frame"
CLASSES = {
    "_CacheEntry": _core.CacheEntry,
    "_ExtraState": _core.CodeState,
    "_PrecompileEntry": _core.PrecompileEntry,
    "_PyInterpreterFrame": _core.Frame,
}
FUNCTIONS = {name: value for name, value in vars(_core).items()
             if name.startswith(("_debug_", "_get_", "_load_", "_reset_", "_set_", "get_", "register_",
                                  "reset_", "set_", "skip_"))}


def set_c_recursion_limit(limit):
    """torch's function, which checks the number and keeps it; the hook heeds it."""
    originals["set_c_recursion_limit"](limit)
    _core.heed_c_recursion_limit(limit)


SERVED_BY = CLASSES | FUNCTIONS | {"set_c_recursion_limit": set_c_recursion_limit}

for function in FUNCTIONS.values():
    # torch's tables and messages name functions by their module.
    function.__module__ = EXTENSION

# torch's own objects by name, while they are replaced.
originals = {}

os.register_at_fork(after_in_child=_core.forked)


def missing():
    """What this process lacks for an installation, as a sentence; None: nothing."""
    if _core.version() == 0:
        return "this interpreter has no frame hooks: it is not Ferrule"
    return None


def installed():
    """Whether torch.compile runs on the hook."""
    return bool(originals)


def torch_modules():
    """Modules that may have taken names over from torch's extension."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "torch" and hasattr(module, "__dict__"):
            yield module


def exchange(new_for_old):
    """Replaces objects, known by identity, wherever modules of torch have them as globals."""
    for module in torch_modules():
        for name, value in list(vars(module).items()):
            other = new_for_old.get(id(value))
            if other is not None:
                setattr(module, name, other)
    rules = sys.modules.get("torch._dynamo.trace_rules")
    if rules is not None:
        # It knows functions by identity.
        for cached in vars(rules).values():
            if hasattr(cached, "cache_clear") and getattr(cached, "__module__", "") == rules.__name__:
                cached.cache_clear()


def catch_up(extension):
    """Says again what torch has said to its extension before. torch 2.6 has no limit of its own for recursion, and skips nothing of these."""
    if hasattr(extension, "get_c_recursion_limit"):
        _core.heed_c_recursion_limit(extension.get_c_recursion_limit())
    guards = sys.modules.get("torch._dynamo.guards")
    if guards is not None:
        _core.set_guard_error_hook(guards.guard_error_hook)
    utils = sys.modules.get("torch._dynamo.utils")
    if utils is not None and hasattr(extension, "_FrameExecStrategy"):
        skip = extension._FrameExecStrategy(extension._FrameAction.SKIP, extension._FrameAction.SKIP)
        for name in ("record_pregraph_bytecode_enter", "record_pregraph_bytecode_exit"):
            function = getattr(utils, name, None)
            if function is not None:
                _core.set_code_exec_strategy(function.__code__, skip)


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


def give_torch(names):
    """Puts functions and classes into torch's extension, and wherever else torch has those of before."""
    import torch._C

    extension = torch._C._dynamo.eval_frame
    exchange({id(getattr(extension, name)): value for name, value in names.items()})
    for name, value in names.items():
        setattr(extension, name, value)


def install():
    """Has torch.compile run on a frame hook from now on, in all threads.

    Functions that were compiled before are compiled again. RuntimeError: this interpreter has no
    frame hooks, or a compiled region is under way. Does nothing where it is installed.
    """
    if installed():
        return
    lacking = missing()
    if lacking:
        raise RuntimeError(f"ferrule_dynamo cannot be installed: {lacking}")
    import torch._C

    extension = torch._C._dynamo.eval_frame
    if extension.get_eval_frame_callback() is not None or _core.is_compiling():
        raise RuntimeError("ferrule_dynamo cannot be installed in a torch.compile region")
    originals.update((name, getattr(extension, name)) for name in SERVED_BY if hasattr(extension, name))
    _core.remember(extension)
    # Until the hook is there these do what torch's do: in other threads regions begin and end meanwhile.
    give_torch({name: SERVED_BY[name] for name in originals})
    try:
        _core.install()
    except BaseException:
        give_torch(originals)
        originals.clear()
        raise
    guards = sys.modules.get("torch._dynamo.guards")
    if guards is not None:
        # Entries that torch's evaluator has made are still about, and it looks at their class.
        guards.CacheEntry |= originals["_CacheEntry"]
        guards.ExtraState |= originals["_ExtraState"]
    catch_up(extension)
    still_outside.update(OUTSIDE)
    leave_torch_alone()


def uninstall():
    """Gives torch its own evaluator back. RuntimeError: a compiled region is under way."""
    if not installed():
        return
    # Afterwards they do what torch's do.
    _core.uninstall()
    give_torch(originals)
    guards = sys.modules.get("torch._dynamo.guards")
    if guards is not None:
        guards.CacheEntry, guards.ExtraState = originals["_CacheEntry"], originals["_ExtraState"]
    originals.clear()
