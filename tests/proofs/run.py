"""The frame core under loom, its arithmetic proved, and both once more with something broken on purpose, which must be noticed.

Runs in an environment with requirements.txt; ci/proofs makes it. Every model, claim and exhaustive test must fail in some broken copy,
so none of them can be one that cannot fail. The last line is `N passed, N failed, N skipped`.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.proofs.mutations import BATCHES, break_all

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "proofs"
CORE = ROOT / "rust-core"
COPY = WORK / "rust-core"
TRIED_WITH_NUMBERS = "claims_hold_for_many_numbers"
# A broken model may run for ever.
PATIENCE = 240

started = time.monotonic()
passed = failed = 0


def report(good, text):
    global passed, failed
    passed, failed = passed + good, failed + (not good)
    print(f"{'ok  ' if good else 'FAIL'}  {text}", flush=True)


def copy():
    shutil.rmtree(COPY, ignore_errors=True)
    COPY.mkdir(parents=True)
    shutil.copy2(CORE / "build.rs", COPY)
    for folder in ("src", "interleavings"):
        shutil.copytree(CORE / folder, COPY / folder)


def build():
    """The program with the tests; None, and what cargo says, where it does not compile."""
    command = ["cargo", "test", "--lib", "--no-run", "--locked", "--message-format=json", "--manifest-path",
               COPY / "interleavings" / "Cargo.toml", "--target-dir", WORK / "cargo"]
    bindings = os.environ.get("FERRULE_BINDINGS") or str(ROOT / "build" / "ferrule" / "rust-core" / "bindings.rs")
    environment = {**os.environ, "RUSTFLAGS": "--cfg loom", "FERRULE_BINDINGS": bindings}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    programs = [message["executable"] for message in messages if message.get("executable")]
    if done.returncode or not programs:
        said = [message["message"]["rendered"] for message in messages if message.get("reason") == "compiler-message"]
        return None, "\n".join(text for text in said if text.startswith("error")) or done.stderr
    return programs[-1], ""


def tests_in(program):
    """{name without modules: full name} of what belongs here."""
    listed = subprocess.run([program, "--list"], stdout=subprocess.PIPE, text=True, check=True).stdout
    names = re.findall(r"(?m)^(\S+): test$", listed)
    return {name.rpartition("::")[2]: name for name in names
            if "::proofs::" in name or "::interleavings::" in name}


def run_test(program, name):
    """Whether it passes, and what it has said."""
    command = [program, "--exact", name, "--nocapture", "--test-threads=1"]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE, errors="replace",
                              env={**os.environ, "RUST_BACKTRACE": "0"})
    except subprocess.TimeoutExpired:
        return None, f"no end after {PATIENCE} seconds"
    if done.returncode == 0 and "1 passed" not in done.stdout:
        return None, "it was not run"
    return done.returncode == 0, done.stdout


def prove(program, claims=()):
    """{claim: what is wrong, or nothing}, or None with what the prover has said."""
    command = [sys.executable, Path(__file__).with_name("prove.py"), program, *claims]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    found = re.findall(r"(?m)^(ok  |FAIL)  (\w+)  \[\d+ s\](?:: (.*))?$", done.stdout)
    if done.returncode not in (0, 1) or not found or (claims and len(found) != len(claims)):
        raise SystemExit(f"the prover did not come to its end:\n{done.stdout}")
    return {name: wrong for _, name, wrong in found}


def why_it_failed(output):
    lines = [line for line in output.splitlines() if line.strip() and not line.startswith(("running ", "test ", "note:", "executions"))]
    at = next((i + 1 for i, line in enumerate(lines) if "panicked at" in line), 0)
    return lines[at].strip()[:110] if at < len(lines) else "the process ended"


def whole():
    """The code as it is. Returns the names of all models, tests and claims."""
    program, said = build()
    if program is None:
        raise SystemExit(f"it does not compile:\n{said}")
    tests = [(short, full) for short, full in tests_in(program).items() if short != TRIED_WITH_NUMBERS]
    for short, full in tests:
        good, output = run_test(program, full)
        executions = re.search(r"executions: (\d+)", output)
        if short.startswith("interleaved_") and not executions:
            good = False
        report(bool(good), f"{full}" + (f"  [{executions[1]} orders]" if executions else "") +
               ("" if good else f": {why_it_failed(output)}"))
    claims = prove(program)
    for name, wrong in claims.items():
        report(not wrong, f"for all numbers: {name}" + (f": {wrong}" if wrong else ""))
    return {short for short, _ in tests} | set(claims)


def read(file):
    """The text of a file of the copy."""
    return (COPY / "src" / file).read_text()


def broken(batch):
    """One copy with the changes of a batch. Returns who has noticed."""
    noticed = set()
    texts, _ = break_all(batch, read)
    touched = {COPY / "src" / file: read(file) for file in texts}
    for file, text in texts.items():
        (COPY / "src" / file).write_text(text)
    try:
        program, said = build()
        if program is None:
            raise SystemExit(f"a broken copy does not compile:\n{said}")
        tests = tests_in(program)
        wanted = [who for *_, names in batch for who in names]
        claims = [who for who in wanted if who not in tests]
        proved = prove(program, claims) if claims else {}
        for file, text, _, names in batch:
            for who in names:
                if who in tests:
                    good, output = run_test(program, tests[who])
                    has_noticed, how = good is False, why_it_failed(output) if good is False else output[-200:]
                else:
                    has_noticed, how = proved[who].startswith(("it fails", "it panics")), proved[who]
                if has_noticed:
                    noticed.add(who)
                what = " ".join(text.split())[:60]
                report(has_noticed, f"{file}: without `{what}`, {who}" + (" notices: " if has_noticed else " passes: ") + how)
    finally:
        for path, content in touched.items():
            path.write_text(content)
    return noticed


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--whole", action="store_true", help="nothing broken")
    options = parser.parse_args()
    copy()
    if faults := [fault for batch in BATCHES for fault in break_all(batch, read)[1]]:
        raise SystemExit("\n".join(faults))
    everybody = whole()
    if not options.whole:
        noticed = set().union(*map(broken, BATCHES))
        for who in sorted(everybody - noticed):
            report(False, f"{who} fails in no broken copy: nothing shows that it can")
    print(f"It took {(time.monotonic() - started) / 60:.1f} minutes")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
