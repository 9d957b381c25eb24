#!/usr/bin/env python3
"""What a tool sees of frames' beginnings and ends: frame hooks beside sys.monitoring. A table.

    build/ferrule/python benchmarks/seen.py

Both tools do the same: they note each beginning and each end of the frames of one function. The
tool of sys.monitoring has local PY_START and PY_RETURN, and PY_UNWIND, which is a global event only.
"""

import gc
import sys
import threading

TOOL = 3


# --- The tools. ----------------------------------------------------------------------------------

class Hooks:
    """A hook with an exit callback for each frame that it is called for."""

    name = "a frame hook"

    def __init__(self, code, events):
        self.code, self.events = code, events

    def on_entry(self, view):
        if self.is_mine(view.code):
            self.events.append("begins")
            view.watch(self.on_exit)
        return None

    def is_mine(self, code):
        return code is self.code or code.co_filename == "<other code>"

    def on_exit(self, event):
        self.events.append(event.kind)

    def start(self):
        import framehook
        framehook.add(self.on_entry)

    def stop(self):
        import framehook
        framehook.remove(self.on_entry)


class Monitoring:
    name = "`sys.monitoring`"

    def __init__(self, code, events):
        self.code, self.events = code, events

    def note(self, kind):
        def note(code, *details):
            if code is self.code:
                self.events.append(kind)
        return note

    def start(self):
        monitoring, kinds = sys.monitoring, sys.monitoring.events
        monitoring.use_tool_id(TOOL, "seen")
        monitoring.register_callback(TOOL, kinds.PY_START, self.note("begins"))
        monitoring.register_callback(TOOL, kinds.PY_RETURN, self.note("returned"))
        monitoring.register_callback(TOOL, kinds.PY_UNWIND, self.note("raised"))
        monitoring.set_events(TOOL, kinds.PY_UNWIND)
        monitoring.set_local_events(TOOL, self.code, kinds.PY_START | kinds.PY_RETURN)

    def stop(self):
        sys.monitoring.set_events(TOOL, 0)
        sys.monitoring.set_local_events(TOOL, self.code, 0)
        sys.monitoring.free_tool_id(TOOL)


# --- What there is to see. Each makes a function, and says what is done with it. -----------------

def returns():
    def function():
        return 1
    return function, function


def raises():
    def function():
        raise KeyError
    return function, lambda: failing(function)


def called_from_c():
    def function(value):
        return -value
    return function, lambda: sorted([1], key=function)


def made_by_a_class():
    class Class:
        def __init__(self):
            self.value = 1
    return Class.__init__, Class


def in_another_thread():
    def function():
        return 1

    def use():
        thread = threading.Thread(target=function)
        thread.start()
        thread.join()
    return function, use


def generator():
    def function():
        yield 1
    return function


def generator_to_its_end():
    function = generator()
    return function, lambda: list(function())


def generator_that_never_begins():
    function = generator()
    return function, lambda: function() and None


def generator_that_is_closed():
    function = generator()

    def use():
        made = function()
        next(made)
        made.close()
    return function, use


def generator_that_cleans_up():
    def function():
        try:
            yield 1
        finally:
            len("")

    def use():
        made = function()
        next(made)
        made.close()
    return function, use


def generator_that_is_collected():
    function = generator()

    def use():
        cycle = [function()]
        next(cycle[0])
        cycle.append(cycle)
        del cycle
        gc.collect()
    return function, use


def generator_that_is_thrown_into():
    function = generator()

    def use():
        made = function()
        next(made)
        failing(lambda: made.throw(KeyError))
    return function, use


def coroutine():
    async def function():
        return 1

    def use():
        made = function()
        try:
            made.send(None)
        except StopIteration:
            pass
    return function, use


def other_code():
    def function():
        return 1

    def use():
        function.__code__ = function.__code__.replace(co_filename="<other code>")
        function()
    return function, use


def in_the_middle():
    """The tool comes while the function runs."""
    def function(start):
        start()
        return 1
    return function, function


def failing(call):
    try:
        call()
    except KeyError:
        pass


SCENES = {
    "a function returns": returns,
    "a function raises": raises,
    "a function is called from C": called_from_c,
    "an `__init__` returns": made_by_a_class,
    "a function runs in another thread": in_another_thread,
    "a function ran before the tool came, and returns": in_the_middle,
    "a function has other code by now": other_code,
    "a coroutine returns": coroutine,
    "a generator returns": generator_to_its_end,
    "a generator is dropped before it begins": generator_that_never_begins,
    "a suspended generator is closed": generator_that_is_closed,
    "a generator is closed and cleans up": generator_that_cleans_up,
    "a suspended generator is collected": generator_that_is_collected,
    "an exception is thrown into a generator": generator_that_is_thrown_into,
}


def seen(scene, kind):
    """What a tool notes of it."""
    function, use = scene()
    events = []
    tool = kind(function.__code__, events)
    if scene is in_the_middle:
        use(tool.start)
    else:
        tool.start()
        use()
    tool.stop()
    return events


# --- What is swapped. ----------------------------------------------------------------------------

def results_of_calls(install):
    """What the first calls of a function give to which a tool gives other code when it begins."""
    def function():
        return "old"

    def other():
        return "new"

    remove = install(function, other.__code__)
    results = [function(), function()]
    remove()
    return [*results, function()]


def replace_by_hook(function, code):
    import framehook
    own = function.__code__
    hook = framehook.hook(lambda view: code if view.code is own else None)
    hook.__enter__()
    return lambda: hook.__exit__(None, None, None)


def swap_in_callback(function, code):
    monitoring, own = sys.monitoring, function.__code__

    def start(which, offset):
        function.__code__ = code
    monitoring.use_tool_id(TOOL, "swaps")
    monitoring.register_callback(TOOL, monitoring.events.PY_START, start)
    monitoring.set_local_events(TOOL, own, monitoring.events.PY_START)

    def remove():
        monitoring.set_local_events(TOOL, own, 0)
        monitoring.free_tool_id(TOOL)
    return remove


SWAPS = {Hooks: replace_by_hook, Monitoring: swap_in_callback}


def table():
    """The lines of a table in Markdown."""
    tools = [Hooks, Monitoring]
    lines = ["| what happens | " + " | ".join(tool.name for tool in tools) + " |", "|---|---|---|"]
    for name, scene in SCENES.items():
        cells = [", ".join(seen(scene, tool)) or "nothing" for tool in tools]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    cells = ["{}, then {}; {} when the tool is gone".format(*results_of_calls(SWAPS[tool]))
             for tool in tools]
    lines.append(f"| the tool gives a function other code as it begins | {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    print("\n".join(table()))
