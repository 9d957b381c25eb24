#!/usr/bin/env python3
"""Random programs that frame hooks must not disturb: with a hook on Ferrule they leave the trace of stock without one.

    python3 -m tests.differential.hooked_programs --count 5000
    python3 -m tests.differential.hooked_programs --modes observe-copy --seed 123 --count 1         one program again
    python3 -m tests.differential.hooked_programs --modes observe-copy --seed 123 --count 1 --show  and its traces
    python3 -m tests.differential.hooked_programs --site DIR --leaks 1 --memory endless
    python3 -m tests.differential.hooked_programs --no-stock --python build/asan/python     crashes and leaks alone

The programs trace, jump, keep frames, send signals, take turns in threads, change the hooks while they run, and some
run out of memory at their end; with --site, the directory of an unpacked greenlet, they switch greenlets too. Hooks of
one thread, blocks that end in another thread, cycles through hooks and callbacks that wait in greenlets are checked
against a model (hooked_programs_changes.py). Each program is run on stock, and on Ferrule in several modes:

    none            no hook
    native          a hook in C that passes each frame
    pass, read      a hook in Python that passes each frame; that reads all there is to read before
    disable         a hook that returns Disable at once
    copy            a hook that answers with an equal copy of the code
    observe         a hook that looks for frames in all ways, and passes
    observe-copy    that looks, and answers with a copy
    watch           a hook that watches each frame, and knows in which order its events may come
    scope           a hook that has scopes, exclude_callees() and only_callees(), and a model of where it is called
    native-copy, native-observe     the hooks in C that CPython's own suite is run with (tests/hooked)

Some programs are repeated, to see whether memory grows (--leaks). The exit code is 0 when all traces were the same, 1
when not, 2 when the interpreters cannot be run.
"""

import functools
import os
import sys

from tests.c import build_extensions
from tests.differential import hooked_programs_generator, program_runs
from tests.differential.program_runs import HERE, ROOT, Way

WORKER = os.path.join(HERE, "hooked_programs_worker.py")
MODES = ("none", "native", "pass", "copy", "observe", "observe-copy", "watch", "scope")
ALL_MODES = (*MODES, "read", "disable", "native-copy", "native-observe")
LEAKS = 20      # each so many programs, one is repeated
BATCH = 40      # fewer than without hooks: each is run in many ways
# Some tools for frames look at each of several hundred, at each call.
SECONDS = 30
# Hooks in Python need some of the stack, so what happens at its end happens elsewhere.
INCOMPARABLE = "RecursionError"


def extension_for(python, out):
    """The file of the hooks in C, built if need be."""
    directory = build_extensions.build(python, out)
    return os.path.join(directory, "suitehooks" + build_extensions.facts_of(python)["suffix"])


def programs_for(ferrule, stock, extension, modes=MODES, site=None, memory="windows", leaks=LEAKS):
    """The Programs, in these modes. Without `stock` nothing is compared."""
    common = ["--leaks", str(leaks)]
    options = ["--python", ferrule, *(("--stock", stock) if stock else ("--no-stock",)), "--memory", memory, *common]
    if site:
        common += ["--site", site]
        options += ["--site", site]
    ways = [Way(f"ferrule {mode}", ferrule, (mode, *common, "--extension", extension), ("--modes", mode))
            for mode in modes]
    generate = functools.partial(hooked_programs_generator.program, greenlets=bool(site), memory=memory)
    return program_runs.Programs(
        os.path.abspath(__file__), WORKER, generate, Way("stock", stock, ("none", *common)) if stock else None,
        tuple(ways), tuple(options), SECONDS, BATCH, INCOMPARABLE)


def main():
    parser = program_runs.argument_parser(__doc__)
    parser.add_argument("--modes", nargs="+", choices=ALL_MODES, default=MODES, metavar="MODE",
                        help=f"of {', '.join(ALL_MODES)} (default {' '.join(MODES)})")
    parser.add_argument("--no-stock", action="store_true", help="compare nothing: look for crashes and leaks")
    parser.add_argument("--site", metavar="DIR", help="where greenlet is; without it, no greenlets")
    parser.add_argument("--memory", choices=hooked_programs_generator.MEMORY, default="windows",
                        help="programs run out of memory for a time (the default), for ever, or not at all")
    parser.add_argument("--leaks", type=int, default=LEAKS, metavar="EVERY",
                        help="repeat one of so many programs to see memory grow (default %(default)s; 0: none)")
    parser.add_argument("--extensions", metavar="DIR", help="where the hooks in C are built",
                        default=os.path.join(ROOT, "build", "test-extensions", "hooked-programs"))
    options = parser.parse_args()
    try:
        extension = extension_for(options.python, options.extensions)
    except (OSError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 2
    programs = programs_for(options.python, None if options.no_stock else options.stock, extension, options.modes,
                            options.site and os.path.abspath(options.site), options.memory, options.leaks)
    return program_runs.run_command(options, programs)


if __name__ == "__main__":
    sys.exit(main())
