"""Programs that an interpreter is trained with, beside CPython's tests: tests run much once, programs run little often.

    python programs.py [ARGUMENT...]        and the interpreter with these arguments afterwards

None is a program of pyperformance, so that its benchmarks show what other programs gain. They take the standard library alone, write
no files, and each takes about half a second.
"""

import abc
import argparse
import ast
import asyncio
import bisect
import collections
import configparser
import contextlib
import csv
import dataclasses
import datetime
import difflib
import email
import enum
import fractions
import functools
import hashlib
import heapq
import html
import html.parser
import io
import itertools
import json
import logging
import operator
import pickle
import queue
import random
import re
import shlex
import statistics
import string
import struct
import subprocess
import sys
import textwrap
import threading
import tokenize
import traceback
import types
import typing
import unittest.mock
import urllib.parse
import weakref
import zlib

WORDS = "the quick brown fox jumps over a lazy dog while seven wizards box with quartz judges and sphinxes of black vow".split()


# --- Classes. ------------------------------------------------------------------------------------------------------

class Account:
    def __init__(self, owner, balance=0):
        self.owner = owner
        self.balance = balance
        self.history = []

    @property
    def is_overdrawn(self):
        return self.balance < 0

    def deposit(self, amount, *, note=None):
        if amount <= 0:
            raise ValueError(f"{amount} is no deposit")
        self.balance += amount
        self.history.append(("deposit", amount, note))

    def withdraw(self, amount):
        self.balance -= amount
        self.history.append(("withdraw", amount, None))
        return self.balance


class Savings(Account):
    def __init__(self, owner, balance=0, rate=0.01):
        super().__init__(owner, balance)
        self.rate = rate

    def add_interest(self):
        self.deposit(self.balance * self.rate + 1, note="interest")


def bank():
    accounts = [Savings(word, 100) if number % 3 else Account(word, 50) for number, word in enumerate(WORDS)]
    for turn in range(400):
        for account in accounts:
            account.deposit(turn + 1)
            if isinstance(account, Savings):
                account.add_interest()
            if account.withdraw(turn) < 10 or account.is_overdrawn:
                with contextlib.suppress(ValueError):
                    account.deposit(-1)
        for account in accounts:
            account.history.clear()


class Vector:
    __slots__ = ("x", "y")

    def __init__(self, x, y):
        self.x = x
        self.y = y

    def __add__(self, other):
        return Vector(self.x + other.x, self.y + other.y)

    def __mul__(self, factor):
        return Vector(self.x * factor, self.y * factor)

    def __eq__(self, other):
        return isinstance(other, Vector) and self.x == other.x and self.y == other.y

    def __hash__(self):
        return hash((self.x, self.y))


def vectors():
    place, speed = Vector(0.0, 0.0), Vector(1.5, -0.5)
    seen = set()
    for step in range(15_000):
        place = place + speed * 0.01
        if step % 4 == 0:
            seen.add(Vector(round(place.x), round(place.y)))
    return len(seen)


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self):
        ...

    def __lt__(self, other):
        return self.area() < other.area()


@dataclasses.dataclass
class Box(Shape):
    width: float
    height: float = 2.0

    def area(self):
        return self.width * self.height


@dataclasses.dataclass(frozen=True, order=True)
class Point:
    x: int
    y: int


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


class Size(typing.NamedTuple):
    columns: int
    rows: int = 1


def shapes():
    boxes = sorted(Box((number * 7919) % 101, number % 5) for number in range(2_000))
    points = {Point(number % 50, number % 7): Colour("red" if number % 2 else "green") for number in range(4_000)}
    sizes = [Size(number)._replace(rows=2) for number in range(2_000)]
    return boxes[-1], max(points), sum(size.columns * size.rows for size in sizes), sum(colour is Colour.RED for colour in points.values())


class Matrix:
    def __init__(self, rows):
        self.rows = [list(row) for row in rows]

    def __getitem__(self, place):
        row, column = place
        return self.rows[row][column]

    def __setitem__(self, place, value):
        row, column = place
        self.rows[row][column] = value

    def __iter__(self):
        return iter(self.rows)

    def __len__(self):
        return len(self.rows)

    def __contains__(self, value):
        return any(value in row for row in self.rows)


def matrices():
    matrix = Matrix([[0] * 40 for _ in range(40)])
    for turn in range(6):
        for row in range(len(matrix)):
            for column in range(40):
                matrix[row, column] += row * column + turn
        total = sum(sum(row) for row in matrix)
    return total, 38 in matrix


# --- Algorithms. ---------------------------------------------------------------------------------------------------

def shortest_paths():
    choose = random.Random(7)
    graph = {node: [(choose.randrange(600), choose.randint(1, 20)) for _ in range(6)] for node in range(600)}
    for start in range(4):
        distances, heap = {start: 0}, [(0, start)]
        while heap:
            distance, node = heapq.heappop(heap)
            if distance > distances[node]:
                continue
            for neighbour, length in graph[node]:
                there = distance + length
                if there < distances.get(neighbour, 1 << 30):
                    distances[neighbour] = there
                    heapq.heappush(heap, (there, neighbour))


def flood():
    grid = ["".join("#" if (row * column) % 7 == 3 else "." for column in range(70)) for row in range(70)]
    waiting, seen = collections.deque([(0, 0)]), {(0, 0)}
    while waiting:
        row, column = waiting.popleft()
        for down, right in ((0, 1), (1, 0), (0, -1), (-1, 0)):
            place = row + down, column + right
            if 0 <= place[0] < 70 and 0 <= place[1] < 70 and grid[place[0]][place[1]] == "." and place not in seen:
                seen.add(place)
                waiting.append(place)


def sudoku():
    cells = [int(cell) for cell in "530070000600195000098000060800060003400803001700020006060000280000419005000080079"]

    def candidates(place):
        row, column = divmod(place, 9)
        used = set(cells[row * 9:row * 9 + 9]) | set(cells[column::9])
        corner = row // 3 * 27 + column // 3 * 3
        for line in range(3):
            used.update(cells[corner + 9 * line:corner + 9 * line + 3])
        return [digit for digit in range(1, 10) if digit not in used]

    def solve():
        free = [(len(found), place, found) for place in range(81) if not cells[place] for found in (candidates(place),)]
        if not free:
            return True
        _, place, found = min(free)
        for digit in found:
            cells[place] = digit
            if solve():
                return True
        cells[place] = 0
        return False

    return solve()


def knapsack():
    weights, values = [3, 4, 5, 9, 14, 6, 8, 11], [3, 4, 4, 10, 15, 7, 9, 12]
    best = [0] * 1_001
    for weight, value in zip(weights, values):
        for room in range(weight, len(best)):
            taken = best[room - weight] + value
            if taken > best[room]:
                best[room] = taken

    @functools.cache
    def ways(room, kinds):
        return 1 if room == 0 else 0 if room < 0 or kinds == 0 else ways(room - weights[kinds - 1], kinds) + ways(room, kinds - 1)
    return best[-1], ways(300, len(weights))


def union():
    parents = list(range(5_000))

    def root(node):
        while parents[node] != node:
            parents[node] = parents[parents[node]]
            node = parents[node]
        return node

    for node in range(4_999):
        parents[root(node)] = root((node * 31 + 7) % 5_000)
    return len({root(node) for node in range(5_000)})


def numbers():
    sieve = bytearray([1]) * 20_000
    for number in range(2, 142):
        if sieve[number]:
            sieve[number * number::number] = bytes(len(range(number * number, 20_000, number)))
    primes = [number for number in range(2, 20_000) if sieve[number]]
    total = 0
    for number in range(1, 4_000):
        steps = number
        while steps > 1 and steps >= number:
            steps = steps // 2 if steps % 2 == 0 else 3 * steps + 1
        total ^= number & steps | number << 3
    powers = [pow(prime, 65537, 3_233_000_009) for prime in primes[:300]]
    return total, sum(powers), sum(fractions.Fraction(1, prime) for prime in primes[:40]), 7 ** 900 // 3 ** 500


def integration():
    def slope(time, height):
        return -2.0 * height + time * time

    time, height, step = 0.0, 1.0, 0.001
    while time < 6.0:
        first = slope(time, height)
        second = slope(time + step / 2, height + step * first / 2)
        height += step * (first + 2 * second + slope(time + step, height + step * second)) / 4
        time += step
    julia = 0
    for row in range(40):
        for column in range(40):
            z = complex(column / 20 - 1, row / 20 - 1)
            for _ in range(20):
                if abs(z) > 2:
                    break
                z = z * z - 0.4 + 0.6j
                julia += 1
    return height, julia, statistics.fmean(range(1_000)), statistics.stdev(range(300))


def life():
    cells = {(1, 2), (2, 3), (3, 1), (3, 2), (3, 3), (10, 10), (10, 11), (10, 12)}
    for _ in range(60):
        counts = collections.Counter((row + down, column + right) for row, column in cells
                                     for down in (-1, 0, 1) for right in (-1, 0, 1) if down or right)
        cells = {place for place, count in counts.items() if count == 3 or count == 2 and place in cells}


# --- Texts. --------------------------------------------------------------------------------------------------------

def words():
    text = " ".join(WORDS * 40)
    counts = collections.Counter(text.split())
    by_length = collections.defaultdict(list)
    for word, count in counts.most_common():
        by_length[len(word)].append(f"{word:>10}: {count:4d} {count / len(text):.2%}")
    lines = ["\t".join(part.strip().title() for part in line.partition(":")[::2]) for lines in by_length.values() for line in lines]
    joined = "\n".join(sorted(lines, key=str.lower, reverse=True))
    masked = joined.replace("\t", " ").translate(str.maketrans("aeiou", "*****"))
    return textwrap.wrap(text[:1_500], 60), masked, "%s %d %r" % (text[:9], 3, joined[:4])      # noqa: UP031


def pages():
    template = string.Template("<li class='$kind'>$text</li>")
    items = "".join(template.substitute(kind="odd" if number % 2 else "even", text=html.escape(f"<{word}> & {number}"))
                    for number, word in enumerate(WORDS * 5))

    class Links(html.parser.HTMLParser):
        def __init__(self):
            super().__init__()
            self.found = []

        def handle_starttag(self, tag, attrs):
            self.found.append((tag, dict(attrs)))

    links = Links()
    links.feed(f"<ul>{items}</ul>")
    queries = [urllib.parse.urlencode({"q": word, "n": number}) for number, word in enumerate(WORDS)]
    return len(links.found), [urllib.parse.parse_qs(urllib.parse.urlsplit(f"https://example.org/a/b?{query}#x").query) for query in queries]


LINE = re.compile(r'(?P<host>\S+) \[(?P<when>[^\]]+)\] "(?P<verb>[A-Z]+) (?P<path>\S+)" (?P<status>\d{3}) (?P<size>\d+|-)')


def access_log():
    lines = [f'10.0.{number % 7}.{number % 251} [2024-01-{number % 28 + 1:02d}] "GET /{WORDS[number % len(WORDS)]}/{number}" {200 + number % 5} {number * 13}'
             for number in range(1_500)]
    sizes = collections.defaultdict(int)
    for line in lines:
        if (match := LINE.match(line)) and match["status"] != "204":
            sizes[match["host"]] += int(match["size"])
            datetime.datetime.strptime(match["when"], "%Y-%m-%d") if int(match["size"]) % 40 == 0 else None
    return max(sizes.items(), key=operator.itemgetter(1)), re.sub(r"\b(\w)(\w*)\b", lambda found: found[1].upper() + found[2], " ".join(WORDS * 10))


def records():
    rows = [{"id": number, "name": WORDS[number % len(WORDS)], "price": number * 1.25, "tags": [str(number), None, True]} for number in range(700)]
    text = json.dumps(rows, indent=1)
    again = json.loads(text, object_hook=lambda found: types.SimpleNamespace(**found))
    table = io.StringIO()
    writer = csv.DictWriter(table, ["id", "name", "price"], extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    table.seek(0)
    total = sum(float(row["price"]) for row in csv.DictReader(table))
    groups = {name: sum(row["price"] for row in group) for name, group in
              itertools.groupby(sorted(rows, key=operator.itemgetter("name")), key=operator.itemgetter("name"))}
    return len(again), total, groups, pickle.loads(pickle.dumps(rows)), zlib.crc32(zlib.compress(text.encode())), hashlib.sha256(text.encode()).hexdigest()


def settings():
    parser = configparser.ConfigParser()
    parser.read_string("\n".join(f"[{word}{number}]\nvalue = {number}\npath = %(value)s/x\n" for number, word in enumerate(WORDS)))
    command = argparse.ArgumentParser(prog="tool")
    command.add_argument("--level", type=int, default=1)
    command.add_argument("--verbose", action="store_true")
    command.add_argument("names", nargs="*")
    return ([parser.getint(section, "value") for section in parser.sections()],
            [command.parse_args(shlex.split(f"--level {number} --verbose 'a b' c")) for number in range(15)])


def changes():
    before = [f"{word} {number}" for number, word in enumerate(WORDS * 3)]
    after = [line for number, line in enumerate(before) if number % 7] + ["the end"]
    message = email.message_from_string("\n".join(f"X-{word.title()}: {word} {number}" for number, word in enumerate(WORDS[:15])) + "\n\nbody")
    return list(difflib.unified_diff(before, after)), difflib.get_close_matches("wizzard", WORDS), message.items()


# --- Languages. ----------------------------------------------------------------------------------------------------

def lisp():
    def parse(source):
        pieces = collections.deque(source.replace("(", " ( ").replace(")", " ) ").split())

        def read():
            piece = pieces.popleft()
            if piece == "(":
                found = []
                while pieces[0] != ")":
                    found.append(read())
                pieces.popleft()
                return found
            try:
                return int(piece)
            except ValueError:
                return piece
        return read()

    def run(code, names):
        match code:
            case str():
                return names[code]
            case int():
                return code
            case ["if", condition, then, otherwise]:
                return run(then if run(condition, names) else otherwise, names)
            case ["lambda", parameters, body]:
                return lambda *values: run(body, {**names, **dict(zip(parameters, values))})
            case ["define", name, value]:
                names[name] = run(value, names)
            case [function, *arguments]:
                return run(function, names)(*[run(argument, names) for argument in arguments])

    names = {"+": operator.add, "-": operator.sub, "*": operator.mul, "<": operator.lt}
    names["fact"] = lambda n: 1 if n < 2 else n * names["fact"](n - 1)
    run(parse("(define twice (lambda (f x) (f (f x))))"), names)
    for _ in range(60):
        run(parse("(if (< 1 2) (+ (fact 12) (twice (lambda (y) (* y 3)) 7)) (- 1 2))"), names)


class Machine:
    def __init__(self, program):
        self.program = program
        self.stack = []
        self.place = 0
        self.handlers = {name.removeprefix("do_"): getattr(self, name) for name in dir(self) if name.startswith("do_")}

    def do_push(self, value):
        self.stack.append(value)

    def do_add(self, _):
        right = self.stack.pop()
        self.stack[-1] += right

    def do_less(self, value):
        self.stack.append(self.stack[-1] < value)

    def do_jump_if(self, target):
        if self.stack.pop():
            self.place = target

    def run(self):
        steps = 0
        while self.place < len(self.program):
            name, value = self.program[self.place]
            self.place += 1
            self.handlers[name](value)
            steps += 1
        return steps


def machine():
    return Machine([("push", 0), ("push", 1), ("add", None), ("less", 4_000), ("jump_if", 1)]).run()


SOURCE = '''
import os

class Node:
    """One."""
    def __init__(self, value, *children, **names):
        self.value, self.children = value, list(children)

    def walk(self, depth=0):
        yield self.value * 2 + depth % 3, self
        for child in self.children or ():
            yield from child.walk(depth + 1)

def main(arguments):
    try:
        return [node for value, node in Node(1, Node(2)).walk() if value not in {1, 2}]
    except (ValueError, KeyError) as error:
        print(f"{error!r:>10}", file=None)
    finally:
        pass
'''


class Names(ast.NodeVisitor):
    def __init__(self):
        self.found = collections.Counter()

    def visit_Name(self, node):
        self.found[node.id] += 1

    def visit_Attribute(self, node):
        self.found[node.attr] += 1
        self.generic_visit(node)


def sources():
    names = Names()
    for _ in range(6):
        tree = ast.parse(SOURCE)
        names.visit(tree)
        exec(compile(tree, "source", "exec"), {"__name__": "source"})
    return names.found, ast.unparse(tree), list(tokenize.generate_tokens(io.StringIO(SOURCE).readline)), textwrap.dedent(SOURCE)


# --- Generators, coroutines, exceptions. ---------------------------------------------------------------------------

def pipeline():
    def source():
        for number in range(4_000):
            yield number * 2

    def wanted(values):
        return (value for value in values if value % 3)

    def batches(values, size):
        while batch := tuple(itertools.islice(values, size)):
            yield batch

    def averages():
        total = count = 0
        while True:
            value = yield total / count if count else None
            total += value
            count += 1

    average = averages()
    next(average)
    for batch in batches(wanted(source()), 10):
        average.send(sum(map(operator.itemgetter(0), zip(batch, itertools.count()))))
    return list(itertools.accumulate(itertools.chain.from_iterable(itertools.pairwise(range(1_000))))), functools.reduce(operator.xor, range(3_000))


async def crawl():
    waiting = asyncio.Queue(maxsize=20)
    lock, found = asyncio.Lock(), []

    async def produce():
        for number in range(300):
            await waiting.put(number)
        for _ in range(4):
            await waiting.put(None)

    async def consume():
        while (number := await waiting.get()) is not None:
            async with lock:
                found.append(await fetch(number))

    async def fetch(number):
        if number % 10 == 0:
            await asyncio.sleep(0)
        return number * 2

    async with asyncio.TaskGroup() as group:
        group.create_task(produce())
        for _ in range(4):
            group.create_task(consume())
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0):
            await asyncio.sleep(1)
    return [value async for value in counting(100)], await asyncio.gather(*(fetch(number) for number in range(100)))


async def counting(end):
    for number in range(end):
        yield number


def coroutines():
    return asyncio.run(crawl())


class Failure(Exception):
    def __init__(self, code):
        super().__init__(code)
        self.code = code


@contextlib.contextmanager
def step(log, name):
    log.append(name)
    try:
        yield name
    except Failure as failure:
        log.append(failure.code)
    finally:
        log.append("end")


def failures():
    log = []

    def risky(number):
        try:
            if number % 3 == 0:
                raise Failure(number)
            return {0: "none"}[number % 2]
        except KeyError as error:
            raise Failure(-number) from error

    for number in range(1_500):
        with step(log, "step"):
            risky(number)
    try:
        risky(3)
    except Failure as failure:
        return traceback.format_exception(failure), log


def logged():
    logger = logging.Logger("trained", logging.INFO)
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-8s %(name)s: %(message)s"))
    logger.addHandler(handler)
    for number in range(250):
        logger.debug("not seen %d", number)
        logger.info("seen %d of %s", number, WORDS)
    return len(stream.getvalue())


# --- Objects and memory. -------------------------------------------------------------------------------------------

class Tree:
    def __init__(self, value, parent=None):
        self.value = value
        self.parent = parent and weakref.ref(parent)
        self.left = self.right = None

    def insert(self, value):
        side = "left" if value < self.value else "right"
        child = getattr(self, side)
        if child is None:
            setattr(self, side, Tree(value, self))
        else:
            child.insert(value)

    def __iter__(self):
        if self.left:
            yield from self.left
        yield self.value
        if self.right:
            yield from self.right


def trees():
    choose = random.Random(3)
    tree = Tree(500)
    for _ in range(500):
        tree.insert(choose.randrange(1_000))
    ordered = list(tree)
    rings = []
    for number in range(500):
        ring = {"number": number}
        ring["self"] = [ring]
        rings.append(ring)
    places = [bisect.bisect(ordered, value) for value in range(1_000)]
    return places, ordered == sorted(ordered), [weakref.ref(tree)]


def packets():
    data = bytearray()
    header = struct.Struct(">HIB")
    for number in range(1_200):
        payload = bytes([number & 255]) * (number % 17)
        data += header.pack(number, number * 7, len(payload)) + payload
    view, place, total = memoryview(bytes(data)), 0, 0
    while place < len(view):
        number, _, size = header.unpack_from(view, place)
        place += header.size
        total += sum(view[place:place + size])
        place += size
    return total, data.hex()[:40], int.from_bytes(data[:16], "big"), data.find(b"\x10\x10")


def workers():
    waiting, done = queue.Queue(), queue.SimpleQueue()

    def work():
        while (item := waiting.get()) is not None:
            done.put(item * item)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for item in itertools.chain(range(600), [None] * 3):
        waiting.put(item)
    for thread in threads:
        thread.join()
    return sum(done.get() for _ in range(600))


class Plugin:
    registry: dict = {}

    def __init_subclass__(cls, /, name, **options):
        super().__init_subclass__(**options)
        cls.registry[name] = cls

    def __getattr__(self, name):
        if name.startswith("auto_"):
            return lambda *values, **named: (name, values, named)
        raise AttributeError(name)


def plugins():
    for number in range(25):
        kind = type(f"Plugin{number}", (Plugin,), {"run": lambda self, *values, scale=1, **named: sum(values) * scale + len(named)}, name=str(number))
        plugin = kind()
        for turn in range(40):
            plugin.run(turn, 2, 3, scale=turn)
            plugin.run(*range(turn % 5), **{"first": 1, "second": 2})
            plugin.auto_name(turn, key=turn)
            hasattr(plugin, "missing"), callable(getattr(plugin, "run", None)), vars(plugin)
    mock = unittest.mock.Mock(return_value=3)
    return [mock(number) for number in range(30)], len(Plugin.registry)


# {program: times in half a second or so}
PROGRAMS = {
    bank: 125, vectors: 75, shapes: 50, matrices: 160, shortest_paths: 45, flood: 57, sudoku: 90, knapsack: 190, union: 135, numbers: 90, integration: 56,
    life: 1_200, words: 750, pages: 190, access_log: 75, records: 65, settings: 150, changes: 350, lisp: 370, machine: 160, sources: 150, pipeline: 900,
    coroutines: 95, failures: 70, logged: 100, trees: 230, packets: 350, workers: 40, plugins: 110,
}


def main() -> int:
    for program, times in PROGRAMS.items():
        for _ in range(times):
            program()
    return subprocess.call([sys.executable, "-E", *sys.argv[1:]]) if sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
