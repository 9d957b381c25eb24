"""python -m ferrule_profiler --pid PID: a profile of a process that runs."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import profiler_support
from profiler_support import ProfilerTestCase, load, read_stats, times_from_a_timer
from tests import processes
from tests.remote_debugging import needs_remote

# It executes the lines that it is sent.
PROGRAM = """
import os, select, sys, threading, time

def leaf(n):
    return n + 1            # the leaf's line

def step():
    for n in range(10):
        leaf(n)

def endless():
    n = 0
    while not ended:
        n += 1

ended = False
stdin = open(0, "rb", buffering=0)
print("ready", flush=True)
while True:
    step()
    if select.select([stdin], [], [], 0.002)[0]:
        line = stdin.readline()
        if not line:
            break
        exec(line)
ended = True
print("end", flush=True)
"""
BEGUN = "is being profiled"

setUpModule = load


@needs_remote
class AttachCase(ProfilerTestCase):
    program_options = ()

    def setUp(self):
        super().setUp()
        self.place = self.directory()
        self.temporary = os.path.join(self.place, "temporary")
        os.mkdir(self.temporary)
        self.script = self.file("program.py", PROGRAM)
        self.process = self.start(*self.program_options, self.script)
        self.assertEqual(self.process.stdout.readline(), "ready\n")

    def file(self, name, source):
        path = os.path.join(self.place, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(source)
        return path

    def start(self, *arguments):
        return processes.start(self, [sys.executable, *arguments], PYTHONPATH=profiler_support.OUT, TMPDIR=self.temporary)

    def send(self, line, answer=None):
        """Have the program execute a line, and wait for what it prints."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        if answer is not None:
            self.assertEqual(self.process.stdout.readline(), answer + "\n")

    def attach(self, *options):
        return self.start("-m", "ferrule_profiler", "--pid", str(self.process.pid), *options)

    def wait_for(self, client, text):
        """Read the client's lines until this comes."""
        line = "not yet"
        while text not in line:
            line = client.stderr.readline()
            self.assertTrue(line, f"it has ended without {text!r}")

    def begun(self, *options):
        """A profiler, since whose beginning the program has called step()."""
        client = self.attach(*options)
        self.wait_for(client, BEGUN)
        for _ in range(2):
            self.send("print('works', flush=True)", "works")
        return client

    def ended(self, client, status=0):
        _, errors = client.communicate(timeout=90)
        self.assertEqual(client.returncode, status, errors)
        return errors

    def interrupted(self, client):
        client.send_signal(signal.SIGINT)
        return self.ended(client)

    def goes_on(self, *lines):
        """The program ends well, and nothing has been left."""
        output, errors = self.process.communicate(timeout=90)
        self.assertEqual((self.process.returncode, errors, output.splitlines()), (0, "", [*lines, "end"]))
        self.assertEqual(os.listdir(self.temporary), [])


class Attached(AttachCase):
    def test_files(self):
        names = {end: os.path.join(self.place, "found" + end) for end in (".html", ".prof", ".folded", ".speedscope.json")}
        trace = os.path.join(self.place, "trace.json")
        errors = self.interrupted(self.begun("--trace", trace, "--trace-arguments", *(
            option for name in names.values() for option in ("-o", name))))
        for path in (*names.values(), trace):
            self.assertIn(f"{path} is written", errors)
        self.assertRegex(errors, rf"process {self.process.pid}, ")
        self.assertRegex(errors, r"(?m)^ *\d+ .* leaf  .*program\.py:4$")
        stats = read_stats(names[".prof"])
        self.assertGreater(stats["step"][1], 0)
        self.assertGreaterEqual(stats["leaf"][1], 10 * (stats["step"][1] - 1))
        with open(names[".html"], encoding="utf-8") as file:
            self.assertIn("# the leaf's line", file.read())
        with open(names[".folded"], encoding="utf-8") as file:
            self.assertRegex(file.read(), r"(?m)^MainThread;step .*;leaf ")
        with open(trace, encoding="utf-8") as file:
            found = json.load(file)["traceEvents"]
        self.assertEqual({event["args"]["arguments"] for event in found if event["name"] == "leaf"}, {f"n={n}" for n in range(10)})
        self.goes_on()

    def test_control_c_ends_it(self):
        for _ in range(2):
            self.assertRegex(self.interrupted(self.begun()), r"(?m)^ *\d+ .* leaf  ")
        self.goes_on()

    def test_seconds_end_it(self):
        found = os.path.join(self.place, "found.prof")
        self.assertEqual(self.ended(self.attach("--seconds", "0.01", "--quiet", "-o", found)), "")
        read_stats(found)
        self.goes_on()

    def test_a_signal_ends_it_and_the_profiler(self):
        found = os.path.join(self.place, "found.prof")
        client = self.begun("-o", found)
        client.send_signal(signal.SIGTERM)
        self.assertIn(f"{found} is written", self.ended(client, -signal.SIGTERM))
        self.assertIn("leaf", read_stats(found))
        self.goes_on()

    def test_kinds(self):
        found = os.path.join(self.place, "found.prof")
        for option, function, has_time in ("--count", "step", False), ("--builtins", "<built-in method select.select>", True):
            with self.subTest(option):
                self.interrupted(self.begun("-o", found, option))
                _, calls, _, total = read_stats(found)[function]
                self.assertGreater(calls, 0)
                self.assertEqual(total > 0, has_time)
        self.goes_on()

    @unittest.skipUnless(times_from_a_timer(), "no thread can look at others")
    def test_samples_have_what_is_under_way(self):
        self.send("threading.Thread(target=endless, name='of no calls').start()")
        found = os.path.join(self.place, "found.folded")
        client = self.begun("--sample", "--save-every", "0.05", "-o", found)
        threads, deadline = {}, time.monotonic() + 60
        while len(threads) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
            if os.path.exists(found):
                with open(found, encoding="utf-8") as file:
                    threads = {path[0]: path for path in (line.rpartition(" ")[0].split(";") for line in file)}
        self.interrupted(client)
        self.assertEqual(set(threads), {"MainThread", "of no calls"})
        self.assertIn("endless", threads["of no calls"][-1])
        self.assertIn("<module>", threads["MainThread"][1])
        self.goes_on()

    def test_threads_and_tasks(self):
        begun = os.path.join(self.place, "begun")
        self.send(f"import asyncio; left = lambda: iter(lambda: os.path.exists({begun!r}), True)")
        self.send("work = lambda: [leaf(1) for of in (left(), range(10)) for _ in of if not time.sleep(0.001)]")
        self.send("async def task(): [(leaf(2), await asyncio.sleep(0.001)) for of in (left(), range(10)) for _ in of]")
        self.send("async def tasks(): await asyncio.gather(*(asyncio.create_task(task(), name='a task') for _ in range(2)))")
        self.send("threads = [threading.Thread(target=work, name=f'thread {n}') for n in range(2)]; [t.start() for t in threads]; asyncio.run(tasks())")
        found = os.path.join(self.place, "found.html")
        client = self.attach("-o", found)
        self.wait_for(client, BEGUN)
        self.file("begun", "")
        self.send("[t.join() for t in threads]; print('joined', flush=True)", "joined")
        self.interrupted(client)
        with open(found, encoding="utf-8") as file:
            page = file.read()
        for name in ('"a task ', '"thread (2 threads)"', '"MainThread"'):
            self.assertIn(name, page)
        self.goes_on()

    def test_one_at_a_time(self):
        first = self.begun()
        self.assertIn(f"process {self.process.pid}: a profile is being made already", self.ended(self.attach(), 1))
        self.assertIn(" leaf ", self.interrupted(first))
        self.send("import ferrule_profiler; profile = ferrule_profiler.start()")
        self.send("print(profile is ferrule_profiler.stop(), flush=True)", "True")
        self.goes_on()

    def test_a_profiler_that_is_killed(self):
        client = self.begun()
        client.kill()
        client.wait()
        begun, deadline = False, time.monotonic() + 60
        while not begun and time.monotonic() < deadline:      # when the program has seen it
            client = self.attach("--seconds", "0.1")
            begun = BEGUN in client.communicate(timeout=90)[1]
        self.assertEqual((begun, client.returncode), (True, 0))
        self.send("while len(sys._current_frames()) > 1: time.sleep(0.001)")
        self.goes_on()

    def test_children(self):
        self.send("import warnings; warnings.simplefilter('ignore')")
        client = self.begun()
        self.send("""if not (pid := os.fork()): import ferrule_profiler; profile = ferrule_profiler.start(); step(); profile.stop();""" +
                  """ print(profile.result.find('leaf')[0].calls, len(sys._current_frames()), flush=True); os._exit(0)""", "10 1")
        self.send("os.waitpid(pid, 0)")
        self.send("step(); print('parent', flush=True)", "parent")
        self.assertIn(" leaf ", self.interrupted(client))
        # And the end of the parent is seen where a child lives.
        client = self.begun()
        self.send("pid = os.fork(); pid or os.read(0, 1) or os._exit(0); os._exit(7)")
        self.process.wait(90)
        self.assertIn("has ended without sending", self.ended(client, 1))
        self.process.communicate(timeout=90)        # the child ends


class Ends(AttachCase):
    def test_the_program_ends(self):
        found = os.path.join(self.place, "found.prof")
        client = self.begun("-o", found)
        self.goes_on_while_profiled()
        errors = self.ended(client)
        self.assertIn(f"process {self.process.pid} has ended\n", errors)
        self.assertIn(f"{found} is written", errors)
        self.assertGreater(read_stats(found)["step"][1], 0)

    def goes_on_while_profiled(self):
        output, errors = self.process.communicate(timeout=90)
        self.assertEqual((self.process.returncode, errors, output), (0, "", "end\n"))

    def test_it_is_killed(self):
        found = os.path.join(self.place, "found.prof")
        client = self.begun("-o", found)
        self.process.kill()
        self.assertIn(f"process {self.process.pid} has ended without sending what was found", self.ended(client, 1))
        self.assertFalse(os.path.exists(found))

    def test_it_is_killed_after_files_were_saved(self):
        found = os.path.join(self.place, "found.prof")
        client = self.begun("-o", found, "--save-every", "0.05")
        deadline = time.monotonic() + 60
        while not (os.path.exists(found) and "leaf" in read_stats(found)) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.process.kill()
        errors = self.ended(client, 1)
        self.assertIn("what was saved last is written", errors)
        self.assertIn(" leaf ", errors)

    def test_it_runs_another_program(self):
        client = self.begun()
        self.send("os.execv(sys.executable, [sys.executable, '-c', 'print(1, flush=True); input()'])", "1")
        self.assertIn("has ended without sending", self.ended(client, 1))
        self.process.communicate("\n", timeout=90)
        self.assertEqual(self.process.returncode, 0)


class Waiting(AttachCase):
    def test_a_call_of_c(self):
        self.send("print('waits', flush=True); stdin.readline()", "waits")
        client = self.attach()
        self.wait_for(client, f"process {self.process.pid} does not answer")
        self.send("")
        self.wait_for(client, BEGUN)
        self.assertIn(" leaf ", self.interrupted(client))
        self.goes_on()

    def test_it_is_given_up(self):
        for number in signal.SIGINT, signal.SIGKILL:
            self.send("print('waits', flush=True); stdin.readline()", "waits")
            client = self.attach()
            self.wait_for(client, "does not answer")
            client.send_signal(number)
            errors = self.ended(client, 1 if number == signal.SIGINT else -number)
            if number == signal.SIGINT:
                self.assertIn(f"process {self.process.pid} is not profiled: interrupted", errors)
            self.send("")
            self.send("print(threading.active_count(), 'ferrule_profiler' in sys.modules, flush=True)", "1 False")
            self.assertEqual(os.listdir(self.temporary), [])
        self.goes_on()

    def test_what_was_found_is_given_up(self):
        client = self.begun()
        self.process.send_signal(signal.SIGSTOP)
        client.send_signal(signal.SIGINT)
        self.wait_for(client, "does not answer")
        client.send_signal(signal.SIGINT)
        self.assertEqual(self.ended(client, 1), f"ferrule_profiler: the profile of process {self.process.pid} is given up: interrupted\n")
        self.process.send_signal(signal.SIGCONT)
        self.goes_on()

    def test_it_ends_before(self):
        self.send("print('waits', flush=True); stdin.readline()", "waits")
        client = self.attach()
        self.wait_for(client, "does not answer")
        self.process.kill()
        self.assertIn(f"process {self.process.pid} has ended before the profile began", self.ended(client, 1))
        self.assertEqual(os.listdir(self.temporary), [])


class Others(AttachCase):
    """Programs that have changed what the profiler uses."""

    def test_modules_of_the_program_stay_its_own(self):
        for name in ("json", "typing", "_socket"):
            self.file(name + ".py", "def whose(): return 'the program'")
        self.send("sys.modules.pop('typing', None); before = list(sys.path)")
        self.assertIn(" leaf ", self.interrupted(self.begun()))
        self.send("import json, typing, _socket; print(json.whose(), typing.whose(), _socket.whose(), before == sys.path, flush=True)",
                  "the program the program the program True")
        self.send("print([finder for finder in sys.meta_path if type(finder) is not type], flush=True)", "[]")
        self.goes_on()

    def test_functions_of_thread_are_replaced(self):
        self.send("import _thread, _socket; _thread.start_new_thread = lambda *a: a[0](*a[1]); _socket.setdefaulttimeout(0.01)")
        self.send("kept = sys.modules['_thread']")
        client = self.begun()
        self.send("time.sleep(0.1); print(sys.modules['_thread'] is kept, flush=True)", "True")
        self.assertIn(" leaf ", self.interrupted(client))
        self.goes_on()

    def test_another_directory(self):
        """The process has no such package, and is in another directory than the profiler."""
        self.send("sys.path[:] = [path for path in sys.path if not os.path.isdir(os.path.join(path, 'ferrule_profiler'))]; os.chdir('/')")
        self.assertIn(" leaf ", self.interrupted(self.begun()))
        self.goes_on()

    def test_an_audit_hook_that_refuses_threads(self):
        self.send("def audit(event, a): 1 / (event != '_thread.start_new_thread')")
        self.send("sys.addaudithook(audit)")
        self.assertIn(f"process {self.process.pid}: ZeroDivisionError", self.ended(self.attach(), 1))
        self.send("import ferrule_profiler; ferrule_profiler.start().stop()")
        self.goes_on()


@needs_remote
class Refused(ProfilerTestCase):
    def refused(self, *options, status=1):
        return self.run_python("-m", "ferrule_profiler", *map(str, options), status=status).stderr

    def started(self, *command, **options):
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options)
        self.addCleanup(process.wait, 90)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.stdout.close)
        return process

    def test_no_such_process(self):
        process = self.started(sys.executable, "-c", "")
        process.wait(90)
        self.assertEqual(self.refused("--pid", process.pid), f"ferrule_profiler: no process {process.pid}\n")

    def test_not_ferrule(self):
        process = self.started("cat")
        self.assertIn(f"process {process.pid} is no Ferrule", self.refused("--pid", process.pid))

    def test_disabled(self):
        process = self.started(sys.executable, "-X", "disable-remote-debug", "-c", "print(1, flush=True); input()")
        process.stdout.readline()
        self.assertIn(f"not enabled in process {process.pid}", self.refused("--pid", process.pid))
        process.stdin.write(b"\n")

    @unittest.skipIf(os.geteuid() != 0, "only root has processes of others")
    def test_processes_of_another_user(self):
        """Root profiles them, and their user no process of root's."""
        with tempfile.TemporaryDirectory() as place:
            os.chmod(place, 0o755)
            shutil.copytree(os.path.join(profiler_support.OUT, "ferrule_profiler"), os.path.join(place, "ferrule_profiler"))
            temporary = os.path.join(place, "temporary")
            os.mkdir(temporary)
            os.chmod(temporary, 0o1777)
            variables = {**os.environ, "PYTHONPATH": place, "TMPDIR": temporary}
            other = {"user": 65534, "group": 65534, "extra_groups": [], "cwd": "/"}
            try:
                process = self.started(sys.executable, "-c", PROGRAM, env=variables, **other)
            except PermissionError:
                self.skipTest("others may not run this interpreter")
            self.assertEqual(process.stdout.readline(), b"ready\n")
            done = self.run_python("-m", "ferrule_profiler", "--pid", str(process.pid), "--seconds", "0.1", PYTHONPATH=place, TMPDIR=temporary)
            self.assertIn(f"process {process.pid}, ", done.stderr)
            refused = subprocess.run([sys.executable, "-m", "ferrule_profiler", "--pid", str(os.getpid())], capture_output=True, text=True,
                                     env=variables, check=False, timeout=90, **other)
            self.assertEqual(refused.returncode, 1)
            self.assertIn(f"process {os.getpid()} may not be debugged", refused.stderr)
            self.assertEqual(process.communicate(timeout=90), (b"end\n", None))
            self.assertEqual(os.listdir(temporary), [])

    def test_options(self):
        for options, error in (
                (("--pid", 1, "-m", "this"), "no program to start"), (("--pid", 1, "x.py"), "no program to start"),
                (("--pid", 0), "invalid number of a process"), (("--seconds", 1, "x.py"), "--seconds needs --pid"),
                (("--pid", 1, "--subprocesses"), "--subprocesses needs a program"), (("--pid", 1, "-o", "x.odd"), "no format has names like")):
            with self.subTest(options):
                self.assertIn(error, self.refused(*options, status=2))


class OnStock(ProfilerTestCase):
    @unittest.skipIf(hasattr(sys, "remote_exec"), "only where it is not there")
    def test_it_is_said(self):
        self.assertIn("--pid needs sys.remote_exec()", self.run_python("-m", "ferrule_profiler", "--pid", "1", status=1).stderr)
