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

from ci.checks import check, counts, execute, run, total
from tools import places, sbom

TOOLS = {"cargo-deny": "0.20.2", "cargo-cyclonedx": "0.5.9"}
CHECKS = ("bans", "licenses", "sources")


def install() -> None:
    os.environ.update(sbom.with_tools())
    for tool, version in TOOLS.items():
        done = subprocess.run(["cargo", tool.removeprefix("cargo-"), "--version"], capture_output=True, text=True)
        if version not in done.stdout and not run("cargo", "install", f"{tool}@{version}", "--locked", "--root", places.BUILD / "tools"):
            sys.exit(f"ci/supply: {tool} {version} cannot be installed")


def main() -> int:
    install()
    # A rule that nothing needs any more is an error too.
    done = execute("cargo", "deny", "--locked", "check", "--deny", "warnings", *CHECKS)
    said = dict(re.findall(r"(\w+) (ok|FAILED)", done.stdout.splitlines()[-1] if done.stdout else ""))
    for rule in CHECKS:
        check(done.returncode == 0 and said.get(rule) == "ok", f"cargo deny check {rule}")
    database = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo") / "advisory-dbs"
    if database.is_dir() and any(path.is_dir() for path in database.iterdir()):
        check(run("cargo", "deny", "--locked", "check", "--disable-fetch", "advisories"), "cargo deny check advisories")
    else:
        counts.skipped += 1
        print("skipped: there is no advisory database", flush=True)
    for bill in (places.BUILD / "dist").glob("*.cdx.json"):
        bill.unlink()
    check(run("make", "dist"), "make dist")
    bills = [json.loads(bill.read_text()) for bill in sorted((places.BUILD / "dist").glob("*.cdx.json"))]
    check({bill["metadata"]["component"]["name"] for bill in bills} == set(sbom.MEMBERS), "a bill of materials for each crate of ours")
    return total()


if __name__ == "__main__":
    sys.exit(main())
