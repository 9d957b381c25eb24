"""The interpreter of a binary: the last commit, built profile-guided in a clone, and installed to a directory."""

import lzma
import shutil
import subprocess
import sys
from pathlib import Path

from tools import places, profile, running
from tools.binary.libraries import Tools
from tools.binary.relocate import PREFIX
from tools.clone import at_last_commit

VERSION = profile.BINARY.version
FLAGS = (f"--prefix={PREFIX}", "--enable-optimizations", "--with-lto", "--without-static-libpython", "--with-readline=editline",
         "--with-dbmliborder=", "--disable-test-modules")
# Packages that need Tk, and CPython's own tests.
WITHOUT = ("lib/python3.13/test", "lib/python3.13/idlelib", "lib/python3.13/tkinter", "lib/python3.13/turtledemo", "lib/python3.13/turtle.py",
           "bin/idle3*")


def build(tools: Tools, sysroot: Path, work: Path) -> Path:
    """Returns the directory that PREFIX was installed to."""
    tree = work / "tree"
    at_last_commit(places.ROOT, tree)
    used = work / "profile"
    major = tools.home.parent.name.rpartition("-")[2]
    used.write_bytes(lzma.decompress(profile.BINARY.profile(major).read_bytes()))
    given = profile.environment(profile.BINARY)
    variables = {"SYSROOT": str(sysroot), "PROFILE_USE": str(used),
                 "PKG_CONFIG": "pkg-config --static", "PKG_CONFIG_LIBDIR": f"{tools.prefix}/lib/pkgconfig",
                 # The same bitcode is linked into the program, which stays where it is linked for, and into libpython, which does not.
                 "CFLAGS_NODIST": "-fPIC -fno-semantic-interposition", "LDFLAGS_NODIST": "-no-pie",
                 "LDFLAGS": f"-L{tools.prefix}/lib -Wl,--exclude-libs,ALL"}
    run(["./configure", *profile.BINARY.choices, *FLAGS, f"--with-openssl={tools.prefix}",
         # For the build's own check that the modules can be imported; relocate names the place in the tarball.
         f"--with-openssl-rpath={tools.prefix}/lib", *(f"{name}={value}" for name, value in variables.items())],
        tree, "configure", given)
    run([sys.executable, "-B", "-m", "tools.build", "make", "ferrule"], tree, "make", given)
    installed = work / "installed"
    shutil.rmtree(installed, ignore_errors=True)
    run([sys.executable, "-B", "-m", "tools.build", "install", "ferrule"], tree, "install", {**given, "DESTDIR": str(installed), "MAKEFLAGS": ""})
    root = installed / PREFIX.lstrip("/")
    library = root / "lib" / "python3.13"
    built = tree / "build" / "ferrule"
    run([sys.executable, "-B", "-m", "tools.clients", "--python", str(built / "python"), "--only", "jit", "--packages", str(library)],
        tree, "jit", given)
    # What reads -X ferrule_jit at start-up.
    shutil.copy(tree / "clients" / "jit" / "ferrule_jit.data" / "purelib" / "ferrule_jit.pth", library / "site-packages")
    shared(built, root / "lib", given)
    return root


def shared(built: Path, target: Path, environment: dict[str, str]) -> None:
    """The library for programs with an interpreter in them, linked from the interpreter's own bitcode: the program has it built in."""
    name = "libpython3.13.so"
    run(["make", name, f"INSTSONAME={name}.1.0"], built, "libpython", environment)
    shutil.copy2(built / f"{name}.1.0", target / f"{name}.1.0")
    (target / name).symlink_to(f"{name}.1.0")


def run(command: list[str], place: Path, name: str, environment: dict[str, str]) -> None:
    log = places.logs() / f"binary-{name}.log"
    running.logged(command, "the binary was not built", label=f"binary: {name}", log=log, cwd=place, env=environment)


def trim(root: Path, strip: Path) -> None:
    """Removes what the tarball is without, bytecode, and the symbols of programs and libraries."""
    for pattern in (*WITHOUT, "lib/**/__pycache__"):
        for path in sorted(root.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.is_symlink() and path.read_bytes()[:4] == b"\x7fELF":
            mode = path.stat().st_mode
            path.chmod(0o755)
            subprocess.run([strip, "--strip-unneeded" if ".so" in path.name else "--strip-all", path], check=True)
            path.chmod(mode)
