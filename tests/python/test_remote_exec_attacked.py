"""sys.remote_exec(): requests that are refused or damaged, and targets that fork, execute programs or end meanwhile."""

import os
import random
import subprocess
import sys
import unittest

import _remoteexec

from remote_support import LOOP, WAIT, Area, RemoteTestCase
from support import STOCK_PYTHON, needs_framecore, needs_stock
from tests.remote_debugging import LEFT_OUT

NOBODY = 65534


@needs_framecore
class Refused(RemoteTestCase):
    def test_arguments(self):
        path = self.script("")
        for pid, script, error in (("1", path, TypeError), (1.0, path, TypeError), (os.getpid(), 3, TypeError),
                                   (os.getpid(), self.directory + "/none", FileNotFoundError),
                                   (os.getpid(), self.directory, IsADirectoryError),
                                   (2 ** 30, path, ProcessLookupError), (2 ** 80, path, ProcessLookupError), (-1, path, ProcessLookupError),
                                   (0, path, ProcessLookupError), (os.getpid(), path + "\0", ValueError)):
            with self.subTest(pid=pid, script=script), self.assertRaises(error):
                sys.remote_exec(pid, script)
        for arguments in ((), (1,), (1, path, 2)):
            with self.subTest(arguments), self.assertRaises(TypeError):
                sys.remote_exec(*arguments)

    def test_disabled_in_the_target(self):
        for options, environment in (((), {"PYTHON_DISABLE_REMOTE_DEBUG": "1"}), (("-X", "disable-remote-debug"), {})):
            with self.subTest(options=options):
                process = self.target(options=options, environment=environment)
                with self.assertRaisesRegex(RuntimeError, "not enabled in process"):
                    sys.remote_exec(process.pid, self.script("print('no')"))
                self.assertEqual(self.ends_well(process), "")

    def test_the_variable_is_ignored_where_it_is_empty_or_variables_are(self):
        for options, value in (((), ""), (("-E",), "1")):
            with self.subTest(options=options):
                process = self.target(options=options, environment={"PYTHON_DISABLE_REMOTE_DEBUG": value})
                sys.remote_exec(process.pid, self.script("print('here', flush=True)"))
                self.assertEqual(process.stdout.readline(), "here\n")
                self.assertEqual(self.ends_well(process), "")

    def test_disabled_here(self):
        process = self.target()
        run = subprocess.run([sys.executable, "-X", "disable-remote-debug", "-c", "import sys; sys.remote_exec(int(sys.argv[1]), sys.argv[2])",
                              str(process.pid), self.script("")], capture_output=True, text=True, check=False)
        self.assertIn("RuntimeError: remote debugging is not enabled in this process", run.stderr)
        self.assertEqual(self.ends_well(process), "")

    def test_another_program(self):
        process = subprocess.Popen(["sleep", "60"])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        with self.assertRaisesRegex(RuntimeError, "is no Ferrule"):
            sys.remote_exec(process.pid, self.script(""))

    def test_a_process_that_has_ended(self):
        process = subprocess.Popen([sys.executable, "-c", ""])
        self.addCleanup(process.wait)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)     # its parent has not looked yet
        with self.assertRaisesRegex(ProcessLookupError, f"^process {process.pid} has ended$"):
            sys.remote_exec(process.pid, self.script(""))

    @needs_stock
    def test_stock(self):
        process = self.target(python=STOCK_PYTHON)
        with self.assertRaisesRegex(RuntimeError, "is no Ferrule"):
            sys.remote_exec(process.pid, self.script(""))
        self.assertEqual(self.ends_well(process), "")

    def test_another_version_and_too_little_room(self):
        process = self.target()
        area = Area(self, process.pid)
        version = area.head()[1]
        path = self.script("print('no')")
        area.set_head(version=0x030c0000)
        with self.assertRaisesRegex(RuntimeError, r"another version of Python: 3\.12"):
            sys.remote_exec(process.pid, path)
        area.set_head(version=version, room=len(path))
        with self.assertRaisesRegex(ValueError, "path of the script is too long"):
            sys.remote_exec(process.pid, path)
        self.assertFalse(area.is_pending())
        self.assertEqual(self.ends_well(process), "")

    def test_memory_that_is_not_there(self):
        process = self.target()
        area = Area(self, process.pid)
        area.set_head(breaker=8)
        with self.assertRaises(ProcessLookupError):
            sys.remote_exec(process.pid, self.script("print('no')"))
        self.assertEqual(self.ends_well(process), "")

    def test_without_rights(self):
        # A process that is not dumpable may be debugged by root only, as may root's own processes.
        process = self.target("import ctypes; ctypes.CDLL(None).prctl(4, 0)\n" + LOOP)
        os.chmod(self.directory, 0o755)
        path = self.script("print('no')")
        sys.remote_exec(os.getpid(), self.script("", "empty.py"))    # imports what it needs
        read, write = os.pipe()
        child = os.fork()
        if not child:
            try:
                if not os.geteuid():
                    os.setgroups([])
                    os.setresgid(NOBODY, NOBODY, NOBODY)
                    os.setresuid(NOBODY, NOBODY, NOBODY)
                sys.remote_exec(process.pid, path)
            except BaseException as error:
                os.write(write, f"{type(error).__name__}: {error}".encode())
            finally:
                os._exit(0)
        os.close(write)
        os.waitpid(child, 0)
        with open(read, encoding="utf-8") as pipe:
            self.assertRegex(pipe.read(), f"^PermissionError: .*process {process.pid} may not be debugged by this one")
        self.assertEqual(self.ends_well(process), "")


@needs_framecore
class LeftOut(unittest.TestCase):
    """`./configure --without-remote-debug`."""

    @unittest.skipUnless(LEFT_OUT, "this interpreter was built with remote debugging")
    def test_no_script_is_sent_or_taken(self):
        with self.assertRaisesRegex(RuntimeError, "built without remote debugging"):
            sys.remote_exec(os.getpid(), __file__)
        with self.assertRaisesRegex(RuntimeError, "is no Ferrule that takes scripts"):
            _remoteexec.remote_exec(os.getpid(), __file__)

    def test_the_message_is_that_of_the_build(self):
        run = subprocess.run([sys.executable, "-X", "disable-remote-debug", "-c", "import sys; sys.remote_exec(1, '/dev/null')"],
                             capture_output=True, text=True, check=False)
        self.assertIn("RuntimeError: " + ("this interpreter was built without remote debugging" if LEFT_OUT else
                                          "remote debugging is not enabled in this process"), run.stderr)


@needs_framecore
class Damaged(RemoteTestCase):
    def test_requests_with_errors(self):
        process = self.target()
        area = Area(self, process.pid)
        path = os.fsencode(self.script("print('no', flush=True)"))
        following = self.script("print('next', flush=True)", "next.py")
        damaged = ({"checksum": 1}, {"length": 0}, {"length": 4096}, {"length": 2 ** 32 - 1}, {"length": len(path) - 1})
        for changed in damaged:
            with self.subTest(changed):
                area.request(path, **changed)
                self.send(process.pid, following)
                self.assertEqual(process.stdout.readline(), "next\n")
        area.request(path + b"\0.py")
        self.send(process.pid, following)
        self.assertEqual(process.stdout.readline(), "next\n")
        self.assertEqual(self.ends_well(process).count("RuntimeError: the request is damaged"), len(damaged) + 1)

    def test_random_requests(self):
        process = self.target()
        area = Area(self, process.pid)
        following = self.script("print('next', flush=True)", "next.py")
        chance = random.Random(768)
        for _ in range(200):
            area.request(chance.randbytes(chance.choice((1, 30, 4095))), chance.choice((None, 0)), chance.choice((None, chance.getrandbits(32))))
            self.send(process.pid, following)
            self.assertEqual(process.stdout.readline(), "next\n")
        self.ends_well(process)

    def test_events_without_a_request(self):
        process = self.target()
        area = Area(self, process.pid)
        for _ in range(2_000):
            area.announce()
        self.assertEqual(self.ends_well(process), "")

    def test_a_request_that_its_sender_did_not_announce(self):
        process = self.target()
        area = Area(self, process.pid)
        area.request(os.fsencode(self.script("print('first', flush=True)")), announced=False)
        self.assertTrue(area.is_pending())
        self.send(process.pid, self.script("print('second', flush=True)", "second.py"))
        # A request is sent as soon as the one before is taken, and its script may run at the start of the one before.
        self.assertEqual({process.stdout.readline(), process.stdout.readline()}, {"first\n", "second\n"})
        self.assertEqual(self.ends_well(process), "")


@needs_framecore
class Meanwhile(RemoteTestCase):
    def send_until_it_ends(self, process, path):
        """How many requests were accepted."""
        accepted = 0
        while process.poll() is None:
            try:
                sys.remote_exec(process.pid, path)
                accepted += 1
            except ProcessLookupError:
                pass
            except PermissionError:     # the process is between two programs, or about to end
                pass
            except RuntimeError as error:
                self.assertRegex(str(error), "has not yet run|is no Ferrule|not enabled in process")
        return accepted

    def test_a_child_does_not_run_the_request_of_its_parent(self):
        process = self.target("""
import os, sys
print("ready", flush=True)
os.read(0, 1)       # the request comes here
pid = os.fork()
for _ in range(1000):
    pass
if not pid:
    os._exit(0)
os.waitpid(pid, 0)
print("end", flush=True)
""")
        sys.remote_exec(process.pid, self.script("import os; print('script', os.getpid(), flush=True)"))
        output, errors = process.communicate("\n", timeout=120)
        self.assertEqual((output, errors), (f"script {process.pid}\nend\n", ""))

    def test_a_child_takes_its_own(self):
        process = self.target("""
import os, select, sys
pid = os.fork()
if pid:
    os.waitpid(pid, 0)
else:
    print("ready", flush=True)
    print(os.getpid(), flush=True)
    while not select.select([sys.stdin], [], [], 0)[0]:
        pass
    os._exit(0)
print("end", flush=True)
""")
        child = int(process.stdout.readline())
        sys.remote_exec(child, self.script("import os; print('script', os.getpid(), flush=True)"))
        self.assertEqual(process.stdout.readline(), f"script {child}\n")
        self.assertEqual(self.ends_well(process), "")

    def test_a_child_of_another_thread_takes_none(self):
        process = self.target("""
import os, sys, threading
def fork():
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
    else:
        print("ready", flush=True)
        print(os.getpid(), flush=True)
        os.read(0, 1)
        os._exit(0)
thread = threading.Thread(target=fork)
thread.start()
thread.join()
print("end", flush=True)
""", options=("-W", "ignore"))
        child = int(process.stdout.readline())
        with self.assertRaisesRegex(RuntimeError, "not enabled in process"):
            sys.remote_exec(child, self.script("print('no', flush=True)"))
        self.assertEqual(self.ends_well(process), "")

    def test_requests_that_are_withdrawn_while_they_are_taken(self):
        process = self.target(LOOP.replace("sum(range(50))", "sum(range(50000))"))
        withdrawn, others = set(), set()
        for number in range(2_000):
            path = self.script(f"print('script', {number}, flush=True)", f"{number}.py")
            self.send(process.pid, path)
            if _remoteexec.withdraw(process.pid, path):
                withdrawn.add(number)
                os.remove(path)
            else:
                others.add(number)
        output, errors = process.communicate("\n", timeout=120)
        ran = {int(line.split()[1]) for line in output.splitlines()[:-1]}
        self.assertEqual((process.returncode, errors, ran & withdrawn), (0, "", set()))
        self.assertTrue(withdrawn and others, (len(withdrawn), len(others)))

    def test_many_forks(self):
        process = self.target("""
import os, sys
print("ready", flush=True)
for _ in range(200):
    pid = os.fork()
    if not pid:
        for i in range(100):
            pass
        os._exit(0)
    os.waitpid(pid, 0)
""")
        path = self.script("import os; os.write(2, b'%d\\n' % os.getpid())")
        accepted = 0
        while process.poll() is None:
            try:
                sys.remote_exec(process.pid, path)
                accepted += 1
            except (ProcessLookupError, RuntimeError):
                pass
            if accepted > 500:
                break
        _, errors = process.communicate(timeout=120)
        self.assertEqual((process.returncode, set(errors.split())), (0, {str(process.pid)}))
        self.assertGreater(accepted, 0)

    def test_subinterpreters_that_come_and_go(self):
        # One after the other in the main thread, and, with GILs of their own, in another one.
        process = self.target("""
import select, sys, threading, _interpreters
def come_and_go():
    while not done:
        interpreter = _interpreters.create("isolated")
        error = _interpreters.exec(interpreter, "for i in range(1000): pass")
        _interpreters.destroy(interpreter)
        count.append(error)
done, count = [], []
thread = threading.Thread(target=come_and_go)
thread.start()
print("ready", flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    interpreter = _interpreters.create("legacy")
    count.append(_interpreters.exec(interpreter, "for i in range(1000): pass"))
    _interpreters.destroy(interpreter)
done.append(True)
thread.join()
print("errors", len(count) - count.count(None), flush=True)
""")
        path = self.script("import _interpreters; print('in', *_interpreters.get_current(), flush=True)")
        for _ in range(100):
            self.send(process.pid, path)
        output, errors = process.communicate("\n", timeout=120)
        self.assertEqual((process.returncode, errors), (0, ""))
        *ran, last = output.splitlines()
        self.assertEqual((len(ran), set(ran), last), (100, {"in 0 1"}, "errors 0"))

    def test_programs_that_are_executed(self):
        program = """
import os, sys
rest = int(sys.argv[1])
for i in range(2000):
    pass
if rest:
    os.execv(sys.executable, [sys.executable, "-S", "-E", sys.argv[0], str(rest - 1)])
os._exit(7)
"""
        process = subprocess.Popen([sys.executable, "-S", "-E", self.script(program, "executed.py"), "30"], stderr=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.send_until_it_ends(process, self.script("import os"))
        self.assertEqual((process.stderr.read(), process.returncode), (b"", 7))

    def test_processes_that_end(self):
        path = self.script("import os")
        accepted = 0
        for program in ("", "import threading; threading.Thread(target=lambda: None).start()", "import atexit; atexit.register(sum, range(10000))") * 12:
            process = subprocess.Popen([sys.executable, "-S", "-E", "-c", program], stderr=subprocess.PIPE)
            accepted += self.send_until_it_ends(process, path)
            self.assertEqual((process.stderr.read(), process.wait()), (b"", 0))
            process.stderr.close()
        self.assertGreater(accepted, 0)

    def test_a_request_that_comes_too_late_is_dropped(self):
        process = self.target(WAIT.replace("for i", "os._exit(3)\nfor i"))
        sys.remote_exec(process.pid, self.script("print('no', flush=True)"))
        self.assertIn(process.communicate("\n", timeout=120)[0], ("", "no\n"))
        self.assertEqual(process.returncode, 3)
