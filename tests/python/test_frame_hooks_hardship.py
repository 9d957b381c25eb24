"""Frame hooks where memory runs out, and where many threads change them at once.

Both run in processes of their own, with hooks in Python and in C: a crash is a failure there. By hand, and longer:

    FERRULE_HOOK_ROUNDS=500 build/ferrule/python -m unittest discover -s tests/python -p 'test_frame_hooks_hardship.py'
"""

import gc
import os
import sys
import threading

from support import CApi, ProgramTestCase, PythonApi, _testcapi, attempt, code_named, framecore, needs_failing_allocations, needs_hooks, use_extensions

APIS = {"Python": PythonApi, "C": CApi}


# --- No memory. ---------------------------------------------------------------------------------------------------

ALLOCATIONS = 200       # of which one fails
MANY_LOCALS = " = ".join(f"v{i}" for i in range(60)) + " = None"


def target(a, b=2):
    return "original", a, b


def with_cells(a, b=2):
    # Not run: CPython 3.13 loses a reference to the code where a function cannot be made.
    if a is None:
        lambda: (a, b)
    return "original", (a, b)


def make_generator(a, b=2):
    yield "original", a, b


REPLACEMENTS = {
    target: code_named("target", f"def target(a, b):\n {MANY_LOCALS}\n return 'replaced', a, b"),
    with_cells: code_named("with_cells", f"def with_cells(b, a):\n {MANY_LOCALS}\n if a is None:\n  lambda: v5\n"
                                         " return 'replaced', (a, b)"),
    make_generator: code_named("make_generator", f"def make_generator(a, b):\n {MANY_LOCALS}\n yield 'replaced', a, b"),
}
CALLS = {
    target: lambda: target(ARGUMENT),
    with_cells: lambda: with_cells(ARGUMENT),
    make_generator: lambda: next(make_generator(ARGUMENT)),
}
ARGUMENT = object()
RESULTS = {
    target: lambda which: (which, ARGUMENT, 2),
    with_cells: lambda which: (which, (ARGUMENT, 2)),
    make_generator: lambda which: (which, ARGUMENT, 2),
}


def check(condition, *what):
    if not condition:
        raise AssertionError(what)


def installed():
    return [(info["id"], info["enabled"]) for info in framecore.frame_hooks()]


class Scarcity:
    """One round for each allocation that fails. What fails changes nothing; what succeeds is right."""

    def __init__(self, api):
        self.api = api
        self.failures = self.successes = 0

    def attempt(self, number, operation):
        value = attempt(number, operation)
        if value is MemoryError:
            self.failures += 1
        else:
            self.successes += 1
        return value

    def change(self, number):
        """A hook is added, switched and removed."""
        def hook(view):
            return None

        count = sys.getrefcount(hook)
        handle = self.attempt(number, lambda: self.api.add(hook))
        if handle is MemoryError:
            check(installed() == [], number, "add")
            gc.collect()
            check(sys.getrefcount(hook) == count, number, "add", sys.getrefcount(hook), count)
            handle = self.api.add(hook)
        check(installed() == [(handle, True)], number, "added")
        for on in (False, True):
            done = self.attempt(number, lambda: self.api.switch(handle, on))
            check(installed() == [(handle, on != (done is MemoryError))], number, "switch", on, done)
            self.api.switch(handle, on)
        for on in (False, True):
            self.attempt(number, lambda: self.api.switch_in_thread(handle, on))
            self.attempt(number, lambda: self.api.switch_for_code(handle, target.__code__, on))
            self.api.switch_in_thread(handle, on)
            self.api.switch_for_code(handle, target.__code__, on)
        calls = self.calls(handle)
        target(1)
        check(self.calls(handle) > calls, number, "the hook is not called any more")
        described = self.attempt(number, framecore.frame_hooks)
        check(described is MemoryError or [info["id"] for info in described] == [handle], number, described)
        del described
        done = self.attempt(number, lambda: self.api.remove(handle))
        check(installed() == ([(handle, True)] if done is MemoryError else []), number, "remove", done)
        if done is MemoryError:
            done = self.attempt(number, self.api.clear)
            check(installed() == ([(handle, True)] if done is MemoryError else []), number, "clear", done)
            self.api.clear()
        gc.collect()
        check(sys.getrefcount(hook) == count, number, "removed", sys.getrefcount(hook), count)

    @staticmethod
    def calls(handle):
        return next(info["calls"] for info in framecore.frame_hooks() if info["id"] == handle)

    def ask(self, number):
        """A hook passes, disables and replaces, beside others."""
        disabled_code = self.api.DISABLE
        for function, call in CALLS.items():
            code, replacement = function.__code__, REPLACEMENTS[function]
            for answer in (None, disabled_code, replacement):
                def hook(view, code=code, answer=answer):
                    return answer if view.code is code else disabled_code

                objects = (hook, code, replacement, ARGUMENT, function)
                counts = [sys.getrefcount(one) for one in objects]
                self.api.add(lambda view: None)
                self.api.add(hook)
                expected = RESULTS[function]("replaced" if answer is replacement else "original")
                value = self.attempt(number, call)
                check(value is MemoryError or value == expected, number, function.__name__, answer, value)
                again = call()
                check(again == expected, number, function.__name__, answer, again)
                self.api.clear()
                again = call()
                check(again == RESULTS[function]("original"), number, function.__name__, again)
                del value, again, expected
                gc.collect()
                now = [sys.getrefcount(one) for one in objects]
                check(now == counts, number, function.__name__, answer, counts, now)


def run_without_memory(kind):
    """Every allocation fails once, of those that each operation makes."""
    use_extensions()
    scarcity = Scarcity(APIS[kind]())
    # What is made once and kept is there before references are counted.
    warm = scarcity.api.add(lambda view: None)
    for call in CALLS.values():
        call()
    scarcity.api.remove(warm)
    for number in range(1, ALLOCATIONS + 1):
        scarcity.change(number)
        scarcity.ask(number)
    print(scarcity.failures, scarcity.successes)


def run_first_uses(number):
    """In a fresh interpreter, where the first hook makes what is kept: types, an index."""
    from support import framecore
    seen = []
    hook = seen.append      # returns None
    handle = attempt(number, lambda: framecore.add_frame_hook(hook))
    check((handle is MemoryError) == (framecore.frame_hooks() == []), number, handle)
    call = CALLS[target]
    value = attempt(number, call)
    check(value is MemoryError or value == RESULTS[target]("original"), number, value)
    check((handle is MemoryError) == (seen == []) or value is MemoryError, number, handle, seen)
    framecore.clear_frame_hooks()
    check(framecore.frame_hooks() == [], number)


def run_first_block(number):
    """In a fresh interpreter, the first blocks: from some allocation on, none succeeds, and all blocks end."""
    import framehook

    class Done(Exception):
        pass

    def hook(view):
        return None

    def without_memory(block):
        # Short: where an instruction's place is over 256, CPython makes an int of it for the end of a
        # block, and tries for ever.
        with block:
            _testcapi.set_nomemory(number, 0)
            target(1)
            raise Done

    def attempt(block):
        try:
            without_memory(block)
        except (MemoryError, Done):
            pass
        finally:
            _testcapi.remove_mem_hooks()

    count = sys.getrefcount(hook)
    block, code = framehook.hook(hook), compile("pass", "new", "exec")
    attempt(block)
    check(framehook.hooks() == [], number, framehook.hooks())
    with block:
        for name in ("disabled", "disabled_in_thread", "disabled_for_code"):
            codes = [code] if name == "disabled_for_code" else []
            attempt(getattr(framehook, name)(block, *codes))
            entries = block.info.calls
            exec(code)
            check(block.info.calls == entries + 1, number, name, entries, block.info)
    check(framecore.frame_hooks() == [], number)
    del block
    gc.collect()
    check(sys.getrefcount(hook) == count, number, sys.getrefcount(hook), count)


def in_children(run, numbers):
    """Run `run(number)` in a child for each number: what an interpreter makes once is made anew in each."""
    for number in range(1, numbers):
        child = os.fork()
        if not child:
            try:
                run(number)
            except BaseException as error:
                print(number, repr(error), file=sys.stderr, flush=True)
                os._exit(1)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        check(status == 0, number, status)


# --- Many threads. ------------------------------------------------------------------------------------------------

ROUNDS = int(os.environ.get("FERRULE_HOOK_ROUNDS", "40"))
WORKERS = 5
CALLS_IN_A_ROW = 12


class Worker:
    """A thread with a function and hooks of its own. What others do meanwhile must not change a single count."""

    def __init__(self, api, number):
        self.api, self.number = api, number
        namespace = {}
        exec(f"def own(x):\n    return x + {number}", namespace)
        self.own = namespace["own"]
        self.replacement = code_named("own", f"def own(x):\n    y = z = x\n    return y - {number}")
        self.entries = self.problems = 0
        self.error = None

    def count(self, view):
        if view.code is self.code:
            self.entries += 1
        return None

    def disable_code(self, view):
        if view.code is self.code:
            self.entries += 1
        return self.api.DISABLE

    def replace(self, view):
        return self.replacement if view.code is self.code else None

    def expect(self, entries, sign=1):
        """Some calls, for which a hook is called so often."""
        before = self.entries
        for x in range(CALLS_IN_A_ROW):
            if self.own(x) != x + sign * self.number:
                self.problems += 1
        if self.entries - before != entries:
            self.problems += 1

    def round(self):
        api, every = self.api, CALLS_IN_A_ROW
        handle = api.add(self.count)
        self.expect(every)
        api.switch(handle, False)
        self.expect(0)
        api.switch(handle, True)
        self.expect(every)
        api.switch_in_thread(handle, False)
        self.expect(0)
        api.switch_in_thread(handle, True)
        api.switch_for_code(handle, self.code, False)
        self.expect(0)
        api.switch_for_code(handle, self.code, True)
        self.expect(every)
        second = api.add(self.replace)
        self.expect(every, sign=-1)
        api.remove(handle)
        self.expect(0, sign=-1)
        api.switch(second, False)
        self.expect(0)
        api.remove(second)
        third = api.add(self.disable_code)
        self.expect(1)
        self.expect(0)
        api.remove(third)
        self.expect(0)

    def run(self):
        try:
            self.code = self.own.__code__
            for _ in range(ROUNDS):
                self.round()
        except BaseException as error:
            self.error = error


def run_in_threads(kind):
    use_extensions()
    api = APIS[kind]()
    sys.setswitchinterval(1e-5)
    workers = [Worker(api, number + 1) for number in range(WORKERS)]
    threads = [threading.Thread(target=worker.run) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for worker in workers:
        check(worker.error is None and worker.problems == 0, worker.number, worker.error, worker.problems)
    check(framecore.frame_hooks() == [], framecore.frame_hooks())
    print(sum(worker.entries for worker in workers))


@needs_hooks
class Hardship(ProgramTestCase):
    @needs_failing_allocations
    def test_each_allocation_fails_once(self):
        for kind in APIS:
            with self.subTest(kind):
                output = self.assert_program_succeeds(
                    f"import test_frame_hooks_hardship as t; t.run_without_memory({kind!r})")
                failures, successes = map(int, output.split())
                # Neither nothing but failures nor none.
                self.assertGreater(failures, 20)
                self.assertGreater(successes, ALLOCATIONS)

    @needs_failing_allocations
    def test_each_allocation_of_the_first_hook_fails_once(self):
        self.assert_program_succeeds(
            "import test_frame_hooks_hardship as t; t.in_children(t.run_first_uses, 60)")

    @needs_failing_allocations
    def test_a_block_ends_where_there_is_no_memory_any_more(self):
        self.assert_program_succeeds(
            "import framehook, test_frame_hooks_hardship as t; t.in_children(t.run_first_block, 60)")

    def test_what_other_threads_do_changes_no_count(self):
        for kind in APIS:
            with self.subTest(kind):
                output = self.assert_program_succeeds(
                    f"import test_frame_hooks_hardship as t; t.run_in_threads({kind!r})")
                self.assertEqual(int(output), WORKERS * ROUNDS * (4 * CALLS_IN_A_ROW + 1))
