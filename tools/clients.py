#!/usr/bin/env python3
"""Builds the wheels of clients/ for one interpreter, into build/clients.

    python3 tools/clients.py --python build/ferrule/python

maturin comes from the package index, once, into an environment of its own.
"""

import argparse
import glob
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OUT = os.path.join(ROOT, "build", "clients")
TOOLS = os.path.join(ROOT, "build", "client-tools")
MATURIN = "maturin>=1.9,<2"

# Those of the make that runs this mean something else to cargo.
NOT_FOR_CARGO = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "CFLAGS", "LDFLAGS")


def maturin():
    """The program, installed if need be."""
    program = os.path.join(TOOLS, "bin", "maturin")
    if not os.path.exists(program):
        subprocess.run([sys.executable, "-m", "venv", TOOLS], check=True)
        subprocess.run([os.path.join(TOOLS, "bin", "python"), "-m", "pip", "install", "--quiet",
                        "--disable-pip-version-check", MATURIN], check=True)
    return program


def build(python):
    environment = {name: value for name, value in os.environ.items() if name not in NOT_FOR_CARGO}
    environment["CARGO_TARGET_DIR"] = os.path.join(ROOT, "build", "cargo")
    for project in sorted(glob.glob(os.path.join(ROOT, "clients", "*", "pyproject.toml"))):
        subprocess.run([maturin(), "build", "--locked", "--interpreter", python, "--out", OUT],
                       cwd=os.path.dirname(project), env=environment, check=True)
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
