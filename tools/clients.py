#!/usr/bin/env python3
"""Builds the wheels of clients/ for one interpreter, into build/clients.

    python3 tools/clients.py --python build/ferrule/python

maturin, and setuptools for what is Python alone, come from the package index, into an environment of their own.
"""

import argparse
import glob
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OUT = os.path.join(ROOT, "build", "clients")
TOOLS = os.path.join(ROOT, "build", "client-tools")
MATURIN = "maturin>=1.9,<2"

# Those of the make that runs this mean something else to cargo.
NOT_FOR_CARGO = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "CFLAGS", "LDFLAGS")


def tool(name):
    """A program of the environment, which is made if need be."""
    program = os.path.join(TOOLS, "bin", name)
    if not os.path.exists(os.path.join(TOOLS, "bin", "maturin")):
        subprocess.run([sys.executable, "-m", "venv", TOOLS], check=True)
        subprocess.run([os.path.join(TOOLS, "bin", "python"), "-m", "pip", "install", "--quiet",
                        "--disable-pip-version-check", MATURIN], check=True)
    return program


def build_rust(project, python):
    environment = {name: value for name, value in os.environ.items() if name not in NOT_FOR_CARGO}
    environment["CARGO_TARGET_DIR"] = os.path.join(ROOT, "build", "cargo")
    subprocess.run([tool("maturin"), "build", "--locked", "--interpreter", python, "--out", OUT],
                   cwd=project, env=environment, check=True)


def build_python(project):
    """In a copy: setuptools leaves what it makes on the way beside the sources."""
    with tempfile.TemporaryDirectory() as directory:
        copy = shutil.copytree(project, os.path.join(directory, "project"))
        subprocess.run([tool("python"), "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check",
                        "--no-deps", "--ignore-requires-python", "--wheel-dir", OUT, copy], check=True)


def build(python):
    for settings in sorted(glob.glob(os.path.join(ROOT, "clients", "*", "pyproject.toml"))):
        project = os.path.dirname(settings)
        if os.path.exists(os.path.join(project, "Cargo.toml")):
            build_rust(project, python)
        else:
            build_python(project)
    for wheel in sorted(glob.glob(os.path.join(OUT, "*.whl"))):
        print(os.path.relpath(wheel, ROOT))


def main():
    parser = argparse.ArgumentParser(description="Builds the wheels of clients/.")
    parser.add_argument("--python", required=True, help="the interpreter that they are for")
    try:
        build(os.path.abspath(parser.parse_args().python))
    except subprocess.CalledProcessError as error:
        sys.exit(f"ferrule: this failed: {' '.join(error.cmd)}")


if __name__ == "__main__":
    main()
