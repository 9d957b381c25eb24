"""build.rs-wrapper/run: what a user set for other Rust programs does not reach the objects that CPython links."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Notes how it was called, and leaves a driver where its arguments say.
CARGO = """#!/usr/bin/env python3
import json, os, pathlib, sys
base = pathlib.Path(os.environ["FAKE"])
(base / "cargo.json").write_text(json.dumps({"arguments": sys.argv[1:], "environment": dict(os.environ)}))
words = sys.argv[1:]
target = words[words.index("--target") + 1] if "--target" in words else os.environ.get("CARGO_BUILD_TARGET", "")
place = pathlib.Path(words[words.index("--target-dir") + 1]) / target / "release"
place.mkdir(parents=True, exist_ok=True)
(place / "ferrule-build").write_text("#!/bin/sh\\necho fresh\\n")
(place / "ferrule-build").chmod(0o755)
"""


class Run(unittest.TestCase):
    def setUp(self):
        self.base = Path(self.enterContext(tempfile.TemporaryDirectory()))
        wrapper = self.base / "clone" / "build.rs-wrapper"
        wrapper.mkdir(parents=True)
        shutil.copy(ROOT / "build.rs-wrapper" / "run", wrapper / "run")
        self.run_script = wrapper / "run"
        for name, text in (("cargo", CARGO), ("rustc", "#!/bin/sh\necho 'host: this-host'\n")):
            (self.base / name).write_text(text)
            (self.base / name).chmod(0o755)

    def called(self, **variables):
        environment = {"PATH": f"{self.base}:{os.environ['PATH']}", "FAKE": str(self.base), "HOME": str(self.base), **variables}
        run = subprocess.run([self.run_script, "object"], env=environment, capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout, json.loads((self.base / "cargo.json").read_text())

    def test_the_driver_that_was_just_built_is_run_whatever_target_the_environment_names(self):
        stale = self.base / "clone" / "build" / "cargo" / "release"
        stale.mkdir(parents=True)
        (stale / "ferrule-build").write_text("#!/bin/sh\necho stale\n")
        (stale / "ferrule-build").chmod(0o755)
        said, cargo = self.called(CARGO_BUILD_TARGET="another-host")
        self.assertEqual(said, "fresh\n")
        self.assertIn("this-host", cargo["arguments"])

    def test_settings_of_other_rust_programs_are_put_aside(self):
        foreign = {"CARGO_BUILD_TARGET": "another-host", "CARGO_TARGET_DIR": "/elsewhere", "CARGO_BUILD_TARGET_DIR": "/elsewhere",
                   "CARGO_PROFILE_RELEASE_LTO": "fat", "CARGO_PROFILE_RELEASE_PANIC": "unwind", "RUSTFLAGS": "-Cpanic=unwind",
                   "CARGO_BUILD_RUSTFLAGS": "-Cdebuginfo=0", "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS": "-Cstrip=symbols",
                   "CARGO_BUILD_RUSTC": "/bin/false", "RUSTC": "/bin/false", "CFLAGS": "-O0", "MAKEFLAGS": "-j4"}
        _, cargo = self.called(**foreign)
        self.assertEqual(set(foreign) & set(cargo["environment"]), set())
        # An empty one wins over flags in cargo's configuration.
        self.assertEqual(cargo["environment"]["CARGO_ENCODED_RUSTFLAGS"], "")

    def test_where_crates_come_from_and_which_rust_it_is_stay_the_users(self):
        kept = {"CARGO_HOME": "/c", "CARGO_NET_OFFLINE": "true", "CARGO_HTTP_PROXY": "p", "RUSTUP_TOOLCHAIN": "t", "RUSTC_WRAPPER": ""}
        _, cargo = self.called(**kept)
        self.assertEqual({name: cargo["environment"].get(name) for name in kept}, kept)


class Sources(unittest.TestCase):
    def test_make_knows_every_source_of_the_object(self):
        """What make does not know of it does not compile anew, and links what was there before."""
        patch = (ROOT / "patches" / "3.13" / "0001-build.patch").read_text()
        rule = patch[patch.index("+Python/rust_core.o:"):patch.index("+\tFERRULE_DEBIAN_REVISION=")]
        patterns = re.findall(r"\$\(FERRULE_DIR\)/(\S+?)\)?(?=\s)", rule)
        known = {path for pattern in patterns for path in ROOT.glob(pattern)}
        sources = {path for folder in ("rust-core/src", "build.rs-wrapper/src") for path in (ROOT / folder).rglob("*.rs")}
        self.assertGreater(len(sources), 30)
        self.assertEqual(sources - known, set())
