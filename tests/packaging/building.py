"""tools/build.py, and the modules it is made of, beside a made-up clone.

CPython's configure is a script that notes how it was called; no compiler runs.
"""

import contextlib
import io
import os
import tempfile
import unittest
import unittest.mock
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

from tools import build, choices, configuring, places, progress, toolchain

CLANG = toolchain.Compiler(("CC=/llvm/clang", "AR=/llvm/llvm-ar"), True, "clang")

CONFIGURE = """#!/bin/sh
for word in "$@"; do printf '%s\\n' "$word"; done >>called
echo "checking for cross-language LTO... maybe"
[ ! -e fail ] && echo all: >Makefile
echo 'LLVM_PROF_MERGER= /llvm/llvm-profdata merge -output="all" "$(shell pwd)"/*.raw' >>Makefile
mkdir -p Modules
printf '%s\\n' '*shared*' 'array arraymodule.c' '#math mathmodule.c' '_ssl _ssl.c' '_json _json.c -DX' >Modules/Setup.stdlib
"""


class Case(unittest.TestCase):
    def setUp(self):
        self.root = Path(self.enterContext(tempfile.TemporaryDirectory()))
        source = self.root / "build" / "src" / "tree"
        source.mkdir(parents=True)
        (source / "configure").write_text(CONFIGURE)
        (source / "configure").chmod(0o755)
        self.facts = {"source": "build/src/tree", "debian_revision": "1-2", "patches_sha256": "a"}
        self.fetched = []
        self.sysroot = None
        for target, name, value in (
            (places, "ROOT", self.root),
            (places, "BUILD", self.root / "build"),
            (build, "fetch_source", self.fetch_source),
            (toolchain, "find_rust", lambda required: toolchain.Rust((1, 95), 22)),
            (toolchain, "find_compiler", self.find_compiler),
        ):
            self.replace(target, name, value)
        self.compiler = CLANG
        self.environment()

    def replace(self, target, name, value):
        self.enterContext(unittest.mock.patch.object(target, name, value))

    def fetch_source(self, chosen):
        self.fetched.append(chosen)
        return self.facts

    def find_compiler(self, llvm, named=None, sysroot=None):
        self.sysroot = sysroot
        return toolchain.Compiler((), False, named) if named else self.compiler

    def environment(self, **variables):
        """From here on the environment is this."""
        self.enterContext(unittest.mock.patch.dict(os.environ, {"PATH": os.environ["PATH"], **variables}, clear=True))

    def configure(self, *flags):
        with contextlib.redirect_stdout(io.StringIO()):
            return self.quietly(build.choose, list(flags))

    def configured(self, variant):
        """What configuring a variant says: the first half of making it."""
        return self.quietly(configuring.configure, variant, choices.for_make(os.environ), self.facts)

    def made_with(self, variant):
        """The words after `make` when this variant is built."""
        self.configured(variant)
        with unittest.mock.patch.object(progress, "run", return_value=0) as run:
            self.quietly(build.make, variant, ["python"])
        return run.call_args.args[0][1:]

    def quietly(self, function, *arguments):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            function(*arguments)
        return said.getvalue()

    def called(self, variant="ferrule"):
        return (self.root / "build" / variant / "called").read_text().splitlines()
