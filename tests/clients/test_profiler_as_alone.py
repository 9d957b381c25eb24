"""A program under the command prints and returns what it does alone, and is written."""

import os
import py_compile
import signal
import subprocess
import sys
import zipfile

from profiler_support import OUT, ProfilerTestCase, load, read_stats, times_from_a_timer

ENDINGS = ("html", "prof", "callgrind", "json", "txt")
# Modules of the library that the profiler needs; a program may have its own.
NAMES = ("argparse", "ast", "base64", "collections", "dis", "enum", "functools", "html", "inspect",
         "json", "keyword", "linecache", "pkgutil", "re", "signal", "threading", "token",
         "tokenize", "typing")
MODE = ["--sample" if times_from_a_timer() else "--count"]

setUpModule = load


class AsAlone(ProfilerTestCase):
    def setUp(self):
        super().setUp()
        self.here = self.directory()

    def write(self, **files):
        """Files of a program; `__` in a name is a directory's end."""
        for name, text in files.items():
            path = os.path.join(self.here, name.replace("__", "/", 1) + ".py")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(text if isinstance(text, bytes) else text.encode())

    def run_one(self, *arguments, python=(), directory=None, **environment):
        return subprocess.run(
            [sys.executable, *python, *arguments], capture_output=True, timeout=300,
            stdin=subprocess.DEVNULL, cwd=directory or self.here,
            env={**os.environ, "PYTHONPATH": OUT, **environment})

    def check(self, *program, options=(), status=None, written=ENDINGS, **how):
        """Run it twice; the second one's output files, and what it prints."""
        alone = self.run_one(*program, **how)
        out = self.directory()
        outputs = [f"-o{out}/found.{ending}" for ending in ENDINGS]
        beside = self.run_one("-m", "ferrule_profiler", "--quiet", *outputs, *options, *program,
                              **how)
        self.assertEqual((beside.stderr.decode(), beside.stdout, beside.returncode),
                         (alone.stderr.decode(), alone.stdout, alone.returncode))
        if status is not None:
            self.assertEqual(alone.returncode, status, alone.stderr)
        self.assertEqual(sorted(os.listdir(out)), sorted(f"found.{e}" for e in written))
        if written:
            alone.stats = read_stats(f"{out}/found.prof")
        return alone


class Forms(AsAlone):
    """What Python can run."""

    MAIN = """
import sys
print(__name__, __file__, __package__, __spec__ and __spec__.name, __loader__.__class__)
print(__annotations__, __doc__, __builtins__, sorted(globals()))
print(sys.argv, sys.path[0], sys.excepthook is sys.__excepthook__)
def f(): return 1
f()
"""

    def test_scripts(self):
        self.write(program=self.MAIN, sub__program=self.MAIN)
        os.symlink(f"{self.here}/sub/program.py", f"{self.here}/link.py")
        for name in ("program.py", "./program.py", "sub/../program.py", "link.py",
                     f"{self.here}/program.py"):
            for python in ((), ("-P",)):
                done = self.check(name, "a", "-b", status=0, python=python)
                self.assertEqual(done.stats["f"][:2], (1, 1))

    def test_directories_archives_and_compiled_files(self):
        self.write(app____main__=self.MAIN + "import beside\n", app__beside="print('beside')",
                   program=self.MAIN)
        with zipfile.ZipFile(f"{self.here}/app.zip", "w") as file:
            for name in ("__main__.py", "beside.py"):
                file.write(f"{self.here}/app/{name}", name)
        py_compile.compile(f"{self.here}/program.py", f"{self.here}/compiled.pyc")
        for name in ("app", "./app", "app.zip", f"{self.here}/app.zip", "compiled.pyc"):
            for python in ((), ("-P",)):
                done = self.check(name, "a", status=0, python=python)
                self.assertEqual(done.stats["f"][:2], (1, 1))

    def test_a_pipe(self):
        self.write(program="print('from a pipe', __file__)\n")
        os.mkfifo(f"{self.here}/pipe")
        reported = []
        for command in ([], ["-m", "ferrule_profiler", "--quiet", "-o", "found.html"]):
            running = subprocess.Popen(
                [sys.executable, *command, "pipe"], stdout=subprocess.PIPE, cwd=self.here,
                env={**os.environ, "PYTHONPATH": OUT})
            self.addCleanup(running.kill)
            with open(f"{self.here}/pipe", "w") as file:
                file.write("print('from a pipe', __file__)\n")
            reported.append((running.communicate(timeout=300)[0], running.returncode))
        self.assertEqual(reported[0], reported[1])

    def test_modules(self):
        self.write(package____init__="import sys\ndef boot(): print(sys.argv)\nboot()\n",
                   package____main__=self.MAIN, package__sub=self.MAIN)
        for name in ("package", "package.sub"):
            done = self.check("-m", name, "a", "-b", status=0)
            self.assertEqual((done.stats["f"][:2], done.stats["boot"][:2]), ((1, 1), (1, 1)))

    def test_what_is_not_there(self):
        os.mkdir(f"{self.here}/empty")
        self.check("no_such.py", status=2, written=())
        self.check("no/such.py", status=2, written=())
        self.check("empty", status=1)
        for name in ("no_such", "empty", "empty.sub", "sys"):
            self.check("-m", name, status=1)

    def test_an_interactive_session_may_follow(self):
        self.write(program="import sys\ndef f(): return 1\nf()\nsys.exit(3)\n")
        self.check("program.py", python=["-i"])


class Errors(AsAlone):
    def test_source_that_does_not_compile(self):
        for text in ("def (:\n", b"x = 1\0\n", "# coding: no-such\n1\n", b"x = '\xe9'\n",
                     "if 1:\n  1\n 2\n", "return 1\n", b"\xff\xfe\n"):
            with self.subTest(text):
                self.write(program=text)
                self.check("program.py", status=1)
                self.check("-m", "program", status=1)

    def test_a_package_that_cannot_be_imported(self):
        self.write(raises____init__="def f(): 1/0\nf()\n", raises____main__="",
                   wrong____init__="def (:\n", wrong__sub="", ends____init__="raise SystemExit(4)\n",
                   ends__sub="")
        for name in ("raises", "raises.__main__", "raises.sub", "wrong.sub"):
            self.check("-m", name, status=1)
        self.check("-m", "ends.sub", status=4)

    def test_exceptions(self):
        for text, status in (("def f(): 1/0\nf()", 1), ("raise SystemExit('why')", 1),
                             ("raise SystemExit(3)", 3), ("raise SystemExit(2**40)", 255),
                             ("raise ExceptionGroup('g', [ValueError(1), TypeError(2)])", 1),
                             ("try: 1/0\nexcept Exception as e: raise KeyError('x') from e", 1),
                             ("import sys\nsys.excepthook = lambda *a: print(a[0])\n1/0", 1),
                             ("import sys\nsys.excepthook = None\n1/0", 1),
                             ("class E(SystemExit): code = 7\nraise E", 7)):
            with self.subTest(text):
                self.write(program=text)
                self.check("program.py")
                self.check("-m", "program")

    def test_objects_die_at_the_end(self):
        for end in ("", "sys.exit(3)", "1/0", "del sys.modules['__main__']"):
            self.write(program=f"""
import atexit, sys, threading
class Dies:
    def __del__(self): print("dies", __name__)
dies = Dies()
def late(): print(globals().get("__file__"), "__main__" in sys.modules)
threading.Timer(0.2, late).start()
atexit.register(late)
{end}
""")
            self.check("program.py")
            self.check("-m", "program")

    def test_interrupts(self):
        for end in ("raise KeyboardInterrupt", "os.kill(os.getpid(), signal.SIGINT)",
                    "signal.raise_signal(signal.SIGINT)"):
            self.write(program=f"import os, signal\nprint('begun')\n{end}\n")
            for options in ((), ("--save-every", "100")):
                self.check("program.py", status=-signal.SIGINT, options=options)
                self.check("-m", "program", status=-signal.SIGINT, options=options)
        self.write(app____main__="raise KeyboardInterrupt")
        self.check("app", status=-signal.SIGINT)


class Neighbours(AsAlone):
    """The program's own modules are its own, and the library's too."""

    PROGRAM = f"""
import importlib
def f(): return 1
f()
for name in {NAMES}:
    print(importlib.import_module(name).__file__)
"""

    def test_modules_beside_the_program(self):
        self.write(program=self.PROGRAM,
                   **{name: "print(__name__)\ndef _shutdown(): pass" for name in NAMES})
        elsewhere = self.directory()
        for directory in (None, elsewhere):
            done = self.check(f"{self.here}/program.py", status=0, directory=directory)
            self.assertIn(b"\njson\n", done.stdout)
        done = self.check(f"{self.here}/program.py", status=0, options=["--subprocesses"])

    def test_modules_that_raise_in_the_current_directory(self):
        self.write(**{name: "1/0" for name in NAMES})
        elsewhere = self.directory()
        with open(f"{elsewhere}/program.py", "w") as file:
            file.write("def f(): return 1\nf()\nimport sys\nprint(sys.path[0])\n")
        self.check(f"{elsewhere}/program.py", status=0)
        self.check("-m", "program", status=0, PYTHONPATH=os.pathsep.join((OUT, elsewhere)))
        # On the path of all Pythons.
        self.check("program.py", status=0, directory=elsewhere,
                   PYTHONPATH=os.pathsep.join((OUT, self.here)))
        self.check("program.py", status=0, directory=elsewhere, options=["--subprocesses"],
                   PYTHONPATH=os.pathsep.join((OUT, self.here)))

    def test_the_library_is_imported_by_the_program(self):
        # A codec that was used once is kept by the interpreter, and not imported again.
        self.write(program="import sys\nbefore = set(sys.modules)\nimport json, threading, re\n"
                   "new = {name for name in sys.modules if not name.startswith('encodings.')} - before\n"
                   "print(sorted(new), len(threading.enumerate()))\n")
        done = self.check("program.py", status=0)
        self.assertIn("_find_and_load", done.stats)

    def test_what_the_program_replaces(self):
        for text in ("import builtins\ndef bad(*args, **kwargs): 1/0\nbuiltins.open = bad",
                     "import builtins\nbuiltins.print = builtins.__import__ = None",
                     "import io, os, posix\nio.open = os.open = os.replace = os.stat = None\n"
                     "os.fspath = posix.stat = None",
                     "import os, time, threading, json\nos.getpid = lambda: 42\nos.path.join = None\n"
                     "os.path.abspath = os.path.exists = os.path.basename = None\n"
                     "time.perf_counter = time.strftime = threading.RLock = json.dumps = None",
                     "import json, re, tokenize, inspect\njson.dumps = re.search = None\n"
                     "tokenize.open = inspect.getblock = None",
                     "import sys\nfor name in list(sys.modules):\n"
                     "    if name not in ('sys', 'builtins', '__main__'): del sys.modules[name]",
                     "import sys\nsys.path[:] = []\nsys.meta_path[:] = []",
                     "import sys\nsys.modules['linecache'] = 5",
                     "import sys\ndel sys.modules['__main__']",
                     "import sys\nsys.setrecursionlimit(60)",
                     "import sys\nsys.setrecursionlimit(2 ** 31 - 1)",
                     "import os\nos.chdir('/')",
                     "import sys\nsys.stdout = sys.stderr = None",
                     "import sys\ndel sys.stdout, sys.stderr",
                     "import sys\nsys.stdout.close()\nsys.stderr.close()"):
            with self.subTest(text):
                self.write(program="def f(): return 1\nf()\n" + text)
                for options in ([], MODE):
                    self.check("program.py", options=options)

    def test_the_source_of_what_the_program_has_made(self):
        self.write(program="import linecache\ntext = 'def made(): return 12345\\n'\n"
                   "linecache.cache['<made>'] = (len(text), None, [text], '<made>')\n"
                   "exec(compile(text, '<made>', 'exec'))\nmade()\n")
        self.run_one("-m", "ferrule_profiler", "--quiet", "-o", "found.html", "program.py")
        with open(f"{self.here}/found.html") as file:
            self.assertIn('"def made(): return 12345"', file.read())


class Written(AsAlone):
    def test_a_file_that_cannot_be_written_and_those_behind_it(self):
        self.write(program="import os\ndef f(): return 1\nf()\nos.rmdir('no')\n")
        os.mkdir(f"{self.here}/no")
        done = self.run_one("-m", "ferrule_profiler", "--quiet", "--trace", "no/trace.json", "-o",
                            "no/found.html", "-o", "found.prof", "program.py")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr.decode(), "trace.json is not written: FileNotFoundError"
                         r"(.|\n)*found.html is not written: FileNotFoundError")
        self.assertEqual(read_stats(f"{self.here}/found.prof")["f"][:2], (1, 1))

    def test_a_format_that_cannot_be_made(self):
        self.write(program="import ferrule_profiler._command as command\n"
                   "def f(): return 1\nf()\n"
                   "def bad(result): raise LookupError('made up')\n"
                   "for writer in [w for w in __import__('gc').get_objects()"
                   " if type(w) is command.Writer]:\n    path, make = writer.outputs[0]\n"
                   "    writer.outputs[0] = path, bad\n")
        done = self.run_one("-m", "ferrule_profiler", "--quiet", "-o", "found.html", "-o",
                            "found.prof", "program.py")
        self.assertIn("found.html is not written: LookupError: made up", done.stderr.decode())
        self.assertEqual(read_stats(f"{self.here}/found.prof")["f"][:2], (1, 1))

    def test_a_profile_that_cannot_be_started(self):
        self.write(program="print('not run')", beside__sitecustomize="import sys\n"
                   "sys.monitoring.use_tool_id(sys.monitoring.PROFILER_ID, 'another')\n")
        done = self.run_one("-m", "ferrule_profiler", "--builtins", "-o", "found.prof", "program.py",
                            PYTHONPATH=os.pathsep.join((OUT, f"{self.here}/beside")))
        self.assertEqual((done.stdout, done.returncode), (b"", 1))
        self.assertRegex(done.stderr.decode(), "^ferrule_profiler: .*another profiler, another\n$")
        self.assertFalse(os.path.exists(f"{self.here}/found.prof"))
