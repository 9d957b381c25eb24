#!/usr/bin/env python3
"""Builds the clients of frame hooks, in clients/, for one interpreter.

    python3 -m tools.clients --python build/ferrule/python        # wheels, into build/clients

What is installed with an interpreter takes cargo alone: see put_together(). For the wheels maturin, and setuptools for what
is Python alone, come from the package index, into an environment of their own.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from tools import choices, making, places, pyo3, toolchain
from tools.errors import BuildError
from tools.running import logged, said
from tools.variants import VARIANTS

MATURIN = "maturin>=1.9,<2"
# What was chosen for other programs, and would move or change ours; and options of makes and compilers of C.
NOT_FOR_CARGO = re.compile(r"(CARGO_(BUILD|PROFILE|TARGET|UNSTABLE)_|CARGO_ENCODED_|RUSTFLAGS|RUSTC$|MAKEFLAGS|MFLAGS|MAKELEVEL"
                           r"|CFLAGS|LDFLAGS|PYO3_)")
# Of use with another package or interpreter alone, or with a compiler in it that is large: a wheel, and no part of what is installed with an interpreter.
WHEELS_ONLY = ("dynamo", "framehook", "jit")
# Beside the files that were put together: of which source they are.
STAMP = "made-of"


def sources() -> list[Path]:
    """The directories of all clients."""
    return sorted(path.parent for path in places.ROOT.glob("clients/*/pyproject.toml"))


def installed() -> list[Path]:
    """Of those that are installed with an interpreter."""
    return [client for client in sources() if client.name not in WHEELS_ONLY]


def is_rust(client: Path) -> bool:
    return (client / "Cargo.toml").exists()


def for_cargo(python: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not NOT_FOR_CARGO.match(name)}
    machine = os.environ.get("CARGO_BUILD_TARGET")
    if machine and machine == machine_of(python):
        variable = f"CARGO_TARGET_{machine.upper().replace('-', '_')}_LINKER"
        kept |= {name: os.environ[name] for name in ("CARGO_BUILD_TARGET", variable) if name in os.environ}
    home = Path(kept.get("CARGO_HOME") or Path.home() / ".cargo")
    # What is built does not know where.
    flags = [f"--remap-path-prefix={home}=cargo", f"--remap-path-prefix={places.ROOT}=ferrule", *linker()]
    return {**kept, **pyo3.environment(python, places.BUILD / "cargo-clients"), "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(flags)}


def machine_of(python: str) -> str:
    """Rust's name of the machine that is built for: where the interpreter was cross-built, that of CARGO_BUILD_TARGET."""
    ask = "from sysconfig import get_config_var as get; print(get('HOST_GNU_TYPE') != get('BUILD_GNU_TYPE'))"
    target = os.environ.get("CARGO_BUILD_TARGET")
    if target and said([python, "-E", "-s", "-c", ask]).strip() == "True":
        return target
    return next(line for line in said(["rustc", "-vV"]).splitlines() if line.startswith("host: ")).removeprefix("host: ")


def linker() -> list[str]:
    """rustc's options where libraries of a sysroot are linked against."""
    chosen = choices.read()
    if chosen is None or choices.SYSROOT not in chosen.variables:
        return []
    rust = toolchain.find_rust()
    compiler = toolchain.find_compiler(rust.llvm if rust else None, sysroot=chosen.variables[choices.SYSROOT])
    program, sysroot = compiler.arguments[0].removeprefix("CC=").split()
    return [f"-Clinker={program}", f"-Clink-arg={sysroot}", "-Clink-arg=-fuse-ld=lld"]


# ---- in a directory, to be imported or installed --------------------------------

def put_together(python: str, out: Path, profile: str | None = None, only: str | None = None) -> Path:
    """The clients for this interpreter, or one, as packages in a directory. BuildError: one does not build."""
    out.mkdir(parents=True, exist_ok=True)
    for client in [client for client in sources() if client.name == only] if only else installed():
        for package in sorted(path for path in (client / ("python" if is_rust(client) else "src")).iterdir() if path.is_dir()):
            if package.name == "__pycache__" or package.suffix == ".egg-info":
                continue
            target = out / package.name
            shutil.rmtree(target, ignore_errors=True)
            copy(package, target)
            if is_rust(client):
                put_file(library(client, python, profile), target / f"_core{suffix(python)}")
    return out


def copy(source: Path, target: Path) -> None:
    """A package's files, whatever mode they have here: every user can read them."""
    target.mkdir()
    target.chmod(0o755)
    for path in sorted(source.iterdir()):
        if path.is_dir():
            if path.name != "__pycache__":
                copy(path, target / path.name)
        else:
            put_file(path, target / path.name)


def put_file(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)
    target.chmod(0o644)


def library(client: Path, python: str, profile: str | None) -> Path:
    if profile is None:
        profile = tomllib.loads((client / "pyproject.toml").read_text())["tool"]["maturin"]["profile"]
    machine = machine_of(python)
    built = places.BUILD / "cargo-clients"
    name = f"ferrule_{client.name}"
    command = ["cargo", "build", "--locked", "--package", name, "--profile", profile, "--target", machine, "--target-dir", str(built)]
    log = places.logs() / f"client-{client.name}.log"
    logged(command, f"building {name} failed", label=f"cargo {name}", log=log, cwd=places.ROOT, env=for_cargo(python))
    return built / machine / ("debug" if profile == "dev" else profile) / f"lib{name}.so"


def suffix(python: str) -> str:
    return said([python, "-E", "-s", "-c", "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'), end='')"])


# ---- beside a build of the interpreter ------------------------------------------

def belong_to(variant: str) -> bool:
    """Whether a variant, which is configured, has the clients with it. One for another machine has none: they ask the interpreter what it is."""
    facts = making.facts_of(variant)
    here = facts.get("HOST_GNU_TYPE") == facts.get("BUILD_GNU_TYPE")
    return VARIANTS[variant].with_clients and facts.get("RUST_CORE") == "1" and here and bool(installed())


def beside(variant: str) -> Path:
    """Where the clients for a variant are."""
    return places.BUILD / variant / "clients"


def build_beside(variant: str) -> None:
    """Make them where they are missing, or of another source."""
    python = str(places.BUILD / variant / "python")
    out, made_of = beside(variant), source_digest(python)
    if (out / STAMP).exists() and (out / STAMP).read_text() == made_of:
        return
    shutil.rmtree(out, ignore_errors=True)
    put_together(python, out)
    (out / STAMP).write_text(made_of)


def source_digest(python: str) -> str:
    """Of all that a change of makes them others."""
    digest = hashlib.sha256(suffix(python).encode())
    trees = [places.ROOT / "rust-core" / "framehook-sdk", *installed()]
    files = [path for tree in trees for path in tree.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    for path in sorted([*files, places.ROOT / "Cargo.lock", places.ROOT / "Cargo.toml", Path(__file__), Path(pyo3.__file__)]):
        digest.update(f"{path.relative_to(places.ROOT)}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def install_beside(variant: str, library_directory: Path) -> None:
    """Into the library of an interpreter that is about to be installed, which compiles them with all others."""
    built = beside(variant)
    if not (built / STAMP).exists():
        raise BuildError(f"the clients of build/{variant} are not built: run `make{'' if variant == 'ferrule' else ' ' + variant}` "
                         f"first")
    # Whatever the umask: it may be the first to be installed there.
    for directory in reversed([library_directory, *library_directory.parents]):
        if not directory.exists():
            directory.mkdir()
            directory.chmod(0o755)
    for package in sorted(path for path in built.iterdir() if path.is_dir()):
        shutil.rmtree(library_directory / package.name, ignore_errors=True)
        copy(package, library_directory / package.name)


# ---- wheels ---------------------------------------------------------------------

def tool(name: str) -> Path:
    """A program of the environment, which is made if need be."""
    environment = places.BUILD / "client-tools"
    if not (environment / "bin" / "maturin").exists():
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        subprocess.run([environment / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", MATURIN],
                       check=True)
    return environment / "bin" / name


def wheel(client: Path, python: str, out: Path) -> None:
    if is_rust(client):
        environment = {**for_cargo(python), "CARGO_TARGET_DIR": str(places.BUILD / "cargo-clients")}
        subprocess.run([tool("maturin"), "build", "--locked", "--interpreter", python, "--out", out], cwd=client, env=environment,
                       check=True)
        return
    # In a copy: setuptools leaves what it makes on the way beside the sources.
    with tempfile.TemporaryDirectory() as directory:
        copied = shutil.copytree(client, Path(directory, "project"))
        subprocess.run([tool("python"), "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps",
                        "--ignore-requires-python", "--wheel-dir", out, copied], check=True)


def wheels(python: str, only: str | None) -> None:
    out = places.BUILD / "clients"
    for client in sources():
        if only in (None, client.name):
            wheel(client, python, out)
    for made in sorted(out.glob("*.whl")):
        print(made.relative_to(places.ROOT))


def main() -> None:
    parser = argparse.ArgumentParser(description="Builds the clients in clients/: wheels, or packages in a directory.")
    parser.add_argument("--python", required=True, help="the interpreter that they are for")
    parser.add_argument("--only", choices=[client.name for client in sources()], help="one client")
    parser.add_argument("--packages", metavar="DIRECTORY", type=Path, help="the packages alone, into this directory")
    parser.add_argument("--profile", help="cargo's, for --packages (default: that of the wheel)")
    options = parser.parse_args()
    python = str(Path(options.python).absolute())
    try:
        if options.packages:
            put_together(python, options.packages, options.profile, options.only)
        else:
            wheels(python, options.only)
    except subprocess.CalledProcessError as error:
        sys.exit(f"ferrule: this failed: {' '.join(map(str, error.cmd))}")
    except BuildError as error:
        sys.exit(f"ferrule: {error}")


if __name__ == "__main__":
    main()
