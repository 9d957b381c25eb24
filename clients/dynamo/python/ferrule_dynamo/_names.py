"""The functions and classes of torch's extension, what serves in the place of each, and who has taken their names over."""

import gc
import sys
from types import CellType, FrameType, ModuleType

from ferrule_dynamo import _core

EXTENSION = "torch._C._dynamo.eval_frame"
CLASSES = {name: getattr(_core, name) for name in ("_CacheEntry", "_ExtraState", "_PrecompileEntry", "_PyInterpreterFrame")}
FUNCTIONS = {name: value for name, value in vars(_core).items()
             if name.startswith(("_debug_", "_get_", "_load_", "_reset_", "_set_", "get_", "register_",
                                  "reset_", "set_", "skip_"))}

for function in FUNCTIONS.values():
    # torch's tables and messages name functions by their module.
    function.__module__ = EXTENSION

# Dicts of this package, in which nothing is replaced.
own = [vars(_core), CLASSES, FUNCTIONS, globals()]


def forget_identities():
    """Clears torch's caches that know functions by identity."""
    rules = sys.modules.get("torch._dynamo.trace_rules")
    for cached in list(vars(rules).values()) if rules is not None else ():
        if hasattr(cached, "cache_clear") and getattr(cached, "__module__", "") == rules.__name__:
            cached.cache_clear()


def holders(functions, *excepted):
    """What refers to one of these functions, apart from this package and from frames, whose locals cannot be changed."""
    functions = tuple(functions)    # of which the call makes no copy that would be found
    leave = {id(it) for it in (*own, *excepted, functions)}
    return [it for it in gc.get_referrers(*functions) if id(it) not in leave and not isinstance(it, FrameType)]


def refuse_if_held(functions, *excepted):
    """RuntimeError: something has one of these functions that cannot be given another one, or may have it."""
    if gc.get_freeze_count():
        raise RuntimeError("ferrule_dynamo cannot find what has taken functions of torch's extension over, as objects are frozen: "
                           "call gc.unfreeze() before, and gc.freeze() afterwards")
    for holder in holders(functions, functions, *excepted):
        if not isinstance(holder, (dict, list, CellType)):
            name = next(it.__name__ for it in functions if any(it is other for other in gc.get_referents(holder)))
            raise RuntimeError(f"ferrule_dynamo cannot exchange {EXTENSION}.{name}: a {type(holder).__name__} has it (the default value of a "
                               f"parameter, for example). Set FERRULE_DYNAMO=1, or call ferrule_dynamo.install() before that is imported")


def replace_in(holder, new_for_old):
    """Replaces what a dict, a list or a cell of a closure has."""
    if isinstance(holder, CellType):
        holder.cell_contents = new_for_old[id(holder.cell_contents)]
        return
    items = list(holder.items() if isinstance(holder, dict) else enumerate(holder))
    found = [(key, new_for_old[id(value)]) for key, value in items if id(value) in new_for_old]
    # A class caches its attributes, so they are set through it.
    owner = next((it for it in gc.get_referrers(holder) if isinstance(it, type) and holder.get("__module__") == it.__module__), None) \
        if isinstance(holder, dict) and "__module__" in holder else None
    for key, new in found:
        if owner is not None:
            setattr(owner, key, new)
        else:
            holder[key] = new


def hidden_references(namespace, name):
    """How often a value is referred to by what the collector does not see."""
    value = namespace[name]
    seen = sum(it is value for holder in gc.get_referrers(value) for it in gc.get_referents(holder))
    return sys.getrefcount(value) - seen


def is_held_in_c(namespace, name):
    """Whether C has a reference to a value: there are more than to one that was just made."""
    return hidden_references(namespace, name) > hidden_references({name: lambda: None}, name)


def exchange(new_for_old, *excepted):
    """Replaces functions wherever they are held, and classes where they are globals. Pairs of objects; known by identity."""
    forget_identities()
    by_identity = {id(old): new for old, new in new_for_old}
    functions = [old for old, _ in new_for_old if not isinstance(old, type)]
    for holder in holders(functions, functions, new_for_old, *new_for_old, *excepted):
        if isinstance(holder, (dict, list, CellType)):
            replace_in(holder, by_identity)
    for module in list(sys.modules.values()):
        names = vars(module) if isinstance(module, ModuleType) else {}
        if module is not _core:
            for name, value in list(names.items()):
                if id(value) in by_identity and isinstance(value, type):
                    names[name] = by_identity[id(value)]
