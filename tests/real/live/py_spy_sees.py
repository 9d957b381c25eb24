"""What py-spy says of live processes, stopped for it and running, with native frames too; and what it samples."""

import json
import sys
from pathlib import Path

from seen import check, each_stack, expect, expect_stack, process, said

PY_SPY = Path(sys.executable).with_name("py-spy")


def look(scenario, pid, kind):
    threads = json.loads(said(PY_SPY, "dump", "--json", *kind.split(), "--pid", str(pid)))
    main = [thread for thread in threads if thread["thread_name"] == "MainThread"]
    expect(len(main) == 1, f"{len(main)} main threads of {len(threads)}")
    expect_stack([(frame["name"], frame["line"]) for frame in reversed(main[0]["frames"]) if "target.py" in frame["filename"]], scenario)
    if scenario == "thread":
        names = {thread["thread_name"]: [frame["name"] for frame in thread["frames"]] for thread in threads}
        expect("in_thread" in names.get("other", []), f"of the other thread: {names.get('other')}")


def sample():
    with process("generator") as pid:
        raw = said(PY_SPY, "record", "--format", "raw", "--duration", "2", "--idle", "--output", "/dev/stdout", "--pid", str(pid))
        stacks = [line for line in raw.splitlines() if "consume (" in line]
        expect(stacks and all("generator (" in line and "inner (" in line for line in stacks), f"samples: {raw[-300:]!r}")


each_stack(look, ("", "--nonblocking", "--native"))
check("samples", sample)
