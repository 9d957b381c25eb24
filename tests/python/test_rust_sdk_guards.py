"""The crate framehook: guards that remove hooks, and interpreters that end with hooks in them."""

import gc
import sys
import threading

from rust_sdk_support import OUT, HookTestCase, load, new_function, ten
from support import in_new_thread

rust_hook = cases = None


def setUpModule():
    global rust_hook, cases
    rust_hook, cases = load()


class Guards(HookTestCase):
    def test_a_guard_removes_its_hook_when_it_is_dropped(self):
        f = new_function("def f(): return 1")
        dropped = cases.dropped()
        guard = cases.install("panic", f, None)
        self.assertTrue(guard.is_installed())
        del guard
        self.assertEqual(f(), 1)
        self.assertEqual(cases.dropped(), dropped + 1)

    def test_a_guard_that_is_kept_leaves_the_hook_there(self):
        f, g = new_function("def f(): return 1"), new_function("def f(): return 2")
        dropped = cases.dropped()
        guard = cases.install("replace", f, g)
        guard.keep()
        del guard
        self.assertEqual(f(), 2)
        self.assertEqual(cases.dropped(), dropped)
        cases.clear_hooks()
        self.assertEqual(f(), 1)
        self.assertEqual(cases.dropped(), dropped + 1)

    def test_a_hook_that_others_have_removed_is_gone(self):
        import _framecore
        f = new_function("def f(): return 1")
        guard = cases.install("panic", f, None)
        _framecore.remove_frame_hook(guard.id())
        self.assertEqual(f(), 1)
        self.assertFalse(guard.is_installed())
        self.assertRaises(ValueError, guard.enable, True)
        self.assertRaises(ValueError, guard.remove)

    def test_a_guard_dropped_in_a_detached_thread_retires_the_hook(self):
        f = new_function("def f(): return 1")
        dropped = cases.dropped()
        guard = cases.install("panic", f, None)
        guard.drop_detached()
        self.assertEqual(cases.dropped(), dropped)
        self.assertEqual(f(), 1)
        # The hook was called for f, and removed itself.
        self.assertEqual(cases.dropped(), dropped + 1)

    def test_a_hook_may_remove_itself_while_it_runs(self):
        f = new_function("def f(): return 1")
        dropped = cases.dropped()
        cases.install("remove itself", f, None)
        self.assertEqual(f(), 1)
        self.assertEqual(cases.dropped(), dropped + 1)
        self.assertEqual(f(), 1)

    def test_enabling_in_all_three_ways(self):
        f = new_function("def f(): pass")
        guard = cases.install("pass", f, None)
        f()
        self.assertEqual(guard.entries(), 1)
        for switch in (guard.enable, guard.enable_in_thread, lambda on: guard.enable_for_code(f, on)):
            before = guard.entries()
            switch(False)
            f()
            self.assertEqual(guard.entries(), before)
            switch(True)
            f()
            self.assertEqual(guard.entries(), before + 1)
        guard.enable_in_thread(False)
        before = guard.entries()
        in_new_thread(f)
        self.assertEqual(guard.entries(), before + 1)
        self.assertRaises(TypeError, guard.enable_for_code, 5, True)
        guard.remove()

    def test_what_a_hook_drops_is_given_back_64_calls_later_at_most(self):
        f, value = new_function("def f(): pass"), object()
        before = sys.getrefcount(value)
        guard = cases.install("drop", f, value)
        for _ in range(1000):
            f()
            self.assertLessEqual(sys.getrefcount(value), before + 1 + 64)
        guard.remove()
        self.assertEqual(sys.getrefcount(value), before)

    def test_guards_come_and_go_while_threads_call(self):
        f, g = new_function("def f(): return 1"), new_function("def f(): return 2")
        results, stop = [set(), set()], threading.Event()
        dropped = cases.dropped()

        def work(seen):
            while not stop.is_set():
                seen.add(f())

        threads = [threading.Thread(target=work, args=(seen,)) for seen in results]
        for thread in threads:
            thread.start()
        try:
            for round_ in range(200):
                guard = cases.install("replace", f, g)
                self.assertEqual(f(), 2)
                (guard.drop_detached if round_ % 2 else guard.remove)()
                del guard
                self.assertEqual(f(), 1)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        f()
        self.assertLessEqual(set().union(*results), {1, 2})
        gc.collect()
        self.assertEqual(cases.dropped(), dropped + 200)

    def test_an_exception_on_its_way_survives_the_guard(self):
        def raise_through_a_guard():
            guard = cases.install("pass", ten, None)
            raise KeyError("on its way")

        with self.assertRaisesRegex(KeyError, "on its way"):
            raise_through_a_guard()


class Interpreters(HookTestCase):
    PRELUDE = """if True:
        import _interpreters, sys
        sys.path.insert(0, sys.argv[1])
        import rust_hook, rust_hook_cases as cases
        def f(): return 1
        def g(): return 2
        def run(interpreter, source):
            failed = _interpreters.exec(interpreter, f'''if True:
                import ctypes, sys
                sys.path.insert(0, {sys.argv[1]!r})
                def f(): return 1
                def drop_parked():
                    library = ctypes.PyDLL({cases.__file__!r})
                    return library.rust_hook_cases_drop_parked()
            ''' + source)
            assert failed is None, failed
    """

    def test_an_interpreter_with_a_gil_of_its_own_is_refused(self):
        self.assert_program_succeeds(self.PRELUDE + """
        counter = rust_hook.count_calls()
        other = _interpreters.create()
        run(other, '''
                try:
                    import rust_hook
                except ImportError as error:
                    assert "does not support loading in subinterpreters" in str(error), error
                else:
                    raise AssertionError("imported")
                f()
        ''')
        for _ in range(3): f()
        _interpreters.destroy(other)
        assert counter.calls(f) == 3
        """, OUT)

    def test_a_guard_in_another_interpreter_only_retires_its_hook(self):
        self.assert_program_succeeds(self.PRELUDE + """
        cases.install("panic", f, None).park()
        other = _interpreters.create()
        run(other, '''
                assert drop_parked() == 1
        ''')
        assert cases.dropped() == 0
        assert f() == 1
        assert cases.dropped() == 1
        _interpreters.destroy(other)
        """, OUT)

    def test_frames_of_a_retired_hook_have_no_events(self):
        self.assert_program_succeeds(self.PRELUDE + """
        def generate(): yield 1
        guard = cases.install("exit panics", generate, None)
        generator = generate()
        next(generator)
        guard.drop_detached()
        assert list(generator) == [] and cases.dropped_data() == 1
        """, OUT)

    def test_python_ends_while_a_daemon_thread_is_within_a_hook(self):
        # The hook waits in Python code. When the thread is to continue, Python has ended. It must
        # not be unwound through Rust.
        self.assertEqual(self.assert_program_succeeds(self.PRELUDE + """
        import builtins, os, select, threading
        waits = threading.Event()
        may_continue, continued = os.pipe(), os.pipe()
        def wait(name):
            waits.set()
            os.read(may_continue[0], 1)
            os.write(continued[1], b"!")
        cases.install("call", f, wait).keep()
        for _ in range(3):
            waits.clear()
            threading.Thread(target=f, daemon=True).start()
            waits.wait()
        class Late:
            def __del__(self, write=os.write, select=select.select, go=may_continue[1], went=continued[0]):
                write(go, b"!!!")
                write(1, b"ran on" if select([went], [], [], 2)[0] else b"the end")
        builtins.late = Late()
        """, OUT), "the end")

    def test_python_ends_with_hooks_and_guards_about(self):
        self.assert_program_succeeds(self.PRELUDE + """
        import atexit, threading, time
        counter = rust_hook.count_calls()
        cases.install("pass", f, None).park()
        cases.install("pass", g, counter).keep()
        sys.kept = cases.install("panic when dropped", f, [])
        class Late:
            def __del__(self): f()
        sys.late = Late()
        atexit.register(f)
        def call_for_ever():
            while True:
                time.sleep(0.001)
                f()
        threading.Thread(target=call_for_ever, daemon=True).start()
        f()
        """, OUT)
