"""As programs_worker.py, for programs that are stopped at their instructions, and whose frames are taken away and continue.

    python continued_programs_worker.py BATCH RESULTS SECONDS MODE [--extension FILE]

MODE is of MODES. What stops programs is tests/c/continuing.c. In the mode `each` the trace is that of a program which is seen and not
stopped. In the modes `raise` and `throw` each stop is an exception that is raised there, by a monitoring function or in frames that continue.
"""

import argparse
import dis
import functools
import gc
import importlib.machinery
import importlib.util
import os
import random
import sys
import types

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import programs_worker as worker

TOOL = 3        # of sys.monitoring; programs have another
NEVER_FALLS_THROUGH = {"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "JUMP_FORWARD", "JUMP_BACKWARD",
                       "JUMP_BACKWARD_NO_INTERRUPT", "INTERPRETER_EXIT"}


def load_extension(path):
    loader = importlib.machinery.ExtensionFileLoader("continuing", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("continuing", loader))
    loader.exec_module(module)
    return module


def all_code(code):
    """The code of a program, and of all functions and classes in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from all_code(constant)


def depths(code):
    """A byte for each code unit: the depth of the evaluation stack, plus 1, where an instruction or its first prefix begins; else 0."""
    known, begins, after, at = {}, {}, {}, None
    instructions = list(dis.get_instructions(code))
    for it in instructions:
        begins[it.offset] = at = it.offset if at is None else at
        if it.opcode != dis.EXTENDED_ARG:
            at = None
    for it, following in zip(instructions, instructions[1:]):
        after[it.offset] = following.offset
    by_offset = {it.offset: it for it in instructions}
    waiting = [(0, 0)]
    handlers = [(entry.target, entry.depth + entry.lasti + 1) for entry in dis._parse_exception_table(code)]
    waiting += handlers
    while waiting:
        offset, depth = waiting.pop()
        if offset in known:
            continue
        known[offset] = depth
        it = by_offset[offset]
        argument = it.arg if it.opcode >= dis.HAVE_ARGUMENT else None
        if it.opcode in dis.hasjrel or it.opcode in dis.hasjabs:
            waiting.append((it.argval, depth + dis.stack_effect(it.opcode, argument, jump=True)))
        if it.opname not in NEVER_FALLS_THROUGH and offset in after:
            waiting.append((after[offset], depth + dis.stack_effect(it.opcode, argument, jump=False)))
    table = bytearray(len(code.co_code) // 2)
    for offset, depth in known.items():
        if begins[offset] == offset:
            table[offset // 2] = depth + 1
    return bytes(table)


HAS_HANDLER, HAS_CACHES, HAS_PREFIX = 1, 2, 4


def what_they_have(code):
    """A byte for each code unit: what the instruction there has."""
    table = bytearray(len(code.co_code) // 2)
    for entry in dis._parse_exception_table(code):
        for unit in range(entry.start // 2, entry.end // 2):
            table[unit] |= HAS_HANDLER
    for it in dis.get_instructions(code):
        table[it.offset // 2] |= ((it.end_offset > it.offset + 2) * HAS_CACHES
                                  | (it.opcode == dis.EXTENDED_ARG) * HAS_PREFIX)
    return bytes(table)


# Programs call some, which call functions of programs: their frames are taken, too, and none of their instructions is an event.
HELPERS = [it.__code__ for it in vars(worker).values() if isinstance(it, types.FunctionType)]


def collect(*generation):
    """As gc.collect(), without how many objects were found: whether an instance has a dict depends on what is specialized."""
    gc.collect(*generation)


COLLECTOR = types.ModuleType("gc")
vars(COLLECTOR).update(vars(gc), collect=collect)


class Stopped(worker.Surroundings):
    """A program stops at an event of INSTRUCTION, and then at each `step`-th one."""

    raises = False
    elsewhere = True
    steps = (1, 1, 2, 3, 7, 19)

    def __init__(self, extension):
        self.extension = load_extension(extension)
        self.totals = dict.fromkeys(("events", "stops", "frames", "longest", "unfit"), 0)

    def names(self):
        return {"gc": COLLECTOR}

    def report_collected(self, tag, count):
        worker.emit(tag)

    def schedule(self, code):
        """(first, step)"""
        choice = random.Random(len(code.co_code) * 31 + len(code.co_names))
        return choice.randrange(1, 40), choice.choice(self.steps)

    def executor(self, code):
        own = list(all_code(code))
        self.codes = {id(it): (depths(it), it.replace(co_exceptiontable=b""), what_they_have(it), it) for it in own + HELPERS}
        first, step = self.schedule(code)
        monitoring = sys.monitoring
        monitoring.use_tool_id(TOOL, "continuing")
        monitoring.register_callback(TOOL, monitoring.events.INSTRUCTION, self.extension.at_instruction)
        monitoring.register_callback(TOOL, monitoring.events.RAISE, self.extension.at_raise)
        monitoring.set_events(TOOL, monitoring.events.RAISE if self.raises else 0)
        for it in own:
            monitoring.set_local_events(TOOL, it, monitoring.events.INSTRUCTION)
        return functools.partial(self.extension.run, self.codes, first, step, self.raises, self.elsewhere, exec)

    def __exit__(self, *exception):
        for *_, it in self.codes.values():
            sys.monitoring.set_local_events(TOOL, it, 0)
        sys.monitoring.set_events(TOOL, 0)
        self.codes = {}
        for event in (sys.monitoring.events.INSTRUCTION, sys.monitoring.events.RAISE):
            sys.monitoring.register_callback(TOOL, event, None)
        sys.monitoring.free_tool_id(TOOL)
        for name, count in self.extension.counts().items():
            self.totals[name] = max(self.totals[name], count) if name == "longest" else self.totals[name] + count

    def result(self, seed, source):
        return {"details": [str(self.totals)]}


class Hooked(Stopped):
    """A frame hook in Python passes each frame meanwhile."""

    def __enter__(self):
        import framehook
        self.hook = framehook.add(passes)
        return super().__enter__()

    def __exit__(self, *exception):
        import framehook
        framehook.remove(self.hook)
        super().__exit__(*exception)


def passes(view):
    return None


class Seen(Stopped):
    """The same, and nothing stops: instructions that are watched are not specialized, and those look at the recursion limit."""

    def schedule(self, code):
        return 0, 0


class SeenHooked(Hooked):
    """The same with the hook, which in Python needs some of the stack."""

    def schedule(self, code):
        return 0, 0


class Raised(Stopped):
    """An exception is raised there, if a frame handles it; at a few instructions also if it ends the program."""

    raises = True
    elsewhere = False
    steps = (5, 11, 23, 47, 97)     # a function that is left at once does nothing


class Thrown(Raised):
    """An exception is raised there, in frames that continue."""

    elsewhere = True


MODES = {"seen": Seen, "seen-hooked": SeenHooked, "each": Stopped, "hooked": Hooked, "raise": Raised, "throw": Thrown}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("batch")
    parser.add_argument("results")
    parser.add_argument("seconds", type=float)
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("--extension")
    options = parser.parse_args()
    worker.prepare()
    # Records are objects of the collector. A program that sets a threshold would have its cycles collected at other places.
    gc.disable()
    worker.run_batch(options.batch, options.results, options.seconds, MODES[options.mode](options.extension))


if __name__ == "__main__":
    main()
