#!/usr/bin/env python3
"""A soak: for a while eight threads add and remove tools in a server of asyncio, to which this process sends many requests.

    python3 -m tests.soak.run --python build/ferrule/python --minutes 60

Each request must be answered, and rightly. Memory must be flat: of its resident memory, what the server has in the last tenth of
the time, against what it had in the tenth after the warm-up, in medians. And it must end by itself, with nothing installed and
nothing on its standard error. The last line is the counts: of the turns that tools took and the requests, and what failed.
"""

import argparse
import asyncio
import collections
import json
import os
import random
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
from tests.c import build_extensions
from tests.soak import work

CONNECTIONS = 8
UNDER_WAY = 4               # requests of one connection at a time
OF_A_CONNECTION = 300       # then it is closed, and another one is opened
PATIENCE = 120              # seconds for an answer
WARM_UP = 0.5               # of the time: what each thread keeps for its next use grows for some minutes
MAY_GROW = 8 * 1024 * 1024  # bytes: a leak of ten bytes in each turn of a tool is more, in an hour
PAGE = os.sysconf("SC_PAGESIZE")


def resident(pid):
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * PAGE


class Load:
    """Requests without end, each with what must come back."""

    def __init__(self, port, ending, kinds):
        self.port, self.ending, self.kinds = port, ending, kinds
        self.random = random.Random(port)
        self.sent = self.answered = 0
        self.problems = collections.Counter()

    async def prepare(self):
        self.expected = {(kind, n): str(await work.answer(kind, n)) for kind in self.kinds for n in range(work.LARGEST)}

    async def ask(self):
        """Until the end, one connection after the other."""
        while time.monotonic() < self.ending:
            try:
                await self.one_connection()
            except (TimeoutError, OSError, asyncio.IncompleteReadError) as error:
                self.problems[f"a connection failed: {error!r}"] += 1

    async def one_connection(self):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        waiting = collections.deque()
        for number in range(OF_A_CONNECTION):
            if time.monotonic() > self.ending:
                break
            kind, n = self.random.choice(self.kinds), self.random.randrange(work.LARGEST)
            writer.write(f"{number} {kind} {n}\n".encode())
            self.sent += 1
            waiting.append((number, kind, n))
            if len(waiting) == UNDER_WAY:
                await self.take(reader, waiting.popleft())
        while waiting:
            await self.take(reader, waiting.popleft())
        writer.close()
        await writer.wait_closed()

    async def take(self, reader, request):
        number, kind, n = request
        line = (await asyncio.wait_for(reader.readuntil(), PATIENCE)).decode().split()
        if line == [str(number), self.expected[kind, n]]:
            self.answered += 1
        else:
            self.problems[f"{kind}({n}) was answered {line[1:]}, as {'that' if line[:1] == [str(number)] else 'another'} request"] += 1


async def run(load, server, started, samples):
    await load.prepare()

    async def sample():
        while time.monotonic() < load.ending and server.poll() is None:
            samples.append((time.monotonic() - started, resident(server.pid)))
            if len(samples) % 60 == 1:
                print(f"  {samples[-1][0] / 60:.0f} min: {samples[-1][1] / 2**20:.1f} MiB, {load.answered} answers", flush=True)
            await asyncio.sleep(1)

    await asyncio.gather(sample(), *(load.ask() for _ in range(CONNECTIONS)))


def growth(samples, seconds):
    """Medians of the tenth after the warm-up and of the last tenth."""
    after = statistics.median(size for at, size in samples if WARM_UP * seconds <= at <= (WARM_UP + 0.1) * seconds)
    end = statistics.median(size for at, size in samples if at >= 0.9 * seconds)
    return after, end


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, type=os.path.abspath, help="the interpreter to try")
    parser.add_argument("--minutes", type=float, default=60, help="how long (default %(default)s)")
    parser.add_argument("--tools", nargs="+", default=[], metavar="TOOL", help="these alone, to find whose a problem is (classes of server.py)")
    options = parser.parse_args()
    seconds = 60 * options.minutes
    extensions = build_extensions.build(options.python, os.path.join(
        ROOT, "build", "test-extensions", f"soak-{os.path.basename(os.path.dirname(options.python))}"))
    clients = os.path.join(os.path.dirname(options.python), "clients")
    errors = os.path.join(ROOT, "build", "logs", "soak-errors.log")
    os.makedirs(os.path.dirname(errors), exist_ok=True)
    with open(errors, "w") as file:
        server = subprocess.Popen([options.python, os.path.join(HERE, "server.py"), *options.tools], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=file, text=True,
                                  env={**os.environ, "PYTHONPATH": os.pathsep.join([extensions, clients]), "PYTHONFAULTHANDLER": "1"})
    problems, samples = collections.Counter(), []
    port, started = server.stdout.readline(), time.monotonic()
    report = {"turns": {}, "problems": {"the server did not come to its end": 1}}
    if port.strip():
        load = Load(int(port), started + seconds, work.kinds(build_extensions.facts_of(options.python)["free_threaded"]))
        asyncio.run(run(load, server, started, samples))
        problems += load.problems
        try:
            said, _ = server.communicate("end\n", timeout=PATIENCE)
            report = json.loads(said)
        except (subprocess.TimeoutExpired, ValueError, OSError) as error:
            problems[f"the server did not end as it should: {error!r}"] += 1
            server.kill()
        if load.sent != load.answered:
            problems[f"{load.sent} requests, and {load.answered} right answers"] += 1
        print(f"{load.sent} requests, {load.answered} answered rightly")
    problems += collections.Counter(report["problems"])
    if server.wait() != 0:
        problems[f"the server ended with exit code {server.returncode}"] += 1
    with open(errors) as file:
        if said := file.read():
            problems[f"on standard error, see {os.path.relpath(errors)}: {said[-2000:]}"] += 1
    try:
        after, end = growth(samples, seconds)
    except statistics.StatisticsError:
        problems["too short, or too early an end, to say what memory does"] += 1
    else:
        print(f"resident memory: {after / 2**20:.1f} MiB after the warm-up, {end / 2**20:.1f} MiB at the end; "
              f"it may grow by {MAY_GROW / 2**20:.0f} MiB")
        if end - after > MAY_GROW:
            problems[f"memory grew by {(end - after) / 2**20:.1f} MiB"] += 1
    idle = [name for name, turns in report["turns"].items() if turns < 10]
    if idle:
        problems[f"took fewer than ten turns: {idle}"] += 1
    if not report.get("profiler"):
        print("ferrule_profiler is not beside the interpreter, so it was no tool here")
    print("turns of tools:", ", ".join(f"{name} {turns}" for name, turns in report["turns"].items()))
    for what, count in problems.items():
        print(f"{count} times: {what}")
    print(f"{sum(report['turns'].values()) + (load.answered if port.strip() else 0)} passed, {problems.total()} failed, 0 skipped")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
