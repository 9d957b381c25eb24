"""The memory of twenty programs. What each returns lives until its memory has been read.

    python memory_programs.py NAME

Prints lines: a name, then bytes.
"""

import importlib
import os
import sys


def memory(key):
    """Bytes, from what the kernel says of this process: VmRSS is now, VmHWM the most there ever was."""
    with open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024
    raise LookupError(key)


def imports(*names):
    return lambda: [importlib.import_module(name) for name in names]


def calls():
    from workloads import BENCHMARKS
    for run in BENCHMARKS.values():
        run(20)


def threads():
    import threading
    barrier = threading.Barrier(201)
    workers = [threading.Thread(target=barrier.wait) for _ in range(200)]
    for worker in workers:
        worker.start()
    barrier.wait()
    for worker in workers:
        worker.join()


def generators():
    def forever():
        while True:
            yield
    found = [forever() for _ in range(10_000)]
    for generator in found:
        next(generator)
    return found


def tasks():
    import asyncio

    async def every():
        async with asyncio.TaskGroup() as group:
            for _ in range(5_000):
                group.create_task(asyncio.sleep(0))
    asyncio.run(every())


def recursion():
    sys.setrecursionlimit(60_000)

    def down(n):
        if n:
            down(n - 1)
    down(50_000)


def tracebacks():
    found = []
    for _ in range(10_000):
        try:
            raise ValueError
        except ValueError as error:
            found.append(error)
    return found


def instances():
    class Point:
        def __init__(self, x, y):
            self.x, self.y = x, y
    return [Point(n, -n) for n in range(50_000)]


def classes():
    return [type(f"Class{n}", (), {"method": lambda self: n}) for n in range(1_000)]


def records():
    return [{"name": str(n), "number": n, "values": [n, n + 1, n + 2]} for n in range(20_000)]


def json_text():
    import json
    return json.loads(json.dumps(records()))


def pickled():
    import pickle
    return pickle.loads(pickle.dumps(records()))


def xml_tree():
    import xml.etree.ElementTree as tree
    return tree.fromstring("<all>" + "".join(f"<one number='{n}'><text>{n}</text></one>" for n in range(10_000)) + "</all>")


def table():
    import sqlite3
    connection = sqlite3.connect(":memory:")
    connection.execute("create table numbers (n, text)")
    connection.executemany("insert into numbers values (?, ?)", ((n, str(n)) for n in range(20_000)))
    return connection, connection.execute("select * from numbers order by text").fetchall()


def compiled():
    source = "\n".join(f"def function{n}(a, b=1, *c):\n    return [a + b for _ in c] or {{'key': {n}}}\n" for n in range(2_000))
    namespace = {}
    exec(compile(source, "functions", "exec"), namespace)
    return namespace


def expressions():
    import re
    text = " ".join(f"word{n}@example.org" for n in range(20_000))
    return re.findall(r"(\w+)@(\w+)\.org", text)


def integers():
    return [3 ** n for n in range(3_000)]


# {its name: the program}
PROGRAMS = {
    "no program": lambda: None,
    "imports": imports("asyncio", "email.message", "http.client", "json", "logging", "typing", "unittest", "urllib.request", "xml.dom"),
    "imports of numbers": imports("decimal", "fractions", "random", "statistics"),
    "imports of a command": imports("argparse", "pathlib", "subprocess", "tempfile", "zipfile"),
    "each call benchmark": calls, "200 threads": threads, "10,000 generators": generators, "5,000 tasks": tasks, "50,000 calls deep": recursion,
    "10,000 tracebacks": tracebacks, "50,000 instances": instances, "1,000 classes": classes, "20,000 records": records,
    "JSON": json_text, "pickle": pickled, "XML": xml_tree, "SQLite": table, "2,000 functions": compiled,
    "regular expressions": expressions, "long integers": integers,
}


if __name__ == "__main__":
    # The script's own directory has nothing to import; workloads.py is beside it.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    name = sys.argv[1]
    made = PROGRAMS[name]()
    print("bytes,", name, memory("VmHWM"))
    print(f"bytes, {name}, of no file", memory("RssAnon"))
