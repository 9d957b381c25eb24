#!/usr/bin/env python3
"""Runs torch's own tests of Dynamo with its evaluator and with the hook, and compares what becomes of each test.

    python3 -m tests.dynamo.torch_tests --python ENVIRONMENT/bin/python [MODULE...]

The tests are those of Debian's source package of pytorch, which apt fetches and verifies; build/torch-tests keeps them. Debian has not each torch: those
of another version are run as far as they fit, and fail the same both ways where they do not. What becomes of a test is that it passes, is skipped, or
fails, with the class and the first line of its exception. Tests that differ are run again, both ways, without the others. What differs again has to be in
torch_tests.toml, with the reason; and what is there has to differ.
"""

import argparse
import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import tomllib
from collections import Counter
from pathlib import Path

from cpython.upstream.messages import Unreachable
from tools.binary.debian import Suite
from tools.progress import heed_interrupts, say

HERE = Path(__file__).resolve().parent
KEPT = HERE.parents[1] / "build" / "torch-tests"
EXPECTED = HERE / "torch_tests.toml"
WAYS = ("evaluator", "hooks")
# Modules that are not run unless they are named: about what is not Dynamo's own (inductor, AOTAutograd, export), GPUs or other packages, or for many minutes.
LEFT_OUT = {f"test_{name}" for name in (
    "activation_checkpointing", "after_aot", "aot_autograd", "aot_autograd_cache", "backends", "compiler_bisector", "cudagraphs",
    "cudagraphs_expandable_segments", "debug_utils", "deviceguard", "dynamic_shapes", "export", "fx_passes_pre_grad", "graph_deduplication",
    "graph_region_tracker", "inline_inbuilt_nn_modules", "minifier", "optimizers", "pre_dispatch", "sdpa", "torchrec", "verify_correctness")}
ENDED = "ended the process"


def suites(version):
    """Where Debian may have the tests of this torch, or of one that is near it."""
    return ("trixie",) if version.startswith("2.6.") else ("sid", "trixie")


def fetched(version):
    """The directory that has torch's test/dynamo as the package `dynamo`."""
    errors = []
    for suite in suites(version):
        target = KEPT / suite / "test"
        if target.is_dir():
            return target
        try:
            apt = Suite(suite, KEPT / suite / "apt")
            apt.newest("pytorch", KEPT / suite / "source")
        except Unreachable as error:
            errors.append(f"{suite}: {error}")
            say(f"warning: no tests of Debian's {errors[-1]}")
            continue
        tarball, = (KEPT / suite / "source").glob("*.orig.tar.*")
        say(f"tests of {tarball.name}, Debian's {suite}")
        with tempfile.TemporaryDirectory(dir=KEPT / suite) as directory:
            with tarfile.open(tarball) as archive:
                root = archive.next().name.partition("/")[0]
                archive.extractall(directory, [it for it in archive if it.name.startswith(f"{root}/test/dynamo/")], filter="data")
            os.rename(Path(directory) / root / "test", target)
        for what in "apt", "source":
            shutil.rmtree(KEPT / suite / what)
        return target
    raise Unreachable("; ".join(errors))


def read(outcomes):
    """({test: outcome}, whether the module's end was reached) of what a process has written."""
    found, started, end = {}, None, False
    for line in map(json.loads, outcomes.read_text().splitlines()):
        if "started" in line:
            started = line["started"]
            found[started] = ENDED
        elif "test" in line:
            found[line["test"]] = line["outcome"]
        else:
            end = line["end"]
            if not end:
                raise SystemExit("the hook was uninstalled, or the evaluator's place taken, by a test")
    return found, end


class Run:
    """Runs of this torch's tests in `directory`, with logs and outcomes in `place`."""

    def __init__(self, python, directory, place):
        self.python, self.directory, self.place = python, directory, place

    def environment(self, way, scratch):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TORCH", "FERRULE", "PYTHON"))}
        headers = subprocess.check_output([self.python, "-c", "import os, sysconfig; print(os.path.dirname(sysconfig.get_config_h_filename()))"], text=True)
        return kept | {"FERRULE_DYNAMO": str(WAYS.index(way)), "TMPDIR": scratch, "TORCHINDUCTOR_CACHE_DIR": scratch, "CPATH": headers.strip(),
                       "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}

    def module(self, way, module, tests=()):
        """{test: outcome}"""
        outcomes, log = (self.place / f"{module}-{way}{'-again' if tests else ''}.{kind}" for kind in ("jsonl", "log"))
        outcomes.write_text("")
        command = [self.python, HERE / "run_torch_tests.py", way, self.directory, module, outcomes, *tests]
        found, end = {}, False
        with log.open("w") as output, tempfile.TemporaryDirectory() as scratch:
            while not end:
                code = subprocess.run(command, env=self.environment(way, scratch), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT).returncode
                before, (found, end) = found, read(outcomes)
                if not end and len(found) == len(before):
                    raise SystemExit(f"{module}, {way}: no test was run, and the process ended with {code} (log: {log})")
        return found

    def both(self, module, tests=()):
        """[(test, outcome with the evaluator, outcome with the hook)]"""
        evaluator, hooks = (self.module(way, module, tests) for way in WAYS)
        return [(test, evaluator.get(test, "not run"), hooks.get(test, "not run")) for test in sorted(evaluator.keys() | hooks.keys())]


def different(outcomes):
    return [test for test, evaluator, hooks in outcomes if evaluator != hooks]


def explained(version, modules):
    """{test: why} of what is expected to differ in these modules."""
    table = tomllib.loads(EXPECTED.read_text())
    return {test: entry["why"] for entry in table.get("differs", []) if version.startswith(entry["torch"])
            for test in entry["tests"] if test.split(".")[1] in modules}


def judge(outcomes, again, expected):
    """(counts of both ways, what is wrong, notes). `again`: of tests that differed, what became of them then."""
    counts, wrong, notes = Counter(), [], []
    differing = set(different(outcomes)) & set(different(again))
    for test, evaluator, hooks in outcomes:
        if test in differing:
            counts["different, as expected" if test in expected else "different"] += 1
            if test not in expected:
                wrong.append(f"DIFFERS: {test}\n    evaluator: {evaluator}\n    hook: {hooks}")
        elif evaluator != hooks:
            counts["different once"] += 1
            notes.append(f"differs once, and not again: {test}\n    evaluator: {evaluator}\n    hook: {hooks}")
        else:
            counts[evaluator if evaluator in ("passed", "skipped", "expected failure", "unexpected success") else "failed the same"] += 1
    wrong += [f"IS THE SAME, and is expected to differ: {test}" for test in sorted(expected.keys() - differing)]
    return counts, wrong, notes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=Path, required=True, help="of an environment with torch, ferrule_dynamo and expecttest")
    parser.add_argument("--at-once", type=int, default=2, help="modules that run beside each other (2)")
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="as test_misc; without any: all that take no more than minutes")
    options = parser.parse_args()
    heed_interrupts()
    python = options.python.absolute()
    version = subprocess.check_output([python, "-c", "from importlib.metadata import version; print(version('torch'))"], text=True).strip()
    directory = fetched(version)
    known = sorted(path.stem for path in (directory / "dynamo").glob("test_*.py"))
    modules = options.modules or [module for module in known if module not in LEFT_OUT]
    if unknown := set(modules) - set(known):
        parser.error(f"no such module: {', '.join(sorted(unknown))}")
    place = KEPT / f"outcomes-{version}"
    place.mkdir(exist_ok=True)
    run, lock, outcomes, again = Run(python, directory, place), threading.Lock(), [], []

    def work(module):
        found = run.both(module)
        repeated = run.both(module, different(found)) if different(found) else []
        with lock:
            say(f"{module}: {len(found)} tests, {len(different(found))} differ, {len(different(repeated))} of them again")
            outcomes.extend(found)
            again.extend(repeated)

    with concurrent.futures.ThreadPoolExecutor(options.at_once) as pool:
        # The longest first.
        size = {module: (directory / "dynamo" / f"{module}.py").stat().st_size for module in modules}
        for done in concurrent.futures.as_completed([pool.submit(work, module) for module in sorted(modules, key=lambda it: -size[it])]):
            done.result()
    counts, wrong, notes = judge(outcomes, again, explained(version, modules))
    print("\n".join([*notes, *wrong, ", ".join(f"{count} {what}" for what, count in counts.most_common())]))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
