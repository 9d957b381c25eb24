# needs: python3-pytest
"""A small project with fixtures, parameters, rewritten assertions and a failure that is expected."""
import pathlib
import subprocess
import sys
import tempfile

with tempfile.TemporaryDirectory() as directory:
    pathlib.Path(directory, "test_small.py").write_text('''
import pytest

@pytest.fixture
def numbers():
    yield [1, 2]

@pytest.mark.parametrize("n", range(5))
def test_square(n, numbers):
    assert n * n == sum([n] * n) and numbers == [1, 2]

@pytest.mark.xfail(strict=True)
def test_fails():
    left = {"a": [1, 2]}
    assert left == {"a": [1, 3]}
''')
    run = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", directory], capture_output=True, text=True)
    print(run.returncode, run.stdout.splitlines()[0].split()[0], run.stdout.splitlines()[-1].split(" in ")[0], run.stderr)
