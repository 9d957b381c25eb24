"""What the scripts share that count instructions: each benchmark under each of some setups, as ratios. `run.py --only` measures their time."""

import argparse
import statistics
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import measuring

Counts = dict[str, dict[str, measuring.Instructions]]      # {benchmark: {setup: instructions of the work alone}}


def argument_parser(description: str, names: Collection[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=f"{description} Instructions are counted by valgrind.")
    parser.add_argument("--base", type=measuring.program, required=True, help="the interpreter to compare with (stock)")
    parser.add_argument("--python", type=measuring.program, required=True, help="the interpreter to measure")
    parser.add_argument("--only", action="append", choices=list(names), metavar="NAME", help="this benchmark alone; may be repeated")
    parser.add_argument("--json", metavar="FILE", help="write all numbers to FILE")
    return parser


def compare(arguments: argparse.Namespace, names: Iterable[str], setups: Mapping[str, tuple[str, str | None]], few: int, many: int,
            command: Callable[[str, str, str], Sequence[str]], aims: Mapping[str, float] = {}) -> tuple[Counts, dict[str, float]]:
    """Count, and print a table; returns the counts and {setup: geometric mean of its ratios}.

    `setups` says where each runs, on "base" or "python", and what it is compared with; the first is compared with nothing. `command` makes the
    child's arguments of a setup, a benchmark and a number of iterations.
    """
    measuring.require_callgrind()
    started = time.monotonic()
    pythons = {"base": arguments.base, "python": arguments.python}
    counts = measuring.count_each(arguments.only or names, {setup: which for setup, (which, _) in setups.items()}, pythons, few, many, command)
    first, compared = next(iter(setups)), {setup: against for setup, (_, against) in setups.items() if against}
    rows = {name: {setup: row[setup].all / row[against].all for setup, against in compared.items()} for name, row in counts.items()}
    means = {setup: statistics.geometric_mean(row[setup] for row in rows.values()) for setup in compared}
    print(f"Instructions of an iteration, and ratios of them: {', '.join(f'{setup} to {against}' for setup, against in compared.items())}\n")
    measuring.print_table(("benchmark", first, *compared), [
        *((name, f"{counts[name][first].all / (many - few):,.1f}", *(f"{ratio:.4f}" for ratio in row.values())) for name, row in rows.items()),
        ("geometric mean", "", *(f"{mean:.4f}" for mean in means.values())),
        *([("aim", "", *(str(aims.get(setup, "")) for setup in compared))] if aims else [])])
    print(f"({time.monotonic() - started:.0f} s)")
    if arguments.json:
        measuring.write_json(arguments.json, pythons=pythons, means=means, ratios=rows, counts=counts)
    return counts, means


# --- What is added on stock and on Ferrule. ------------------------------------------------------------------------

INTERPRETERS = {"stock": "base", "Ferrule": "python"}
FEW_ITERATIONS, MANY_ITERATIONS = 3, 9


def print_beside_stock(head: str, arguments: argparse.Namespace, rows: Collection[str], calls: Mapping[str, int], heads: Mapping[str, str],
                       child: str, *more: str) -> None:
    """A table: what each row adds to a call, and what that takes in the first, which adds nothing. `calls` are how many one iteration
    of each benchmark has; `child --child ROW BENCHMARK ITERATIONS` runs one."""
    measuring.require_callgrind()
    setups = {f"{interpreter}, {row}": which for row in rows for interpreter, which in INTERPRETERS.items()}
    pythons = {"base": arguments.base, "python": arguments.python}

    def command(setup: str, name: str, count: str) -> list[str]:
        return [child, "--child", setup.partition(", ")[2], name, str(count), *more]

    names = arguments.only or list(calls)
    counts = measuring.count_each(names, setups, pythons, FEW_ITERATIONS, MANY_ITERATIONS, command)
    print(f"| {head} | {' | '.join(f'{heads.get(name, name)}, {where}' for name in names for where in INTERPRETERS)} |")
    print("|---" * (1 + len(names) * len(INTERPRETERS)) + "|")
    for row in rows:
        cells = []
        for name in names:
            for where in INTERPRETERS:
                divisor = (MANY_ITERATIONS - FEW_ITERATIONS) * calls[name]
                found, without = (counts[name][f"{where}, {one}"].all / divisor for one in (row, next(iter(rows))))
                cells.append(f"{found:,.0f}" if row == next(iter(rows)) else f"{found - without:+,.0f}")
        print(f"| {row} | {' | '.join(cells)} |")
    if arguments.json:
        measuring.write_json(arguments.json, counts=counts)
