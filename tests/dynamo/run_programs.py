"""Runs the programs of one module in this process, and writes what they did as JSON.

    python run_programs.py hooks breaks out.json [program...]

The hook is installed before torch is imported (`hooks`); when torch has compiled and run a function (`late`); again and again, and
uninstalled for every other program (`changing`); or when all programs have run, for another time, in which what was compiled is still there
(`middle`; `again` is that without a hook).
"""

import importlib
import json
import sys

TWICE = ("again", "middle")


def programs(module):
    """The programs of a module, in order: its functions that take the tools."""
    names = vars(importlib.import_module(f"programs.{module}"))
    return {name: value for name, value in names.items()
            if callable(value) and getattr(value, "__module__", "") == f"programs.{module}"
            and getattr(value, "__code__", None) is not None and value.__code__.co_varnames[:1] == ("t",)}


def install_late():
    """Installs the hook into a process in which torch has compiled."""
    import torch

    import ferrule_dynamo

    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    ferrule_dynamo.install()


def change(hooks):
    """Installs the hook or uninstalls it. The second time nothing is to be done."""
    import ferrule_dynamo

    for _ in range(2):
        (ferrule_dynamo.install if hooks else ferrule_dynamo.uninstall)()


def main():
    way, module, out, *chosen = sys.argv[1:]
    if way == "hooks":
        import ferrule_dynamo

        ferrule_dynamo.install()
    from recording import record

    noted, found = {}, programs(module)
    if way == "late":
        install_late()
    for number, (name, program) in enumerate(found.items()):
        if chosen and name not in chosen:
            continue
        if way == "changing":
            change(number % 2)
        noted[name] = record(program, reset=way not in TWICE)
    if way in TWICE:
        change(way == "middle")
        noted = {name: record(found[name], reset=False) for name in noted}
    with open(out, "w") as file:
        json.dump(noted, file, indent=1)


if __name__ == "__main__":
    main()
