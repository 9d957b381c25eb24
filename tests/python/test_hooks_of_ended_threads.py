"""Hooks for one thread where that ends while something else still runs: callbacks, daemon threads, interpreters, forks."""

import gc
import threading
import unittest

from hook_variants import extension
from support import FREE_THREADED, HookTestCase, ProgramTestCase, framehook, in_new_thread, needs_hooks
from test_hooks_of_one_thread import Hook, generator, names, target

try:
    import ctypes
except ImportError:
    ctypes = None


@needs_hooks
class AtTheEndOfThreads(HookTestCase, ProgramTestCase):
    def test_it_lives_until_a_callback_in_another_thread_has_returned(self):
        """What it watches may continue in another thread; its thread ends meanwhile."""
        datahooks = extension("datahooks")
        # Without the GIL the thread that has made a generator destroys it, and that waits here.
        for kind in range(4 if FREE_THREADED else 5):
            inside, may_continue, kept, waited = threading.Event(), threading.Event(), [], []

            def delivered(event):
                if event == kind and not waited:
                    waited.append(threading.get_ident())
                    inside.set()
                    may_continue.wait(60)

            def begin():
                datahooks.add(generator.__code__, 0, events=7, flags=2, on_event=delivered)
                kept.append(generator())
                begun.set()
                ends.wait(60)

            def use():
                made = kept.pop()
                if kind == 1:
                    next(made)
                    self.assertRaises(KeyError, made.throw, KeyError)
                elif kind == 4:
                    next(made)
                    del made
                    gc.collect()
                else:
                    list(made)

            begun, ends = threading.Event(), threading.Event()
            owner = threading.Thread(target=begin)
            owner.start()
            begun.wait(60)
            user = threading.Thread(target=use)
            user.start()
            inside.wait(60)
            self.assertEqual(waited, [user.ident])
            ends.set()
            owner.join()
            del begin, delivered
            gc.collect()
            self.assertEqual((framehook.hooks(), datahooks.take_hooks()), ([], (1, 0)), kind)
            may_continue.set()
            user.join()
            gc.collect()
            self.assertEqual((datahooks.take_hooks(), datahooks.take_early()), ((0, 1), 0), kind)
            ((_, _, freed, late),) = datahooks.take_frames()
            self.assertEqual((freed, late), (1, 0), kind)

    @unittest.skipIf(ctypes is None, "needs ctypes")
    def test_a_thread_that_c_has_attached_and_that_ends(self):
        found = []

        @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
        def body(argument):
            hook = Hook()
            framehook.add(hook, "attached", this_thread=True)
            target()
            found.append((len(hook.entries), names()))

        library = ctypes.CDLL(None)
        for _ in range(50):
            thread = ctypes.c_ulong()
            self.assertEqual(library.pthread_create(ctypes.byref(thread), None, body, None), 0)
            library.pthread_join(thread, None)
            self.assertEqual(framehook.hooks(), [])
            target()
        self.assertEqual(found, [(1, ["attached"])] * 50)

    def test_a_daemon_thread_that_the_end_of_the_program_finds_in_its_hook(self):
        for where in ("hook", "callback", "function"):
            out = self.assert_program_succeeds(f"""
import framehook, threading, os
inside, never = threading.Event(), threading.Event()
def target():
    if {where!r} == "function":
        wait()
def wait(*ignored):
    inside.set()
    never.wait()
def hook(view):
    if view.code is target.__code__:
        if {where!r} == "hook":
            wait()
        view.watch(wait if {where!r} == "callback" else lambda event: None)
def work():
    framehook.add(hook, this_thread=True)
    target()
threading.Thread(target=work, daemon=True).start()
inside.wait()
assert len(framehook.hooks()) == 1
print("ends")
""")
            self.assertEqual(out, "ends\n", where)

    def test_the_end_of_an_interpreter_in_whose_threads_hooks_are(self):
        """Running something in an interpreter attaches a thread to it for that time."""
        for kind in "legacy", "isolated":
            out = self.assert_program_succeeds(f"""
import _interpreters, threading
interpreter = _interpreters.create({kind!r})
def run(source):
    problem = _interpreters.exec(interpreter, source)
    assert problem is None, problem
add = '''
import framehook, os
def target(): pass
entries = []
class Hook:
    def __call__(self, view):
        if view.code is target.__code__:
            entries.append(1)
    def __del__(self, write=os.write):
        write(1, b"gone\\\\n")
framehook.add(Hook(), this_thread=True)
target()
assert (len(entries), len(framehook.hooks())) == (1, 1)
'''
look = '''
target()
assert (len(entries), framehook.hooks()) == (1, []), (entries, framehook.hooks())
'''
run(add)
run(look)
thread = threading.Thread(target=run, args=(add,))
thread.start()
thread.join()
run(look)
_interpreters.destroy(interpreter)
print("ended")
""")
            self.assertEqual(out, "gone\ngone\nended\n", kind)

    def test_a_forked_child_has_no_hooks_of_threads_that_it_has_not(self):
        out = self.assert_program_succeeds("""
import framehook, os, threading, warnings
warnings.simplefilter("ignore")
def target(): pass
entries = []
def hook(view):
    if view.code is target.__code__:
        entries.append(threading.get_ident())
begun, ends = threading.Event(), threading.Event()
def work():
    framehook.add(hook, "of the thread", this_thread=True)
    begun.set()
    ends.wait()
thread = threading.Thread(target=work)
thread.start()
begun.wait()
def own(view):
    if view.code is target.__code__:
        entries.append("own")
framehook.add(own, "of the main thread", this_thread=True)
pid = os.fork()
if pid == 0:
    target()
    names = [info.name for info in framehook.hooks()]
    os._exit(0 if (entries, names) == (["own"], ["of the main thread"]) else 1)
status = os.waitpid(pid, 0)[1]
ends.set()
thread.join()
target()
print(status, entries, len(framehook.hooks()))
""")
        self.assertEqual(out, "0 ['own'] 1\n")

    def test_a_hook_that_ends_with_its_thread_while_another_thread_lists_and_changes_hooks(self):
        failures, stop = [], threading.Event()

        def look():
            try:
                while not stop.is_set():
                    for info in framehook.hooks():
                        info.name, info.calls
                    with framehook.hook(lambda view: None):
                        target()
            except BaseException as error:
                failures.append(repr(error))

        def work():
            for _ in range(3):
                framehook.add(Hook(), this_thread=True)
                target()

        looker = threading.Thread(target=look)
        looker.start()
        for _ in range(150 if FREE_THREADED else 300):
            in_new_thread(work)
        stop.set()
        looker.join()
        self.assertEqual((failures, framehook.hooks()), ([], []))
