"""sys.remote_exec(): scripts that run in another process of this interpreter."""

import inspect
import os
import subprocess
import sys
import threading
import unittest

import _remoteexec

from remote_support import LOOP, WAIT, Area, RemoteTestCase
from support import needs_framecore
from tests.remote_debugging import LEFT_OUT

# REMOTE_REQUESTS=10000 sends more.
REQUESTS = int(os.environ.get("REMOTE_REQUESTS", 1_000))


@needs_framecore
class Running(RemoteTestCase):
    def test_it_runs_in_the_main_thread_and_a_namespace_of_its_own(self):
        process = self.target("""
import sys, threading
done = threading.Event()
def spin():
    while not done.is_set():
        pass
for _ in range(3):
    threading.Thread(target=spin).start()
threading.Thread(target=lambda: (sys.stdin.readline(), done.set())).start()
print("ready", flush=True)
spin()
print("end", flush=True)
""")
        sys.remote_exec(process.pid, self.script(
            "import threading, os\n"
            "print(os.getpid(), threading.current_thread() is threading.main_thread(), 'done' in globals(), __name__, flush=True)"))
        self.assertEqual(process.stdout.readline(), f"{process.pid} True False __main__\n")
        self.assertEqual(self.ends_well(process), "")

    def test_its_own_process(self):
        path = self.script("import sys\nsys.remote_exec_here = 1")
        sys.remote_exec(os.getpid(), path)
        for _ in range(3):
            pass
        self.assertEqual(sys.__dict__.pop("remote_exec_here", 0), 1)

    def test_arguments_by_name_and_paths_of_all_kinds(self):
        process = self.target()
        for name in ("a b.py", "n\nl.py", "\udcff.py", "Käse.py"):
            path = self.script("print('here', flush=True)", name)
            for given in (path, os.fsencode(path)):
                with self.subTest(given):
                    sys.remote_exec(pid=process.pid, script=given)
                    self.assertEqual(process.stdout.readline(), "here\n")
        self.assertEqual(self.ends_well(process), "")

    def test_a_relative_path_is_one_of_the_sender(self):
        process = self.target("import os; os.chdir('/')\n" + LOOP)
        self.script("print('here', flush=True)")
        subprocess.run([sys.executable, "-c", "import sys; sys.remote_exec(int(sys.argv[1]), 'script.py')", str(process.pid)],
                       cwd=self.directory, check=True)
        self.assertEqual(process.stdout.readline(), "here\n")
        self.assertEqual(self.ends_well(process), "")

    def test_many_requests(self):
        process = self.target()
        path = self.script("print('here', flush=True)")
        for _ in range(REQUESTS):
            sys.remote_exec(process.pid, path)
            self.assertEqual(process.stdout.readline(), "here\n")
        self.assertEqual(self.ends_well(process), "")

    def test_several_senders(self):
        process = self.target()
        paths = [self.script(f"print({i}, flush=True)", "x" * 50 * i + ".py") for i in range(4)]
        senders = [threading.Thread(target=lambda path=path: [self.send(process.pid, path) for _ in range(50)]) for path in paths]
        for sender in senders:
            sender.start()
        lines = [process.stdout.readline() for _ in range(200)]
        for sender in senders:
            sender.join()
        self.assertEqual({i: lines.count(f"{i}\n") for i in range(4)}, dict.fromkeys(range(4), 50))
        self.assertEqual(self.ends_well(process), "")

    def test_an_exception_is_reported_and_the_program_continues(self):
        process = self.target()
        for text in ("1 / 0", "def", "raise SystemExit", "x = '\0'"):
            with self.subTest(text):
                path = self.script(text + "\n")
                following = self.script("print('next', flush=True)", "next.py")
                sys.remote_exec(process.pid, path)
                self.send(process.pid, following)
                self.assertEqual(process.stdout.readline(), "next\n")
        errors = self.ends_well(process)
        for name in ("ZeroDivisionError", "SyntaxError", "SystemExit", "embedded null byte", "script.py"):
            self.assertIn(name, errors)

    def test_a_script_that_is_gone(self):
        process = self.target(WAIT)
        path = self.script("print('no')")
        sys.remote_exec(process.pid, path)
        os.remove(path)
        self.assertIn("FileNotFoundError", self.ends_well(process))

    def test_the_builtins_are_the_interpreters(self):
        process = self.target(f"exec(compile({WAIT!r}.replace('import os, sys', ''), 'x', 'exec'), "
                              "{'__builtins__': {'print': print, 'range': range, '__import__': __import__}, 'os': __import__('os')})")
        sys.remote_exec(process.pid, self.script("import os; print(len('four'))"))
        self.assertEqual(self.ends_well(process, "4\nend\n"), "")

    def test_no_event_is_left_or_invented(self):
        process = self.target("""
import gc, os
gc.set_threshold(0)
gc.collect()
gc.callbacks.append(lambda *_: print("collected"))
print("ready", flush=True)
os.read(0, 1)
for i in range(10):
    pass
print("ran", flush=True)
os.read(0, 1)
os.read(0, 1)
gc.callbacks.clear()
print("end", flush=True)
""")
        area = Area(self, process.pid)
        sys.remote_exec(process.pid, self.script("print('script', flush=True)"))
        process.stdin.write("\n")
        process.stdin.flush()
        self.assertEqual([process.stdout.readline(), process.stdout.readline()], ["script\n", "ran\n"])
        self.assertEqual((area.events(), area.is_pending()), (0, False))
        process.stdin.write("\n")
        self.assertEqual(self.ends_well(process), "")

    def test_a_long_call_of_c_keeps_it_until_its_end(self):
        process = self.target(WAIT)
        area = Area(self, process.pid)
        sys.remote_exec(process.pid, self.script("print('script')"))
        with self.assertRaisesRegex(RuntimeError, "has not yet run"):
            sys.remote_exec(process.pid, self.script("print('another')", "another.py"))
        self.assertTrue(area.is_pending())
        self.assertEqual(self.ends_well(process, "script\nend\n"), "")

    def test_a_subinterpreter_in_the_main_thread_does_not_run_it(self):
        process = self.target("""
import _interpreters
interpreter = _interpreters.create()
_interpreters.exec(interpreter, '''
import os
print("ready", flush=True)
os.read(0, 1)
for i in range(1000):
    pass
print("left", flush=True)
''')
for i in range(10):
    pass
print("end", flush=True)
""")
        sys.remote_exec(process.pid, self.script("import sys; print('script', flush=True)"))
        output, errors = process.communicate("\n", timeout=120)
        self.assertEqual((process.returncode, errors), (0, ""))
        self.assertEqual(output.splitlines()[0], "left")
        self.assertEqual(sorted(output.splitlines()), ["end", "left", "script"])


@needs_framecore
class WithinHooks(RemoteTestCase):
    def within(self, install):
        """A request that comes within a callback runs after it."""
        process = self.target(f"""
import os, framehook
def callback(*_):
    print("ready", flush=True)
    os.read(0, 1)
    for i in range(100):
        str(i)
    print("callback", flush=True)
def function():
    return 1
{install}
print("end", flush=True)
""")
        sys.remote_exec(process.pid, self.script("import sys; print('script', sys._getframe(1).f_code.co_name != 'callback', flush=True)"))
        self.assertEqual(self.ends_well(process, "callback\nscript True\nend\n"), "")

    def test_an_entry_callback(self):
        self.within("""
def hook(view):
    if view.code is function.__code__:
        callback()
with framehook.hook(hook):
    function()
""")

    def test_an_exit_callback(self):
        self.within("""
def hook(view):
    if view.code is function.__code__:
        view.watch(callback)
with framehook.hook(hook):
    function()
""")

    def test_programs_with_hooks(self):
        process = self.target("import framehook\nframehook.add(lambda view: None)\n" + LOOP.replace("sum(range(50))", "(lambda: 1)()"))
        path = self.script("print('here', flush=True)")
        for _ in range(200):
            sys.remote_exec(process.pid, path)
            self.assertEqual(process.stdout.readline(), "here\n")
        self.assertEqual(self.ends_well(process), "")


@needs_framecore
class Withdrawn(RemoteTestCase):
    def test_it_does_not_run(self):
        process = self.target(WAIT)
        path = self.script("print('no')")
        sys.remote_exec(process.pid, path)
        self.assertTrue(_remoteexec.withdraw(process.pid, path))
        self.assertFalse(_remoteexec.withdraw(process.pid, path))
        os.remove(path)
        self.assertEqual(self.ends_well(process), "")

    def test_the_next_request_runs(self):
        process = self.target(WAIT)
        path = self.script("print('no')")
        sys.remote_exec(process.pid, path)
        self.assertTrue(_remoteexec.withdraw(process.pid, path))
        sys.remote_exec(process.pid, self.script("print('next')", "next.py"))
        self.assertEqual(self.ends_well(process, "next\nend\n"), "")

    def test_only_the_senders_own(self):
        process = self.target(WAIT)
        path = self.script("print('script')")
        sys.remote_exec(process.pid, path)
        for other in (path + "x", path[:-1], path[:-1] + "x"):
            self.assertFalse(_remoteexec.withdraw(process.pid, other))
        self.assertEqual(self.ends_well(process, "script\nend\n"), "")

    def test_one_that_has_run(self):
        process = self.target()
        path = self.script("print('script', flush=True)")
        sys.remote_exec(process.pid, path)
        self.assertEqual(process.stdout.readline(), "script\n")
        self.assertFalse(_remoteexec.withdraw(process.pid, path))
        self.assertEqual(self.ends_well(process), "")

    def test_one_that_a_callback_delays(self):
        process = self.target("""
import os, framehook
def function():
    return 1
def hook(view):
    if view.code is function.__code__:
        print("ready", flush=True)
        os.read(0, 1)
        for i in range(100):
            str(i)
        print("delayed", flush=True)
        os.read(0, 1)
with framehook.hook(hook):
    function()
print("end", flush=True)
""")
        path = self.script("print('no')")
        sys.remote_exec(process.pid, path)
        process.stdin.write("x")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), "delayed\n")
        self.assertTrue(_remoteexec.withdraw(process.pid, path))
        self.assertEqual(self.ends_well(process), "")

    def test_a_process_that_has_ended(self):
        with self.assertRaises(ProcessLookupError):
            _remoteexec.withdraw(2 ** 30, self.script(""))


@needs_framecore
class Functions(unittest.TestCase):
    """What `sys` has, wherever `sys` is."""
    SHOWN = "import sys; print(sys.is_remote_debug_enabled(), sys.remote_exec.__module__, sys.remote_exec.__self__ is sys)"

    def printed(self, program, *options, **environment):
        run = subprocess.run([sys.executable, *options, "-c", program], env={**os.environ, **environment}, capture_output=True, text=True, check=False)
        self.assertEqual(run.stderr, "")
        return run.stdout

    def test_whether_it_is_enabled(self):
        self.assertIs(sys.is_remote_debug_enabled(), not LEFT_OUT)
        for options, environment, enabled in (((), {}, True), (("-I", "-S"), {}, True), (("-X", "disable-remote-debug"), {}, False),
                                              ((), {"PYTHON_DISABLE_REMOTE_DEBUG": "1"}, False),
                                              (("-E",), {"PYTHON_DISABLE_REMOTE_DEBUG": "1"}, True)):
            with self.subTest(options=options, environment=environment):
                self.assertEqual(self.printed(self.SHOWN, *options, **environment), f"{enabled and not LEFT_OUT} sys True\n")

    def test_signatures(self):
        self.assertEqual(str(inspect.signature(sys.remote_exec)), "(pid, script)")
        self.assertEqual(str(inspect.signature(sys.is_remote_debug_enabled)), "()")
        with self.assertRaises(TypeError):
            sys.is_remote_debug_enabled(1)

    def test_in_a_subinterpreter_and_in_a_sys_that_is_imported_again(self):
        self.assertEqual(self.printed(f"import _interpreters; _interpreters.exec(_interpreters.create(), {self.SHOWN!r}, restrict=False)"),
                         f"{not LEFT_OUT} sys True\n")
        self.assertEqual(self.printed(f"import sys; del sys.modules['sys']; {self.SHOWN}").split()[0], str(not LEFT_OUT))

    def test_in_forked_children(self):
        fork = "import os, sys, threading\ndef child():\n if not os.fork(): print(sys.is_remote_debug_enabled(), flush=True); os._exit(0)\n os.wait()\n"
        self.assertEqual(self.printed(fork + "child()"), f"{not LEFT_OUT}\n")
        # The state of the thread that forked is the child's main thread's, and its memory is freed.
        self.assertEqual(self.printed("import warnings; warnings.simplefilter('ignore')\n" + fork + "t = threading.Thread(target=child); t.start(); t.join()"),
                         "False\n")

    def test_while_the_runtime_ends(self):
        program = ("import sys\nclass Late:\n def __del__(self, enabled=sys.is_remote_debug_enabled, out=sys.stderr.write): out(f'{enabled()} ')\n"
                   "sys.late = Late()")
        run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        self.assertIn(run.stderr, ("True ", "False "))


@needs_framecore
class Audited(RemoteTestCase):
    def test_events_of_both_sides(self):
        path = self.script("print('script', flush=True)")
        process = self.target("import sys\nsys.addaudithook(lambda name, arguments: name == 'cpython.remote_debugger_script'"
                              " and print(name, *arguments, flush=True))\n" + LOOP)
        run = subprocess.run([sys.executable, "-c", "import sys; sys.addaudithook(lambda name, arguments: name == 'sys.remote_exec' and "
                              "print(name, *arguments)); sys.remote_exec(int(sys.argv[1]), sys.argv[2])", str(process.pid), path],
                             capture_output=True, text=True, check=True)
        self.assertEqual(run.stdout, f"sys.remote_exec {process.pid} {path}\n")
        self.assertEqual(process.stdout.readline(), f"cpython.remote_debugger_script {path}\n")
        self.assertEqual(process.stdout.readline(), "script\n")
        self.assertEqual(self.ends_well(process), "")

    def test_the_target_refuses(self):
        process = self.target("""
import sys
def audit(name, arguments):
    if name == "cpython.remote_debugger_script":
        raise PermissionError("not here")
sys.addaudithook(audit)
""" + WAIT)
        sys.remote_exec(process.pid, self.script("print('script')"))
        self.assertIn("PermissionError: not here", self.ends_well(process))

    def test_the_sender_refuses(self):
        process = self.target()
        run = subprocess.run([sys.executable, "-c", "import sys\ndef audit(name, arguments):\n if name == 'sys.remote_exec': raise KeyError(name)\n"
                              "sys.addaudithook(audit)\nsys.remote_exec(int(sys.argv[1]), sys.argv[2])", str(process.pid), self.script("")],
                             capture_output=True, text=True, check=False)
        self.assertIn("KeyError: 'sys.remote_exec'", run.stderr)
        self.assertEqual(self.ends_well(process), "")
