"""A page that the clients make, or a session, in a browser; and pictures of it."""

import io
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from PIL import Image

from pages import PageCase
from tests.clients.profiler_support import build

ROOT = Path(__file__).resolve().parents[2]

PYTHON = os.environ.get("FERRULE_PYTHON")
PICTURES = ROOT / ("docs/clients" if os.environ.get("PICTURES") else "build/logs")
MOST_BYTES = 150_000


class Case(PageCase):
    @classmethod
    def setUpClass(cls):
        if not PYTHON:
            raise unittest.SkipTest("FERRULE_PYTHON names no interpreter")
        super().setUpClass()
        cls.directory = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.packages = build(PYTHON, str(cls.directory / "packages"), "extension")

    @classmethod
    def run_python(cls, *arguments, typed=""):
        done = subprocess.run([PYTHON, *map(str, arguments)], input=typed, capture_output=True, text=True, cwd=ROOT / "examples",
                              env={**os.environ, "PYTHONPATH": cls.packages, "HOME": str(cls.directory)})
        if done.returncode:
            raise AssertionError(done.stderr)
        return done.stdout

    def picture(self, name, shown, **options):
        """Keep a picture, with few colors, so that it is small."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        taken = Image.open(io.BytesIO(shown.screenshot(**options))).convert("RGB")
        path = PICTURES / f"{name}.png"
        taken.quantize(64, dither=Image.Dither.NONE).save(path, optimize=True)
        self.assertLess(path.stat().st_size, MOST_BYTES)
        return taken
