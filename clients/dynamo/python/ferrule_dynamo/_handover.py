"""Hands marks and settings over from torch's evaluator to the hook at install(), and back at uninstall().

torch has no getters for most of it. So it is read by what it does: setters return what was set before, and how a code object is marked
is seen in a call of it, which is stopped before its first instruction.
"""

import gc
import sys
import threading
from types import CellType, CodeType, FunctionType, SimpleNamespace

import framehook

from ferrule_dynamo import _core

# Setters that return what was set before, for all threads, each with a value to set meanwhile.
SETTINGS = {"set_guard_complete_hook": None, "_set_lru_cache": True, "set_skip_guard_eval_unsafe": False}
# Getters, and the setter of each.
GETTERS = {"get_bytecode_debugger_callback": "set_bytecode_debugger_callback",
           "get_eval_frame_isolate_recompiles_id": "set_eval_frame_isolate_recompiles_id"}
# The numbers of torch's FrameAction.
DEFAULT, SKIP, RUN_ONLY = range(3)
GENERATORS = 0x20 | 0x80 | 0x200
# What the tool is called whose callback stops frames.
TOOL = "ferrule_dynamo"
INSTEAD = "Set FERRULE_DYNAMO=1, or call ferrule_dynamo.install() before"


def hand_over_settings(giver, taker):
    """Sets for one of the two what is set for the other. Both are functions of torch's extension by name."""
    known = giver.keys() & taker.keys()
    for name in known & SETTINGS.keys():
        taker[name](_core.read_setting(giver[name], SETTINGS[name]))
    for name in known & GETTERS.keys():
        taker[GETTERS[name]](giver[name]())


def code_objects():
    """All code objects that the collector leads to."""
    found, containers, untracked = {}, gc.get_objects(), set()
    while containers:
        inner = []
        for it in gc.get_referents(*containers):
            if type(it) is CodeType:
                found[id(it)] = it
            # The collector does not track what has nothing but code objects and the like.
            elif type(it) in (tuple, dict) and not gc.is_tracked(it) and id(it) not in untracked:
                untracked.add(id(it))
                inner.append(it)
        containers = inner
    pending = list(found.values())
    while pending:
        for constant in pending.pop().co_consts:
            if type(constant) is CodeType and id(constant) not in found:
                found[id(constant)] = constant
                pending.append(constant)
    return list(found.values())


def call_of(code):
    """A call of a code object that no hook sees, with arguments that mean nothing."""
    count, keywords = code.co_argcount, code.co_kwonlyargcount
    function = FunctionType(code, {}, argdefs=(None,) * count, closure=tuple(CellType() for _ in code.co_freevars))
    function.__kwdefaults__ = dict.fromkeys(code.co_varnames[count:count + keywords])
    return framehook.unhooked(function)


class Reader:
    """Reads how torch has marked code objects. From begin() to end() it needs a tool of `sys.monitoring`, and torch's settings."""

    def __init__(self, torch):
        self.torch = torch
        code = (lambda: None).__code__.replace()
        self.mark(code, DEFAULT, DEFAULT)
        self.slot = _core.only_slot_of(code)
        self.thread = threading.get_ident()
        # What end() is to undo.
        self.tool, self.old, self.settings = None, None, {}

    def mark(self, code, current, below):
        """Has torch mark a code object."""
        action = self.torch["_FrameAction"]
        self.torch["set_code_exec_strategy"](code, self.torch["_FrameExecStrategy"](action(current), action(below)))

    def begin(self):
        free = [tool for tool in range(6) if sys.monitoring.get_tool(tool) is None]
        if not free:
            raise RuntimeError("ferrule_dynamo cannot read which functions torch skips, as all tools of sys.monitoring are in use. "
                               f"{INSTEAD} `import torch`")
        # Tools that see the start of a call see its end as well. Functions of the old interfaces come after all tools, and see nothing.
        self.tool = free[-1]
        sys.monitoring.use_tool_id(self.tool, TOOL)
        self.old = sys.gettrace(), sys.getprofile()
        sys.settrace(None)
        sys.setprofile(None)
        sys.monitoring.register_callback(self.tool, sys.monitoring.events.PY_START, _core.stop)
        self.settings = {name: _core.read_setting(self.torch[name], meanwhile) for name, meanwhile in SETTINGS.items() if name in self.torch}
        for name in self.settings:
            self.torch[name](SETTINGS[name])
        _core.stop_frames(True)

    def end(self):
        """Also where begin() has raised."""
        _core.stop_frames(False)
        for name, value in self.settings.items():
            self.torch[name](value)
        if self.tool is not None and sys.monitoring.get_tool(self.tool) == TOOL:
            sys.monitoring.register_callback(self.tool, sys.monitoring.events.PY_START, None)
            sys.monitoring.free_tool_id(self.tool)
        if self.old is not None:
            sys.settrace(self.old[0])
            sys.setprofile(self.old[1])

    def marked(self):
        """The code objects of which torch knows something."""
        return [code for code in code_objects() if _core.is_slot_used(code, self.slot)]

    def refuse(self, code):
        """RuntimeError: torch knows something of it that cannot be read."""
        if self.torch["_debug_get_precompile_entries"](code):
            raise RuntimeError(f"ferrule_dynamo cannot read the precompiled code of {code.co_qualname}. {INSTEAD} it is loaded")

    def looked_at(self, seen):
        """What torch gets from its callback: the frame runs as it is."""
        seen.append("callback")
        return SimpleNamespace(frame_exec_strategy=self.torch["_FrameExecStrategy"](), apply_to_code=False, guarded_code=None)

    def checked(self, hit, seen):
        """What torch gets from its guard-complete hook. In this thread guards are not to hold; in others the hook that was set is called."""
        if threading.get_ident() == self.thread:
            seen.append("guards")
            return False
        hook = self.settings["set_guard_complete_hook"]
        return hit if hook is None else hook(hit)

    def strategy(self, code):
        """What torch does with frames of a code object, and with those below, as two numbers."""
        seen, below = [], DEFAULT
        call = call_of(code)
        if "set_guard_complete_hook" in self.torch:
            # Where the code runs only if it was compiled, guards are checked.
            self.torch["set_guard_complete_hook"](lambda hit: self.checked(hit, seen))
        sys.monitoring.set_local_events(self.tool, code, sys.monitoring.events.PY_START)
        try:
            self.torch["set_eval_frame"](lambda *_: self.looked_at(seen))
            made = call()
            if code.co_flags & GENERATORS:
                (made.__anext__() if hasattr(made, "__anext__") else made).send(None)
        except _core.Stopped as stopped:
            callback, = stopped.args
            below = SKIP if callback is None else RUN_ONLY if callback is False else DEFAULT
        finally:
            self.torch["set_eval_frame"](None)
            sys.monitoring.set_local_events(self.tool, code, 0)
        if "guards" in seen:
            return DEFAULT, DEFAULT     # a limit was reached; it stays with the entries, which the evaluator has
        return DEFAULT if "callback" in seen else SKIP, below


def read_marks(torch, reader=Reader):
    """Gives the hook the marks that torch's code objects have."""
    reader = reader(torch)
    try:
        reader.begin()
        marked = reader.marked()
        for code in marked:
            reader.refuse(code)
        for code in marked:
            strategy = reader.strategy(code)
            if strategy != (DEFAULT, DEFAULT):
                _core.inherit_strategy(code, *strategy)
    finally:
        reader.end()


def give_marks_back(torch, marks, reader=Reader):
    """Gives torch the marks that code objects have got meanwhile."""
    reader = reader(torch)
    for code, *strategy in marks:
        reader.mark(code, *strategy)
