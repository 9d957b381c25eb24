#!/usr/bin/env python3
"""The frame core under libFuzzer and AddressSanitizer (rust-core/fuzz): data stack, co_extra, frame hooks, replacements.

    ci/cargo-fuzz [MINUTES] [TARGET...]         ten minutes over all targets, one after the other
    ci/cargo-fuzz --again TARGET FILE           one input again: what it is, and what it comes to
    ci/cargo-fuzz --merge [TARGET...]           takes over into git's corpus what reaches more code, and drops what does not

It needs a nightly toolchain and a C++ compiler. cargo-fuzz is installed into build/tools, from the registry and by its lock. What is found is kept in
build/fuzz/core, and so are the inputs from which the next run starts. The last line is the counts.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.fuzz import processor

ROOT = Path(__file__).resolve().parent.parent

FUZZ = ROOT / "rust-core" / "fuzz"
WORK = ROOT / "build" / "fuzz" / "core"
TOOLS = ROOT / "build" / "tools"
VERSION = "0.13.2"
TARGETS = sorted(path.stem for path in (FUZZ / "fuzz_targets").glob("*.rs"))
# An input that takes so many seconds, of a machine that may be busy, or so much memory is a finding.
LIMITS = ["-timeout=120", "-rss_limit_mb=4096", "-max_len=4096", "-len_control=10"]
# Of the corpus in git: an edge of the program counts, how often it is taken does not.
FEW = ["-use_counters=0", "-use_value_profile=0"]

environment = dict(os.environ)


def is_there(*command: str) -> bool:
    try:
        return subprocess.run(command, env=environment, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def has_nightly() -> bool:
    try:
        said = subprocess.run(["rustc", "--version"], env=environment, capture_output=True, text=True).stdout
    except FileNotFoundError:
        return False
    if "nightly" in said:
        return True
    environment["RUSTUP_TOOLCHAIN"] = "nightly"
    return is_there("rustup", "run", "nightly", "rustc", "--version")


def prepare() -> None:
    bindings = os.environ.get("FERRULE_BINDINGS") or str(ROOT / "build" / "ferrule" / "rust-core" / "bindings.rs")
    if not Path(bindings).is_file():
        subprocess.run([sys.executable, "-m", "tools.build", "make", "ferrule"], cwd=ROOT, check=True)
    environment.update(FERRULE_BINDINGS=bindings, PATH=f"{TOOLS / 'bin'}{os.pathsep}{os.environ['PATH']}",
                       # The assertions of debug builds too.
                       RUSTFLAGS="--cfg ferrule_checks")
    said = subprocess.run(["cargo", "fuzz", "--version"], env=environment, capture_output=True, text=True).stdout
    if VERSION not in said:
        subprocess.run(["cargo", "install", f"cargo-fuzz@{VERSION}", "--locked", "--root", TOOLS], check=True,
                       env={**os.environ, "RUSTFLAGS": ""})
    # cargo-fuzz has no word for it.
    subprocess.run(["cargo", "metadata", "--locked", "--format-version=1", "--manifest-path", FUZZ / "Cargo.toml"], env=environment,
                   check=True, stdout=subprocess.DEVNULL)


def cargo_fuzz(command: str, target: str, *words: str | Path, **options: Any) -> subprocess.Popen:
    line = ["cargo", "fuzz", command, "--fuzz-dir", FUZZ, "--target-dir", WORK / "cargo", target, *words]
    return subprocess.Popen(line, cwd=ROOT, env=environment, text=True, errors="replace", **options)


def fuzz(target: str, seconds: int) -> bool:
    found, inputs, corpus = WORK / "found" / target, WORK / "inputs" / target, FUZZ / "corpus" / target
    for folder in (found, inputs, corpus):
        folder.mkdir(parents=True, exist_ok=True)
    before = set(found.iterdir())
    log, spent = WORK / f"{target}.log", processor.minutes()
    with log.open("w") as output:
        done = cargo_fuzz("run", target, inputs, corpus, "--", f"-max_total_time={seconds}", "-print_final_stats=1",
                          f"-artifact_prefix={found}/", *LIMITS, stdout=output, stderr=subprocess.STDOUT).wait()
    text = log.read_text(errors="replace")
    count, reached = re.search(r"number_of_executed_units: (\d+)", text), re.findall(r"cov: (\d+)", text)
    fresh = sorted(path for path in set(found.iterdir()) - before if not path.name.startswith("slow-unit-"))
    good = done == 0 and not fresh and count is not None and int(count[1]) > 0
    print(f"{'ok  ' if good else 'FAIL'}  {target}: {count[1] if count else 'no'} inputs, {reached[-1] if reached else 'no'} edges, "
          f"{processor.minutes() - spent:.1f} minutes of a processor", flush=True)
    if not good:
        why = re.search(r"(?m)^thread .* panicked at .*\n.*|^==\d+==ERROR.*|^error.*", text)
        print(f"      {why[0] if why else 'it has failed'}\n      all of it: {log.relative_to(ROOT)}")
    for path in fresh:
        print(f"      again: ci/cargo-fuzz --again {target} {path.relative_to(ROOT)}", flush=True)
    return good


def merge(target: str) -> bool:
    """The smallest set of inputs that is known to reach all that the corpus and the inputs of all runs reach."""
    corpus, together = FUZZ / "corpus" / target, WORK / "merged" / target
    shutil.rmtree(together, ignore_errors=True)
    together.mkdir(parents=True)
    for folder in (corpus, WORK / "inputs" / target):
        for path in folder.glob("*"):
            shutil.copy2(path, together)
    if cargo_fuzz("cmin", target, together, "--", *FEW).wait():
        print(f"FAIL  {target}")
        return False
    shutil.rmtree(corpus, ignore_errors=True)
    shutil.copytree(together, corpus)
    sizes = [path.stat().st_size for path in corpus.iterdir()]
    print(f"ok    {target}: {len(sizes)} inputs, {sum(sizes)} bytes", flush=True)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="MINUTES TARGET", help=", ".join(TARGETS))
    parser.add_argument("--again", nargs=2, metavar=("TARGET", "FILE"))
    parser.add_argument("--merge", action="store_true")
    options = parser.parse_args()
    words = list(options.words)
    minutes = float(words.pop(0)) if words and re.fullmatch(r"[\d.]+", words[0]) else 10.0
    for unknown in set(words) - set(TARGETS):
        parser.error(f"there is no target {unknown}, only {', '.join(TARGETS)}")
    targets = words or TARGETS
    if not has_nightly():
        print("skipped: AddressSanitizer and libFuzzer need a nightly toolchain: rustup toolchain install nightly")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    prepare()
    if options.again:
        target, file = options.again
        status = cargo_fuzz("fmt", target, Path(file).resolve()).wait()
        return cargo_fuzz("run", target, Path(file).resolve(), "--", *LIMITS).wait() or status
    if options.merge:
        results = [merge(target) for target in targets]
    else:
        results = [fuzz(target, max(1, round(minutes * 60 / len(targets)))) for target in targets]
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed, 0 skipped")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
