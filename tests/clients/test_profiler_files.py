"""Where files are written to: into what is there."""

import os
import stat
import subprocess
import sys
import threading

from profiler_support import OUT, ProfilerTestCase, load

NOBODY = 65534

setUpModule = load


def content(path):
    with open(path) as file:
        return file.read()


class Into(ProfilerTestCase):
    def setUp(self):
        super().setUp()
        from ferrule_profiler._export import write_file
        self.write_file = write_file
        self.here = self.directory()

    def path(self, name, text=None):
        path = os.path.join(self.here, name)
        if text is not None:
            with open(path, "w") as file:
                file.write(text)
        return path

    def test_a_symbolic_link(self):
        target, link = self.path("target", "old"), self.path("link")
        os.symlink("target", link)
        self.write_file(link, "new")
        self.assertEqual((os.readlink(link), content(target)), ("target", "new"))
        os.unlink(target)
        self.write_file(link, "made")
        self.assertEqual((os.readlink(link), content(target)), ("target", "made"))

    def test_a_hard_link(self):
        one, other = self.path("one", "a longer text than the new one"), self.path("other")
        os.link(one, other)
        self.write_file(one, "new")
        self.assertEqual((content(one), content(other), os.stat(one).st_nlink), ("new", "new", 2))

    def test_the_mode_stays(self):
        path = self.path("file", "old")
        for mode in (0o600, 0o664, 0o755):
            os.chmod(path, mode)
            self.write_file(path, "new")
            self.assertEqual((stat.S_IMODE(os.stat(path).st_mode), content(path)), (mode, "new"))

    def test_a_new_file_has_the_mode_of_new_files(self):
        mask = os.umask(0o027)
        self.addCleanup(os.umask, mask)
        self.write_file(self.path("file"), "new")
        self.assertEqual(stat.S_IMODE(os.stat(self.path("file")).st_mode), 0o640)

    def test_a_plain_file_is_whole_or_not_there(self):
        from ferrule_profiler import _export

        class Broken(str):
            def encode(self, *args):
                return self         # nothing that a file takes

        path = self.path("file", "old")
        before = os.stat(path).st_ino
        with self.assertRaises(TypeError):
            self.write_file(path, Broken())
        self.assertEqual((content(path), os.listdir(self.here)), ("old", ["file"]))
        _export.write_file(path, "new")
        self.assertNotEqual(os.stat(path).st_ino, before)

    def test_a_fifo(self):
        path = self.path("fifo")
        os.mkfifo(path)
        read = []
        reader = threading.Thread(target=lambda: read.append(content(path)))
        reader.start()
        self.write_file(path, "text")
        reader.join()
        self.assertEqual((read, stat.S_ISFIFO(os.stat(path).st_mode)), (["text"], True))

    def test_a_pipe_by_its_descriptor(self):
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        self.write_file(f"/dev/fd/{writer}", "text")
        os.close(writer)
        self.assertEqual(os.read(reader, 100), b"text")

    def test_a_device(self):
        try:
            os.mknod(self.path("null"), stat.S_IFCHR | 0o666, os.makedev(1, 3))
        except PermissionError:
            self.skipTest("devices are made by root")
        self.write_file(self.path("null"), "text")
        self.assertTrue(stat.S_ISCHR(os.stat(self.path("null")).st_mode))

    def test_a_name_as_long_as_names_are(self):
        path = self.path("x" * 251 + ".txt")
        for text in ("old", "new"):
            self.write_file(path, text)
            self.assertEqual((content(path), len(os.listdir(self.here))), (text, 1))

    def test_a_directory(self):
        with self.assertRaises(IsADirectoryError):
            self.write_file(self.here, "text")
        with self.assertRaises(FileNotFoundError) as caught:
            self.write_file(self.path("no/file"), "text")
        self.assertEqual(caught.exception.filename, self.path("no/file"))

    def as_another_user(self):
        if os.geteuid():
            self.skipTest("root alone can be another user")
        os.chmod(self.here, 0o777)
        os.seteuid(NOBODY)
        self.addCleanup(os.seteuid, 0)

    def test_the_owner_stays(self):
        path = self.path("file", "old")
        if os.geteuid():
            self.skipTest("root alone gives files away")
        os.chown(path, NOBODY, NOBODY)
        self.write_file(path, "new")
        self.assertEqual((os.stat(path).st_uid, os.stat(path).st_gid, content(path)), (NOBODY, NOBODY, "new"))
        os.chmod(path, 0o666)
        os.chown(path, 0, 0)
        self.as_another_user()
        self.write_file(path, "newer")
        self.assertEqual((os.stat(path).st_uid, content(path)), (0, "newer"))

    def test_a_file_that_may_not_be_written(self):
        path = self.path("file", "old")
        os.chmod(path, 0o444)
        self.as_another_user()
        with self.assertRaises(PermissionError):
            self.write_file(path, "new")
        self.assertEqual((content(path), os.listdir(self.here)), ("old", ["file"]))

    def test_a_directory_that_may_not_be_written(self):
        path = self.path("file", "old")
        os.chmod(path, 0o666)
        self.as_another_user()
        os.seteuid(0)
        os.chmod(self.here, 0o555)
        os.seteuid(NOBODY)
        self.write_file(path, "new")
        self.assertEqual(content(path), "new")


class Command(ProfilerTestCase):
    def run_profiled(self, *options, source="print('said')\n", status=0, **others):
        self.here = self.directory()
        script = os.path.join(self.here, "program.py")
        with open(script, "w") as file:
            file.write(source)
        done = subprocess.run([sys.executable, "-m", "ferrule_profiler", *options, script], capture_output=True, text=True,
                              cwd=self.here, env={**os.environ, "PYTHONPATH": OUT}, timeout=60, **others)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def test_standard_output(self):
        done = self.run_profiled("--quiet", "-o", "-", source="print('said', end='')\n")
        self.assertRegex(done.stdout, r"^said/.*program.py\nprocess \d+, .*\n1 call of 1 function in 1 thread,")
        self.assertEqual(os.listdir(self.here), ["program.py"])
        done = self.run_profiled("--quiet", "--format", "folded", "-o", "-")
        self.assertRegex(done.stdout, r"^said\nMainThread;<module>")
        # Not what the program makes of it.
        done = self.run_profiled("--quiet", "-o", "-", source="import sys\nsys.stdout = None\n")
        self.assertIn("wall,", done.stdout)

    def test_a_substituted_process(self):
        reader, writer = os.pipe()
        with os.fdopen(reader) as file:
            self.run_profiled("--quiet", "--format", "table", "-o", f"/dev/fd/{writer}", pass_fds=[writer])
            os.close(writer)
            self.assertIn("wall,", file.read())

    def test_what_is_no_plain_file_is_written_once(self):
        source = "import time\ntime.sleep(0.3)\n"
        done = self.run_profiled("--quiet", "-o", "-", "--save-every", "0.01", source=source)
        self.assertEqual(done.stdout.count("wall,"), 1)

    def test_files_are_named(self):
        done = self.run_profiled("-o", "a.prof", "-o", "b.html", "--trace", "c.json")
        for name in ("a.prof", "b.html", "c.json"):
            self.assertIn(f"ferrule_profiler: {os.path.join(self.here, name)} is written\n", done.stderr)
        self.assertEqual(self.run_profiled("--quiet", "-o", "a.prof").stderr, "")

    def test_endings_without_a_format(self):
        for name in ("x.svg", "x.csv", "x.html.gz", "y/z.PROF"):
            done = self.run_profiled("-o", name, status=2)
            self.assertRegex(done.stderr, r"no format has names like .*: they end with \.html, \.prof, .*--format")
            self.assertNotIn("said", done.stdout)
        self.run_profiled("--quiet", "-o", "x.svg", "--format", "table")
        self.assertIn("wall,", content(os.path.join(self.here, "x.svg")))
        self.run_profiled("--quiet", "-o", "x")
        with self.profiler.profile() as profile:
            pass
        with self.assertRaisesRegex(ValueError, r"\.html"):
            profile.result.write(os.path.join(self.here, "x.svg"))

    def test_what_processes_cannot_share(self):
        for name in ("-", "/dev/null"):
            done = self.run_profiled("--subprocesses", "-o", name, status=2)
            self.assertIn("--subprocesses needs names of files", done.stderr)
