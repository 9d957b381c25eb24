"""Runs the programs of one module in this process, and writes what they did as JSON.

    python run_programs.py hooks breaks out.json [program...]
"""

import importlib
import json
import sys


def programs(module):
    """The programs of a module, in order: its functions that take the tools."""
    names = vars(importlib.import_module(f"programs.{module}"))
    return {name: value for name, value in names.items()
            if callable(value) and getattr(value, "__module__", "") == f"programs.{module}"
            and getattr(value, "__code__", None) is not None and value.__code__.co_varnames[:1] == ("t",)}


def main():
    way, module, out, *chosen = sys.argv[1:]
    if way == "hooks":
        import ferrule_dynamo

        ferrule_dynamo.install()
    from recording import record

    noted = {}
    for name, program in programs(module).items():
        if not chosen or name in chosen:
            noted[name] = record(program)
    with open(out, "w") as file:
        json.dump(noted, file, indent=1)


if __name__ == "__main__":
    main()
