#!/usr/bin/env python3
"""Ferrule for arm64: cross-built in a fresh Debian 13, with its clang 19 and rustc, and tried under qemu's emulation.

    ci/arm64                   build, and run all tests in C and Python, those of ferrule_jit among them: several hours, a program takes ten
                               times as long
    ci/arm64 NAME...           these alone: modules of tests/python or tests/jit, or CPython's tests
    ci/arm64 --cpython         CPython's tests about frames too
    ci/arm64 --root DIR        a chroot to make, or to use again; kept. What has passed there is not run again, unless
                               more has changed since than documents and other tests
    ci/arm64 --publish         with all of them: write the row to docs/builds.md

As root, with debootstrap and qemu-user-static. The emulator is registered with the kernel (binfmt_misc), for as long as this runs. What has no
place in an emulator is left out: single steps of the processor, tools that read another process. A test of CPython's that fails runs on
stock too, cross-built in the same way: where it fails there in one of five runs, it is skipped. The last line is the counts.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from ci.builds import ARM64, publish, row
from tests import run as project_tests
from tests.debian.chroot import Chroot, Failed
from tests.steps import Counts
from tools.clone import at_last_commit

ROOT = Path(__file__).resolve().parent.parent

EMULATOR = "/usr/bin/qemu-aarch64-static"
BINFMT = Path("/proc/sys/fs/binfmt_misc")
# An ELF file of 64 bits, little-endian, a program or a library, for aarch64. F: the emulator is found from within a chroot.
MAGIC = (r":ferrule-aarch64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:"
         r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:" + EMULATOR + ":F")
TOOLS = ("rustc", "cargo", "clang-19", "lld-19", "llvm-19", "libclang-19-dev", "libclang-cpp19", "make", "python3", "python3-dev", "git", "patch",
         "xz-utils", "ca-certificates", "autoconf", "autoconf-archive", "pkgconf", "gcc", "crossbuild-essential-arm64")
LIBRARIES = ("libstd-rust-dev", "libc6-dev", "zlib1g-dev", "libffi-dev", "libbz2-dev", "liblzma-dev", "libssl-dev", "libsqlite3-dev",
             "libreadline-dev", "libncurses-dev", "uuid-dev", "libgdbm-dev")
CC = "clang-19 --target=aarch64-linux-gnu"
CONFIGURE = ("--build=x86_64-linux-gnu", "--host=aarch64-linux-gnu", "--with-build-python=/usr/bin/python3.13", f"CC={CC}",
             "ac_cv_buggy_getaddrinfo=no", "ac_cv_file__dev_ptmx=yes", "ac_cv_file__dev_ptc=no")
# Extension modules in Rust, for cargo.
CARGO = {"CARGO_BUILD_TARGET": "aarch64-unknown-linux-gnu", "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER": "aarch64-linux-gnu-gcc"}
HERE = "/root/ferrule"
PYTHON, STOCK = f"{HERE}/build/ferrule/python", f"{HERE}/build/stock/python"
OWN_TESTS = [name for name in project_tests.python_modules() if name not in ("test_debugger", "test_frames_at_every_instruction")]
# No module of these is left out. They skip what gdb reads, which is not there, and a limit of memory, which the emulator ignores.
JIT_TESTS = project_tests.python_modules(project_tests.JIT_TESTS)
BY_UNITTEST = {*OWN_TESTS, *JIT_TESTS}
# ferrule_jit, built once for all of them.
JIT = f"{HERE}/build/jit-packages"
# In KiB, as the limit that random programs set themselves is ignored too.
MOST_MEMORY = "8000000"
HOUR = 3600


@contextmanager
def emulation() -> Iterator[None]:
    """The kernel starts programs for arm64 with the emulator."""
    if not os.access(EMULATOR, os.X_OK):
        raise Failed(f"there is no {EMULATOR}: apt-get install qemu-user-static")
    if any("aarch64" in entry.name for entry in BINFMT.glob("*")):
        yield
        return
    mounted = (BINFMT / "register").exists()
    if not mounted:
        subprocess.run(["mount", "-t", "binfmt_misc", "binfmt_misc", BINFMT], check=True)
    (BINFMT / "register").write_bytes(MAGIC.encode("ascii"))
    try:
        yield
    finally:
        (BINFMT / "ferrule-aarch64").write_text("-1")
        if not mounted:
            subprocess.run(["umount", BINFMT], check=False)


def build(chroot: Chroot) -> None:
    chroot.make()
    print("tools and libraries", flush=True)
    chroot.run("dpkg", "--add-architecture", "arm64")
    chroot.run("apt-get", "update")
    chroot.install(*TOOLS, *(f"{name}:arm64" for name in LIBRARIES))
    at_last_commit(ROOT, chroot.root / HERE.lstrip("/"))
    chroot.run("git", "config", "--global", "safe.directory", "*")
    for words in (("./configure", *CONFIGURE), ("make",)):
        print(" ".join(words)[:60], flush=True)
        chroot.run("sh", "-c", 'cd "$0" && exec "$@"', HERE, *words, seconds=2 * HOUR)


def holds(name: str, changed: list[str]) -> bool:
    """Whether these files, which have changed since a test was run, have nothing to do with it."""
    other = r"docs/|ci/|benchmarks/|[^/]+\.md$|tests/(python|jit)/test_\w+\.py$"
    if name not in JIT_TESTS:
        other += r"|clients/jit/|tests/jit/"
    return all(re.match(other, path) and Path(path).stem != name for path in changed)


class Results:
    """The results of tests at one commit, kept in the chroot: a run that was stopped continues from them, and so does one at a
    later commit that has changed documents and other tests alone."""

    def __init__(self, chroot: Chroot, commit: str):
        self.file, self.commit, self.found = chroot.root / "root" / "arm64.json", commit, {}
        if self.file.exists():
            kept = json.loads(self.file.read_text())
            changed = subprocess.run(["git", "-C", ROOT, "diff", "--name-only", kept["commit"], commit], capture_output=True, text=True)
            if changed.returncode == 0:
                self.found = {name: Counts(**numbers) for name, numbers in kept["results"].items() if holds(name, changed.stdout.split())}
        self.lock = threading.Lock()

    def has_passed(self, name: str) -> bool:
        return name in self.found and not self.found[name].failed

    def put(self, name: str, counts: Counts) -> None:
        with self.lock:
            self.found[name] = counts
            text = json.dumps({"commit": self.commit, "results": {name: vars(one) for name, one in self.found.items()}}, indent=1)
            new = self.file.with_suffix(".new")
            new.write_text(text)
            new.replace(self.file)

    def of(self, names: list[str]) -> Counts:
        return sum((self.found[name] for name in names if name in self.found), Counts())


def run_tests(chroot: Chroot, python: str, name: str) -> tuple[int, str]:
    """(exit status, what it said) of a module of tests/python or tests/jit, or a test of CPython's."""
    # Processes have the same numbers in each of these, and name files by them.
    own = f"/tmp/{name}-{'stock' if python == STOCK else 'ferrule'}"
    words = (python, "-m", "unittest", name) if name in BY_UNITTEST else (python, "-m", "test", "--timeout=3000", "--tempdir", own, name)
    directory, most = ("jit", MOST_MEMORY) if name in JIT_TESTS else ("python", "unlimited")
    done = chroot.run(
        "sh", "-c", 'mkdir -p "$TMPDIR" && ulimit -v "$1" && shift && cd "$0" && exec timeout 3600 "$@"', f"{HERE}/tests/{directory}", most, *words,
        check=False, seconds=HOUR + 60,
        environment={**CARGO, "FERRULE_PYTHON": PYTHON, "FERRULE_JIT_PACKAGES": JIT, "CC": CC, "FERRULE_TEST_PATIENCE": "10", "TMPDIR": own})
    return done.returncode, (done.stdout + done.stderr).rstrip()


making_stock = threading.Lock()


def fails_on_stock(chroot: Chroot, name: str) -> bool:
    with making_stock:
        if not (chroot.root / STOCK.lstrip("/")).exists():
            print("make stock", flush=True)
            chroot.run("make", "-C", HERE, "stock", seconds=2 * HOUR)
    return any(run_tests(chroot, STOCK, name)[0] != 0 for _ in range(5))


def counts_of_cpythons(chroot: Chroot, name: str, status: int, said: str) -> Counts:
    """Of a file of CPython's tests, which counts as one, as regrtest counts it."""
    if re.search(r"^Total test files: .*\bskipped=1", said, re.M) or status != 0 and fails_on_stock(chroot, name):
        return Counts(skipped=1)
    return Counts(passed=1) if status == 0 else Counts(failed=1)


def test(chroot: Chroot, name: str) -> Counts:
    status, said = run_tests(chroot, PYTHON, name)
    counts = Counts.of_unittest(said, status) if name in BY_UNITTEST else counts_of_cpythons(chroot, name, status, said)
    word = "FAILED" if counts.failed else "skipped" if not counts.passed else "ok"
    print(f"{word:7} {name}: {counts}", flush=True)
    if status != 0:
        print(said[-4000:], flush=True)
    return counts


def everything(chroot: Chroot, names: list[str]) -> tuple[Results, bool]:
    """The results, and whether what was built is for arm64."""
    with emulation():
        build(chroot)
        commit = chroot.run("git", "-C", HERE, "rev-parse", "--short", "HEAD").stdout.strip()
        machine = chroot.run(PYTHON, "-c", "import _framecore, platform; print(platform.machine())").stdout.strip()
        print(f"it runs: {machine}", flush=True)
        chroot.run("python3", f"{HERE}/tests/c/build_extensions.py", "--python", PYTHON, "--out",
                   f"{HERE}/build/test-extensions/ferrule-cpython-313-aarch64-linux-gnu", environment={"CC": CC})
        if set(names) & set(JIT_TESTS):
            print("ferrule_jit", flush=True)
            chroot.run("sh", "-c", 'cd "$0" && exec "$@"', HERE, "python3", "-m", "tools.clients", "--python", PYTHON, "--packages", JIT,
                       "--only", "jit", seconds=HOUR, environment=CARGO)
        results = Results(chroot, commit)
        left = [name for name in names if not results.has_passed(name)]
        if len(left) < len(names):
            print(f"{len(names) - len(left)} of {len(names)} have passed before", flush=True)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda name: results.put(name, test(chroot, name)), left))
        return results, machine == "aarch64"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--root", type=Path, help="a chroot to make, or to use again; kept")
    parser.add_argument("--cpython", action="store_true", help="CPython's tests about frames too")
    parser.add_argument("--publish", action="store_true", help="write docs/builds.md")
    options = parser.parse_args()
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        parser.error("run as root, with debootstrap installed")
    if options.publish and (options.names or not options.cpython):
        parser.error("--publish is for all tests: --cpython, and no names")
    names = options.names or [*OWN_TESTS, *JIT_TESTS, *(project_tests.CPYTHON_TESTS if options.cpython else ())]
    if unknown := set(names) - {*BY_UNITTEST, *project_tests.CPYTHON_TESTS}:
        parser.error(f"there is no {', '.join(sorted(unknown))} that can be run here")
    with tempfile.TemporaryDirectory(prefix="ferrule-arm64-") as directory:
        try:
            results, is_arm64 = everything(Chroot(options.root or Path(directory)), names)
        except (Failed, subprocess.SubprocessError) as error:
            print(f"arm64: {error}\n0 passed, 1 failed, 0 skipped")
            return 1
    if options.publish:
        cells = [str(results.of(part)) for part in ([*OWN_TESTS, *JIT_TESTS], project_tests.CPYTHON_TESTS)]
        publish({ARM64: row(ARM64, (CONFIGURE[1],), results.commit, *cells)})
    total = results.of(names) + (Counts(passed=1) if is_arm64 else Counts(failed=1))
    print(total)
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
