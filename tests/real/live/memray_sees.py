"""What memray says of a program that allocates a known amount: its own reader, its reports, and attached to a live process."""

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from seen import HERE, check, check_with_gdb, expect, marked_lines, said

PROGRAM = HERE / "memory.py"
SIZE = 48 << 20
LINE = marked_lines(PROGRAM)["allocate"]
STACK = ["main", "generator", "outer", "middle", "allocate"]


def expect_allocation(results, stack, native=False):
    """The allocation is in the results, with its size and its stack."""
    from memray import FileReader

    with FileReader(results) as reader:
        big = [record for record in reader.get_high_watermark_allocation_records(merge_threads=True) if record.size >= SIZE]
        expect(len(big) == 1 and big[0].size < SIZE + 4096, f"{len(big)} records of that size: {[record.size for record in big]}")
        frames = [(name, line) for name, path, line in (big[0].hybrid_stack_trace() if native else big[0].stack_trace()) if path == str(PROGRAM)]
    expect([name for name, _ in reversed(frames) if name in {*STACK, "stand_in"}] == stack, f"the stack is {frames}")
    expect(frames[0] == ("allocate", LINE), f"the top frame is {frames[0]}, not line {LINE}")


def run(kind, stack, *options):
    with tempfile.TemporaryDirectory() as place:
        results = Path(place) / "results.bin"
        said(sys.executable, "-m", "memray", "run", "--quiet", *options, "--output", results, PROGRAM, kind)
        expect_allocation(results, stack, "--native" in options)


def reports():
    with tempfile.TemporaryDirectory() as place:
        results = Path(place) / "results.bin"
        said(sys.executable, "-m", "memray", "run", "--quiet", "--output", results, PROGRAM, "plain")
        stats = said(sys.executable, "-m", "memray", "stats", results)
        expect(re.search(r"allocate:.*memory.py:%d -> 50\.3\d*MB" % LINE, stats), f"stats: {stats[-500:]!r}")
        said(sys.executable, "-m", "memray", "table", "--output", Path(place) / "table.html", results)
        table = (Path(place) / "table.html").read_text()
        expect(re.search(r"allocate at [^\"]*memory.py:%d" % LINE, table), "the table does not name the place")
        summary = said(sys.executable, "-m", "memray", "summary", results)
        expect("allocate" in summary, f"summary: {summary[-500:]!r}")


def attach():
    with tempfile.TemporaryDirectory() as place:
        results = Path(place) / "results.bin"
        with subprocess.Popen([sys.executable, PROGRAM, "attached"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            try:
                expect(process.stdout.readline() == "ready\n", "the process did not get there")
                # gdb stops it, and has it call a function of the interpreter's.
                said(sys.executable, "-m", "memray", "attach", "--method", "gdb", "--output", results, str(process.pid))
                process.stdin.write("\n")
                process.stdin.flush()
                expect(process.wait(60) == 0, f"the process has ended: {process.returncode}")
            finally:
                process.kill()
        time.sleep(0.1)
        expect_allocation(results, STACK)


check("run", run, "plain", STACK)
check("run with native frames", run, "plain", STACK, "--native")
check("run with Python's allocators", run, "plain", STACK, "--trace-python-allocators")
check("run with a hook", run, "hooked", STACK, needs_hooks=True)
check("run with a replaced frame", run, "replaced", ["main", "generator", "outer", "stand_in", "allocate"], needs_hooks=True)
check("reports", reports)
check_with_gdb("attach", attach)
