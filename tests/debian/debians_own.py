#!/usr/bin/env python3
"""Build Debian's own python3.13 with Ferrule's series in it, and use what came out.

The source package is Debian's of today; tools/into_debian.py puts the source release of `make dist` into it, and Debian's rules build
it in a fresh Debian 13, without a network. The packages then take the place of Debian's in that chroot.

As root, with debootstrap. --full trains and tests as Debian's own build does, which takes many hours; without it the compiler has no
profile. --root keeps the chroot, and uses it again.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.debian.chroot import Chroot, Failed, counted, source_release

ROOT = Path(__file__).resolve().parents[2]
HOUR = 3600
QUICK = "nocheck nobench nopgo"
# Those of CPython's tests that are about frames, calls, tracing and the interpreter as a whole.
TESTS = ("test_frame", "test_generators", "test_coroutines", "test_sys_settrace", "test_sys_setprofile", "test_monitoring", "test_inspect",
         "test_traceback", "test_gc", "test_threading", "test_embed", "test_capi", "test_code", "test_call", "test_exceptions", "test_venv")
HOOK = """
import _framecore, framehook, sys
seen = []
framehook.add(lambda view: seen.append(view.code.co_name))
def called(): pass
called(), called()
assert seen.count("called") == 2, seen
print(sys.version.splitlines()[0], sorted(_framecore.info())[:3])
"""
EMBEDDED = """
#include <Python.h>
int main(void) { Py_Initialize(); int failed = PyRun_SimpleString("import _framecore, ssl, ctypes, lzma"); return failed || Py_FinalizeEx() < 0; }
"""


def source(chroot: Chroot, release: Path) -> Path:
    """Debian's source package, unpacked in the chroot, with the series in it."""
    sources = chroot.root / "etc/apt/sources.list"
    lines = [line for line in sources.read_text().splitlines() if line.startswith("deb ")]
    sources.write_text("\n".join([*lines, *(f"deb-src{line[3:]}" for line in lines)]) + "\n")
    chroot.run("apt-get", "update")
    chroot.install("dpkg-dev", "debhelper")
    place = chroot.root / "build"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    chroot.run("sh", "-ec", "cd /build && apt-get source --only-source python3.13")
    tree, = (path for path in place.iterdir() if path.is_dir())
    done = subprocess.run([sys.executable, "-B", "-m", "tools.into_debian", release, tree], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"into_debian.py: {done.stdout}{done.stderr}")
    chroot.run("apt-get", "build-dep", "-y", f"/build/{tree.name}", seconds=HOUR)
    return tree


def build(chroot: Chroot, tree: Path, options: str) -> list[str]:
    """The names of the packages for this machine."""
    started = time.monotonic()
    command = f"cd /build/{tree.name} && dpkg-buildpackage -us -uc -B >../log 2>&1"
    done = chroot.run("sh", "-c", command, check=False, seconds=20 * HOUR, network=False,
                      environment={"DEB_BUILD_OPTIONS": f"{options} parallel={os.cpu_count()}".strip()})
    log = tree.parent / "log"
    if done.returncode != 0:
        raise Failed(f"dpkg-buildpackage failed:\n{done.stderr}{log.read_text(errors='replace')[-3000:]}")
    names = sorted(path.name for path in tree.parent.glob("*.deb") if "-dbgsym_" not in path.name)
    print(f"built in {(time.monotonic() - started) / 60:.0f} minutes, without a network: {len(names)} packages", flush=True)
    return names


def use(chroot: Chroot, names: list[str]) -> str:
    """All of them installed over Debian's: hooks in each interpreter, a program that embeds, and tests of CPython's."""
    chroot.install(*(f"/build/{name}" for name in names if "-nopie" not in name), "gcc", "libc6-dev", "libpython3.13-testsuite")
    for interpreter in ("python3.13", "python3.13d"):
        print("  ", chroot.run(interpreter, "-c", HOOK).stdout.strip(), flush=True)
    (chroot.root / "build/own.c").write_text(EMBEDDED)
    chroot.run("sh", "-ec", "cd /build && gcc own.c $(python3.13-config --cflags --ldflags --embed) -o own && ./own")
    tested = chroot.run("python3.13", "-m", "test", "-j2", "--timeout", "900", *TESTS, check=False, seconds=HOUR)
    results = [line for line in tested.stdout.splitlines() if line.startswith("Result: ")]
    if tested.returncode != 0:
        raise Failed(f"python3.13 -m test: {tested.stdout[-3000:]}")
    return f"{len(TESTS)} of CPython's test files: {results[-1]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, help="a chroot of Debian 13 to make, or to use again; kept")
    parser.add_argument("--full", action="store_true", help="with Debian's training, benchmarks and tests")
    options = parser.parse_args()
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        sys.exit("debians_own.py: run as root, with debootstrap installed")
    release = source_release()
    with tempfile.TemporaryDirectory() as temporary:
        chroot = Chroot((options.root or Path(temporary) / "trixie").absolute())

        def steps() -> Iterator[bool]:
            chroot.make()
            names = build(chroot, source(chroot, release), "" if options.full else QUICK)
            yield True
            print(use(chroot, names), flush=True)
            yield True
        return counted(steps())


if __name__ == "__main__":
    sys.exit(main())
