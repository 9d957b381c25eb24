"""The extension modules in Rust that tests of the crate framehook use.

cargo builds examples/rust_hook and tests/rust_hook_cases, once for each module of tests, for the
interpreter that runs them.
"""

import gc
import json
import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from support import ROOT, ProgramTestCase, needs_hooks

CRATES = ("rust_hook", "rust_hook_cases")
OUT = os.path.join(ROOT, "build", "test-extensions", f"rust-{os.getpid()}")

rust_hook = cases = None    # load() imports them


def build():
    """Build both crates as a user would. Returns the directory to import them from."""
    from tools import pyo3
    environment = pyo3.environment(sys.executable, Path(OUT))
    environment |= {name: value for name, value in os.environ.items()
                    # Those of a make that runs the tests mean something else to cargo.
                    if not re.match(r"(PYO3_.*|MAKEFLAGS|MFLAGS|MAKELEVEL|CFLAGS|LDFLAGS)$", name)}
    command = ["cargo", "build", "--locked", "--quiet", "--message-format=json",
               "--manifest-path", os.path.join(ROOT, "Cargo.toml"),
               "--target-dir", os.path.join(ROOT, "build", "cargo")]
    for crate in CRATES:
        command += ["--package", crate]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(f"the Rust extensions do not build:\n{done.stderr}")
    os.makedirs(OUT, exist_ok=True)
    for line in done.stdout.splitlines():
        message = json.loads(line)
        if message["reason"] == "compiler-artifact" and message["target"]["name"] in CRATES:
            library, = [name for name in message["filenames"] if name.endswith(".so")]
            shutil.copy(library, os.path.join(OUT, message["target"]["name"] + ".so"))
    return OUT


def load():
    """Build and import both modules, for a module of tests: its setUpModule() calls this."""
    global rust_hook, cases
    if shutil.which("cargo") is None:
        raise unittest.SkipTest("cargo is not on PATH")
    # Rust prints each panic that the tests cause. A line is enough.
    os.environ["RUST_BACKTRACE"] = "0"
    sys.path.insert(0, build())
    unittest.addModuleCleanup(shutil.rmtree, OUT, ignore_errors=True)
    unittest.addModuleCleanup(sys.path.remove, OUT)
    import rust_hook
    import rust_hook_cases as cases
    return rust_hook, cases


def new_function(source, name="f", **globals_):
    """A function with a code object for which no hook is disabled."""
    namespace = dict(globals_)
    exec(compile(source, f"{name}.py", "exec"), namespace)
    return namespace[name]


def ten():
    return 10


@needs_hooks
class HookTestCase(ProgramTestCase):
    """Fails a test that leaves a hook behind."""

    def setUp(self):
        self.addCleanup(self.no_hooks_left)

    def no_hooks_left(self):
        gc.collect()
        framecore = sys.modules.get("_framecore")
        left = [hook["name"] for hook in framecore.frame_hooks()] if framecore else []
        cases.clear_hooks()
        self.assertEqual(left, [])
