#!/usr/bin/env python3
"""Random programs with hooks that watch, limit and answer do what a model in Python says.

    build/ferrule/python tests/python/test_hook_model_watching.py --count 20000 --seed 1

Each sequence makes a program of functions and generators that call each other, raise, stop each other in the middle and
remove hooks, and up to four hooks with a script for each function. The model follows the same scripts. What hooks
were asked and told, in which order, and what came out of each call must be the same. A failure prints the seed.
With --threads each sequence runs in two threads at once, with hooks of their own; with --shared with the
same hooks; with --greenlets greenlets wait in the middle of frames that the hooks watch, or that limit them.
"""

import argparse
import random
import sys
import threading
import unittest

from support import needs_hooks

try:
    import framehook
except ImportError:
    framehook = None

CI_SEQUENCES = 300


class Boom(Exception):
    """What programs and hooks raise."""


# --- The model: what watching, extents and results promise. --------------------------------------------------------

class Frame:
    """A frame that runs or is suspended: (hook, script) of those who watch or limit, as they asked."""

    def __init__(self, function):
        self.function, self.watches = function, []


class Model:
    def __init__(self, program, scripts):
        self.program, self.scripts, self.log = program, scripts, []
        self.hooks, self.settled, self.turns, self.stack = list(range(len(scripts))), set(), {}, []

    def may_be_called(self, hook):
        limits = [script["extent"] for frame in self.stack for watcher, script in frame.watches
                  if watcher == hook and script["extent"]]
        return not limits or limits[-1] == "only_callees"

    def tell(self, frame, kind, error=None):
        """All who watch, the last one first; the exception that the call comes to, if any."""
        for hook, script in reversed(frame.watches):
            if hook in self.hooks and script["watch"] and (kind not in ("yielded", "resumed") or script[kind]):
                now = "raised" if error and kind == "returned" else kind
                self.log.append(("told", hook, frame.function, now))
                if script["fails"] and kind in ("returned", "raised"):
                    error = "fails %d" % hook
        return error

    def start(self, function):
        """(frame, None or what the call comes to without running)."""
        frame = Frame(function)
        for hook in list(self.hooks):
            if hook not in self.hooks or (hook, function) in self.settled or not self.may_be_called(hook):
                continue
            self.log.append(("asked", hook, function))
            turn = self.turns[hook, function] = self.turns.get((hook, function), -1) + 1
            script = self.scripts[hook][function][turn % len(self.scripts[hook][function])]
            if script["verdict"] == "fail":
                return frame, ("raised", "hook %d" % hook)
            if script["watch"] or script["extent"]:
                frame.watches.append((hook, script))
            if script["verdict"] == "settle":
                self.settled.add((hook, function))
            if script["verdict"] == "result":
                return frame, ("returned", "result %d" % hook)
        return frame, None

    def call(self, function):
        frame, came = self.start(function)
        if came is None:
            self.stack.append(frame)
            try:
                came = "returned", self.run(self.program.bodies[function])
            except Boom as boom:
                came = "raised", str(boom)
            self.stack.pop()
        return self.left(frame, *came)

    def left(self, frame, kind, value):
        error = self.tell(frame, kind, value if kind == "raised" else None)
        if error:
            raise Boom(error)
        return value

    def run(self, actions):
        for action, *details in actions:
            getattr(self, "do_" + action)(*details)
        return "done"

    def do_call(self, function, catches):
        try:
            self.log.append(("value", self.call(function)))
        except Boom as boom:
            if not catches:
                raise
            self.log.append(("caught", str(boom)))

    def do_boom(self):
        raise Boom("program")

    def do_remove(self, hook):
        if hook in self.hooks:
            self.hooks.remove(hook)

    def do_generator(self, function, steps, end):
        frame, came = self.start(function)
        if came:
            self.left(frame, *came)
        parts, finished = self.program.bodies[function], False
        for step in range(steps):
            finished = self.advance(frame, parts, step)
            if finished:
                return
        if end == "throw":
            self.tell(frame, "resumed")
            self.left(frame, "raised", "thrown")
        self.tell(frame, "dropped")

    def advance(self, frame, parts, step):
        """A generator runs to its next yield, or to its end: whether it has ended."""
        self.tell(frame, "resumed")
        self.stack.append(frame)
        try:
            self.run(parts[step] if step < len(parts) else ())
            came = "returned" if step >= len(parts) else "yielded"
        except Boom as boom:
            self.stack.pop()
            self.left(frame, "raised", str(boom))
        self.stack.pop()
        if came == "yielded":
            self.tell(frame, "yielded")
            return False
        self.left(frame, "returned", None)
        return True


# --- Programs. -----------------------------------------------------------------------------------------------------

class Program:
    def __init__(self, chance, hooks):
        count = chance.randint(2, 6)
        self.kinds = [chance.choice(("function", "function", "generator")) for _ in range(count)]
        self.bodies = []
        for number, kind in enumerate(self.kinds):
            def actions():
                return [self.action(chance, number, hooks) for _ in range(chance.randint(0, 3))]
            self.bodies.append(actions() if kind == "function" else [actions() for _ in range(chance.randint(0, 3))])
        self.main = [("call", number, True) if kind == "function" else
                     ("generator", number, chance.randint(0, 4), chance.choice(("drop", "close")))
                     for number, kind in enumerate(self.kinds)] * 2

    def action(self, chance, number, hooks):
        # Only lower numbers are called: every call ends.
        callee = chance.randrange(number) if number else None
        what = chance.random()
        if what < 0.08:
            return ("boom",)
        if what < 0.12:
            return ("remove", chance.randrange(hooks))
        if callee is None:
            return ("call", -1, True)
        if self.kinds[callee] == "function":
            return ("call", callee, chance.random() < 0.6)
        return ("generator", callee, chance.randint(0, 4), chance.choice(("drop", "close", "throw")))

    def lines(self, actions, indent):
        pad, lines = " " * indent, []
        for action, *details in actions:
            if action == "boom":
                lines.append("raise Boom('program')")
            elif action == "remove":
                lines.append(f"remove({details[0]})")
            elif action == "call":
                call = f"note('value', {'nothing()' if details[0] < 0 else f'f{details[0]}()'})"
                lines += ["try:", f"    {call}", "except Boom as boom:", "    note('caught', str(boom))"] \
                    if details[1] else [call]
            else:
                function, steps, end = details
                lines += [f"g = f{function}()", f"for _ in range({steps}):", "    if next(g, None) is None:",
                          "        break", "else:",
                          {"drop": "    pass", "close": "    g.close()", "throw": "    g.throw(Boom('thrown'))"}[end],
                          "del g"]
        return "".join(f"{pad}{line}\n" for line in lines)

    def source(self):
        text = "def nothing(): return 'done'\n"
        for number, (kind, body) in enumerate(zip(self.kinds, self.bodies)):
            text += f"def f{number}():\n"
            if kind == "function":
                text += self.lines(body, 4) + "    return 'done'\n"
            else:
                text += "".join(self.lines(part, 4) + "    yield 1\n" for part in body) + "    return\n    yield\n"
        return text + "def main():\n    try:\n        pass\n" + self.lines(self.main, 8) \
            + "    except Boom as boom:\n        note('main', str(boom))\n"


def script(chance, kind):
    watch = chance.random() < 0.5
    return {"verdict": chance.choices(("pass", "settle", "result", "fail"),
                                      (8, 2, 1.5 if kind == "function" else 0, 0.7))[0],
            "watch": watch, "yielded": watch and chance.random() < 0.7, "resumed": watch and chance.random() < 0.7,
            "fails": watch and kind == "function" and chance.random() < 0.1,
            "extent": chance.choices((None, "exclude_callees", "only_callees"), (8, 1, 1))[0]}


class Shared:
    """Hooks of all threads, each of which does in a thread what that thread wants of it."""

    def __init__(self):
        self.hooks, self.handles, self.lock = [], [], threading.Lock()

    def add(self, ask):
        thread = threading.get_ident()
        with self.lock:
            hook = next((hook for hook in self.hooks if thread not in hook), None)
            if hook is None:
                self.hooks.append(hook := {})
                self.handles.append(framehook.add(
                    lambda view: hook.get(threading.get_ident(), lambda view: None)(view)))
            hook[thread] = ask
        return hook

    def remove(self, hook):
        hook[threading.get_ident()] = lambda view: None

    def end(self):
        for handle in self.handles:
            framehook.remove(handle)


def run_real(program, scripts, add, shared):
    """The same with hooks: the log."""
    log, turns, names = [], {}, {}
    namespace = {"Boom": Boom, "note": lambda *what: log.append(what)}
    handles = []

    def remove(hook):
        if handles[hook] is not None:
            (shared or framehook).remove(handles[hook])
            handles[hook] = None

    namespace["remove"] = remove
    exec(compile(program.source(), "<program>", "exec"), namespace)
    codes = {namespace[f"f{number}"].__code__: number for number in range(len(program.kinds))}

    def make(hook):
        def told(event):
            if shared and handles[hook] is None:
                return
            log.append(("told", hook, codes[event.code], event.kind))
            if event.data["fails"] and event.kind in ("returned", "raised"):
                raise Boom("fails %d" % hook)

        def ask(view):
            # Code objects that are equal are two all the same.
            function = next((number for code, number in codes.items() if code is view.code), None)
            if function is None:
                return framehook.DISABLE
            log.append(("asked", hook, function))
            turn = turns[hook, function] = turns.get((hook, function), -1) + 1
            script = scripts[hook][function][turn % len(scripts[hook][function])]
            if script["verdict"] == "fail":
                raise Boom("hook %d" % hook)
            if script["watch"]:
                view.watch(told, script, yields=script["yielded"], resumes=script["resumed"])
            if script["extent"]:
                getattr(view, script["extent"])()
            if script["verdict"] == "settle":
                return framehook.DISABLE
            if script["verdict"] == "result":
                return view.result("result %d" % hook)
        return ask

    handles += [add(make(hook)) for hook in range(len(scripts))]
    try:
        namespace["main"]()
    finally:
        for hook in range(len(scripts)):
            remove(hook)
    return log


def run_model(program, scripts):
    model = Model(program, scripts)
    model.program.bodies.append([])     # number -1: a function without hooks' interest
    try:
        calls = model.call
        model.call = lambda function: "done" if function < 0 else calls(function)
        model.run(program.main)
    except Boom as boom:
        model.log.append(("main", str(boom)))
    finally:
        program.bodies.pop()
    return model.log


def check(seed, add, shared=None):
    chance = random.Random(seed)
    hooks = chance.randint(1, 4)
    program = Program(chance, hooks)
    scripts = [[[script(chance, kind) for _ in range(chance.randint(1, 3))] for kind in program.kinds]
               for _ in range(hooks)]
    real, expected = run_real(program, scripts, add, shared), run_model(program, scripts)
    if real != expected:
        at = next((i for i, pair in enumerate(zip(real, expected)) if pair[0] != pair[1]), min(len(real), len(expected)))
        raise AssertionError(f"seed {seed}: after {real[max(0, at - 6):at]} came {real[at:at + 4]}, "
                             f"the model says {expected[at:at + 4]}\n{program.source()}")


def in_two_threads(seeds, this_thread=True):
    """Two sequences at once. Their hooks are for their threads, or they share them: limits concern the threads alone."""
    failures, shared = [], None if this_thread else Shared()

    def run(seed):
        try:
            check(seed, shared.add if shared else lambda hook: framehook.add(hook, this_thread=True), shared)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in seeds]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
        if shared:
            shared.end()
    if failures:
        raise failures[0]


def beside_a_greenlet(seed):
    import greenlet

    def waits():
        greenlet.getcurrent().parent.switch()
        return 1

    kinds = []

    def limited(hook):
        # In the greenlet that waits, each hook has said that it is called for nothing below, or for nothing else.
        def first(view):
            if view.code is enters.__code__:
                view.watch(kinds.append) if seed % 3 else view.exclude_callees() if seed % 2 else view.only_callees()
                return None
            return hook(view)

        handle = framehook.add(first)
        other = greenlet.greenlet(enters)
        other.switch()
        others.append(other)
        return handle

    def enters():
        greenlet.getcurrent().parent.switch()

    others = []

    def hook(view):
        if view.code is waits.__code__:
            view.exclude_callees()
            view.watch(lambda event: kinds.append(event.kind))
        return None

    with framehook.hook(hook):
        waiting = greenlet.greenlet(waits)
        waiting.switch()
        check(seed, limited)
        waiting.switch()
        for other in others:
            other.switch()
    assert kinds == ["returned"], kinds


@needs_hooks
class Sequences(unittest.TestCase):
    def test_random_sequences_do_what_the_model_says(self):
        for seed in range(CI_SEQUENCES):
            check(seed, framehook.add)

    def test_two_threads_at_once_each_with_hooks_of_its_own(self):
        for seed in range(0, CI_SEQUENCES // 3, 2):
            in_two_threads((seed, seed + 1))

    def test_two_threads_at_once_that_share_their_hooks(self):
        for seed in range(0, CI_SEQUENCES // 3, 2):
            in_two_threads((seed, seed + 1), this_thread=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", action="store_true")
    parser.add_argument("--shared", action="store_true")
    parser.add_argument("--greenlets", action="store_true")
    options = parser.parse_args()
    for number in range(options.count):
        seed = options.seed * 1_000_003 + number
        if options.threads or options.shared:
            in_two_threads((seed, seed + 500_000), this_thread=options.threads)
        elif options.greenlets:
            beside_a_greenlet(seed)
        else:
            check(seed, framehook.add)
        if sys.stderr.isatty() and number % 100 == 0:
            print(f"\r{number} of {options.count}", end="", file=sys.stderr)
    print(f"{options.count} sequences, from seed {options.seed}: all as the model says")


if __name__ == "__main__":
    if sys.argv[1:]:
        main()
    else:
        unittest.main()
