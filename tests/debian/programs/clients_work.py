# needs: python3.13-minimal
# only: ferrule
"""The profiler and the debugger, as the package has them: counts, a page, a breakpoint."""
import pstats
import subprocess
import sys
import tempfile
from pathlib import Path

import ferrule_profiler

PROGRAM = """
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

print(fib(15))
"""

with tempfile.TemporaryDirectory() as directory:
    place = Path(directory)
    (place / "program.py").write_text(PROGRAM)

    def run(*words, said=""):
        done = subprocess.run([sys.executable, *words], cwd=place, capture_output=True, text=True, input=said)
        assert done.returncode == 0, done.stderr
        return done.stdout

    shown = run("-m", "ferrule_profiler", "-o", "found.html", "-o", "found.prof", "program.py")
    assert shown.startswith("610\n"), shown
    calls = {name: counted[1] for (_, _, name), counted in pstats.Stats(str(place / "found.prof")).stats.items()}
    assert calls["fib"] == 1973, calls
    assert "fib" in (place / "found.html").read_text()
    shown = run("-m", "ferrule_debugger", "program.py", said="break fib, n == 0\ncontinue\nprint(n * 7)\nwhere\nclear 1\ncontinue\nquit\n")
    assert "(Pdb) 0" in shown and "610" in shown, shown
assert ferrule_profiler.__file__.startswith("/usr/lib/python3.13-ferrule/"), ferrule_profiler.__file__
print("the profiler counts, the debugger stops")
