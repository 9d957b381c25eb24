#!/usr/bin/env python3
"""A short tour of Ferrule: what is Rust in this Python, a deep recursion, what a call costs at each depth, the profiler and
the debugger.

    build/ferrule/python examples/tour.py [--stock PATH]
"""

import argparse
import locale
import math
import os
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "benchmarks"))

RECURSION_DEPTH = 50_000
PICTURE_DEPTH = 2_000
PICTURE_LOCALS = 30
PICTURE_SWEEPS = 4      # of each interpreter; a sweep takes a second at most
PICTURE_SECONDS = 12    # no new sweep is begun after this time
PICTURE_ROWS = 7
LABEL_WIDTH = 9         # the label left of a row of the picture
CLIENTS_PROGRAM = "anagrams.py"
BLOCKS = " ▁▂▃▄▅▆▇█"
ASCII_BLOCKS = "    .::##"


def can_print_blocks():
    try:
        BLOCKS.encode(sys.stdout.encoding or locale.getpreferredencoding(False))
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def headline(text):
    print()
    print(text)
    print("-" * len(text))


def as_size(count):
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024 or unit == "MiB":
            return f"{count:,.0f} {unit}" if unit == "bytes" or count == int(count) else f"{count:,.1f} {unit}"
        count /= 1024


def show_build(framecore):
    info = framecore.info()
    origin = f"CPython {info['cpython']}"
    if info["debian_revision"]:
        origin += f" with the fixes of Debian's {info['debian_revision']}"
    print(f"Ferrule {info['version']}: {origin}, with a Rust frame core")
    print()
    print(f"  in Rust     {', '.join(part.replace('_', ' ') for part in info['rust'])}")
    print(f"  built with  rustc {info['rustc']} (LLVM {info['llvm']})")
    inlining = "cross-language: Rust is inlined into the C eval loop" if info["cross_lto"] else "none"
    print(f"  LTO         {inlining}")
    if info["debug_assertions"]:
        print("  debug assertions are on")
    print(f"  version     {sys.version.splitlines()[0]}")


def go_down(depth, at_the_bottom):
    if depth == 0:
        return at_the_bottom()
    return go_down(depth - 1, at_the_bottom)


def show_recursion(framecore):
    headline(f"{RECURSION_DEPTH:,} Python frames deep")
    sys.setrecursionlimit(RECURSION_DEPTH + 1_000)
    before = framecore.datastack_stats()
    started = time.perf_counter()
    bottom = go_down(RECURSION_DEPTH, framecore.datastack_stats)
    took = time.perf_counter() - started
    after = framecore.datastack_stats()
    print(f"{'':22}{'before':>14}{'at the bottom':>16}{'after':>14}")
    for label, key in (("chunks pushed", "chunks_pushed"), ("chunks popped", "chunks_popped"),
                       ("chunks used again", "cache_hits"), ("chunks kept", "chunks_cached")):
        print(f"{label:22}{before[key]:>14,}{bottom[key]:>16,}{after[key]:>14,}")
    for label, key in (("memory held", "bytes_held"), ("most ever held", "bytes_high_water")):
        row = [as_size(stats[key]) for stats in (before, bottom, after)]
        print(f"{label:22}{row[0]:>14}{row[1]:>16}{row[2]:>14}")
    print()
    print(f"Down and up again in {took * 1000:.1f} ms, {took / RECURSION_DEPTH * 1e9:.0f} ns a call and its return.")


def bars(worst, low, high, blocks):
    """Rows of text, top first: one column a value, on a logarithmic axis from `low` to `high`."""
    steps = PICTURE_ROWS * (len(blocks) - 1)
    span = math.log(high / low)
    heights = [max(1, min(steps, round(math.log(max(value, low) / low) / span * steps))) for value in worst]
    for row in reversed(range(PICTURE_ROWS)):
        filled = (min(len(blocks) - 1, max(0, height - row * (len(blocks) - 1))) for height in heights)
        yield "".join(blocks[part] for part in filled)


def as_time(ns):
    return f"{ns:,.0f} ns" if ns < 1000 else f"{ns / 1000:,.1f} us"


def show_picture(costs, width):
    """One panel for each interpreter, all with the same axis. `costs`: ns of a call, one for each depth, by interpreter."""
    columns = width - LABEL_WIDTH - 1
    unicode = can_print_blocks()
    blocks = BLOCKS if unicode else ASCII_BLOCKS
    edge = "┤" if unicode else "|"
    low = min(min(best) for best in costs.values()) / 1.5
    high = max(max(max(best) for best in costs.values()) * 1.05, low * 20)
    span = math.log(high / low)
    for name, best in costs.items():
        bounds = [len(best) * column // columns for column in range(columns + 1)]
        worst = [max(best[start:max(end, start + 1)]) for start, end in zip(bounds, bounds[1:])]
        median, most = statistics.median(best), max(best)
        print()
        print(f"{name}: median {as_time(median)}, worst {as_time(most)} at depth {best.index(most):,}: {most / median:.2f} times the median")
        for number, row in enumerate(bars(worst, low, high, blocks)):
            top = low * math.exp(span * (PICTURE_ROWS - number) / PICTURE_ROWS)
            print(f"{as_time(top):>{LABEL_WIDTH - 1}} {edge}{row.rstrip()}")
    left, middle, right = "0", f"{PICTURE_DEPTH // 2:,}", f"depth {PICTURE_DEPTH:,}"
    scale = left + middle.rjust(columns // 2) + right.rjust(columns - columns // 2 - len(left))
    print(" " * (LABEL_WIDTH + 1) + scale)
    print()
    print(f"One column is {math.ceil(PICTURE_DEPTH / columns)} depths and shows the worst of them; the axis is "
          "logarithmic.")


def find_stock(path):
    """The stock interpreter to compare with, or None."""
    if path:
        if not os.access(path, os.X_OK):
            raise SystemExit(f"--stock {path}: no such program")
        return path
    # An LTO build is compared with an LTO build, and a plain one with a plain one.
    here = os.path.basename(os.path.dirname(os.path.abspath(sys.executable)))
    names = ["stock-release", "stock"] if here == "release" else ["stock", "stock-release"]
    for name in names:
        candidate = os.path.join(ROOT, "build", name, "python")
        if os.access(candidate, os.X_OK):
            return candidate
    return None


def show_costs(stock):
    import depth

    headline(f"What one call costs at depths 0 to {PICTURE_DEPTH:,}")
    pythons = {"Ferrule": sys.executable}
    if stock:
        pythons = {"stock": stock, **pythons}
    else:
        print("(No stock build to compare with: `make stock` makes one.)")
    sweeps = {name: [] for name in pythons}
    started = time.monotonic()
    for number in range(PICTURE_SWEEPS):
        if number and time.monotonic() - started > PICTURE_SECONDS:
            break
        for name, path in pythons.items():
            sweeps[name].append(depth.run_sweep(path, PICTURE_LOCALS, PICTURE_DEPTH))
    costs = {name: [min(times) for times in zip(*list_)] for name, list_ in sweeps.items()}
    try:
        width = os.get_terminal_size().columns
    except OSError:
        width = 80
    show_picture(costs, max(40, min(width, 80)))
    print(f"Best of {len(sweeps['Ferrule'])} sweeps, a function with {PICTURE_LOCALS} locals; "
          "`make bench-depth` measures with care.")


def find_clients():
    """Where `make` has put the clients that were built for this interpreter, or None."""
    directory = os.path.join(os.path.dirname(os.path.abspath(sys.executable)), "clients")
    return directory if os.path.isdir(directory) else None


def show_program(title, command, clients, typed=""):
    """Run a program with the clients; what it prints."""
    headline(title)
    print(f"$ python {' '.join(command)}")
    done = subprocess.run([sys.executable, *command], input=typed, text=True, cwd=os.path.dirname(os.path.abspath(__file__)),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
                          env={**os.environ, "PYTHONPATH": clients, "PYTHONIOENCODING": "utf-8", "PYTHONDONTWRITEBYTECODE": "1"})
    encoding = sys.stdout.encoding or "utf-8"
    print(done.stdout.rstrip().encode(encoding, "replace").decode(encoding))


def show_clients(clients):
    show_program("Every call counted and timed", ["-m", "ferrule_profiler", "--limit", "5", CLIENTS_PROGRAM], clients)
    print("(-o page.html makes a page with a flame graph; docs/profiler.md)")
    typed = ["break group_of, word == 'tones'", "continue", "p len(groups)", "until 24", "p group", "quit"]
    show_program("A breakpoint that costs nothing until it is reached",
                 ["-m", "ferrule_debugger", *(word for command in typed for word in ("-c", command)), CLIENTS_PROGRAM], clients)
    print("(all that pdb can do; docs/debugger.md)")


def main():
    parser = argparse.ArgumentParser(description="A short tour of Ferrule.")
    parser.add_argument("--stock", metavar="PATH", help="a stock build of the same CPython, for comparison")
    arguments = parser.parse_args()
    try:
        import _framecore
    except ImportError:
        print(f"{sys.executable} is a Python {sys.version.split()[0]} without a Rust frame core.\n"
              "Run this with Ferrule's: `make run`, or build/ferrule/python examples/tour.py after `make`.",
              file=sys.stderr)
        return 1
    show_build(_framecore)
    show_recursion(_framecore)
    show_costs(find_stock(arguments.stock))
    clients = find_clients()
    if clients is None:
        print("\n(No profiler and no debugger beside this build: `make` makes them.)")
    else:
        show_clients(clients)
    return 0


if __name__ == "__main__":
    sys.exit(main())
