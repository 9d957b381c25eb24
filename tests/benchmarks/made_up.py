"""A made-up run of the benchmarks: its files look as those of a real one, its figures are known."""

import json
import math
import random
from pathlib import Path

import hooks
from suite.results import sample, write_suites

ROUNDS = 9
BUILD = {"version": "3.13.5 (main) [Clang 22]", "compiler": "Clang 22", "cflags": "-O3", "configure": "--with-lto=thin",
         "debug": False}
CALLS = ("recursion", "methods", "properties", "generators", "inits")


def make_run(directory, noise=0.004, only="", remark="no build without the GIL"):
    """Writes the files of a run into `directory`. `only` keeps the benchmarks whose names begin so."""
    source = random.Random(6)
    facts = {
        "date": "2026-01-02T03:04:05", "command": "make bench", "pythons": {"stock": "/s", "ferrule": "/f"},
        "base": "stock", "quick": False, "layouts": 8, "only": [], "together": True, "minutes": 58,
        "seconds": 3300.0, "pinned": True, "free_threaded": {},
        "machine": {"cpu": "AMD EPYC", "cores": 2, "memory": "24 GiB", "os": "Debian GNU/Linux 12 (bookworm)",
                    "kernel": "6.1", "virtual": True},
        "builds": {"stock": {**BUILD, "ferrule": None},
                   "ferrule": {**BUILD, "ferrule": {"rustc": "1.95.0", "cross_lto": True}}},
        "failures": {"pyperformance/broken": "stock: no such luck"}, "remarks": [remark],
        "metadata": {"stock": {"cpu_count": 2}, "ferrule": {"cpu_count": 2}},
    }
    entries = []

    def add(name, seconds, ferrule=1.0, pythons=("stock", "ferrule"), unit="second", rounds=ROUNDS):
        for python in pythons if name.startswith(only) else ():
            for number in range(rounds):
                figure = seconds * (ferrule if python == "ferrule" else 1.0)
                values = [figure * source.lognormvariate(0, noise)] if unit == "second" else [round(figure)]
                entries.append({"task": name, "python": python, "round": number, "date": facts["date"],
                                "seconds": 1.0, "samples": [sample(name, values, unit)]})

    for name, ratio in (("slower", 1.08), ("faster", 0.9), *((f"equal {number}", 1.0) for number in range(40))):
        add(f"pyperformance/{name}", 0.02, ratio)
    for name in CALLS:
        add(f"calls/{name}", 5e-6, 0.99)
        add(f"control/{name}", 5e-6, pythons=("stock",))
        add(f"evaluator/evaluator/{name}", 8e-6, 0.8)
        add(f"instructions/{name}", 100_000, 0.993, unit="integer", rounds=1)
        for setup, (role, *_) in hooks.SETUPS.items():
            add(f"hooks/{setup}/{name}", 5e-6 * (1.5 if setup == "PEP 523" else 1),
                pythons=("stock",) if role == "base" else ("ferrule",))
    for name in ("frame object", "coroutine await"):
        add(f"frames/{name}", 3e-6, 0.97)
    add("memory/start", 9e6, 1.01, unit="byte")
    add("start/python -c pass", 0.011, 1.0)
    if "depth/".startswith(only):
        for python in ("stock", "ferrule"):
            for number in range(3):
                edge = 7e-6 if python == "stock" else 21e-9
                times = [edge if depth % 180 == 179 else 18e-9 * (1 + math.sin(depth) / 50) for depth in range(400)]
                entries.append({"task": "depth 3", "python": python, "round": number, "date": facts["date"],
                                "seconds": 1.0, "samples": [sample("depth/3 locals", times)]})
    Path(directory, "run.json").write_text(json.dumps(facts))
    write_suites(directory, entries, facts["metadata"])
