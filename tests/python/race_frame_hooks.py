#!/usr/bin/env python3
"""Two threads change whatever decides how frames run, while both run functions, and look at each other's views.

    build/tsan/python tests/python/race_frame_hooks.py --seconds 60

For ci/tsan-hooks: ThreadSanitizer sees which accesses have no order. What can be seen from Python is checked too:
functions return what they always do, and a change stays until it is undone.
"""

import argparse
import collections
import os
import random
import sys
import sysconfig
import threading
import time
import traceback

from support import use_extensions

use_extensions()
import codeextra
import evaluators
import framehook

ROUND_SECONDS = 0.5
LOOKS = 4           # at another thread's view, for each time that there may be one


# --- What runs. ---------------------------------------------------------------------------------------------------

def plain(a, b=2, *rest, c=3, **more):
    return a + b + c + len(rest) + len(more)


def with_cells(a, b):
    def add(x):
        nonlocal a
        a += x
        return a + b
    return add(1) + add(2)


def make_counter(start):
    def count():
        nonlocal start
        start += 1
        return start
    return count


def numbers(count):
    for i in range(count):
        yield i


def doubled(count):
    return (yield from (2 * i for i in numbers(count)))


async def answer(value):
    return value


async def await_answer(value):
    return await answer(value)


class Thing:
    def __init__(self, items):
        self.items = items

    @property
    def total(self):
        return sum(self.items)

    def __getitem__(self, index):
        return self.items[index]


def deep(n):
    return 1 + deep(n - 1) if n else 0


def run_coroutine(coroutine):
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value


def run_short_lived(number):
    """Code without other references, freed at the end."""
    namespace = {}
    exec(f"def short_lived(x):\n    return [x + y for y in range({number % 3})], lambda: x", namespace)
    function = namespace["short_lived"]
    codeextra.set(function.__code__, INDEX, number + 1)
    return len(function(1)[0])


def run_count():
    count = make_counter(3)
    return count() + count()


def run_thing():
    thing = Thing([1, 2, 3])
    return thing.total + thing[1]


CALLS = [
    (lambda: plain(1), 6),
    (lambda: plain(1, 3, 4, c=1, d=2), 7),
    (lambda: with_cells(1, 2), 10),
    (run_count, 9),
    (lambda: sum(numbers(4)), 6),
    (lambda: list(doubled(3)), [0, 2, 4]),
    (lambda: run_coroutine(await_answer(5)), 5),
    (run_thing, 8),
    (lambda: deep(30), 30),
]


def code_below(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, type(code)):
            yield from code_below(constant)


CODES = [below for function in (plain, with_cells, make_counter, numbers, doubled, answer, await_answer, Thing.__init__,
                                Thing.total.fget, Thing.__getitem__, deep, run_count, run_thing)
         for below in code_below(function.__code__)]
# By identity: a code object equals its copy.
COPIES = {id(code): code.replace() for code in CODES}
INDEX = codeextra.request("none")       # stays; others come and go


# --- The hooks. Each is one object for both threads, so that these get in each other's way. ------------------------

def passes(view):
    return None


def disables(view):
    return framehook.DISABLE


def copies(view):
    return COPIES.get(id(view.code), framehook.DISABLE)


def disables_by_name(view):
    """Through the functions that tools have for it, about some code and back again."""
    code = view.code
    if id(code) not in COPIES:
        return framehook.DISABLE
    switch = framehook.enable_for_code if len(code.co_varnames) % 2 else framehook.disable_for_code
    tolerate(switch, disables, code)


def reads(view):
    if id(view.code) not in COPIES:
        return framehook.DISABLE
    names, arguments = view.argument_names, view.arguments()
    found = {name: view.argument(name) for name in names}
    by_number = [view.argument(i) for i in range(len(names))]
    if [*map(id, found.values())] != [*map(id, arguments.values())] or [*map(id, found.values())] != [*map(id, by_number)]:
        problem(f"the arguments of {view.code.co_qualname} read differently")
    if view.function.__globals__ is not view.globals or not view.builtins:
        problem(f"{view.code.co_qualname} has other globals than its function")


def shows(view):
    """Gives the view to the other thread, which looks at it now and when this hook has returned."""
    if id(view.code) not in COPIES:
        return framehook.DISABLE
    published[lane()] = view
    for _ in range(LOOKS):
        if view.code.co_name is None:
            problem("a code object without a name")
    look_at_other()


HOOKS = [passes, disables, copies, disables_by_name, reads, shows]
READERS = [lambda view: view.code, lambda view: view.function, lambda view: view.globals, lambda view: view.builtins,
           lambda view: view.argument_names, lambda view: view.argument(0), lambda view: view.argument("a"),
           lambda view: view.arguments()]
published = [None, None]


def look_at_other():
    for _ in range(LOOKS):
        view = published[1 - lane()]
        if view is None:
            continue
        for number, read in enumerate(READERS):
            try:
                read(view)
            except RuntimeError:
                continue
            except LookupError:
                pass        # The code has no such parameter: that is an answer as well.
            problem(f"reader {number} of a view answers in another thread")


# --- The threads. -------------------------------------------------------------------------------------------------

lanes = {}              # thread -> 0 or 1
problems = [collections.Counter(), collections.Counter()]


def lane():
    return lanes[threading.get_ident()]


def problem(what):
    problems[lane()][what] += 1


def tolerate(function, *arguments):
    """A change that comes too late, or twice, is refused with ValueError."""
    try:
        return function(*arguments)
    except ValueError:
        return None


class Worker:
    def __init__(self, number, seed):
        self.number = number
        self.random = random.Random(2 * seed + number)
        self.actions = 0

    # What this thread does in one step.

    def call(self):
        function, expected = self.random.choice(CALLS)
        for _ in range(3):
            if function() != expected:
                problem(f"{function.__name__} does not return {expected}")

    def call_short_lived(self):
        number = self.random.randrange(9)
        if run_short_lived(number) != number % 3:
            problem("short-lived code returns something else")

    def add(self):
        tolerate(framehook.add, self.random.choice(HOOKS))

    def remove(self):
        tolerate(framehook.remove, self.random.choice(HOOKS))

    def clear(self):
        framehook.clear()

    def with_hook(self):
        """A hook of this worker alone; but any worker may clear."""
        hook = self.random.choice((copies, reads))
        with framehook.hook(lambda view: hook(view)):
            self.call()

    def switch(self):
        switch = self.random.choice((framehook.enable, framehook.disable, framehook.enable_in_thread,
                                     framehook.disable_in_thread))
        tolerate(switch, self.random.choice(HOOKS))

    def switch_for_code(self):
        switch = self.random.choice((framehook.enable_for_code, framehook.disable_for_code))
        tolerate(switch, self.random.choice(HOOKS), self.random.choice(CODES))

    def suspend(self):
        """A block in which a hook, perhaps one that is removed meanwhile, is not called."""
        hook, code = self.random.choice(HOOKS), self.random.choice(CODES)
        make = self.random.choice((framehook.disabled, framehook.disabled_in_thread,
                                   lambda hook: framehook.disabled_for_code(hook, code)))
        try:
            block = make(hook)
            block.__enter__()
        except ValueError:
            return
        try:
            self.call()
        finally:
            block.__exit__(None, None, None)

    def list_hooks(self):
        if not all(info.calls >= info.replacements for info in framehook.hooks()):
            problem("a hook replaced more often than it was called")

    def use_code_extra(self):
        """An index that comes, has values in code that both threads run, and goes."""
        index = codeextra.request("log")
        for code in self.random.sample(CODES, 3):
            codeextra.set(code, index, 7 + self.number)
            if codeextra.get(code, index) != 7 + self.number:
                problem("a value on a code object is another thread's")
            codeextra.set(code, INDEX, self.random.randrange(1, 9))
            if codeextra.get(code, INDEX) not in range(1, 9):
                problem("no worker has set this value on a code object")
        codeextra.release(index)

    # The gate. In one kind of round each of its settings has one thread that changes it, and finds it unchanged.

    def own_evaluator(self):
        name = self.random.choice(("pass", "count", "default"))
        evaluators.set(name)
        self.call()
        if evaluators.get() != name:
            problem("what the other thread did to the gate changed the evaluator")

    def own_trampoline(self):
        evaluators.allow_specialization(self.random.randrange(2))
        if not HAS_TRAMPOLINE:
            return
        on = self.random.random() < 0.5
        if on:
            sys.activate_stack_trampoline("perf")
        else:
            sys.deactivate_stack_trampoline()
        self.call()
        if sys.is_stack_trampoline_active() != on:
            problem("what the other thread did to the gate changed the trampoline")

    def change_evaluator(self):
        evaluators.set(self.random.choice(("pass", "count", "null", "default")))
        evaluators.allow_specialization(self.random.randrange(2))
        evaluators.specialization_enabled()
        evaluators.take_count()
        self.call()

    STEPS = [call, call, call, call_short_lived, add, add, add, remove, remove, clear, with_hook, switch, switch_for_code,
             suspend, list_hooks, use_code_extra]

    def round(self, number):
        if number % 3 == 2:
            gate = Worker.change_evaluator
        elif (number + self.number) % 2:
            gate = Worker.own_evaluator
        else:
            gate = Worker.own_trampoline
        steps = [*Worker.STEPS, gate, gate]
        ending = time.monotonic() + ROUND_SECONDS
        while time.monotonic() < ending:
            try:
                self.random.choice(steps)(self)
            except Exception as error:
                problem("".join(traceback.format_exception(error)))
            look_at_other()
            self.actions += 1

    def run(self, barrier, rounds):
        lanes[threading.get_ident()] = self.number
        for number in range(rounds):
            barrier.wait()
            self.round(number)


HAS_TRAMPOLINE = sysconfig.get_config_var("PY_HAVE_PERF_TRAMPOLINE") == 1


def main():
    parser = argparse.ArgumentParser(description="Two threads change hooks, the gate and code objects' values.")
    parser.add_argument("--seconds", type=float, default=60, help="how long (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of what the threads choose (default %(default)s)")
    options = parser.parse_args()
    barrier = threading.Barrier(2)
    workers = [Worker(number, options.seed) for number in range(2)]
    rounds = max(6, round(options.seconds / ROUND_SECONDS))
    lanes[threading.get_ident()] = 0
    other = threading.Thread(target=workers[1].run, args=(barrier, rounds))
    other.start()
    workers[0].run(barrier, rounds)
    other.join()
    framehook.clear()
    evaluators.set("default")
    if HAS_TRAMPOLINE:
        sys.deactivate_stack_trampoline()
        if os.path.exists(perf_map := f"/tmp/perf-{os.getpid()}.map"):
            os.unlink(perf_map)
    found = problems[0] + problems[1]
    for what, count in found.items():
        print(f"{count} times: {what}", file=sys.stderr)
    print(f"{workers[0].actions} and {workers[1].actions} actions in {rounds} rounds")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
