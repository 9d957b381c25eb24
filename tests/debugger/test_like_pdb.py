"""Sessions of random commands: what is printed is what pdb prints.

In the programs that are stepped through there are no generators: whether pdb shows how one ends depends
on what else is traced. Breakpoints are at lines with code, in functions without wrappers: others pdb
sets where they are never hit. A failure shows its commands, and the number that makes them again.
SESSIONS=500 does more, and FIRST_SESSION=1000 others.
"""

import os
import random
import re
import unittest

from debugger_support import LikePdbCase, run_python, typed_into, without_notice
from ferrule_debugger import places

SESSIONS = int(os.environ.get("SESSIONS", 24))
FIRST = int(os.environ.get("FIRST_SESSION", 0))

PROGRAMS = ("""
class Suppress:
    def __enter__(self):
        return self
    def __exit__(self, *about):
        return about[0] is KeyError
def bad(n):
    if n == 0:
        raise KeyError(n)
    return bad(n - 1)
def main():
    with Suppress() as suppress:
        bad(2)
    try:
        bad(1)
    except KeyError as error:
        text = str(error)
    finally:
        last = 3
    try:
        try:
            1 / 0
        except ZeroDivisionError as error:
            raise ValueError("v") from error
    except ValueError:
        pass
    doubled = [twice(i) for i in range(3)]
    return sum(doubled)
def twice(n): return n * 2
print(main())
print(main())
""", """
import functools
class A:
    attribute = [i for i in range(3)]
    def __init__(self, n):
        self.n = n
    @property
    def more(self):
        return self.n + 1
    def __getitem__(self, key):
        return key * self.n
    def __len__(self):
        return self.n
def decorated(function):
    @functools.wraps(function)
    def inner(*args):
        result = function(*args)
        return result
    return inner
@decorated
def factorial(n):
    if n < 2:
        return 1
    return n * factorial(n - 1)
def main():
    a = A(3)
    total = a.more + a[2] + len(a)
    for i in range(2):
        total += factorial(i + 2)
    while total > 30:
        total -= 7
    ordered = sorted([3, 1, 2], key=lambda v: -v)
    exec("q = 1\\nq += 1\\n")
    return total
print(main())
print(main())
""")

# Tasks, generators and threads: pdb does not trace other threads, so what they run has no breakpoints.
NOT_STEPPED = """
import asyncio, threading
async def child(n):
    for i in range(2):
        await asyncio.sleep(0)
        n += i
    return n
async def numbers():
    for i in range(2):
        yield i
        await asyncio.sleep(0)
async def together():
    found = [n async for n in numbers()]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(child(n)) for n in range(3)]
    return found + [task.result() for task in tasks]
def squares(n):
    for i in range(n):
        yield i * i
    return n
def relay(n):
    last = yield from squares(n)
    yield last
def main():
    threads = [threading.Thread(target=sum, args=(range(100),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    total = sum(relay(3))
    for thread in threads:
        thread.join()
    return asyncio.run(together()), total
print(main())
print(main())
"""

# Each thread ends before the next one starts. With pdb the program traces them.
THREADED = """
import sys, threading
threading.settrace(sys.gettrace() if type(getattr(sys.gettrace(), "__self__", None)).__module__ == "pdb" else None)
def squares(n):
    found = []
    for i in range(n):
        found.append(i * i)
    return found
def work(n, results):
    try:
        results[n] = squares(n)
        {}[n]
    except KeyError as error:
        results[-n] = str(error)
def main():
    results = {}
    for n in range(3):
        thread = threading.Thread(target=work, args=(n, results))
        thread.start(), thread.join()       # no line of its own in between
    return results
print(main())
print(main())
"""

# One function, "a", is stepped through while others run the same code: in tasks, in threads, and in pdb alone, where it is
# no coroutine. It does not end before the commands do. Its coroutines and generators end where nothing is watched.
CROWD = """
import crowd
def plain(name, n):
    if n % 3 == 0:
        raise KeyError(n)
    return n
async def double(name, n):
    m = n * 2
    await crowd.turn()
    return m
class Opened:
    async def __aenter__(self):
        await crowd.turn()
        return 5
    async def __aexit__(self, *about):
        await crowd.turn()
        return about[0] is ValueError
async def work(name):
    total = 0
    for i in range(ROUNDS):
        total += await double(name, i)
        await crowd.turn()
        try:
            plain(name, i)
        except KeyError:
            total += 1
        finally:
            await crowd.turn()
        async with Opened() as five:
            if i % 2: raise ValueError
            total += five
        found = [plain(name, k) for k in (1, 2)]
    return total
print(crowd.run(work))
"""
ALONE = """
turn = dict
def run(work):
    return work("a")
"""
CROWDS = {"tasks": """
import asyncio
async def turn():
    await asyncio.sleep(0)
async def together(work):
    tasks = [asyncio.create_task(work(name)) for name in "bacd"]
    return [await task for task in tasks][1]
def run(work):
    return asyncio.run(together(work))
""", "threads": """
import functools, threading, time
turn = functools.partial(time.sleep, 0)
def run(work):
    results = {}
    def one(name):
        results[name] = work(name)
    threads = [threading.Thread(target=one, args=(name,)) for name in "bacd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results["a"]
"""}

# How often each kind of command comes.
KINDS = {"break": 6, "name": 1, "change": 2, "next": 6, "step": 6, "return": 3, "until": 2,
         "continue": 6, "look": 4, "run": 1}
WITHOUT_STEPS = {"break": 6, "name": 1, "change": 2, "continue": 8, "look": 4}
# `step` goes through asyncio and threading, which depend on time.
WITHIN_TASKS = {kind: often for kind, often in KINDS.items() if kind != "step"}
# It is left in its first line, since pdb's own exceptions do not leave tasks well.
END_WITHOUT_STEPS = [f"disable {' '.join(map(str, range(1, 50)))}", "c", "c", "q", ""]


def commands(random_, program, kinds=KINDS):
    """Commands for one of the programs. Frames of libraries, which `w` prints in another way than pdb, are in the others."""
    text, is_up = program.text, False
    lines = text.splitlines()
    with_code = places.compiled_lines(text, "")
    numbers = [number for number, line in enumerate(lines, 1)
               if number in with_code and not line.strip().startswith(("class", "@"))]
    names = re.findall(r"(?<!@decorated\n)^(?:async )?def (\w+)", text, re.MULTILINE)
    made = []
    for kind in random_.choices(list(kinds), kinds.values(), k=random_.randint(5, 40)):
        place = random_.choice(numbers)
        # `u` may lead to another file, where a line may have no code.
        file = f"{program.path}:" * is_up
        made.append({
            "break": f"{random_.choice(('b', 'b', 'b', 'tbreak'))} {file}{place}"
                     + random_.choice(("", "", ", True", ", False", ", len(locals()) > 2")),
            "name": f"b {random_.choice(names)}",
            "change": random_.choice(("disable 1", "enable 1", "cl 1", "cl 2", "ignore 1 2",
                                      "ignore 2 1", "condition 1 True", "disable 2")),
            "until": random_.choice(("unt", f"unt {place}")),
            "look": random_.choice(("u", "d", "w" if text in PROGRAMS else "a", "b", "a", "retval", "display len(locals())",
                                    "p sorted(name for name in locals() if name[0] != '_')",
                                    "commands 1\nsilent\np 1\nend", "commands 1\nc\nend")),
        }.get(kind, kind))
        is_up = made[-1] == "u" or is_up and kind in ("break", "name", "change", "look")
    return made


class LikePdb(LikePdbCase):
    def test_random_sessions(self):
        for number in range(FIRST, FIRST + SESSIONS):
            random_ = random.Random(number)
            text = random_.choice(PROGRAMS)
            program = self.program(text)
            typed = "\n".join([*commands(random_, program), "q", ""])
            with self.subTest(number=number, typed=typed):
                self.assert_like_pdb(program.path, typed)

    def test_breakpoints_in_tasks_and_generators(self):
        for number in range(FIRST, FIRST + SESSIONS // 2):
            random_ = random.Random(number)
            program = self.program(NOT_STEPPED)
            typed = "\n".join([*commands(random_, program, WITHOUT_STEPS), *END_WITHOUT_STEPS])
            with self.subTest(number=number, typed=typed):
                self.assert_like_pdb(program.path, typed)


    def test_breakpoints_in_threads(self):
        for number in range(FIRST, FIRST + SESSIONS // 2):
            random_ = random.Random(number)
            program = self.program(THREADED)
            typed = commands(random_, program, WITHOUT_STEPS)
            with self.subTest(number=number, typed=typed):
                ours, pdbs = (re.sub(r"\[(Thread-\d+ \(work\)|MainThread)\]\n", "", typed_into(
                    debugger, program.path, "\n".join([*typed, *END_WITHOUT_STEPS]))) for debugger in ("ferrule_debugger", "pdb"))
                self.assertEqual(ours, pdbs)


class InACrowd(LikePdbCase):
    TEXT = "x = 1\n"

    def commands(self, random_, lines, step):
        """The first breakpoint stays, so that the program does not end."""
        begin = lines.index("    for i in range(ROUNDS):") + 1
        end = lines.index("    return total") + 1
        numbers = [number for number in (*range(begin, end), lines.index("    if n % 3 == 0:") + 1, lines.index("    return n") + 1)
                   if not lines[number - 1].strip().startswith(("try:", "finally:"))]
        made = [f"b {begin}, name == 'a'", "c"]
        kinds = {"next": 6, "step": 4 * step, "return": 2, "until": 2, "continue": 3, "break": 3, "look": 4, "change": 1}
        for kind in random_.choices(list(kinds), kinds.values(), k=random_.randint(5, 40)):
            place = random_.choice(numbers)
            made.append({
                "break": f"{random_.choice(('b', 'b', 'tbreak'))} {place}, name == 'a'" + random_.choice(("", " and len(locals()) > 3", " and False")),
                "until": random_.choice(("unt", f"unt {place}")),
                "change": random_.choice(("disable 2", "enable 2", "cl 2", "ignore 1 2", "ignore 2 1")),
                "look": random_.choice(("a", "p sorted(vars())", "display len(vars())", "p name, vars().get('total')", "commands 2\nsilent\np 1\nend")),
            }.get(kind, kind))
        return "\n".join([*made, *END_WITHOUT_STEPS])

    def printed(self, debugger, text, crowd, typed):
        path = self.source.path
        for name, content in ((path, text), (os.path.join(os.path.dirname(path), "crowd.py"), crowd)):
            with open(name, "w", encoding="utf-8") as file:
                file.write(content)
        printed = typed_into(debugger, path, typed)
        return re.sub(r"\[(Thread-\d+ \(one\)|MainThread)\]\n|async |await ", "", printed)

    def assert_as_alone(self, kind, step):
        coroutine = CROWD.replace("ROUNDS", "300")
        function = re.sub("async |await |(?<=__)a(?=enter|exit)", "", coroutine)
        for number in range(FIRST, FIRST + SESSIONS // 2):
            typed = self.commands(random.Random(number), CROWD.splitlines(), step)
            with self.subTest(number=number, typed=typed):
                alone = self.printed("pdb", function, ALONE, typed)
                self.assertEqual(self.printed("ferrule_debugger", coroutine if kind == "tasks" else function, CROWDS[kind], typed), alone)
                self.assertGreater(alone.count("work()\n"), 1)

    def test_a_task(self):
        self.assert_as_alone("tasks", step=False)

    def test_a_thread(self):
        self.assert_as_alone("threads", step=True)


class BesideCoverage(LikePdbCase):
    """Tools that record which lines run, as coverage does, by sys.settrace() and by sys.monitoring."""

    # Names of a function, since the debugger clears the module __main__.
    BEGIN = """def begin():
        import atexit, sys, threading
        *sys.argv[1:], how = sys.argv[1:]
        from ferrule_debugger.__main__ import main
        program, seen = sys.argv[1], set()
        def trace(frame, event, argument):
            if frame.f_code.co_filename == program and event == "line":
                seen.add(frame.f_lineno)
            return trace
        def at_line(code, line):
            if code.co_filename == program:
                seen.add(line)
            return sys.monitoring.DISABLE
        if how == "settrace":
            threading.settrace(trace)
            sys.settrace(trace)
        elif how == "monitoring":
            sys.monitoring.use_tool_id(sys.monitoring.COVERAGE_ID, "coverage")
            sys.monitoring.register_callback(sys.monitoring.COVERAGE_ID, sys.monitoring.events.LINE, at_line)
            sys.monitoring.set_events(sys.monitoring.COVERAGE_ID, sys.monitoring.events.LINE)
        atexit.register(lambda: print("seen", sorted(seen)))
        main()
begin()
    """
    TOOLS = "settrace", "monitoring"

    def printed(self, path, how, typed):
        """What is printed without addresses, and the lines that the tool has seen."""
        printed = run_python(["-c", self.BEGIN, path, how], typed, PYTHONHASHSEED="0", HOME=os.path.dirname(path))
        return re.sub("(0x|x7)[0-9a-f]+", "0x", without_notice(printed)).rpartition("seen ")[::2]

    def test_random_sessions(self):
        """The same stops and values as pdb's without the tool."""
        for number in range(FIRST, FIRST + SESSIONS // 2):
            random_ = random.Random(number)
            text = random_.choice(PROGRAMS)
            program = self.program(text)
            path = program.path
            typed = "\n".join([*commands(random_, program), *END_WITHOUT_STEPS])
            expected = typed_into("pdb", path, typed)
            for how in self.TOOLS:
                with self.subTest(number=number, typed=typed, how=how):
                    printed, seen = self.printed(path, how, typed)
                    self.assertEqual(printed, expected)
                    if how == "monitoring":     # what a step traces the other one does not see
                        self.assertEqual(seen, self.printed(path, how, "c\nq\n")[1])

    def test_as_without_it(self):
        """Also in tasks and threads."""
        for number in range(FIRST, FIRST + SESSIONS // 2):
            random_ = random.Random(number)
            text = random_.choice((*PROGRAMS, NOT_STEPPED, THREADED))
            program = self.program(text)
            typed = "\n".join([*commands(random_, program, KINDS if text in PROGRAMS else WITHIN_TASKS), "q", ""])
            with self.subTest(number=number, typed=typed):
                alone, *beside = (self.printed(program.path, how, typed)[0] for how in ("none", *self.TOOLS))
                for printed in beside:
                    self.assertEqual(printed, alone)
                self.assertIn("(Pdb)", alone)


class AfterAStep(LikePdbCase):
    def test_a_jump(self):
        program = self.program("""
            def f():
                x = 1           # one
                x = 2           # two
                x = 3           # three
                x = 4           # four
                return x
            f()
            f()
        """)
        one, two, four = (program.line(name) for name in ("one", "two", "four"))
        self.assert_sessions_like_pdb(program, (
            f"b {one};b {two};c;s;jump {four};c;c",
            f"b {one};b {two};c;s;jump {four};s;s;c",
            f"b {one};b {two};c;s;jump {four};n;n;c",
            f"b {one};b {two};c;s;jump {two};c;c;c",
            f"b {one};b {two};b {four};c;s;jump {four};c;c;c",
            f"b {one};c;s;b {two};jump {four};c;c;c",
            f"b {one};c;s;b {two};c;c;c",
            f"b {one};c;s;s;b {two};jump {two};c;c;c",
        ))

    def test_return_at_a_line_of_one_instruction(self):
        program = self.program("""
            def constant():
                x = 1
                return 5
            def nothing(n):
                while n:
                    n -= 1
                    if n: continue
                    return
            def f():
                constant()                      # calls
                return nothing(2)               # calls again
            f()
            f()
        """)
        self.assert_sessions_like_pdb(program, [
            f"b {program.line(place)};c;s;{steps};{command};p 'after';c;{steps};{command};p 'after'"
            for place in ("calls", "calls again") for command in ("r", "n", "unt")
            for steps in ("s;n", "s;s", "n;n;n", "s;s;s", "n;n;n;n;n", "s;n;n;n;n;n", "s;s;s;s;s;s;s")])

    def test_a_breakpoint_where_a_step_has_stopped(self):
        program = self.program("""
            def f(n):
                for i in range(n): abs(i)       # loop
                return n                        # last
            f(3)                                # first call
            f(3)                                # second call
            f(3)
        """)
        loop, last, first, second = (program.line(name) for name in (
            "loop", "last", "first call", "second call"))
        self.assert_sessions_like_pdb(program, (
            f"b {last};b {second};c;c;s;s;b {loop};c;p i;c;p i;c;c;p i",
            f"b {last};b {first};c;s;s;b {loop};c;p i;c;p i;c;c;p i",
            f"b {last};b {second};c;c;s;s;b {loop};n;p i;n;p i;n;n;p i",
            f"b {last};b {first};c;s;s;s;s;b {loop};c;p i;c;c;c;p i",
        ))


if __name__ == "__main__":
    unittest.main()
