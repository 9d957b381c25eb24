"""PEP 523 over the whole life of a process: its end, its interpreters, and the perf trampoline."""

import os
import sysconfig
import textwrap
import unittest

from support import ON_STOCK, ProgramTestCase, needs_framecore

PREAMBLE = textwrap.dedent("""
    import sys, os
    from support import ON_STOCK, use_extensions
    use_extensions()
    import evaluators
""")


def perf_trampoline_works():
    return sysconfig.get_config_var("PY_HAVE_PERF_TRAMPOLINE") == 1


class EvaluatorProgram(ProgramTestCase):
    def program(self, source, *arguments):
        return self.assert_program_succeeds(
            PREAMBLE + textwrap.dedent(source), *arguments,
            environment={"FERRULE_TESTS_ON_STOCK": "1" if ON_STOCK else ""})


class Programs(EvaluatorProgram):
    def test_the_end_of_an_interpreter_runs_under_the_evaluator(self):
        printed = self.program("""
            import atexit
            def seen(): return 1
            class Late:
                def __del__(self):
                    seen(); seen()
                    os.write(1, b"late %d\\n" % evaluators.take_count())
            late = Late()
            atexit.register(seen)
            for _ in range(200): seen()
            evaluators.set("count")
        """)
        self.assertEqual(printed, "late 3\n")

    def test_each_interpreter_has_its_own(self):
        for configuration in ("legacy", "isolated"):
            printed = self.program(f"""
                import _interpreters, functools
                # Each interpreter has a buffer of its own.
                say = functools.partial(print, flush=True)
                def seen(): return 1
                child = _interpreters.create("{configuration}")
                script = '''if True:
                    import sys
                    sys.path[:] = {{path!r}}
                    import evaluators
                    def seen(): return 1
                    for _ in range(200): seen()
                    print(evaluators.get(), flush=True)
                    evaluators.take_count()
                    evaluators.set("count")
                    for _ in range(7): seen()
                    print(evaluators.take_count(), flush=True)
                '''.format(path=sys.path)
                evaluators.take_count()
                evaluators.set("count")
                say(_interpreters.run_string(child, script))
                say(evaluators.take_count())
                seen()
                say(evaluators.take_count(), evaluators.get())
                evaluators.set("default")
                say(_interpreters.run_string(child, "print(evaluators.get(), flush=True); "
                                                    "seen(); "
                                                    "print(evaluators.take_count(), flush=True)"))
                _interpreters.destroy(child)
                seen()
                say(evaluators.take_count())
            """)
            with self.subTest(configuration):
                self.assertEqual(
                    printed.split(),
                    ["default", "7", "None", "0", "1", "count", "count", "1", "None", "0"])

    def test_interpreters_with_their_own_gil_evaluate_at_once(self):
        printed = self.program("""
            import _interpreters, threading
            script = '''if True:
                import sys
                sys.path[:] = {path!r}
                import evaluators
                def seen(): return 1
                evaluators.take_count()
                for turn in range(50):
                    evaluators.set("count")
                    for _ in range(100): seen()
                    evaluators.set("default")
                    for _ in range(100): seen()
                assert evaluators.take_count() == 5000
            '''.format(path=sys.path)
            children = [_interpreters.create("isolated") for _ in range(3)]
            failures = []
            def body(child):
                failure = _interpreters.run_string(child, script)
                if failure is not None: failures.append(failure)
            threads = [threading.Thread(target=body, args=(child,)) for child in children]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            assert not failures, failures[0].formatted
            for child in children: _interpreters.destroy(child)
            print("ok")
        """)
        self.assertEqual(printed, "ok\n")

    def test_an_interpreter_ends_with_its_evaluator_set(self):
        printed = self.program("""
            import _interpreters
            for _ in range(5):
                child = _interpreters.create("isolated")
                assert _interpreters.run_string(child, '''if True:
                    import sys
                    sys.path[:] = {path!r}
                    import evaluators
                    class Late:
                        def __del__(self): print("late", evaluators.get(), flush=True)
                    late = Late()
                    evaluators.set("pass")
                '''.format(path=sys.path)) is None
                _interpreters.destroy(child)
        """)
        self.assertEqual(printed, "late pass\n" * 5)


@unittest.skipUnless(perf_trampoline_works(), "no perf trampoline on this platform")
class PerfTrampoline(EvaluatorProgram):
    """A function gets an entry in the perf map when it first runs through the trampoline."""

    MAP = textwrap.dedent("""
        def mapped(name):
            with open(f"/tmp/perf-{os.getpid()}.map") as file:
                return any(f"py::{name}:" in line for line in file)
        def make(name):
            space = {}
            exec(f"def {name}(): return seen()", {"seen": seen}, space)
            return space[name]
        def seen(): return 1
        import atexit
        atexit.register(lambda: os.unlink(f"/tmp/perf-{os.getpid()}.map"))
        for _ in range(200): seen()
        def counted(function):
            evaluators.take_count()
            assert function() == 1
            return evaluators.take_count()
    """)

    def program(self, source, *arguments):
        return super().program(self.MAP + textwrap.dedent(source), *arguments)

    def test_comes_after_an_evaluator(self):
        printed = self.program("""
            evaluators.set("count")
            try:
                sys.activate_stack_trampoline("perf")
            except RuntimeError:
                sys.exit(print("refused"))
            first = make("first")
            print(counted(first), mapped("first"), sys.is_stack_trampoline_active())
            evaluators.set("default")
            second = make("second")
            print(counted(second), mapped("second"), sys.is_stack_trampoline_active())
            sys.deactivate_stack_trampoline()
            third = make("third")
            print(counted(third), mapped("third"), sys.is_stack_trampoline_active())
        """)
        # Stock refuses, which its documentation does not say.
        self.assertEqual(printed.splitlines(), ["refused"] if ON_STOCK else
                         ["1 True True", "0 True True", "0 False False"])

    def test_comes_before_an_evaluator(self):
        printed = self.program("""
            sys.activate_stack_trampoline("perf")
            first = make("first")
            print(counted(first), mapped("first"), sys.is_stack_trampoline_active())
            evaluators.set("count")
            second = make("second")
            print(counted(second), mapped("second"), sys.is_stack_trampoline_active())
            if ON_STOCK:
                sys.exit()
            sys.deactivate_stack_trampoline()
            third = make("third")
            print(counted(third), mapped("third"), sys.is_stack_trampoline_active(),
                  evaluators.get())
            evaluators.set("default")
            print(counted(third), evaluators.get())
        """)
        # On stock an evaluator puts the trampoline out of action.
        self.assertEqual(printed.splitlines(), ["0 True True", "1 False False"] if ON_STOCK else
                         ["0 True True", "1 True True", "1 False False count", "0 default"])

    @needs_framecore
    def test_both_see_every_kind_of_frame(self):
        printed = self.program("""
            evaluators.allow_specialization(len(sys.argv) > 1)
            class Thing:
                def __init__(self): seen()
                @property
                def total(self): return seen()
                def __getitem__(self, index): return seen()
            def items():
                yield seen()
            def run():
                thing = Thing()
                return thing.total + thing[1] + sum(items()) + [i for i in items()][0]
            for _ in range(200): run()
            sys.activate_stack_trampoline("perf")
            evaluators.set("count")
            evaluators.take_count()
            assert run() == 4
            names = ("Thing.__init__", "Thing.total", "Thing.__getitem__", "items", "run", "seen")
            print(evaluators.take_count(), [name for name in names if not mapped(name)])
            for _ in range(200): run()
            print(evaluators.take_count())
        """)
        self.assertEqual(printed, "5 []\n1000\n")

    @needs_framecore
    def test_what_is_got_is_the_evaluator_alone(self):
        printed = self.program("""
            sys.activate_stack_trampoline("perf")
            print(evaluators.get())
            evaluators.set("pass")
            print(evaluators.get())
            evaluators.set("default")
            print(evaluators.get(), sys.is_stack_trampoline_active())
        """)
        self.assertEqual(printed, "default\npass\ndefault True\n")

    @needs_framecore
    def test_an_exception_goes_through_both(self):
        printed = self.program("""
            sys.activate_stack_trampoline("perf")
            for name in ("raise_before", "raise_after"):
                evaluators.set(name)
                for _ in range(200):
                    try:
                        seen()
                    except LookupError as error:
                        message = str(error)
                evaluators.set("default")
                print(message, seen())
        """)
        self.assertEqual(printed, "before 1\nafter 1\n")

    @unittest.skipUnless(hasattr(os, "fork"), "no fork")
    @needs_framecore
    def test_a_forked_child_keeps_both(self):
        printed = self.program("""
            sys.activate_stack_trampoline("perf")
            evaluators.set("count")
            if os.fork() == 0:
                print(counted(make("child")), sys.is_stack_trampoline_active(), evaluators.get(),
                      flush=True)
                os._exit(0)
            os.wait()
            print(counted(make("parent")), sys.is_stack_trampoline_active(), mapped("parent"))
        """)
        self.assertEqual(printed, "1 True count\n1 True True\n")
