"""The perf trampoline keeps its trampolines as values on code objects."""

import sysconfig
import unittest

from code_extra_support import IN_INTERPRETERS, STOCKS_INDICES, mended
from support import ProgramTestCase, needs_framecore, not_on_stock_debug


@unittest.skipUnless(sysconfig.get_config_var("PY_HAVE_PERF_TRAMPOLINE"),
                     "no perf trampoline on this platform")
class PerfTrampoline(ProgramTestCase):
    @not_on_stock_debug
    def test_it_can_be_switched_on_and_off_ten_thousand_times(self):
        output = self.assert_program_succeeds("""if True:
            import atexit, os, sys, codeextra
            atexit.register(os.unlink, f"/tmp/perf-{os.getpid()}.map")
            def function(): pass
            def mappings():
                with open("/proc/self/maps") as file:
                    return sum(1 for line in file)
            def toggle(count):
                for number in range(count):
                    try:
                        sys.activate_stack_trampoline("perf")
                    except SystemError:
                        print("failed after", number)
                        raise SystemExit
                    function()
                    sys.deactivate_stack_trampoline()
            toggle(10)
            before = mappings(), len(os.listdir("/proc/self/fd"))
            toggle(9_990)
            after = mappings(), len(os.listdir("/proc/self/fd"))
            assert after[0] - before[0] < 5 and after[1] == before[1], (before, after)
            lines = 0
            with open(f"/tmp/perf-{os.getpid()}.map") as file:
                lines = sum("py::function:" in line for line in file)
            codeextra.request()
            print("done", lines)
            """)
        # Stock fails in the second part. It had ten indices in the first.
        self.assertEqual(output.strip(),
                         mended(stock=f"failed after {STOCKS_INDICES - 10}", ferrule="done 1"))

    @needs_framecore
    def test_interpreters_do_not_take_each_others_index(self):
        self.assert_program_succeeds(IN_INTERPRETERS + """
    import os
    def function(): return 5
    sys.activate_stack_trampoline("perf")
    other = _interpreters.create("legacy")
    codeextra.request()
    run(other, '''if True:
        def function(): return 6
        sys.activate_stack_trampoline("perf")
        assert function() == 6
        ''')
    assert function() == 5
    sys.deactivate_stack_trampoline()
    _interpreters.destroy(other)
    sys.activate_stack_trampoline("perf")
    assert function() == 5
    os.unlink(f"/tmp/perf-{os.getpid()}.map")
    """)

    @needs_framecore
    def test_the_backend_changes_while_trampolines_run(self):
        output = self.assert_program_succeeds("""if True:
            import gc, glob, os, sys
            backends = ["perf", "perf_jit"] * 20
            try:
                sys.activate_stack_trampoline("perf_jit")
            except ValueError:
                backends = ["perf"] * 40    # in 3.13.5 the other one works at the start only
            def new_function():
                space = {"run": run}
                exec("def function(depth): return run(depth)", space)
                return space["function"]
            def run(depth):
                # The functions that wait here have trampolines of other backends, which return
                # later.
                sys.activate_stack_trampoline(backends[depth])
                if depth + 1 < len(backends):
                    assert new_function()(depth + 1) == depth + 1
                gc.collect()
                return depth
            new_function()(0)
            print(run(len(backends) - 1), sys.is_stack_trampoline_active())
            sys.deactivate_stack_trampoline()
            pid = os.getpid()
            for name in glob.glob(f"/tmp/perf-{pid}.map") + glob.glob(f"/tmp/jit-{pid}.dump"):
                os.unlink(name)
            """, environment={"PYTHON_PERF_JIT_SUPPORT": "1"})
        self.assertEqual(output.strip(), "39 True")

    @needs_framecore
    def test_a_child_after_fork_has_its_own_map(self):
        output = self.assert_program_succeeds("""if True:
            import os, sys
            def function(): return 5
            sys.activate_stack_trampoline("perf")
            function()
            sys.deactivate_stack_trampoline()
            child = os.fork()
            if not child:
                sys.activate_stack_trampoline("perf")
                function()
                with open(f"/tmp/perf-{os.getpid()}.map") as file:
                    found = "py::function:" in file.read()
                os.unlink(f"/tmp/perf-{os.getpid()}.map")
                os._exit(0 if found else 3)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            os.unlink(f"/tmp/perf-{os.getpid()}.map")
            """)
        self.assertEqual(output.strip(), "0")
