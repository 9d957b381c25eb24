#!/usr/bin/env python3
"""Random programs with random hooks do what a model in Python says.

    build/ferrule/python tests/python/test_hook_model.py --count 20000 --seed 1

Each sequence makes a program of a few functions that call each other, up to eight hooks with a script each, and
some steps from outside: call, add, remove, switch. The real hooks and the model follow the same scripts; what they
were asked, which code ran with which arguments, and which exceptions came out must be the same. A failure prints
the seed that makes the very sequence again.
"""

import argparse
import random
import sys
import unittest

from support import framecore, needs_hooks, use_extensions

HOOKS = 8
VARIANTS = 3                # codes of one function that can stand in for each other
INCOMPATIBLE = VARIANTS     # and one that cannot
CI_SEQUENCES = 400


# --- The model: what frame hooks promise. --------------------------------------------------------------------------

class Failed(Exception):
    """A call failed with the exception of this name."""


class Model:
    """Knows functions by number, code by (function, variant), and hooks by number."""

    def __init__(self, program, scripts):
        self.program, self.scripts = program, scripts
        self.hooks, self.added = {}, 0              # those installed, in order: number -> how many were added before
        self.off, self.settled = set(), set()
        self.asked, self.ran, self.turns = [], [], {}

    def change(self, action, hook=None, code=None):
        if action == "clear":
            self.hooks.clear()
        elif action in ("add", "remove") and (hook in self.hooks) == (action == "add"):
            raise Failed("ValueError")
        elif action == "add":
            self.hooks[hook] = self.added = self.added + 1
            self.settled = {(other, code) for other, code in self.settled if other != hook}
            self.off.discard(hook)
        elif hook in self.hooks:
            {"remove": lambda: self.hooks.pop(hook),
             "disable": lambda: self.off.add(hook), "enable": lambda: self.off.discard(hook),
             "disable code": lambda: self.settled.add((hook, code)),
             "enable code": lambda: self.settled.discard((hook, code))}[action]()

    def start(self, function):
        """The code that runs. Switches for code count from the next frame on."""
        code, settled = (function, 0), set(self.settled)
        for hook, number in list(self.hooks.items()):
            if self.hooks.get(hook) == number and hook not in self.off and (hook, code) not in settled:
                self.asked.append((hook, code))
                self.turns[hook, code] = turn = self.turns.get((hook, code), -1) + 1
                action, *details = self.scripts[hook, code][turn % len(self.scripts[hook, code])]
                if action == "settle":
                    self.settled.add((hook, code))
                elif action == "replace" and details[0] == INCOMPATIBLE:
                    raise Failed("IncompatibleCodeError")
                elif action == "replace" and details[0] != code[1]:
                    code, settled = (function, details[0]), set(self.settled)
                elif action == "fail":
                    raise Failed(details[0])
                elif action not in ("pass", "replace"):
                    self.change(action, *details)
        return code

    def call(self, function):
        code = self.start(function)
        self.ran.append((code, self.program.arguments(function)))
        for child, catches in self.program.children[function]:
            try:
                self.call(child)
            except Failed as error:
                if not catches:
                    raise
                self.ran.append((code, str(error)))


# --- Programs. -----------------------------------------------------------------------------------------------------

# kind: (definition, expression for the arguments as it sees them, call, what the arguments then are). {n} is the
# function's number; a definition's body is indented by eight blanks.
KINDS = {
    "function": ("def make(free):\n    def f{n}(a, b=2, *c, k, **d):\n{body}    return f{n}",
                 "(a, b, c, k, d)", "f{n}(1, 3, 4, k=5, z=6)", (1, 3, (4,), 5, {"z": 6})),
    "defaults": ("def make(free):\n    def f{n}(a, b=2, *, k=3):\n{body}    return f{n}",
                 "(a, b, k)", "f{n}(1)", (1, 2, 3)),
    "star": ("def make(free):\n    def f{n}(a, /, b, *, k):\n{body}    return f{n}",
             "(a, b, k)", "f{n}(*pair, **keywords)", (1, 2, 3)),
    "map": ("def make(free):\n    def f{n}(a):\n{body}    return f{n}", "(a,)", "list(map(f{n}, (7,)))", (7,)),
    "closure": ("def make(free):\n    def f{n}(a):\n        free\n{body}    return f{n}",
                "(a, free)", "f{n}(1)", (1, "free")),
    "generator": ("def make(free):\n    def f{n}(a):\n        yield\n{body}    return f{n}",
                  "(a,)", "list(f{n}(1))", (1,)),
    "for loop": ("def make(free):\n    def f{n}(a):\n        yield\n{body}    return f{n}",
                 "(a,)", "[x for x in f{n}(1)]", (1,)),
    "coroutine": ("def make(free):\n    async def f{n}(a):\n{body}    return f{n}",
                  "(a,)", "finish(f{n}(1))", (1,)),
    "initializer": ("def make(free):\n    def f{n}(self, a):\n{body}    return type('C', (), {{'__init__': f{n}}})",
                    "(a,)", "f{n}(1)", (1,)),
    "property": ("def make(free):\n    def f{n}(a):\n{body}    return type('C', (), {{'p': property(f{n})}})()",
                 "(type(a).__name__,)", "f{n}.p", ("C",)),
    "subscript": ("def make(free):\n    def f{n}(self, a):\n{body}    return type('C', (), {{'__getitem__': f{n}}})()",
                  "(a,)", "f{n}[3]", (3,)),
}
# What makes the variants different: nothing, many locals, an argument in a cell.
LAYOUTS = ("pass", " = ".join(f"v{i}" for i in range(40)) + " = None", "inner = lambda: a")


class Program:
    def __init__(self, chance):
        count = chance.randint(2, 6)
        self.kinds = [chance.choice(list(KINDS)) for _ in range(count)]
        # Only lower numbers are called: every call ends.
        self.children = [[(chance.randrange(n), chance.random() < 0.6) for _ in range(chance.randint(0, 2))] if n else []
                         for n in range(count)]

    def arguments(self, function):
        return KINDS[self.kinds[function]][3]

    def call_of(self, function):
        return KINDS[self.kinds[function]][2].format(n=function)

    def source(self, function, variant):
        definition, seen, _, _ = KINDS[self.kinds[function]]
        lines = [LAYOUTS[variant], f"ran.append((({function}, {variant}), {seen}))"]
        for child, catches in self.children[function]:
            call = self.call_of(child)
            lines += [f"try: {call}", "except EXPECTED as error:",
                      f"    ran.append((({function}, {variant}), type(error).__name__))"] if catches else [call]
        return definition.format(n=function, body="".join(f"        {line}\n" for line in lines))


def find_code(code, name):
    if code.co_name == name:
        return code
    return next(filter(None, (find_code(c, name) for c in code.co_consts if hasattr(c, "co_consts"))), None)


class Refused(Exception):
    pass


class finish:
    """Runs a coroutine to its end; a class, so that it is called without a frame that a hook would see first."""

    def __new__(cls, coroutine):
        try:
            coroutine.send(None)
        except StopIteration:
            pass


class Real:
    """The same with the real thing."""

    def __init__(self, program, scripts):
        self.program, self.scripts = program, scripts
        self.asked, self.ran, self.turns = [], [], {}
        self.namespace = {"ran": self.ran, "EXPECTED": (Refused, ValueError, TypeError), "pair": (1, 2),
                          "keywords": {"k": 3}, "finish": finish}
        self.codes, self.names = {}, {}
        for n in range(len(program.kinds)):
            for variant in range(VARIANTS):
                compiled = compile(program.source(n, variant), "<program>", "exec")
                self.codes[n, variant] = find_code(compiled, f"f{n}")
                if not variant:
                    made = {}
                    exec(compiled, self.namespace, made)
                    self.namespace[f"f{n}"] = type(finish.__new__)(made["make"].__code__, self.namespace)("free")
            self.codes[n, INCOMPATIBLE] = find_code(compile("def wrong(other, names): pass", "", "exec"), "wrong")
        self.names = {id(code): name for name, code in self.codes.items()}
        self.hooks = [self.make_hook(number) for number in range(HOOKS)]
        self.handles = {}

    def make_hook(self, number):
        def hook(view):
            name = self.names.get(id(view.code))
            if name is None:
                return None
            self.asked.append((number, name))
            self.turns[number, name] = turn = self.turns.get((number, name), -1) + 1
            script = self.scripts[number, name]
            action, *details = script[turn % len(script)]
            if action == "settle":
                return framecore.DISABLE
            if action == "replace":
                return self.codes[name[0], details[0]]
            if action == "fail" and details[0] == "TypeError":
                return "no code"
            if action == "fail":
                raise Refused
            if action != "pass":
                self.change(action, *details)
            return None
        return hook

    def change(self, action, number=None, code=None):
        hook = self.hooks[number] if number is not None else None
        if action == "add":
            self.handles[number] = framecore.add_frame_hook(hook)
        elif action == "remove":
            framecore.remove_frame_hook(hook)
        elif action == "clear":
            framecore.clear_frame_hooks()
        elif number in self.installed():
            handle = self.handles[number]
            if action in ("disable", "enable"):
                framecore.enable_frame_hook(handle, action == "enable")
            else:
                framecore.enable_frame_hook_for_code(handle, self.codes[code], action == "enable code")

    def installed(self):
        return [self.hooks.index(info["hook"]) for info in framecore.frame_hooks()]

    def call(self, function):
        eval(self.program.call_of(function), self.namespace)


# --- Sequences. ----------------------------------------------------------------------------------------------------

def random_action(chance, function, functions):
    kind = chance.choices(["pass", "settle", "replace", "fail", "change"], [6, 3, 5, 1, 3])[0]
    if kind == "replace":
        return kind, chance.choices(range(VARIANTS + 1), [2, 4, 4, 1])[0]
    if kind == "fail":
        return kind, chance.choice(["Refused", "TypeError"])
    return random_change(chance, functions) if kind == "change" else (kind,)


def random_change(chance, functions):
    action = chance.choices(["add", "remove", "disable", "enable", "disable code", "enable code", "clear"],
                            [8, 4, 3, 4, 3, 3, 0.5])[0]
    hook = chance.randrange(HOOKS)
    if action == "clear":
        return (action,)
    if action.endswith("code"):
        return action, hook, (chance.randrange(functions), chance.randrange(VARIANTS))
    return action, hook


def ignore(*details):
    """A profile function: code is instrumented while it is set."""


def surroundings(chance, framehooks):
    """What must make no difference."""
    return chance.choice([lambda: sys.setprofile(ignore), lambda: sys.setprofile(None),
                          lambda: framehooks.set_evaluator("pass"), lambda: framehooks.set_evaluator(None)])


def run_sequence(seed, framehooks):
    """Raise AssertionError where the real thing and the model differ."""
    chance = random.Random(seed)
    program = Program(chance)
    functions = len(program.kinds)
    scripts = {(hook, (n, variant)): [random_action(chance, n, functions) for _ in range(chance.randint(1, 3))]
               for hook in range(HOOKS) for n in range(functions) for variant in range(VARIANTS)}
    model, real = Model(program, scripts), Real(program, scripts)
    steps = []
    try:
        first = [("add", hook) for hook in chance.sample(range(HOOKS), chance.randint(0, HOOKS))]
        for number in range(len(first) + chance.randint(4, 16)):
            what = chance.choices(["call", "change", "surroundings"], [6, 4, 0.5])[0]
            if number < len(first):
                what, step = "change", first[number]
            elif what == "surroundings":
                surroundings(chance, framehooks)()
                continue
            elif what == "call":
                step = "call", chance.randrange(functions)
            else:
                step = random_change(chance, functions)
            # Often enough for a call to be specialized, now and then.
            times = chance.choice([1, 1, 1, 3, 30]) if what == "call" else 1
            for _ in range(times):
                steps.append(step)
                outcomes = []
                for side in (model, real):
                    del side.asked[:], side.ran[:]
                    outcome = None
                    try:
                        side.call(step[1]) if what == "call" else side.change(*step)
                    except Failed as error:
                        outcome = str(error)
                    except (Refused, ValueError, TypeError) as error:
                        outcome = type(error).__name__
                    outcomes.append({"outcome": outcome, "asked": side.asked[:], "ran": side.ran[:]})
                outcomes[0]["installed"], outcomes[1]["installed"] = list(model.hooks), real.installed()
                for key, expected in outcomes[0].items():
                    if outcomes[1][key] != expected:
                        raise AssertionError(f"seed {seed}, step {len(steps)}, {step}: {key}\n"
                                             f"  the model: {expected}\n  in fact:   {outcomes[1][key]}\n"
                                             f"  kinds: {program.kinds}\n  children: {program.children}")
    finally:
        framecore.clear_frame_hooks()
        sys.setprofile(None)
        framehooks.set_evaluator(None)
    return len(steps)


def run_sequences(first_seed, count):
    use_extensions()
    import framehooks
    return sum(run_sequence(seed, framehooks) for seed in range(first_seed, first_seed + count))


@needs_hooks
class HookModel(unittest.TestCase):
    def test_random_sequences(self):
        self.assertGreater(run_sequences(0, CI_SEQUENCES), CI_SEQUENCES)


def main():
    parser = argparse.ArgumentParser(description="Compare frame hooks with their model.")
    parser.add_argument("--count", type=int, default=20_000, help="sequences (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the first one (default %(default)s)")
    arguments = parser.parse_args()
    done = 0
    while done < arguments.count:
        some = min(1_000, arguments.count - done)
        run_sequences(arguments.seed + done, some)
        done += some
        print(f"{done} sequences agree, the last with seed {arguments.seed + done - 1}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
