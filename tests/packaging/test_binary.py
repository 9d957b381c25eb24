"""tools/binary: what is unpacked elsewhere serves there, and does not name the machine that built it."""

import json
import os
import stat
import subprocess
import sys
import tarfile
import tempfile
import unittest
import unittest.mock
from pathlib import Path

from tools.binary import libraries, pack, relocate, sysroot

MACHINE = relocate.Machine((Path("/home/me/ferrule"),))


class Case(unittest.TestCase):
    def setUp(self):
        self.base = Path(self.enterContext(tempfile.TemporaryDirectory()))


class Words(unittest.TestCase):
    def test_what_is_of_the_build_goes(self):
        for text, left in (
            ("/usr/lib/llvm-22/bin/clang --sysroot=/home/me/ferrule/s -pthread", "cc -pthread"),
            ("-O2 -flto=full -fuse-ld=lld -Wl,-mllvm,-a=1 -Wl,-z,now", "-O2 -Wl,-z,now"),
            ("-mllvm -a=1 -fprofile-use=/home/me/ferrule/p -g", "-g"),
            ("-L/home/me/ferrule/lib -lz", "-lz"),
            ("CC=\t\t/usr/lib/llvm-22/bin/clang -shared", "CC=\t\tcc -shared"),
        ):
            self.assertEqual(" ".join(MACHINE.without(text).split(" ")).replace("  ", " ").strip(), left)

    def test_what_any_machine_has_stays_as_it_is(self):
        for text in ("cc  -pthread", "/usr/bin/install -c -m 644", "-Wno-unused-result -Wsign-compare -DNDEBUG -g -O3", "a\n\n\tb  c\n"):
            self.assertEqual(MACHINE.without(text), text)


class Prefix(unittest.TestCase):
    def test_it_is_a_path_of_its_own(self):
        for text in ("/install/lib", "-L/install/lib", "prefix=/install", "'/install'"):
            self.assertRegex(text, relocate.PATTERN)
        for text in ("/usr/bin/install -c", "./install-sh", "/installed", "x/install"):
            self.assertNotRegex(text, relocate.PATTERN)


class Sysconfig(Case):
    def test_the_data_follow_their_file(self):
        library = self.base / "a b" / "lib" / "python3.13"
        library.mkdir(parents=True)
        file = library / "_sysconfigdata__linux_x.py"
        file.write_text("# generated\nbuild_time_vars = {'CC': '/usr/lib/llvm-22/bin/clang --sysroot=/home/me/ferrule/s',\n"
                        " 'INCLUDEPY': '/install/include/python3.13', 'INSTALL': '/usr/bin/install -c', 'SIZE': 8,\n"
                        " 'LIBS': '-L/install/lib -lpython3.13'}\n")
        relocate.sysconfig_data(file, MACHINE)
        for place in (library, self.base / "moved"):
            if place != library:
                library.rename(place)
            text = (place / file.name).read_text()
            self.assertNotIn("/home/me", text)
            values = {"__file__": str(place / file.name)}
            exec(compile(text, file.name, "exec"), values)
            prefix = str(place.parent.parent)
            self.assertEqual(values["build_time_vars"], {
                "CC": "cc", "INCLUDEPY": f"{prefix}/include/python3.13", "INSTALL": "/usr/bin/install -c", "SIZE": 8,
                "LIBS": f"-L{prefix}/lib -lpython3.13"})


class Scripts(Case):
    def test_they_are_started_by_the_interpreter_beside_them(self):
        place = self.base / "a 'b' c" / "bin"
        place.mkdir(parents=True)
        (place / "python3.13").symlink_to(sys.executable)
        script = place / "tool"
        script.write_text("#!/install/bin/python3.13\n\"\"\"What it is for.\"\"\"\nimport sys\nprint(sys.argv[1:])\n")
        script.chmod(0o755)
        relocate.script_of_ours(script, "3.13")
        linked = self.base / "linked"
        linked.symlink_to(script)
        for command in (script, linked):
            done = subprocess.run([command, "a b", "*"], capture_output=True, text=True, check=True)
            self.assertEqual(done.stdout, "['a b', '*']\n")

    def test_others_stay_as_they_are(self):
        for text in (b"#!/bin/sh\nexit 0\n", b"\x7fELF\0"):
            script = self.base / "other"
            script.write_bytes(text)
            relocate.script_of_ours(script, "3.13")
            self.assertEqual(script.read_bytes(), text)


class Leftovers(Case):
    def test_files_that_name_the_machine_are_found(self):
        (self.base / "a").write_bytes(b"\0\xff/home/me/ferrule/x\0")
        (self.base / "b").write_bytes(b"/home/me/other")
        self.assertEqual(relocate.left(self.base, MACHINE), ["a"])


class Links(Case):
    def test_the_sysroots_lead_nowhere_else(self):
        (self.base / "lib").mkdir()
        (self.base / "lib" / "ld-2.31.so").write_text("x")
        (self.base / "lib64").mkdir()
        link = self.base / "lib64" / "ld-linux.so"
        link.symlink_to("/lib/ld-2.31.so")
        sysroot.keep_links_inside(self.base)
        self.assertEqual(link.read_text(), "x")
        self.assertFalse(link.readlink().is_absolute())


class Tarball(Case):
    def made(self, name):
        root = self.base / name
        (root / "bin").mkdir(parents=True)
        (root / "bin" / "python3.13").write_text("#!/bin/sh\n")
        (root / "bin" / "python3.13").chmod(0o755)
        (root / "bin" / "python3").symlink_to("python3.13")
        target = self.base / f"{name}.tar.gz"
        return target, pack.tarball(root, target, 1_700_000_000)

    def test_it_is_the_same_wherever_it_is_made(self):
        self.assertEqual(self.made("one")[1], self.made("two")[1])

    def test_it_has_the_layout_that_tools_expect(self):
        target, _ = self.made("one")
        with tarfile.open(target) as tar:
            self.assertEqual(tar.getnames(), ["python", "python/bin", "python/bin/python3", "python/bin/python3.13"])
            self.assertEqual(tar.getmember("python/bin/python3.13").mode & stat.S_IXUSR, stat.S_IXUSR)

    def test_uv_finds_it_in_the_list(self):
        listed = json.loads(pack.downloads(Path("/x/a.tar.gz"), "3.13.15", "12ab", "0.1.0"))
        entry, = listed.values()
        self.assertEqual((entry["url"], entry["sha256"], entry["patch"]), ("file:///x/a.tar.gz", "12ab", 15))


class Libraries(Case):
    def tools(self):
        return libraries.Tools("cc --sysroot=/s", Path("/llvm"), self.base)

    def test_one_that_leaves_no_library_is_an_error(self):
        library = libraries.Library("empty", "libempty.a", "MIT", lambda tools: [["true"]])
        with unittest.mock.patch.object(libraries.places, "logs", lambda: self.base), unittest.mock.patch.object(libraries.running.progress, "say"):
            with self.assertRaisesRegex(libraries.BuildError, "left no libempty.a"):
                libraries.build(library, self.tools(), self.base)

    def test_the_environment_is_the_builds_own(self):
        with unittest.mock.patch.dict(os.environ, {"CFLAGS": "-march=native", "LD_LIBRARY_PATH": "/x", "MAKEFLAGS": "k"}):
            environment = self.tools().environment("-O2")
        self.assertEqual(environment["CFLAGS"], "-O2")
        self.assertFalse({"LD_LIBRARY_PATH", "MAKEFLAGS"} & set(environment))
