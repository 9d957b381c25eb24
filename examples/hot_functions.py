#!/usr/bin/env python3
"""PEP 523 at work: count how often each function runs, and give the hot ones faster code.

    build/ferrule/python examples/hot_functions.py

Builds the extension module hotswap.c beside it with $CC or cc, for the interpreter that runs this program, which may
be any CPython from 3.12 on. Exit code 0 only if every result was right, before, during and after the swap.
"""

import importlib.util
import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
HOT_AFTER = 100
CALLS = 300


def build(directory):
    """Compile hotswap.c into `directory` and import it."""
    target = os.path.join(directory, "hotswap" + sysconfig.get_config_var("EXT_SUFFIX"))
    includes = {sysconfig.get_path("include"), sysconfig.get_path("platinclude")}
    command = [*shlex.split(os.environ.get("CC") or "cc"), "-std=c11", "-O2", "-fPIC", "-shared",
               "-Wall", "-Wextra", "-Werror", *(f"-I{path}" for path in sorted(includes)),
               os.path.join(HERE, "hotswap.c"), "-o", target]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"hotswap.c does not build:\n{shlex.join(command)}\n{done.stderr}")
    spec = importlib.util.spec_from_file_location("hotswap", target)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def triangle(n):
    total = 0
    for i in range(n + 1):
        total += i
    return total


def triangle_faster(n):
    return n * (n + 1) // 2


class Circle:
    def __init__(self, radius):
        self.radius = radius

    @property
    def area(self):
        return sum(3 for _ in range(self.radius * self.radius))


def area_faster(self):
    return 3 * self.radius * self.radius


def cold(n):
    return n


def cold_faster(n):
    raise AssertionError("it was never hot")


def main():
    with tempfile.TemporaryDirectory() as directory:
        hotswap = build(directory)
        functions = {"triangle": (triangle, triangle_faster), "area": (Circle.area.fget, area_faster),
                     "cold": (cold, cold_faster)}
        slow_code = {name: slow.__code__ for name, (slow, _) in functions.items()}
        for slow, faster in functions.values():
            hotswap.offer(slow, faster)

        hotswap.start(HOT_AFTER)
        cold(1)
        right = all(triangle(20) == 210 and Circle(4).area == 48 for _ in range(CALLS))
        hotswap.stop()

        print(f"{CALLS} calls; a function is hot after {HOT_AFTER} executions")
        for name, (slow, faster) in functions.items():
            executions = hotswap.executions(slow_code[name])
            which = "faster" if slow.__code__ is faster.__code__ else "own"
            print(f"  {name}: {executions} executions of its own code, runs its {which} code now")
        inits = hotswap.executions(Circle.__init__.__code__)
        print(f"  Circle.__init__: {inits} executions")
        print(f"  {hotswap.swap_count()} functions swapped, results {'right' if right else 'WRONG'}")
        return 0 if right and triangle(20) == 210 else 1


if __name__ == "__main__":
    sys.exit(main())
