"""A clone with a made-up CPython in it: what ./configure and make do there, as a user types them."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UNPRIVILEGED = 65534
# Another user may not be let into the directory of the one that runs this.
PYTHON = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable
CAT = shutil.which("cat")
TOOLS = ("sh make echo sed cat cp mkdir touch rm ln env realpath printf dirname grep test date mv true false sleep chmod ls "
         "tail head gcc ld as").split()

# Says which release was requested, and has a source tree.
FETCH = """
import json, os, sys
from pathlib import Path
root = Path(__file__).resolve().parents[1]
with open(root / "fetched", "a") as log:
    print(os.environ.get("CPYTHON_VERSION") or "default", os.environ.get("CPYTHON_TARBALL") or "-", file=log)
(root / "build/src").mkdir(parents=True, exist_ok=True)
(root / "build/src/current.json").write_text(json.dumps({
    "source": "cpython/tree", "version": os.environ.get("CPYTHON_VERSION") or "3.13.5", "origin": "debian",
    "debian_revision": "1-2", "fixes": [], "patches_sha256": "a"}))
"""

# As CPython's: what installs depends on what builds, and building takes a Rust compiler.
CONFIGURE = r"""#!/bin/sh
echo "$*" >>$FAKE/configured
prefix=/usr/local rust='rustc --version' core=1 host=x
for word in "$@"; do
    case $word in
    --prefix=/*) prefix=${word#--prefix=} ;;
    --prefix=*) echo "configure: error: expected an absolute directory name for --prefix: ${word#*=}"; exit 1 ;;
    --without-rust-core) rust=: core=0 ;;
    --host=*) host=${word#--host=} ;;
    --enable-nonsense) echo "configure: WARNING: unrecognized options: $word" >&2 ;;
    esac
done
mkdir -p Modules build/lib.x
echo '*shared*' >Modules/Setup.stdlib
echo build/lib.x >pybuilddir.txt
cat >Makefile <<END
prefix=	$prefix
exec_prefix=	\${prefix}
RUST_CORE=	$core
BUILD_GNU_TYPE=	x
HOST_GNU_TYPE=	$host
LIBDEST=	\${prefix}/lib/python3.13
PYTHON_FOR_BUILD=./python -E
all: python scripts
	@echo compiling everything
scripts:
	@echo '#!$prefix/bin/python' >pydoc
python: $FAKE/source.c
	@echo "a line of a long command"
	@$rust >/dev/null
	@cat $FAKE/source.c >python
	@echo "$prefix" >>python
	@chmod +x python
install: altinstall
	@ln -sf python3.13 \$(DESTDIR)\$(prefix)/bin/python3
altinstall: all scripts
	@mkdir -p \$(DESTDIR)\$(prefix)/bin
	@cp python \$(DESTDIR)\$(prefix)/bin/python3.13
	@cp pydoc \$(DESTDIR)\$(prefix)/bin/pydoc3.13
	@echo \$(PYTHON_FOR_BUILD) \$(MAKEFLAGS) >\$(DESTDIR)\$(prefix)/flags
.PHONY: all install altinstall scripts
.DELETE_ON_ERROR:
END
"""


class Case(unittest.TestCase):
    name = "clone"

    def setUp(self):
        self.base = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.base.chmod(0o755)
        self.clone = self.base / self.name
        self.clone.mkdir()
        for name in ("configure", "Makefile"):
            shutil.copy(ROOT / name, self.clone / name)
        shutil.copytree(ROOT / "tools", self.clone / "tools", ignore=shutil.ignore_patterns("__pycache__"))
        tree = self.clone / "cpython" / "tree"
        tree.mkdir(parents=True)
        (self.clone / "cpython" / "fetch.py").write_text(FETCH)
        (self.clone / "cpython" / "__init__.py").touch()
        self.program(tree / "configure", CONFIGURE)
        self.fake = self.base / "fake"
        self.fake.mkdir()
        (self.fake / "source.c").write_text("version 1\n")
        self.bin = self.base / "bin"
        self.bin.mkdir()
        for tool in TOOLS:
            if found := shutil.which(tool):
                (self.bin / tool).symlink_to(found)
        self.program(self.bin / "python3", f'#!/bin/sh\nexec {PYTHON} "$@"\n')
        self.program(self.bin / "rustc", "#!/bin/sh\necho 'release: 1.95.0'; echo 'host: x'; echo 'LLVM version: 22.1'\n")
        self.program(self.bin / "cargo", "#!/bin/sh\necho cargo 1.95\n")
        self.environment = {"PATH": str(self.bin), "FAKE": str(self.fake), "HOME": str(self.base), "PYTHONDONTWRITEBYTECODE": "1"}

    def program(self, path, text):
        # It may be a link to the machine's own: writing would go through it.
        path.unlink(missing_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def run_in(self, directory, *command, status=0, user=None, **variables):
        who = {} if user is None else {"user": user, "group": user, "extra_groups": []}
        run = subprocess.run(command, cwd=directory, env={**self.environment, **variables}, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **who)
        self.assertEqual(run.returncode != 0, status != 0, run.stdout)
        self.assertNotIn("Traceback", run.stdout)
        return run.stdout

    def make(self, *words, **options):
        return self.run_in(self.clone, "make", *words, **options)

    def configure(self, *flags, **options):
        return self.run_in(self.clone, "./configure", *flags, **options)

    def lines(self, name):
        file = (self.fake if name == "configured" else self.clone) / name
        return file.read_text().splitlines() if file.exists() else []

    def without(self, *tools):
        for tool in tools:
            (self.bin / tool).unlink()

    def installed(self, path, root=None):
        return ((root or self.base / "d") / path.lstrip("/")).read_text()


class Install(Case):
    def test_installs_what_was_built_and_needs_neither_rust_nor_network_nor_configure(self):
        self.configure("--prefix=/opt/x", CPYTHON_VERSION="3.13.15")
        self.make()
        before = self.lines("fetched"), self.lines("configured")
        self.without("rustc", "cargo")
        (self.fake / "source.c").write_text("version 2\n")
        os.utime(self.fake / "source.c", (2**31, 2**31))
        self.make("install", f"DESTDIR={self.base / 'd'}")
        self.assertEqual(self.installed("/opt/x/bin/python3.13"), "version 1\n/opt/x\n")
        self.assertEqual((self.lines("fetched"), self.lines("configured")), before)
        self.assertTrue((self.base / "d/opt/x/bin/python3").is_symlink())
        # Nor does the interpreter leave bytecode beside the source, as root it may be.
        self.assertIn("./python -E -B", self.installed("/opt/x/flags"))

    def test_any_variant_can_be_installed(self):
        self.configure("--prefix=/opt/x")
        self.make("stock")
        self.make("altinstall", "VARIANT=stock", "DESTDIR=../d")
        self.assertEqual(self.installed("/opt/x/bin/python3.13"), "version 1\n/opt/x\n")
        self.assertFalse((self.base / "d/opt/x/bin/python3").is_symlink())

    def test_the_variant_may_come_from_the_environment_as_the_directory_does(self):
        self.configure("--prefix=/opt/x")
        self.make("stock")
        self.make("install", VARIANT="stock", DESTDIR="../d")
        self.assertEqual(self.installed("/opt/x/bin/python3.13"), "version 1\n/opt/x\n")

    def test_a_variant_that_there_is_not_is_named_first_and_then_those_that_there_are(self):
        said = self.make("install", "VARIANT=nonsense", "DESTDIR=../d", status=2)
        self.assertTrue(said.startswith("ferrule: there is no variant 'nonsense'; there are ferrule, stock, release, "), said)
        for words in ("", "stock pgo"):
            said = self.make("install", f"VARIANT={words}", "DESTDIR=../d", status=2)
            self.assertIn(f"ferrule: there is no variant '{words}'", said)

    def test_what_is_not_built_to_its_end_is_not_installed(self):
        self.assertIn("ferrule is not built, or was not built to its end: run `make` first", self.make("install", status=2))
        self.make()
        (self.fake / "source.c").unlink()
        self.make(status=2)
        self.assertIn("run `make` first", self.make("install", "DESTDIR=../d", status=2))
        self.assertIn("run `make pgo` first", self.make("install", "VARIANT=pgo", status=2))
        self.assertFalse((self.base / "d").exists())

    def test_a_library_of_another_source_than_the_program_is_not_installed(self):
        self.make()
        (self.clone / "cpython" / "stamp.json").write_text("{}")
        self.assertIn("the source has changed since build/ferrule was built", self.make("install", "DESTDIR=../d", status=2))
        self.make()
        self.make("install", "DESTDIR=../d")

    def test_every_user_can_read_what_is_installed_whatever_the_umask_of_the_one_who_installs(self):
        self.make()
        self.run_in(self.clone, "sh", "-c", "umask 077; make install DESTDIR=../d")
        installed = self.base / "d" / "usr/local"
        for path in (installed, installed / "bin", installed / "flags"):
            self.assertEqual(path.stat().st_mode & 0o044, 0o044, path)

    def test_a_build_of_earlier_choices_is_not_installed(self):
        self.configure("--prefix=/opt/x")
        self.make()
        self.make("stock")
        for flags, variables in ((("--prefix=/opt/y",), {}), (("--prefix=/opt/x",), {"CPYTHON_VERSION": "3.13.15"}),
                                 (("--prefix=/opt/x",), {"CFLAGS": "-O1"}), (("--prefix=/opt/x",), {"CC": "gcc"})):
            self.configure(*flags, **variables)
            said = self.make("install", "VARIANT=stock", "DESTDIR=../d", status=2)
            self.assertIn("ferrule: build/stock is of other choices than those that hold now", said)
            self.assertIn("run `make stock` first", said)
            self.assertRegex(self.make("show"), r"stock +built .*; of other choices than those above\)")
            self.assertFalse((self.base / "d").exists())
        self.configure("--prefix=/opt/x")
        self.make("install", "VARIANT=stock", "DESTDIR=../d")
        # A flag that a build takes none of does not make it another one.
        self.make("release")
        self.configure("--prefix=/opt/x", "--with-pydebug")
        self.make("install", "VARIANT=release", "DESTDIR=../d")

    def test_another_prefix_than_the_configured_one_is_refused_with_what_to_do(self):
        self.configure("--prefix=/opt/x")
        self.make()
        said = self.make("install", "prefix=/opt/y", "DESTDIR=../d", status=2)
        self.assertIn("configured for /opt/x", said)
        self.assertIn("./configure --prefix=/opt/y", said)
        self.assertIn("exec_prefix=/e", self.make("install", "exec_prefix=/e", "DESTDIR=../d", status=2))
        self.assertFalse((self.base / "d").exists())
        self.make("install", "prefix=/opt/x/", "DESTDIR=../d")
        self.assertEqual(self.installed("/opt/x/bin/pydoc3.13"), "#!/opt/x/bin/python\n")

    def test_variables_of_this_make_do_not_reach_what_is_installed(self):
        self.make()
        self.make("install", "DESTDIR=../d", "CFLAGS=-O0", "RUST_CORE=7", CC="gcc")
        self.assertNotRegex(self.installed("/usr/local/flags"), "CFLAGS|RUST_CORE")

    def test_a_place_that_was_not_configured_is_refused_instead_of_forgotten(self):
        self.make()
        for name, flag in (("bindir", "--bindir"), ("BINDIR", "--bindir"), ("MANDIR", "--mandir")):
            said = self.make("install", "DESTDIR=../d", f"{name}=/y", status=2)
            self.assertIn(f"ferrule: {name}=/y: where each kind of file goes is chosen before the build: ./configure {flag}=/y",
                          said)
        self.assertFalse((self.base / "d").exists())
        # What a shell happens to have is no request, and what build systems give to every package does no harm.
        self.make("install", "DESTDIR=../d", "AM_UPDATE_INFO_DIR=no", "A=x bindir=/y", MANDIR="/y")

    def test_what_cpythons_install_reads_reaches_it(self):
        self.make()
        self.make("install", "DESTDIR=../d", "ENSUREPIP=no", "INSTALL=install -p", "A=x RUST_CORE=7")
        for word in ("ENSUREPIP=no", r"INSTALL=install.? -p"):
            self.assertRegex(self.installed("/usr/local/flags"), word)
        self.make("install", "DESTDIR=../d", ENSUREPIP="no")
        self.assertNotIn("ENSUREPIP", self.installed("/usr/local/flags"))

    def test_a_directory_that_a_shell_takes_apart_is_refused_before_anything_is_written(self):
        self.make()
        before = sorted(self.base.iterdir())
        for directory, odd in (("../a b", "' '"), ("../a;b", "';'"), ("../a'b", '"\'"')):
            said = self.make("install", f"DESTDIR={directory}", status=2)
            self.assertIn(f"ferrule: DESTDIR has {odd} in it", said)
        self.assertEqual(sorted(self.base.iterdir()), before)
        self.make("install", "DESTDIR=../a:b=c~1%2")

    @unittest.skipIf(os.geteuid(), "only root can become another user")
    def test_another_user_than_the_one_who_built_installs_and_leaves_nothing_behind(self):
        self.make()
        before = sorted(path for path in self.clone.rglob("*") if path.name != "__pycache__")
        self.make("install", f"DESTDIR={self.writable(UNPRIVILEGED)}/d", user=UNPRIVILEGED)
        self.assertEqual(sorted(path for path in self.clone.rglob("*") if path.name != "__pycache__"), before)
        self.assertEqual(self.installed("/usr/local/bin/python3.13", self.base / f"{UNPRIVILEGED}/d"), "version 1\n/usr/local\n")

    def test_who_installs_leaves_nothing_of_the_tools_behind(self):
        del self.environment["PYTHONDONTWRITEBYTECODE"]
        self.make("install", status=2)
        self.make("show")
        self.assertEqual(list(self.clone.rglob("__pycache__")), [])

    @unittest.skipIf(os.geteuid(), "only root can become another user")
    def test_a_user_builds_on_after_root_installed(self):
        for path in (self.clone, self.fake, *self.clone.rglob("*")):
            os.chown(path, UNPRIVILEGED, UNPRIVILEGED)
        self.make(user=UNPRIVILEGED)
        self.make("install", "DESTDIR=../d")
        self.make("install", f"DESTDIR={self.writable(UNPRIVILEGED)}/d", user=UNPRIVILEGED)
        self.make(user=UNPRIVILEGED)

    def writable(self, user):
        directory = self.base / str(user)
        directory.mkdir(exist_ok=True)
        os.chown(directory, user, user)
        return directory

    @unittest.skipIf(os.geteuid(), "only root can become another user")
    def test_a_clone_that_cannot_be_written_is_reported_at_once_in_a_line(self):
        self.assertRegex(self.make(status=2, user=UNPRIVILEGED), f"ferrule: {self.clone}.* cannot be written; it belongs to user 0")
        self.make()
        for target in ("all", "clean", "distclean"):
            said = self.make(target, status=2, user=UNPRIVILEGED)
            self.assertRegex(said, "^ferrule: .* cannot be written; it belongs to user 0: build as its owner")
        self.assertTrue((self.clone / "build/ferrule/python").exists())


class Choice(Case):
    def test_the_release_of_configure_holds_for_every_make_after_it(self):
        self.configure(CPYTHON_VERSION="3.13.15")
        self.make()
        self.make("stock")
        self.make("fetch")
        self.assertEqual(self.lines("fetched"), ["3.13.15 -"] * 4)

    def test_a_variable_on_makes_command_line_is_refused_like_one_of_the_environment(self):
        self.configure("--prefix=/opt/x")
        for words, variables in ((("CFLAGS=-O0",), {}), ((), {"CFLAGS": "-O0"}), (("CPYTHON_VERSION=3.13.15",), {})):
            said = self.make(*words, status=2, **variables)
            self.assertIn("and is not set in what this clone is configured for", said)
            self.assertIn("to build as it is: make without it", said)
        self.assertEqual(len(self.lines("configured")), 1)

    def test_the_command_of_the_message_can_be_typed(self):
        self.configure("--prefix=/opt/x", CFLAGS="-O1 -g", CPYTHON_VERSION="3.13.15")
        shown, = [line for line in self.make(CFLAGS="-O2 -g", status=2).splitlines() if "to choose it:" in line]
        for line in (shown.partition(":")[2], self.make("show").splitlines()[0].partition("chosen")[2]):
            self.run_in(self.clone, "sh", "-c", line)
        # What was chosen beside it is part of it.
        self.assertRegex(shown, r"CPYTHON_VERSION=3\.13\.15 .*\./configure --prefix=/opt/x$")

    def test_a_typing_error_loses_no_build_and_is_not_kept(self):
        self.configure("--prefix=/opt/x")
        self.make()
        said = self.configure("--prefix=inst", status=1)
        self.assertIn("ferrule: configuring ferrule failed: configure: error: expected an absolute directory name", said)
        self.make("install", "DESTDIR=../d")
        configured = self.lines("configured")
        self.make()
        self.assertEqual(self.lines("configured"), configured)

    def test_show_and_the_way_back(self):
        self.configure("--prefix=/opt/x", "--with-pydebug")
        self.make()
        said = self.make("show")
        self.assertIn("--with-pydebug", said)
        self.assertRegex(said, r"ferrule +built .*to /opt/x")
        self.configure("--defaults")
        self.assertNotIn("pydebug", self.make("show"))

    def test_who_reads_the_first_line_of_show_gets_no_error(self):
        self.program(self.bin / "python3", f'#!/bin/sh\nPYTHONUNBUFFERED=1 exec {PYTHON} "$@"\n')
        said = self.run_in(self.clone, "sh", "-c", "make show | { read -r first; echo $first; }")
        self.assertEqual(said, "chosen nothing yet: the defaults\n")

    def test_make_in_another_directory_is_refused_with_the_reason(self):
        for words in ((), ("-n",), ("show",), ("install", "DESTDIR=d")):
            said = self.run_in(self.base, "make", "-f", "clone/Makefile", *words, status=2)
            self.assertIn("ferrule: make has to run in the clone: make -C clone", said)
        self.run_in(self.base, "make", "-C", "clone", "show")

    def test_distclean_leaves_a_clone_as_it_was(self):
        before = sorted(path for path in self.clone.rglob("*") if path.name not in ("fetched", "__pycache__"))
        for _ in range(2):
            self.configure("--prefix=/opt/x")
            self.make()
            self.assertEqual(self.make("distclean"), "")
            self.assertEqual(sorted(path for path in self.clone.rglob("*") if path.name not in ("fetched", "__pycache__")), before)
            self.make("distclean")

    def test_everything_may_lie_on_another_disk(self):
        disk = self.base / "disk"
        disk.mkdir()
        (self.clone / "build").symlink_to("../disk")
        self.make()
        self.make("install", "DESTDIR=../d")
        self.make("distclean")
        self.assertEqual(list(disk.iterdir()), [])
        self.assertFalse((self.clone / "build").is_symlink())

    def test_something_else_in_the_builds_place_is_reported(self):
        (self.clone / "build").symlink_to("../nowhere")
        for words in ((), ("distclean",), ("fetch",)):
            self.assertIn("/build is no directory, and everything is built below it: move it away", self.make(*words, status=2))
        (self.clone / "build").unlink()
        (self.clone / "build").touch()
        self.assertIn("/build is no directory", self.configure(status=1))

    def test_a_build_outside_the_clone_is_refused_with_the_reason(self):
        outside = self.base / "outside"
        outside.mkdir()
        said = self.run_in(outside, "../clone/configure", status=1)
        self.assertIn(f"run ./configure and make in {self.clone}", said)
        self.assertEqual(self.lines("configured"), [])


class Errors(Case):
    def test_rust_is_looked_for_where_it_is_wanted_and_nowhere_else(self):
        self.without("cargo")
        said = self.configure(status=1)
        self.assertIn("ferrule: cargo is not on PATH", said)
        self.without("rustc")
        self.assertIn("ferrule: rustc is not on PATH", self.make(status=2))
        self.assertEqual(self.lines("configured"), [])
        self.make("stock")
        self.configure("--without-rust-core")
        self.make()

    def test_the_cause_comes_first_and_then_the_log(self):
        self.make()
        (self.fake / "source.c").touch()
        self.program(self.bin / "cat", "#!/bin/sh\necho \"source.c:1:1: error: 'x' undeclared\" >&2\nexit 1\n")
        said = self.make(status=2)
        self.assertIn("ferrule: building ferrule failed: source.c:1:1: error: 'x' undeclared\n"
                      f"  the whole log is {self.clone}/build/logs/ferrule-make.log", said)
        self.assertNotIn("a line of a long command", said)
        self.assertIn("a line of a long command", self.make("V=1", status=2))

    def test_a_missing_compiler_is_reported_before_the_work_begins(self):
        self.assertIn("the C compiler 'tcc -m' (CC=) is not there", self.configure(status=1, CC="tcc -m"))
        self.assertEqual(self.lines("configured"), [])

    def test_a_python3_that_is_too_old_is_named(self):
        self.program(self.bin / "python3", '#!/bin/sh\n[ "$1" = -V ] && { echo Python 3.9.2; exit; }\nexit 1\n')
        for said in (self.configure(status=1), self.make(status=2)):
            self.assertIn("ferrule: python3 is Python 3.9.2, and Python 3.11 or newer is needed", said)

    def test_a_python3_of_the_environment_is_taken_by_make_as_by_configure(self):
        for said in (self.make(status=2, PYTHON3="another"), self.configure(status=1, PYTHON3="another")):
            self.assertIn("ferrule: another is missing", said)

    def test_no_python3(self):
        self.without("python3")
        for said in (self.configure(status=1), self.make(status=2)):
            self.assertIn("ferrule: python3 is missing: run `make deps` first", said)

    def test_make_n_only_says_what_it_would_do(self):
        for target in ("all", "install", "pgo", "test-cpython", "clean"):
            self.assertIn("tools/", self.make("-n", target))
        self.make("--just-print", "install", "prefix=/n")
        self.assertFalse((self.clone / "build").exists())

    def test_words_that_look_like_flags_do_nothing(self):
        self.make("--no-print-directory", "PREFIX=-n", "x=/x-j/n")
        self.assertTrue((self.clone / "build/ferrule/python").exists())

    def test_two_makes_in_one_clone_wait_for_each_other(self):
        self.make()
        gate = self.fake / "gate"
        os.mkfifo(gate)
        (self.fake / "source.c").touch()
        self.program(self.bin / "cat", f"#!/bin/sh\nread -r _ <{gate}\nexec {CAT} \"$@\"\n")
        output = {"cwd": self.clone, "env": self.environment, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        with subprocess.Popen(["make", "-j2"], **output) as first:
            # Opens once the build has come so far.
            with gate.open("w") as opened:
                with subprocess.Popen(["make", "stock"], **output) as second:
                    said = second.stdout.readline()
                    opened.write("go\n")
                    opened.close()
                    self.program(self.bin / "cat", f'#!/bin/sh\nexec {CAT} "$@"\n')
                    rest = second.communicate()[0]
            first.communicate()
        self.assertIn("another make or configure is at work in this clone; waiting for it", said)
        self.assertEqual((first.returncode, second.returncode), (0, 0), rest)


class OddPath(Case):
    name = "a clone"

    def test_a_path_with_a_blank_is_refused_at_once(self):
        self.assertIn("the path of this clone has ' ' in it", self.configure(status=1))
        self.assertIn("the path of this clone has ' ' in it", self.make(status=2))
        self.assertEqual(self.lines("fetched"), [])
