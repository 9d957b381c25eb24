#!/usr/bin/env python3
"""Where what Ferrule is built of comes from, and under which licences: cargo-deny by deny.toml, and the bills of materials of `make dist`.

cargo-deny and cargo-cyclonedx are installed into build/tools, from the registry and by their locks: ten minutes, once. The last line is
the counts. Advisories are looked at where their database is in cargo's directory already; it is a repository of git, which is not fetched here.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tools import sbom

ROOT = Path(__file__).resolve().parent.parent

TOOLS = {"cargo-deny": "0.20.2", "cargo-cyclonedx": "0.5.9"}
CHECKS = ("bans", "licenses", "sources")
passed = failed = skipped = 0


def run(*words: str) -> subprocess.CompletedProcess:
    print("$", " ".join(words), flush=True)
    done = subprocess.run(words, cwd=ROOT, env=sbom.with_tools(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(done.stdout, flush=True)
    return done


def count(good: bool, what: str) -> None:
    global passed, failed
    passed, failed = passed + good, failed + (not good)
    print(f"{'ok' if good else 'FAILED'}: {what}", flush=True)


def install() -> None:
    for tool, version in TOOLS.items():
        done = subprocess.run(["cargo", tool.removeprefix("cargo-"), "--version"], env=sbom.with_tools(), capture_output=True, text=True)
        if version not in done.stdout and run("cargo", "install", f"{tool}@{version}", "--locked", "--root", str(ROOT / "build" / "tools")).returncode:
            sys.exit(f"ci/supply: {tool} {version} cannot be installed")


def main() -> int:
    global skipped
    install()
    # A rule that nothing needs any more is an error too.
    done = run("cargo", "deny", "--locked", "check", "--deny", "warnings", *CHECKS)
    said = dict(re.findall(r"(\w+) (ok|FAILED)", done.stdout.splitlines()[-1] if done.stdout else ""))
    for check in CHECKS:
        count(done.returncode == 0 and said.get(check) == "ok", f"cargo deny check {check}")
    database = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo") / "advisory-dbs"
    if database.is_dir() and any(path.is_dir() for path in database.iterdir()):
        done = run("cargo", "deny", "--locked", "check", "--disable-fetch", "advisories")
        count(done.returncode == 0, "cargo deny check advisories")
    else:
        skipped += 1
        print("skipped: there is no advisory database", flush=True)
    for bill in (ROOT / "build" / "dist").glob("*.cdx.json"):
        bill.unlink()
    done = run("make", "dist")
    bills = [json.loads(bill.read_text()) for bill in sorted((ROOT / "build" / "dist").glob("*.cdx.json"))]
    count(done.returncode == 0, "make dist")
    count({bill["metadata"]["component"]["name"] for bill in bills} == set(sbom.MEMBERS), "a bill of materials for each crate of ours")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
