#!/usr/bin/env python3
"""Install Ferrule's packages into a fresh Debian, and see whether everything there works on them.

  run.py --packages DIR      the .deb files, of `make deb`
  run.py --suite bookworm    on Debian 12, where there is the self-contained one alone

As root. First what dpkg does: install, upgrade from an older revision, divert, remove, purge, each without a trace. Then each
of programs/ under Debian's interpreter and under python3.13-ferrule, with Debian's packages: what they print must be the same.
With --testsuite Debian's own tests of python3.13 too, where what fails must fail with Debian's interpreter as well.

The last line is the counts. The chroot is made by debootstrap, anew each time; --root keeps it and uses it again.
"""

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent

from tests.debian.chroot import RELEASES, Chroot, Failed

STOCK, OURS = "/usr/bin/python3.13", "/usr/bin/python3.13-ferrule"
OWN = "/usr/bin/ferrule-python3.13"
SYSTEM = ("python3.13-ferrule", "python3.13-ferrule-default", "python3.13-ferrule-dev")
PAGE = ROOT / "docs" / "debian.md"


def differences(before: dict[str, str], after: dict[str, str]) -> list[str]:
    return sorted([f"+ {name}" for name in after.keys() - before.keys()] + [f"- {name}" for name in before.keys() - after.keys()]
                  + [f"! {name}" for name in before.keys() & after.keys() if before[name] != after[name]])


def expect(condition: bool, text: str) -> None:
    if not condition:
        raise Failed(text)


# ---- what dpkg does ---------------------------------------------------------------

class Packages:
    """The .deb files, in the chroot's /packages; and each again as an older revision."""

    def __init__(self, chroot: Chroot, directory: Path):
        self.chroot = chroot
        place = chroot.root / "packages"
        shutil.rmtree(place, ignore_errors=True)
        (place / "old").mkdir(parents=True)
        self.found = {}
        for deb in sorted(directory.glob("*.deb")):
            name = deb.name.split("_")[0]
            if not name.endswith("-dbgsym"):
                shutil.copy(deb, place)
                self.found[name] = f"/packages/{deb.name}"
        wanted = {"ferrule-python3.13"} if chroot.suite == "bookworm" else {*SYSTEM, "ferrule-python3.13"}
        missing = wanted - self.found.keys()
        if missing:
            raise Failed(f"{directory} has no {', '.join(sorted(missing))}: tests/debian/build.py --suite {chroot.suite} makes it")

    def old(self, name: str) -> str:
        """The package as version 0.0.1, with a dependency of its own on that version."""
        place = self.chroot.root / "packages/old" / name
        made = place.with_name(f"{name}.deb")
        if not made.exists():
            deb = self.chroot.root / self.found[name][1:]
            subprocess.run(["dpkg-deb", "-R", deb, place], check=True)
            control = place / "DEBIAN/control"
            text = control.read_text()
            version = re.search(r"^Version: (.*)$", text, re.M)[1]
            control.write_text(text.replace(version, "0.0.1"))
            subprocess.run(["dpkg-deb", "--root-owner-group", "-b", place, made], check=True, stdout=subprocess.DEVNULL)
        return f"/packages/old/{made.name}"


def intact(chroot: Chroot) -> None:
    """Nothing of another package's was changed."""
    said = chroot.run("debsums", "--silent", "--all", check=False)
    bad = [line for line in (said.stdout + said.stderr).splitlines() if "ferrule" not in line and line.strip()]
    expect(not bad, "changed files: " + "; ".join(bad[:10]))


def purge(chroot: Chroot, *names: str) -> None:
    chroot.run("apt-get", "purge", "-y", *names)
    chroot.run("apt-get", "autoremove", "--purge", "-y")


def version_of(chroot: Chroot, program: str) -> str:
    return chroot.run(program, "-VV").stdout.strip()


def beside(chroot: Chroot, packages: Packages) -> str:
    """python3.13-ferrule beside Debian's, installed, upgraded, removed."""
    before = chroot.files()
    chroot.install(packages.old("python3.13-ferrule"), packages.old("python3.13-ferrule-dev"))
    chroot.install(packages.found["python3.13-ferrule"], packages.found["python3.13-ferrule-dev"])
    expect("Ferrule" in version_of(chroot, OURS), "python3.13-ferrule is no Ferrule")
    expect("Ferrule" not in version_of(chroot, STOCK), "python3.13 is not Debian's any more")
    intact(chroot)
    added = differences(before, chroot.files())
    # What a dependency brings in is not ours to judge here.
    expect(not [line for line in added if line[0] != "+"], f"not only added: {added[:20]}")
    # Who runs it as root leaves bytecode, which goes with the package.
    chroot.run(OURS, "-c", "import framehook", environment={"PYTHONDONTWRITEBYTECODE": ""})
    purge(chroot, "python3.13-ferrule", "python3.13-ferrule-dev")
    expect(not (chroot.root / "usr/lib/python3.13-ferrule").exists(), "/usr/lib/python3.13-ferrule is left behind")
    left = [line for line in differences(before, chroot.files()) if "ferrule" in line or line[0] != "+"]
    expect(not left, f"left behind or changed: {left[:20]}")
    return f"{len(added)} files added and removed"


def as_default(chroot: Chroot, packages: Packages) -> str:
    """python3.13-ferrule-default diverts python3.13, through an upgrade, and puts it back."""
    before = chroot.files()
    chroot.install(*(packages.old(name) for name in SYSTEM[:2]))
    expect("Ferrule" in version_of(chroot, STOCK), "python3.13 is not diverted")
    chroot.install(*(packages.found[name] for name in SYSTEM[:2]))
    for program in (STOCK, "/usr/bin/python3"):
        expect("Ferrule" in version_of(chroot, program), f"{program} is not Ferrule after an upgrade")
    expect("Ferrule" not in version_of(chroot, "/usr/bin/python3.13.distrib"), "Debian's own is not at python3.13.distrib")
    chroot.install("--reinstall", "python3.13-minimal")
    expect("Ferrule" in version_of(chroot, STOCK), "reinstalling python3.13-minimal took the diversion away")
    # Programs of the system's, and packages that run Python as they are installed.
    chroot.install("python3-six", "--reinstall")
    chroot.run("apt-get", "purge", "-y", "python3.13-ferrule-default")
    # Where another package has diverted it, the package is refused, and can be taken away again.
    chroot.run("dpkg-divert", "--local", "--rename", "--divert", "/usr/bin/python3.13.mine", "--add", STOCK)
    refused = chroot.run("apt-get", "install", "-y", packages.found["python3.13-ferrule-default"], check=False)
    expect(refused.returncode != 0 and "clashes with" in refused.stdout + refused.stderr, "another diversion did not stop the package")
    chroot.run("dpkg", "--purge", "--force-all", "python3.13-ferrule-default")
    chroot.run("dpkg-divert", "--local", "--rename", "--remove", STOCK)
    expect("Ferrule" not in version_of(chroot, STOCK), "python3.13 was not put back")
    purge(chroot, "python3.13-ferrule", "python3-six")
    intact(chroot)
    left = differences(before, chroot.files())
    expect(not left, f"left behind or changed: {left[:20]}")
    return "diverted, upgraded, put back"


def self_contained(chroot: Chroot, packages: Packages) -> str:
    """ferrule-python3.13 needs no Python of Debian's, and makes environments with pip."""
    before = chroot.files()
    chroot.install(packages.old("ferrule-python3.13"))
    chroot.install(packages.found["ferrule-python3.13"], "libtk8.6")
    said = chroot.run("sh", "-ec", f"{OWN} -c 'import framehook, ssl, sqlite3, ctypes, lzma, dbm.gnu, uuid, bz2, curses, readline, _tkinter,"
                      f" sys; print(sys.prefix)'; if {OWN} -m ensurepip; then exit 3; fi; rm -rf /tmp/env; {OWN} -m venv /tmp/env;"
                      f" /tmp/env/bin/python -m pip --version; /tmp/env/bin/python -VV").stdout
    expect("/usr/lib/ferrule-python3.13" in said and "pip " in said and "Ferrule" in said, said)
    intact(chroot)
    purge(chroot, "ferrule-python3.13")
    left = [line for line in differences(before, chroot.files()) if "ferrule" in line or line[0] != "+"]
    expect(not left, f"left behind or changed: {left[:20]}")
    return "installed, upgraded, purged"


def together(chroot: Chroot, packages: Packages) -> str:
    """All of them at once: no two have a file of the same name."""
    before = chroot.files()
    chroot.install(*packages.found.values())
    for program in (OURS, OWN, STOCK):
        expect("Ferrule" in version_of(chroot, program), f"{program} is no Ferrule")
    prefixes = [chroot.run(program, "-c", "import sys; print(sys.prefix)").stdout.strip() for program in (OURS, OWN)]
    expect(prefixes == ["/usr", "/usr/lib/ferrule-python3.13"], f"prefixes are {prefixes}")
    purge(chroot, *packages.found)
    intact(chroot)
    left = [line for line in differences(before, chroot.files()) if "ferrule" in line or line[0] != "+"]
    expect(not left, f"left behind or changed: {left[:20]}")
    return f"{len(packages.found)} packages, each with its own library"


def hardened(chroot: Chroot, packages: Packages) -> str:
    """Compiled and linked with Debian's protections: `hardening-check` says the same of it as of Debian's interpreter."""
    chroot.install(packages.found["python3.13-ferrule"], packages.found["ferrule-python3.13"], "devscripts")
    said = {program: chroot.run("hardening-check", program, check=False).stdout.partition("\n")[2]
            for program in (STOCK, OURS, "/usr/lib/ferrule-python3.13/bin/python3.13")}
    expect("Stack protected: yes" in said[STOCK], said[STOCK])
    expect(len(set(said.values())) == 1, "\n".join(f"{program}:\n{text}" for program, text in said.items()))
    purge(chroot, "ferrule-python3.13")
    return f"{len(said[STOCK].splitlines())} properties"


def developing(chroot: Chroot, packages: Packages) -> str:
    """An extension with frame hooks in C and one in Rust, from the packages alone."""
    chroot.install(packages.found["python3.13-ferrule"], packages.found["python3.13-ferrule-dev"], "gcc", "pkgconf", "cargo")
    place = chroot.root / "tmp/dev"
    (place / "src").mkdir(parents=True, exist_ok=True)
    (place / ".cargo").mkdir(exist_ok=True)
    (place / "own.c").write_text("""
#include <Python.h>
#include <cpython/framehook.h>
static PyModuleDef own = {PyModuleDef_HEAD_INIT, .m_name = "own"};
PyMODINIT_FUNC PyInit_own(void) { PyUnstable_FrameHookEntryFunction none = NULL; (void)none; return PyModule_Create(&own); }
""")
    (place / "Cargo.toml").write_text('[package]\nname = "own_rust"\nversion = "0.1.0"\nedition = "2021"\n'
                                      '[lib]\ncrate-type = ["cdylib"]\n[dependencies]\nframehook = "0.2"\n'
                                      'pyo3 = { version = "0.28", features = ["extension-module"] }\n')
    (place / ".cargo/config.toml").write_text('[source.crates-io]\nreplace-with = "ferrule"\n[source.ferrule]\n'
                                              'directory = "/usr/share/python3.13-ferrule/crates"\n')
    shutil.copy(ROOT / "examples/rust_hook/src/lib.rs", place / "src/lib.rs")
    chroot.run("sh", "-ec", "cd /tmp/dev; gcc -Wall -Werror -shared -fPIC $(pkg-config --cflags python-3.13-ferrule) own.c -o own.so;"
               f"PYO3_PYTHON={OURS} cargo build --offline --quiet --release; cp target/release/libown_rust.so rust_hook.so;"
               f"{OURS} -c 'import sys; sys.path.insert(0, \".\"); import own, rust_hook; rust_hook.count_calls()'")
    shutil.rmtree(place)
    return "C with pkg-config, Rust without a network"


# ---- programs -----------------------------------------------------------------------

def header(program: Path, name: str, default: str = "") -> str:
    found = re.search(rf"^# {name}: (.*)$", program.read_text(), re.M)
    return found[1] if found else default


def same(chroot: Chroot, program: Path) -> str:
    """A program prints the same on both interpreters."""
    chroot.install(*header(program, "needs").split())
    place = chroot.root / "programs"
    place.mkdir(exist_ok=True)
    shutil.copy(program, place)
    seconds = int(header(program, "seconds", "300"))
    runs = [(interpreter, chroot.run(interpreter, f"/programs/{program.name}", seconds=seconds, check=False))
            for interpreter in ((OURS,) if header(program, "only") else (STOCK, OURS))]
    for interpreter, done in runs:
        expect(done.returncode == 0, f"{interpreter}: exit status {done.returncode}\n{done.stdout[-1500:]}{done.stderr[-1500:]}")
    outputs = {done.stdout.replace(OURS, STOCK) for _, done in runs}
    expect(len(outputs) == 1, "not the same:\n" + "\n".join(f"{interpreter}: {done.stdout[-1500:]}" for interpreter, done in runs))
    package = header(program, "needs").split()[0]
    return chroot.run("dpkg-query", "-W", "-f", "${Package} ${Version}", package).stdout


def testsuite(chroot: Chroot) -> str:
    """Debian's tests of python3.13: what fails on Ferrule fails on Debian's interpreter too."""
    chroot.install("libpython3.13-testsuite", "locales-all", "gdb", "python3-tk", "python3-gdbm")
    options = ("-m", "test", "--timeout", "900", "-u", "all,-network,-urlfetch,-gui,-cpu,-largefile,-audio")

    def of(interpreter: str, *more: str) -> set[str]:
        return failures(chroot.run(interpreter, *options, *more, check=False, seconds=7200).stdout)

    first = of(OURS, "-j0")
    again = of(OURS, "-j1", *sorted(first)) if first else set()
    stock = of(STOCK, "-j1", *sorted(again)) if again else set()
    expect(again <= stock, f"fail on Ferrule alone: {' '.join(sorted(again - stock))}")
    return f"{len(first)} failed, {len(again)} again, {len(again & stock)} of them with Debian's interpreter too"


def failures(said: str) -> set[str]:
    """The names of the test files that failed in a run that came to its end."""
    found = re.search(r"^\d+ tests? failed:\n((?:    .*\n)+)", said, re.M)
    if not found and not re.search(r"^Result: ", said, re.M):
        raise Failed(f"the tests did not come to their end:\n{said[-2000:]}")
    return set(found[1].split()) if found else set()


# ---- all together ---------------------------------------------------------------------

class Results:
    def __init__(self) -> None:
        self.rows, self.passed, self.failed = [], 0, 0

    def check(self, name: str, what: str, function, *arguments) -> None:
        started = time.monotonic()
        print(f"=== {name}", flush=True)
        try:
            reported = function(*arguments)
        except (Failed, subprocess.SubprocessError, OSError) as error:
            self.failed += 1
            print(f"FAILED after {time.monotonic() - started:.0f} s: {error}", flush=True)
            return
        self.passed += 1
        self.rows.append((name, reported, what))
        print(f"ok in {time.monotonic() - started:.0f} s: {reported}", flush=True)


def publish(rows: list, chroot: Chroot) -> None:
    text = ("# Ferrule's packages on Debian 13\n\nMade by `tests/debian/run.py --publish`, in a fresh Debian 13: "
            f"{version_of(chroot, OURS).splitlines()[0]}.\n\n| | with | what was done |\n|---|---|---|\n"
            + "".join(f"| {name} | {reported} | {what} |\n" for name, reported, what in rows))
    PAGE.write_text(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default="trixie", choices=tuple(RELEASES))
    parser.add_argument("--packages", type=Path, metavar="DIR", help="default: build/dist/debian-13, or -12")
    parser.add_argument("--root", type=Path, help="a chroot to make, or to use again; kept")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these checks alone")
    parser.add_argument("--testsuite", action="store_true", help="Debian's tests of python3.13 too: an hour")
    parser.add_argument("--publish", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    options = parser.parse_args()
    if options.publish and (options.only or options.suite != "trixie"):
        parser.error("--publish is for all checks on Debian 13")
    options.packages = options.packages or ROOT / f"build/dist/debian-{RELEASES[options.suite]}"
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        sys.exit("run.py: run as root, with debootstrap installed")
    with tempfile.TemporaryDirectory() as temporary:
        chroot = Chroot((options.root or Path(temporary) / options.suite).absolute(), options.suite)
        results = Results()
        try:
            chroot.make()
            # Of an earlier run, where the chroot is kept.
            chroot.run("apt-get", "purge", "-y", "?installed?name(ferrule)")
            chroot.install("debsums", "media-types", "tzdata",
                           *(() if options.suite == "bookworm" else ("python3", "libpython3.13-stdlib", "python3-minimal")))
            packages = Packages(chroot, options.packages)
        except (Failed, subprocess.SubprocessError) as error:
            sys.exit(f"run.py: {error}")
        if options.suite == "bookworm":
            results.check(self_contained.__name__, self_contained.__doc__, self_contained, chroot, packages)
            print(f"{results.passed} passed, {results.failed} failed, 0 skipped")
            return 1 if results.failed else 0
        checks = [(function.__name__, function.__doc__, function, packages)
                  for function in (beside, as_default, self_contained, together, hardened, developing)]
        programs = [(program.stem.removesuffix("_works").removesuffix("_work"), ast.get_docstring(ast.parse(program.read_text())),
                     same, program) for program in sorted((HERE / "programs").glob("*.py"))]
        for name, what, function, argument in [*checks, *programs]:
            if not options.only or name in options.only:
                if function is same:
                    chroot.install(packages.found["python3.13-ferrule"])
                results.check(name, what, function, chroot, argument)
        if options.testsuite and (not options.only or "testsuite" in options.only):
            chroot.install(packages.found["python3.13-ferrule"])
            results.check("testsuite", testsuite.__doc__, testsuite, chroot)
        if options.publish and not results.failed:
            publish(results.rows, chroot)
    print(f"{results.passed} passed, {results.failed} failed, 0 skipped")
    return 1 if results.failed or not results.passed else 0


if __name__ == "__main__":
    sys.exit(main())
