"""Frames that hooks watch in subinterpreters, forked children and threads that end."""

import gc
import os
import threading
import unittest
import weakref

from support import ProgramTestCase, framehook, in_new_thread, needs_hooks
from test_hook_watching import Watcher


@needs_hooks
class Subinterpreters(ProgramTestCase):
    """Each test runs a program in a fresh process."""

    BEGINNING = """
import _interpreters, os, sys
INSIDE = '''
import framehook, os, sys
def say(*words):
    os.write(1, (" ".join(words) + "\\\\n").encode())
def counts():
    yield 1
    yield 2
def leaf():
    return 1
def hook(view):
    if view.code in (counts.__code__, leaf.__code__):
        view.watch(lambda event: say(event.kind, event.code.co_name))
        if view.code is counts.__code__ and LIMIT:
            getattr(view, LIMIT)()
framehook.add(hook)
leaf()
generator = counts()
next(generator)
'''
def run(interpreter, source):
    problem = _interpreters.exec(interpreter, source)
    assert problem is None, problem
def begin(kind, limit=None):
    interpreter = _interpreters.create(kind)
    run(interpreter, INSIDE.replace("LIMIT", repr(limit)))
    return interpreter
"""

    def run_in_each_kind(self, program, expected):
        for kind in ("legacy", "isolated"):
            with self.subTest(kind):
                out = self.assert_program_succeeds(f"{self.BEGINNING}\nKIND = {kind!r}\n{program}")
                self.assertEqual(out.split("\n"), [*expected, ""])

    def test_a_generator_that_lives_to_the_end_is_dropped_once(self):
        for keep in ("pass", "import builtins; builtins.kept = generator",
                     "sys.modules['kept'] = generator", "cycle = [generator]; cycle.append(cycle)",
                     "import threading; threading.kept = generator; del generator"):
            self.run_in_each_kind(f"""
interpreter = begin(KIND)
run(interpreter, {keep!r})
os.write(1, b"end\\n")
_interpreters.destroy(interpreter)
os.write(1, b"ended\\n")
""", ["returned leaf", "end", "dropped counts", "ended"])

    def test_a_generator_that_goes_before_the_end_is_dropped_then(self):
        for drop in ("del generator", "generator.close()",
                     "generator = None; framehook.clear()"):
            self.run_in_each_kind(f"""
interpreter = begin(KIND)
run(interpreter, {drop!r})
os.write(1, b"end\\n")
_interpreters.destroy(interpreter)
""", ["returned leaf", "dropped counts", "end"])

    def test_a_removed_hook_gets_no_exit_event(self):
        self.run_in_each_kind("""
interpreter = begin(KIND)
run(interpreter, "framehook.remove(hook)")
_interpreters.destroy(interpreter)
""", ["returned leaf"])

    def test_scopes_that_are_suspended_at_the_end_do_no_harm(self):
        for limit in ("exclude_callees", "only_callees"):
            # A suspended generator limits nothing.
            self.run_in_each_kind(f"""
for _ in range(3):
    interpreter = begin(KIND, {limit!r})
    run(interpreter, "leaf()" if {limit!r} == "exclude_callees" else "list(generator)")
    _interpreters.destroy(interpreter)
""", ["returned leaf", *(["returned leaf", "dropped counts"] if limit == "exclude_callees" else
                         ["returned counts"])] * 3)

    def test_a_callback_that_fails_at_the_end_is_reported_there(self):
        self.run_in_each_kind("""
interpreter = begin(KIND)
run(interpreter, '''
def report(unraisable):
    say("reported", str(unraisable.exc_value))
sys.unraisablehook = report
def fails(event):
    raise KeyError(event.kind)
def other(view):
    if view.code is second.__code__:
        view.watch(fails)
def second():
    yield 1
framehook.add(other)
last = second()
''')
_interpreters.destroy(interpreter)
""", ["returned leaf", "reported 'dropped'", "dropped counts"])

    def test_what_a_callback_starts_at_the_end_has_its_events(self):
        self.run_in_each_kind("""
interpreter = begin(KIND)
run(interpreter, '''
def starts(event):
    say("first", event.kind)
    kept.append(counts())           # within a hook: not offered
kept = []
def other(view):
    if view.code is second.__code__:
        view.watch(starts)
def second():
    yield 1
framehook.add(other)
last = second()
del generator
''')
_interpreters.destroy(interpreter)
""", ["returned leaf", "dropped counts", "first dropped"])

    def test_one_interpreter_runs_another_in_a_callback_and_in_a_watched_frame(self):
        self.run_in_each_kind("""
import framehook
interpreter = begin(KIND)
def outer():
    run(interpreter, "leaf()")
    return 5
def callback(event):
    run(interpreter, "next(generator); leaf()")
    os.write(1, b"dropped outer\\n")
def hook(view):
    if view.code is outer.__code__:
        view.watch(callback)
        view.only_callees()
with framehook.hook(hook):
    assert outer() == 5
_interpreters.destroy(interpreter)
""", ["returned leaf", "returned leaf", "returned leaf", "dropped outer", "dropped counts"])

    def test_interpreters_in_threads_of_their_own_end_while_others_watch(self):
        out = self.assert_program_succeeds(self.BEGINNING + """
import threading
def work():
    for _ in range(5):
        interpreter = begin("isolated", "exclude_callees")
        run(interpreter, "for _ in range(200): leaf(); list(counts())")
        _interpreters.destroy(interpreter)
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
""")
        lines = out.splitlines()
        self.assertEqual({line: lines.count(line) for line in lines},
                         {"returned leaf": 15 * 201, "returned counts": 15 * 200,
                          "dropped counts": 15})


@needs_hooks
@unittest.skipUnless(hasattr(os, "fork"), "no fork")
class Forks(ProgramTestCase):
    """Each test runs a program in a fresh process, which prints the events of parent and child."""

    BEGINNING = """
import framehook, os, sys, threading, warnings
warnings.simplefilter("ignore")     # a process with threads forks
parent, codes = os.getpid(), []
def say(*words):
    who = "parent" if os.getpid() == parent else "child"
    os.write(1, (" ".join((who, *words)) + "\\n").encode())
def callback(event):
    say(event.code.co_name, event.kind)
    act(event)
act = lambda event: None
def hook(view):
    if view.code in codes:
        view.watch(callback)
    elif view.code not in (callback.__code__, say.__code__):
        return framehook.DISABLE
framehook.add(hook)
def join(pid):
    if pid == 0:
        return
    assert os.waitpid(pid, 0)[1] == 0
"""

    def lines(self, program):
        return sorted(self.assert_program_succeeds(self.BEGINNING + program).splitlines())

    def test_a_watched_frame_that_forks_ends_once_in_each(self):
        self.assertEqual(self.lines("""
def forks():
    return os.fork()
codes.append(forks.__code__)
join(forks())
"""), ["child forks returned", "parent forks returned"])

    def test_a_watched_generator_ends_once_in_each(self):
        self.assertEqual(self.lines("""
def counts():
    yield 1
    yield 2
codes.append(counts.__code__)
generator, other = counts(), counts()
next(generator), next(other)
pid = os.fork()
if pid == 0:
    del other
    list(generator)
    sys.exit()
join(pid)
list(other)
"""), ["child counts dropped", "child counts returned", "parent counts dropped",
       "parent counts returned"])

    def test_a_callback_that_forks_continues_in_both(self):
        self.assertEqual(self.lines("""
def leaf():
    return 5
def fails():
    raise KeyError
codes += [leaf.__code__, fails.__code__]
pids = []
act = lambda event: pids.append(os.fork())
assert leaf() == 5
if pids[-1] == 0:
    act = lambda event: None
    leaf()
    os._exit(0)
join(pids[-1])
try:
    fails()
except KeyError:
    say("caught")
if pids[-1] == 0:
    os._exit(0)
join(pids[-1])
"""), ["child caught", "child leaf returned", "parent caught", "parent fails raised",
       "parent leaf returned"])

    def test_frames_of_threads_that_a_child_does_not_have_are_dropped_there(self):
        self.assertEqual(self.lines("""
def waits():
    started.set()
    may_continue.wait()
codes.append(waits.__code__)
started, may_continue = threading.Event(), threading.Event()
thread = threading.Thread(target=waits)
thread.start()
started.wait()
pid = os.fork()
if pid == 0:
    os._exit(0)
join(pid)
may_continue.set()
thread.join()
"""), ["child waits dropped", "parent waits returned"])

    def test_a_child_of_a_thread_drops_what_the_main_thread_has_begun(self):
        self.assertEqual(self.lines("""
def outer():
    thread = threading.Thread(target=lambda: pids.append(forks()))
    thread.start()
    thread.join()
def forks():
    pid = os.fork()
    if pid == 0:
        os._exit(leaf())
    return pid
def leaf():
    return 0
codes += [outer.__code__, leaf.__code__]
pids = []
outer()
join(pids[0])
"""), ["child leaf returned", "child outer dropped", "parent outer returned"])

    def test_a_child_may_add_and_remove_hooks_and_end(self):
        self.assertEqual(self.lines("""
def leaf():
    return os.fork()
codes.append(leaf.__code__)
pid = leaf()
framehook.remove(hook)
framehook.add(hook)
leaf_code, leaf.__code__ = leaf.__code__, (lambda: 0).__code__
codes.append(leaf.__code__)
leaf()
join(pid)
"""), ["child <lambda> returned", "child leaf returned", "parent <lambda> returned",
       "parent leaf returned"])


def counts():
    yield threading.get_ident()
    yield threading.get_ident()
    yield threading.get_ident()


@needs_hooks
class Threads(unittest.TestCase):
    def in_thread(self, work):
        found = []
        in_new_thread(lambda: found.append(work()))
        return found[0]

    def test_the_events_of_a_generator_that_changes_threads_come_where_it_runs(self):
        where = []
        watcher = Watcher(counts, on_event=lambda event: where.append(
            event.value in (None, threading.get_ident())))
        with framehook.hook(watcher):
            generator = self.in_thread(counts)
            for _ in range(2):
                self.in_thread(lambda: next(generator))
            next(generator)
            self.assertRaises(StopIteration, self.in_thread_failing, generator)
        self.assertEqual(watcher.kinds(), ["resumed", "yielded"] * 3 + ["resumed", "returned"])
        self.assertEqual(where, [True] * 8)

    def in_thread_failing(self, generator):
        def work():
            try:
                next(generator)
            except StopIteration as stop:
                return stop
        raise self.in_thread(work)

    def test_a_generator_that_a_dead_thread_has_begun_is_dropped_where_it_is_given_up(self):
        where = []
        watcher = Watcher(counts, on_event=lambda event: where.append(threading.get_ident()))

        def begin():
            generator = counts()
            next(generator)
            return generator

        with framehook.hook(watcher):
            generator = self.in_thread(begin)
            del generator
            gc.collect()
        self.assertEqual(watcher.kinds(), ["resumed", "yielded", "dropped"])
        self.assertEqual(where[-1], threading.get_ident())

    def test_a_hook_removed_while_frames_of_other_threads_run_goes_with_the_last(self):
        class Hook:
            def __call__(self, view):
                if view.code is waits.__code__:
                    view.watch(self.delivered)

            def delivered(self, event):
                delivered.append(event.kind)

        def waits(number):
            running.release()
            may_end[number].wait()

        delivered, running = [], threading.Semaphore(0)
        may_end = [threading.Event() for _ in range(3)]
        hook = Hook()
        alive = weakref.ref(hook)
        framehook.add(hook)
        threads = [threading.Thread(target=waits, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        for _ in threads:
            running.acquire()
        framehook.remove(hook)
        del hook
        for thread, event in zip(threads, may_end):
            self.assertIsNotNone(alive())
            event.set()
            thread.join()
        del thread, threads
        gc.collect()
        self.assertEqual((delivered, alive()), ([], None))
