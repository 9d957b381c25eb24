"""What pystack says of live processes, with native frames and locals too."""

import re
import sys
from pathlib import Path

from seen import each_stack, expect, expect_stack, said

PYSTACK = Path(sys.executable).with_name("pystack")
FRAME = re.compile(r'\(Python\) File "([^"]*)", line (\d+), in (\S+)')


def look(scenario, pid, kind):
    text = said(PYSTACK, "--no-color", "remote", *kind.split(), str(pid))
    threads = re.split(r"^Traceback for thread ", text, flags=re.M)[1:]
    main = [thread for thread in threads if thread.startswith(f"{pid} ")]
    expect(len(main) == 1, f"{len(main)} main threads of {len(threads)}: {text[-300:]!r}")
    expect_stack([(name, int(line)) for path, line, name in FRAME.findall(main[0]) if path.endswith("target.py")], scenario)
    if scenario == "thread":
        expect(any(" in in_thread" in thread for thread in threads), "the other thread is not shown")
    if kind == "--locals" and scenario.endswith("deep"):
        expect("depth: 17" in main[0], f"no local `depth` is 17: {main[0][-600:]!r}")


each_stack(look, ("", "--native", "--locals"))
