"""What waits to be handled by a thread (a signal, an exception set by another thread, a pending call) is handled where it is without hooks.

CPython handles it as a function begins, as a generator is resumed after a yield, at jumps back, and after calls of C; not where a `yield from`
or `await` is resumed, nor as a function returns. A hook or callback in Python begins functions at each of these places.
"""

import _thread
import contextlib
import signal
import threading
import traceback
import types

from hook_call_places import PLACES, WAYS, exception_of_another_thread, now_of
from hook_variants import extension
from support import STOCK_PYTHON, ProgramTestCase, framehook, in_new_thread, needs_hooks, needs_stock, run_program

try:
    import ctypes
except ImportError:
    ctypes = None


class Raised(BaseException):
    """What another thread has had raised."""


# --- Hooks. -----------------------------------------------------------------------------------------------------------------------------

def delivered(event):
    for _ in range(3):          # jumps back, and calls
        helper()


def helper():
    return [1, 2, 3].index(2)


def of_this_test(view):
    return view.code.co_filename == __file__ and view.code.co_name != "then"


def passes(view):
    helper()


def disables(view):
    helper()
    return framehook.DISABLE


def watches(view):
    if of_this_test(view):
        view.watch(delivered, None, yields=True, resumes=True)


def watches_the_end(view):
    if of_this_test(view):
        view.watch(delivered)


def limits(view):
    if of_this_test(view):
        view.watch(delivered, None, yields=True, resumes=True)
        view.only_callees()


def copies(view):
    copy = COPIES.get(view.code)
    if copy is None and of_this_test(view):
        copy = COPIES[view.code] = view.code.replace()
    return copy


def calls_outside(view):
    if view.code is helper.__code__:
        return framehook.DISABLE
    framehook.reentrant(helper)()


COPIES = framehook.CodeMap() if framehook else {}
HOOKS = (passes, disables, watches, watches_the_end, limits, copies, calls_outside)


def observed(place, way):
    """What can be seen of it: what was logged, what came of it, and how the exception went."""
    log = []

    def run():
        with way(log) as call:
            try:
                log.append(("result", place(log, now_of(call))))
            except BaseException as error:
                log.append((type(error).__name__, str(error),
                            [(entry.name, entry.lineno) for entry in traceback.extract_tb(error.__traceback__)]))
            # What waits still is handled here.
            for _ in range(3):
                helper()

    try:
        run()
    except BaseException as error:
        log.append(("late", type(error).__name__))
    return log


def fresh(code):
    """An equal code object, of which nothing is specialized: some specialized calls handle nothing."""
    return code.replace(co_consts=tuple(fresh(constant) if isinstance(constant, types.CodeType) else constant
                                        for constant in code.co_consts))


def codes_below(code):
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from codes_below(constant)


@contextlib.contextmanager
def hooks_of_c(place):
    """Hooks and callbacks in C that call Python."""
    datahooks = extension("datahooks")
    handles = [datahooks.add(code, 0, events=7, on_entry=helper, on_event=lambda kind: helper()) for code in codes_below(place.__code__)]
    try:
        yield
    finally:
        for handle in handles:
            framehook.remove(handle)
        datahooks.take_frames(), datahooks.take_hooks()


@contextlib.contextmanager
def several_hooks(place):
    with framehook.hook(watches), framehook.hook(copies), framehook.hook(watches_the_end), framehook.hook(passes):
        yield


SURROUNDINGS = {
    **{hook.__name__: lambda place, hook=hook: framehook.hook(hook) for hook in HOOKS},
    "hooks in C": hooks_of_c,
    "several hooks": several_hooks,
}


@needs_hooks
class PendingCalls(ProgramTestCase):
    def fresh(self, place):
        return types.FunctionType(fresh(place.__code__), place.__globals__, place.__name__)

    def compare(self, ways=WAYS, before=lambda: None, after=lambda: None):
        for way in ways:
            for place in PLACES:
                expected = observed(self.fresh(place), way)
                # It has been handled somewhere.
                self.assertRegex(repr(expected), "handled in|KeyboardInterrupt|Raised", place.__name__)
                for name, surround in SURROUNDINGS.items():
                    again = self.fresh(place)
                    with self.subTest(place.__name__, way=way.__name__, hook=name):
                        before()
                        try:
                            with surround(again):
                                found = observed(again, way)
                        finally:
                            after()
                        self.assertEqual(found, expected)

    def test_it_is_handled_where_it_is_without_hooks(self):
        self.compare()

    def test_beside_an_evaluator(self):
        evaluators = extension("evaluators")
        self.compare(before=lambda: evaluators.set("pass"), after=lambda: evaluators.set("null"))

    def test_in_a_thread(self):
        if ctypes is None:
            self.skipTest("needs ctypes")
        failures = []

        def work():
            try:
                self.compare(ways=[exception_of_another_thread])
            except BaseException as error:
                failures.append(error)

        in_new_thread(work)
        self.assertEqual(failures, [])

    @needs_stock
    def test_without_hooks_it_is_handled_where_stock_does(self):
        program = """
import test_hook_pending_calls as module
for way in module.WAYS:
    for place in module.PLACES:
        print(way.__name__, place.__name__, module.observed(place, way))
"""
        done = run_program(program, python=STOCK_PYTHON, environment={"FERRULE_TESTS_ON_STOCK": "1"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.assert_program_succeeds(program).splitlines(), done.stdout.splitlines())

    def test_what_comes_while_a_hook_runs_can_end_it(self):
        """Else Ctrl-C would not end a hook that never returns."""
        for where in "hook", "callback":
            done = run_program(f"""
import _thread, framehook, itertools
def f():
    return 1
def loops(*ignored):
    _thread.interrupt_main()
    for _ in itertools.count():
        pass
def hook(view):
    if view.code is not f.__code__:
        return framehook.DISABLE
    if {where!r} == "hook":
        loops()
    view.watch(loops)
framehook.add(hook)
try:
    f()
except KeyboardInterrupt:
    print("ended")
""", timeout=60)
            self.assertEqual((done.stdout, done.returncode), ("ended\n", 0), (where, done.stderr))

    def test_none_is_lost_of_many(self):
        """As many handlers run as signals came one after the other, whatever hooks run meanwhile."""
        handled = []

        def f():
            return len(handled)

        def gen():
            yield from [1, 2]

        before = signal.signal(signal.SIGINT, lambda number, frame: handled.append(number))
        try:
            with framehook.hook(watches), framehook.hook(copies):
                for number in range(1, 300):
                    now_of(_thread.interrupt_main).then(f if number % 2 else lambda: list(gen()))
                    self.assertEqual(len(handled), number)
        finally:
            signal.signal(signal.SIGINT, before)

    def test_of_another_thread_while_a_hook_runs(self):
        """An exception that is set for a thread whose hook runs comes once."""
        if ctypes is None:
            self.skipTest("needs ctypes")
        caught, inside, may_continue = [], threading.Event(), threading.Event()

        def f():
            return 1

        def hook(view):
            if view.code is f.__code__:
                inside.set()
                may_continue.wait(60)

        def work():
            try:
                f()
                for _ in range(1000):
                    pass
            except Raised as error:
                caught.append(error)

        with framehook.hook(hook):
            thread = threading.Thread(target=work)
            thread.start()
            inside.wait(60)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(Raised))
            may_continue.set()
            thread.join()
        self.assertEqual(len(caught), 1)
