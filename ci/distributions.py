#!/usr/bin/env python3
"""What would be uploaded to package indexes: wheels and source distributions of clients/, and the crate framehook.

Everything is built of the files under version control alone, checked by twine, auditwheel and cargo, and installed into new environments:
the wheels, then the source distributions. mypy's stubtest compares each stub with the package. It needs build/ferrule and build/stock, takes
ten minutes, and uploads nothing. The last line is the counts.
"""

import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

from ci.checks import check, run, total
from tools import clients, places

OUT = places.BUILD / "distributions"
FERRULE, STOCK = (places.BUILD / build / "python" for build in ("ferrule", "stock"))
TOOLS = ("build", "twine", "auditwheel", clients.MATURIN)
PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
ON_STOCK = ("framehook", "ferrule_debugger", "ferrule_profiler")
# Files of a package whose absence only its users would notice.
OF_A_WHEEL = ("LICENSE", "py.typed", "__init__.pyi")
OF_A_SOURCE = ("LICENSE", "README.md", "pyproject.toml")


def environment(python: str | Path, directory: Path, *packages: str | Path) -> Path:
    """The python of a new environment, in which these are installed."""
    subprocess.run([python, "-m", "venv", directory], check=True)
    inside = directory / "bin" / "python"
    if packages:
        subprocess.run([inside, *PIP, *packages], check=True)
    return inside


def copy_of_the_tree(directory: Path) -> Path:
    """The files under version control, as they are here."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=places.ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (places.ROOT / name).exists():
            target = directory / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(places.ROOT / name, target)
    return directory


def build(tree: Path, tools: Path) -> None:
    for client in clients.sources():
        here = tree / client.relative_to(places.ROOT)
        if clients.is_rust(client):
            cargo = {**clients.for_cargo(str(FERRULE)), "CARGO_TARGET_DIR": str(places.BUILD / "cargo-clients")}
            maturin = tools.parent / "maturin"
            made = run(maturin, "build", "--locked", "--auditwheel", "check", "--interpreter", FERRULE, "--out", OUT, cwd=here, **cargo) and \
                run(maturin, "sdist", "--out", OUT, cwd=here)
        else:
            made = run(tools, "-m", "build", "--quiet", "--outdir", OUT, here)
        check(made, f"{client.name} builds, as a wheel and as source")


def names(archive: Path) -> list[str]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as opened:
            return opened.namelist()
    with tarfile.open(archive) as opened:
        return opened.getnames()


def check_contents(archive: Path) -> None:
    """A distribution has what its users expect. That of a workspace has the client itself below its first directory."""
    wanted = OF_A_WHEEL if archive.suffix == ".whl" else OF_A_SOURCE
    found = {Path(name).name for name in names(archive)}
    check(found.issuperset(wanted), f"{archive.name} has {', '.join(wanted)}")


def package_of(client: Path) -> str:
    project: str = tomllib.loads((client / "pyproject.toml").read_text())["project"]["name"]
    return project.replace("-", "_")


def check_installed(python: Path, directory: Path, kind: str, archives: list[Path], packages: list[str]) -> None:
    """All that is installed into a new environment at once can be imported, each in a process of its own.

    What is installed comes before the library: this tree's has a module framehook for both interpreters, another CPython's has none.
    """
    inside = environment(python, directory)
    # Without the index for what is installed: a package of another author that has a name of ours would be found there.
    if not check(run(inside, *PIP, "--no-deps", *archives), f"{kind} can be installed on {python.parent.name}"):
        return
    site = subprocess.check_output([inside, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))"], text=True).strip()
    for package in packages:
        check(run(inside, "-c", f"import {package}", PYTHONPATH=site), f"{package}, of {kind}, can be imported on {python.parent.name}")


def check_stubs(directory: Path, wheels: list[Path], packages: list[str]) -> None:
    """By copies of the stubs alone: mypy would check the modules beside them too."""
    inside = environment(FERRULE, directory, "mypy")
    run(inside, *PIP, "--no-deps", *wheels)
    for package in packages:
        if package == "framehook":
            continue        # of the standard library on Ferrule; tests/typing has its stub
        for stub in directory.glob(f"lib/python*/site-packages/{package}/*.pyi"):
            copy = directory / "copies" / package / stub.name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(stub, copy)
        checked = run(inside, "-m", "mypy.stubtest", "--ignore-missing-stub", package, cwd=directory, MYPYPATH=str(directory / "copies"))
        check(checked, f"the stubs of {package} are as the package is")


def check_all() -> None:
    shutil.rmtree(OUT, ignore_errors=True)
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        tools = environment(sys.executable, directory / "tools", *TOOLS)
        build(copy_of_the_tree(directory / "tree"), tools)
        wheels, sources = sorted(OUT.glob("*.whl")), sorted(OUT.glob("*.tar.gz"))
        packages = [package_of(client) for client in clients.sources()]
        check(len(wheels) == len(sources) == len(packages), "a wheel and a source distribution of each client")
        check(run(tools, "-m", "twine", "check", "--strict", *wheels, *sources), "twine check --strict")
        for archive in [*wheels, *sources]:
            check_contents(archive)
        for wheel in wheels:
            if not wheel.name.endswith("-none-any.whl"):
                check("-manylinux_" in wheel.name and run(tools, "-m", "auditwheel", "show", wheel), f"{wheel.name} runs on other distributions")
        check_installed(FERRULE, directory / "wheels", "the wheels", wheels, packages)
        check_installed(FERRULE, directory / "sources", "the sources", sources, packages)
        on_stock = [wheel for wheel in wheels if wheel.name.startswith(ON_STOCK)]
        check_installed(STOCK, directory / "stock", "the wheels", on_stock, list(ON_STOCK))
        check_stubs(directory / "stubs", wheels, packages)
        crate = ["--package", "framehook", "--locked", "--target-dir", str(directory / "crate")]
        variables = {**clients.for_cargo(str(FERRULE)), "PYO3_BUILD_EXTENSION_MODULE": "1"}
        check(run("cargo", "package", *crate, cwd=directory / "tree", **variables), "cargo package: the crate builds by itself")


def main() -> int:
    for python in (FERRULE, STOCK):
        if not python.exists():
            sys.exit(f"ci/distributions: there is no {python.relative_to(places.ROOT)}: run `make {'' if python == FERRULE else 'stock'}` first")
    check_all()
    return total()


if __name__ == "__main__":
    sys.exit(main())
