"""The crate framehook: hooks written in safe Rust, in examples/rust_hook and tests/rust_hook_cases.

cargo builds the two extension modules once for each run of this file; one binary serves every build of CPython
3.13. Without frame hooks in the interpreter, all that is tested is that the modules load and say so.
"""

import gc
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import threading
import unittest
import weakref

from support import ON_STOCK, ProgramTestCase, ROOT, in_new_thread, needs_framecore

CRATES = ("rust_hook", "rust_hook_cases")
OUT = os.path.join(ROOT, "build", "test-extensions", f"rust-{os.getpid()}")

rust_hook = cases = None


def build():
    """Build both crates as a user would; returns the directory that they can be imported from."""
    environment = {name: value for name, value in os.environ.items()
                   # A make's own mean something else to cargo's children.
                   if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "CFLAGS", "LDFLAGS")}
    command = ["cargo", "build", "--locked", "--quiet", "--message-format=json",
               "--manifest-path", os.path.join(ROOT, "Cargo.toml"),
               "--target-dir", os.path.join(ROOT, "build", "cargo")]
    for crate in CRATES:
        command += ["--package", crate]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(f"the Rust extensions do not build:\n{done.stderr}")
    os.makedirs(OUT, exist_ok=True)
    for line in done.stdout.splitlines():
        message = json.loads(line)
        if message["reason"] == "compiler-artifact" and message["target"]["name"] in CRATES:
            library, = [name for name in message["filenames"] if name.endswith(".so")]
            shutil.copy(library, os.path.join(OUT, message["target"]["name"] + ".so"))
    return OUT


def setUpModule():
    global rust_hook, cases
    if shutil.which("cargo") is None:
        raise unittest.SkipTest("cargo is not on PATH")
    # Rust prints each panic that the tests are about: a line is enough.
    os.environ["RUST_BACKTRACE"] = "0"
    sys.path.insert(0, build())
    unittest.addModuleCleanup(shutil.rmtree, OUT, ignore_errors=True)
    unittest.addModuleCleanup(sys.path.remove, OUT)
    import rust_hook
    import rust_hook_cases as cases


def new_function(source, name="f", **globals_):
    """A function with a code object that nobody has settled yet."""
    namespace = dict(globals_)
    exec(compile(source, f"{name}.py", "exec"), namespace)
    return namespace[name]


def ten():
    return 10


def identity(x):
    return x


class Loading(ProgramTestCase):
    """What holds with and without frame hooks."""

    def test_the_modules_load_and_name_their_functions(self):
        self.assertEqual(rust_hook.__doc__, "Two frame hooks, written in Rust.")
        self.assertEqual({name for name in dir(rust_hook) if not name.startswith("__")},
                         {"available", "calls", "count_calls", "replace"})
        self.assertEqual(rust_hook.count_calls.__text_signature__, "()")

    @unittest.skipUnless(ON_STOCK, "about stock CPython")
    def test_stock_has_no_hooks_and_says_so(self):
        self.assertIs(rust_hook.available(), False)
        for install in (rust_hook.count_calls, lambda: rust_hook.replace(ten, ten)):
            with self.assertRaisesRegex(RuntimeError, "no frame hooks .PyUnstable_AddFrameHookEx is missing"):
                install()
        dropped = cases.dropped()
        with self.assertRaisesRegex(RuntimeError, "no frame hooks"):
            cases.install("pass", ten, None)
        self.assertEqual(cases.dropped(), dropped + 1)

    @needs_framecore
    def test_ferrule_has_hooks(self):
        self.assertIs(rust_hook.available(), True)

    def test_wrong_arguments_raise_type_error(self):
        for call in (lambda: rust_hook.available(1), lambda: rust_hook.calls(), lambda: rust_hook.calls(1, ten),
                     lambda: rust_hook.replace(ten, len), lambda: cases.asked(object()),
                     lambda: rust_hook.available(key=1)):
            with self.assertRaises(TypeError):
                call()

    def test_a_panic_in_a_function_is_a_runtime_error(self):
        with self.assertRaisesRegex(RuntimeError, r"^panic_now\(\) panicked: in a function$"):
            cases.panic_now()

    def test_stored_objects_keep_exact_references(self):
        value = object()
        before = sys.getrefcount(value)
        cases.park_object(value)
        self.assertEqual(sys.getrefcount(value), before + 1)
        self.assertIs(cases.parked_object(), value)
        self.assertEqual(sys.getrefcount(value), before)

    def test_a_stored_object_is_refused_in_another_interpreter(self):
        self.assert_program_succeeds("""if True:
            import _interpreters, sys
            sys.path.insert(0, sys.argv[1])
            import rust_hook_cases as cases
            value = object()
            before = sys.getrefcount(value)
            cases.park_object(value)
            cases.park_object(value)
            other = _interpreters.create()
            failed = _interpreters.exec(other, f'''if True:
                import sys
                sys.path.insert(0, {sys.argv[1]!r})
                import rust_hook_cases as cases
                assert cases.interpreter_id() != 0
                try:
                    cases.parked_object()
                except RuntimeError as error:
                    assert "an object of interpreter 0 cannot be used" in str(error), error
                else:
                    raise AssertionError("it was used")
                cases.park_object([])
                cases.park_object([])
            ''')
            assert failed is None, failed
            # The one that the other interpreter took and dropped could not be given back there.
            assert sys.getrefcount(value) == before + 2
            _interpreters.destroy(other)
            # An object of an interpreter that is gone is not touched.
            try:
                cases.parked_object()
            except RuntimeError as error:
                pass
            else:
                raise AssertionError("it was used")
            assert cases.drop_parked() == 2
            assert sys.getrefcount(value) == before + 1
        """, OUT)

    def test_python_ends_with_stored_objects_about(self):
        self.assert_program_succeeds("""if True:
            import sys
            sys.path.insert(0, sys.argv[1])
            import rust_hook_cases as cases
            cases.park_object([])
            cases.park_object(cases)
        """, OUT)


class HookTestCase(ProgramTestCase):
    def setUp(self):
        if not rust_hook.available():
            self.skipTest("this interpreter has no frame hooks")
        self.addCleanup(self.no_hooks_left)

    def no_hooks_left(self):
        gc.collect()
        framecore = sys.modules.get("_framecore")
        left = [hook["name"] for hook in framecore.frame_hooks()] if framecore else []
        cases.clear_hooks()
        self.assertEqual(left, [])


class Counting(HookTestCase):
    def test_each_start_of_each_code_object_is_counted(self):
        f, g = new_function("def f(): pass"), new_function("def g(): pass", "g")
        f()
        counter = rust_hook.count_calls()
        for _ in range(100):
            f()
        for _ in range(3):
            g()
        self.assertEqual(rust_hook.calls(counter, f), 100)
        self.assertEqual(rust_hook.calls(counter, g.__code__), 3)
        self.assertEqual(rust_hook.calls(counter, new_function("def f(): pass")), 0)
        del counter

    def test_recursion_generators_and_comprehensions_count_once_a_start(self):
        recurse = new_function("def recurse(n): return n and recurse(n - 1)", "recurse")
        generate = new_function("def generate():\n yield 1\n yield 2", "generate")
        counter = rust_hook.count_calls()
        recurse(40)
        self.assertEqual(list(generate()), [1, 2])
        self.assertEqual(rust_hook.calls(counter, recurse), 41)
        self.assertEqual(rust_hook.calls(counter, generate), 1)
        del counter

    def test_two_counters_count_for_themselves(self):
        f = new_function("def f(): pass")
        first = rust_hook.count_calls()
        f()
        second = rust_hook.count_calls()
        f()
        del first
        f()
        self.assertEqual(rust_hook.calls(second, f), 2)
        del second

    def test_nothing_is_counted_after_the_counter_is_gone(self):
        f = new_function("def f(): pass")
        references = sys.getrefcount(f.__code__)
        counter = rust_hook.count_calls()
        f()
        # The counter keeps what it has counted.
        self.assertEqual(sys.getrefcount(f.__code__), references + 1)
        del counter
        f()
        self.assertEqual(sys.getrefcount(f.__code__), references)

    @unittest.skipIf(sysconfig.get_config_var("Py_GIL_DISABLED"),
                     "the free-threaded 3.13 makes code objects immortal once it has had a second thread")
    def test_code_objects_die_with_the_counter_and_not_before(self):
        counter = rust_hook.count_calls()
        f = new_function("def f(): pass")
        f()
        code = weakref.ref(f.__code__)
        del f
        gc.collect()
        self.assertIsNotNone(code())
        del counter
        gc.collect()
        self.assertIsNone(code())

    def test_threads_count_together(self):
        f = new_function("def f(): pass")
        counter = rust_hook.count_calls()
        ready = threading.Barrier(4)

        def work():
            ready.wait()
            for _ in range(5000):
                f()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(rust_hook.calls(counter, f), 20000)
        self.assertEqual(rust_hook.calls(counter, work), 4)
        del counter


class Replacing(HookTestCase):
    def test_calls_of_the_old_code_run_the_new_one(self):
        old = new_function("def f(a, b=2): return a, b")
        new = new_function("def f(a, b=None):\n x = y = z = a + b\n return [lambda: x, x, y, z][1:]")
        replacement = rust_hook.replace(old, new)
        for _ in range(50):
            # Defaults are the old function's.
            self.assertEqual(old(1), [3, 3, 3])
            self.assertEqual(old(b=1, a=1), [2, 2, 2])
        del replacement
        self.assertEqual(old(1), (1, 2))

    def test_references_are_exact(self):
        old, new = new_function("def f(x): return x"), new_function("def f(x): return [x]")
        counts = [sys.getrefcount(function.__code__) for function in (old, new)]
        argument = object()
        before = sys.getrefcount(argument)
        replacement = rust_hook.replace(old, new)
        for _ in range(100):
            self.assertIs(old(argument)[0], argument)
        del replacement
        self.assertEqual(sys.getrefcount(argument), before)
        self.assertEqual([sys.getrefcount(function.__code__) for function in (old, new)], counts)

    def test_code_that_cannot_stand_in_is_refused(self):
        import _framecore
        old, new = new_function("def f(x): return x"), new_function("def f(y): return y")
        replacement = rust_hook.replace(old, new)
        with self.assertRaises(_framecore.IncompatibleCodeError):
            old(1)
        del replacement
        self.assertEqual(old(1), 1)

    def test_a_later_hook_sees_what_an_earlier_one_chose(self):
        a = new_function("def f(): return 'a'")
        b = new_function("def f(): return 'b'")
        c = new_function("def f(): return 'c'")
        first = rust_hook.replace(a, b)
        second = rust_hook.replace(b, c)
        self.assertEqual((a(), b(), c()), ("c", "c", "c"))
        del first
        self.assertEqual((a(), b()), ("a", "c"))
        del second

    def test_other_code_is_settled_after_its_first_start(self):
        import _framecore
        other = new_function("def f(): pass")
        replacement = rust_hook.replace(ten, ten)
        other()
        calls = self.calls_of("replacement")
        for _ in range(100):
            other()
        # Only code that starts here for the first time is asked about: that of this test.
        self.assertLess(self.calls_of("replacement") - calls, 10)
        del replacement

    def calls_of(self, name):
        import _framecore
        hook, = [hook for hook in _framecore.frame_hooks() if hook["name"] == name]
        return hook["calls"]


class Reading(HookTestCase):
    def test_a_hook_reads_code_function_names_and_arguments(self):
        f = new_function("\ndef f(a, /, b, *rest, c, **more): return a", __name__="somewhere")
        guard = cases.install("read", f, None)
        f(1, [2], 3, c=4, d=5)
        self.assertEqual(cases.seen(guard).split("\n"), [
            "f", "f.py", "2", "f", "somewhere", "<built-in function len>",
            "a=1", "b=[2]", "c=4", "rest=(3,)", "more={'d': 5}"])
        cases.remove(guard)

    def test_reading_what_is_not_there_fails_the_call(self):
        f = new_function("def f(x): return x")
        for kind, error in (("read too far", IndexError), ("read no name", KeyError)):
            guard = cases.install(kind, f, None)
            self.assertRaises(error, f, 1)
            cases.remove(guard)
        self.assertEqual(f(1), 1)


class Failing(HookTestCase):
    def test_a_panic_is_a_runtime_error_that_names_the_hook(self):
        f = new_function("def f(): return 1")
        guard = cases.install("panic", f, None)
        for _ in range(3):
            with self.assertRaisesRegex(RuntimeError, '^frame hook "panic" panicked: f starts$'):
                f()
        self.assertEqual(cases.asked(guard), 3)
        cases.remove(guard)
        self.assertEqual(f(), 1)

    def test_the_exception_that_a_hook_raises_is_the_one_that_is_caught(self):
        f = new_function("def f(): return 1")
        for error in (KeyError("key"), KeyboardInterrupt(), StopIteration(5)):
            guard = cases.install("raise", f, error)
            with self.assertRaises(type(error)) as caught:
                f()
            self.assertIs(caught.exception, error)
            cases.remove(guard)
        guard = cases.install("raise", f, ValueError)
        with self.assertRaisesRegex(TypeError, "exceptions must be exceptions, not type"):
            f()
        cases.remove(guard)

    def test_a_hook_may_call_python_whose_frames_are_not_offered(self):
        f, other = new_function("def f(): return 1"), new_function("def f(): return 2")
        counter = rust_hook.count_calls()
        names = []

        def callback(name):
            names.append(name)
            return other if len(names) == 2 else None

        guard = cases.install("call", f, callback)
        self.assertEqual([f(), f(), f()], [1, 2, 1])
        self.assertEqual(names, ["f"] * 3)
        self.assertEqual(rust_hook.calls(counter, callback), 0)
        cases.remove(guard)
        callback = lambda name: 1 / 0
        guard = cases.install("call", f, callback)
        self.assertRaises(ZeroDivisionError, f)
        cases.remove(guard)
        del counter

    def test_a_panic_in_a_hooks_destructor_does_no_harm(self):
        dropped = cases.dropped()
        guard = cases.install("panic when dropped", ten, None)
        self.assertEqual(ten(), 10)
        with self.assertRaises(ZeroDivisionError):
            try:
                1 / 0
            finally:
                del guard
        self.assertEqual(cases.dropped(), dropped + 1)
        self.assertEqual(ten(), 10)


class Guards(HookTestCase):
    def test_a_guard_removes_its_hook_when_it_is_dropped(self):
        f = new_function("def f(): return 1")
        dropped = cases.dropped()
        guard = cases.install("panic", f, None)
        self.assertTrue(cases.is_installed(guard))
        del guard
        self.assertEqual(f(), 1)
        self.assertEqual(cases.dropped(), dropped + 1)

    def test_a_guard_that_is_kept_leaves_the_hook_there(self):
        f, g = new_function("def f(): return 1"), new_function("def f(): return 2")
        dropped = cases.dropped()
        guard = cases.install("replace", f, g)
        cases.keep(guard)
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
        _framecore.remove_frame_hook(cases.handle(guard))
        self.assertEqual(f(), 1)
        self.assertFalse(cases.is_installed(guard))
        self.assertRaises(ValueError, cases.enable, guard, True)
        self.assertRaises(ValueError, cases.remove, guard)

    def test_a_guard_dropped_in_a_detached_thread_retires_the_hook(self):
        f = new_function("def f(): return 1")
        dropped = cases.dropped()
        guard = cases.install("panic", f, None)
        cases.drop_detached(guard)
        self.assertEqual(cases.dropped(), dropped)
        self.assertEqual(f(), 1)
        # It was asked about f, and took itself out.
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
        self.assertEqual(cases.asked(guard), 1)
        for switch in (cases.enable, cases.enable_in_thread, lambda *way: cases.enable_for(way[0], f, way[1])):
            before = cases.asked(guard)
            switch(guard, False)
            f()
            self.assertEqual(cases.asked(guard), before)
            switch(guard, True)
            f()
            self.assertEqual(cases.asked(guard), before + 1)
        cases.enable_in_thread(guard, False)
        before = cases.asked(guard)
        in_new_thread(f)
        self.assertEqual(cases.asked(guard), before + 1)
        self.assertRaises(TypeError, cases.enable_for, guard, 5, True)
        cases.remove(guard)

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
        for round_ in range(200):
            guard = cases.install("replace", f, g)
            self.assertEqual(f(), 2)
            (cases.drop_detached if round_ % 2 else cases.remove)(guard)
            del guard
            self.assertEqual(f(), 1)
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
                import sys
                sys.path.insert(0, {sys.argv[1]!r})
                import rust_hook, rust_hook_cases as cases
                def f(): return 1
                def g(): return 2
            ''' + source)
            assert failed is None, failed
    """

    def test_hooks_belong_to_one_interpreter(self):
        self.assert_program_succeeds(self.PRELUDE + """
        main = rust_hook.count_calls()
        other = _interpreters.create()
        run(other, '''
                counter = rust_hook.count_calls()
                for _ in range(5): f()
                assert rust_hook.calls(counter, f) == 5
                replacement = rust_hook.replace(f, g)
                assert f() == 2
        ''')
        for _ in range(3): f()
        assert rust_hook.calls(main, f) == 3 and f() == 1
        # Its hooks are still installed.
        _interpreters.destroy(other)
        assert rust_hook.calls(main, f) == 4
        """, OUT)

    def test_a_guard_in_another_interpreter_only_retires_its_hook(self):
        self.assert_program_succeeds(self.PRELUDE + """
        cases.park(cases.install("panic", f, None))
        other = _interpreters.create()
        run(other, '''
                mine = cases.install("replace", f, g)
                try:
                    cases.enable_parked(False)
                except RuntimeError as error:
                    assert 'frame hook "panic" belongs to interpreter 0, not' in str(error), error
                else:
                    raise AssertionError("enabled from elsewhere")
                assert cases.drop_parked() == 1
                # The handles may be equal; it is the other interpreter's hook that stays.
                assert f() == 2
        ''')
        assert cases.dropped() == 0
        assert f() == 1
        assert cases.dropped() == 1
        """, OUT)

    def test_a_guard_outlives_its_interpreter(self):
        self.assert_program_succeeds(self.PRELUDE + """
        other = _interpreters.create()
        run(other, '''
                cases.park(cases.install("replace", f, g))
                assert f() == 2
        ''')
        _interpreters.destroy(other)
        mine = cases.install("replace", f, g)
        assert cases.drop_parked() == 1
        assert cases.dropped() == 1
        assert f() == 2
        """, OUT)

    def test_python_ends_while_a_daemon_thread_is_within_a_hook(self):
        # The hook calls Python, which waits; then the thread wants to go on, and must not be unwound through Rust.
        self.assertEqual(self.assert_program_succeeds(self.PRELUDE + """
        import builtins, os, select, threading
        waits = threading.Event()
        goes_on, went_on = os.pipe(), os.pipe()
        def wait(name):
            waits.set()
            os.read(goes_on[0], 1)
            os.write(went_on[1], b"!")
        cases.keep(cases.install("call", f, wait))
        for _ in range(3):
            waits.clear()
            threading.Thread(target=f, daemon=True).start()
            waits.wait()
        class Late:
            def __del__(self, write=os.write, select=select.select, go=goes_on[1], went=went_on[0]):
                write(go, b"!!!")
                write(1, b"ran on" if select([went], [], [], 2)[0] else b"the end")
        builtins.late = Late()
        """, OUT), "the end")

    def test_python_ends_with_hooks_and_guards_about(self):
        self.assert_program_succeeds(self.PRELUDE + """
        import atexit, threading, time
        counter = rust_hook.count_calls()
        cases.park(cases.install("pass", f, None))
        cases.keep(cases.install("pass", g, counter))
        sys.kept = cases.install("panic when dropped", f, [])
        class Late:
            def __del__(self): f()
        sys.late = Late()
        atexit.register(f)
        threading.Thread(target=lambda: [f() for _ in iter(lambda: time.sleep(0.001), 1)], daemon=True).start()
        f()
        """, OUT)


if __name__ == "__main__":
    unittest.main()
