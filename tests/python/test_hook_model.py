#!/usr/bin/env python3
"""Random programs with random hooks do what a model in Python says.

    build/ferrule/python tests/python/test_hook_model.py --count 20000 --seed 1

Each sequence makes a program of functions, generators and coroutines that call each other, raise, stop each other in the middle and change
hooks, up to eight hooks with a script for each code object, and some steps from outside: call, add, remove, switch. Hooks and model follow the
same scripts. For which code hooks were called, which exit events they got, which code ran with which arguments, and what came of each call
must be the same. A failure prints the seed that makes the very sequence again.

With --threads each sequence runs in two threads at once, with hooks of their own; with --shared with the same hooks; with --greenlets
greenlets wait in the middle of frames that the hooks watch, or that have scopes.
"""

import argparse
import random
import sys
import threading
import unittest
from typing import NamedTuple

from hook_model_programs import VARIANTS, Boom, Program, find_code, finish, text_of
from support import framehook, needs_hooks, use_extensions

HOOKS = 8
INCOMPATIBLE = VARIANTS     # of a function's codes: one that cannot replace the others
CI_SEQUENCES = 400
CHANGES = {"add": 8, "remove": 4, "disable": 3, "enable": 4, "disable code": 3, "enable code": 3, "clear": 0.5}


# --- The model: what frame hooks promise. --------------------------------------------------------------------------

class Failed(Boom):
    """What a call has raised: the name of the exception, or its text."""


class Frame:
    """A frame that runs or is suspended: its code, (function, variant), and (hook, script) of its watches and scopes."""

    def __init__(self, function):
        self.code, self.watches, self.step = (function, 0), [], 0


class Model:
    """Knows functions by number, code by (function, variant), and hooks by number."""

    def __init__(self, program, scripts):
        self.program, self.scripts, self.log = program, scripts, []
        self.hooks, self.added = {}, 0              # those installed, in order: number -> how many were added before
        self.off, self.disabled, self.turns, self.stack = set(), set(), {}, []

    def change(self, action, hook=None, code=None):
        if action == "clear":
            self.hooks.clear()
        elif action in ("add", "remove") and (hook in self.hooks) == (action == "add"):
            raise Failed("ValueError")
        elif action == "add":
            self.hooks[hook] = self.added = self.added + 1
            self.disabled = {(other, code) for other, code in self.disabled if other != hook}
            self.off.discard(hook)
        elif hook in self.hooks:
            {"remove": lambda: self.hooks.pop(hook),
             "disable": lambda: self.off.add(hook), "enable": lambda: self.off.discard(hook),
             "disable code": lambda: self.disabled.add((hook, code)),
             "enable code": lambda: self.disabled.discard((hook, code))}[action]()

    def scope(self, hook):
        """The innermost one of the hook."""
        scopes = [script.scope for frame in self.stack for watcher, script in frame.watches if watcher == hook and script.scope]
        return scopes[-1] if scopes else None

    def dispatch(self, frame):
        """None, or the result with which the call returns without running. Switches for code count from the next frame on."""
        disabled = set(self.disabled)
        for hook, number in list(self.hooks.items()):
            code = frame.code
            if (self.hooks.get(hook) != number or hook in self.off or (hook, code) in disabled
                    or self.scope((hook, number)) == "exclude_callees"):
                continue
            self.log.append(("entry", hook, code))
            self.turns[hook, code] = turn = self.turns.get((hook, code), -1) + 1
            script = self.scripts[hook, code][turn % len(self.scripts[hook, code])]
            if script.verdict == "fail":
                raise Failed(script.details[0])
            if script.verdict == "change":
                self.change(*script.details)
            if script.watch or script.scope:
                frame.watches.append(((hook, number), script))
            if script.verdict == "disable":
                self.disabled.add((hook, code))
            elif script.verdict == "result":
                return f"result {hook}"
            elif script.verdict == "replace" and script.details[0] == INCOMPATIBLE:
                raise Failed("IncompatibleCodeError")
            elif script.verdict == "replace" and script.details[0] != code[1]:
                frame.code, disabled = (code[0], script.details[0]), set(self.disabled)
        return None

    def deliver(self, frame, kind, error=None):
        """Events to all watches, the last one first; the exception that the call then raises, if any."""
        for (hook, number), script in reversed(frame.watches):
            if self.hooks.get(hook) == number and script.watch and (kind not in ("yielded", "resumed") or getattr(script, kind)):
                self.log.append(("exit", hook, frame.code, "raised" if error and kind == "returned" else kind))
                if script.fails and kind in ("returned", "raised"):
                    error = f"fails {hook}"
        return error

    def leave(self, frame, error=None):
        if error := self.deliver(frame, "raised" if error else "returned", error):
            raise Failed(error)

    def start(self, function):
        """A new frame, and a result without running or None."""
        frame = Frame(function)
        try:
            result = self.dispatch(frame)
        except Failed as error:
            self.leave(frame, str(error))
        if result:
            self.leave(frame)
        return frame, result

    def advance(self, frame):
        """A frame runs until it is left; True if it has only yielded."""
        function, is_generator = frame.code[0], self.program.kind(frame.code[0]).is_generator
        parts = self.program.bodies[function]
        if is_generator:
            self.deliver(frame, "resumed")
        if not frame.step:
            self.log.append(("ran", frame.code, self.program.kind(function).arguments))
        self.stack.append(frame)
        error = None
        try:
            for action in parts[frame.step]:
                self.act(*action)
        except Failed as failed:
            error = str(failed)
        self.stack.pop()
        frame.step += 1
        if error is None and frame.step < len(parts):
            self.deliver(frame, "yielded")
            return True
        self.leave(frame, error)
        return False

    def act(self, action, *details):
        getattr(self, "do_" + action)(*details)

    def do_call(self, function, catches):
        try:
            frame, result = self.start(function)
            while not result and self.advance(frame):
                pass
            self.log.append(("value", result or self.program.value(function)))
        except Failed as error:
            if not catches:
                raise
            self.log.append(("caught", str(error)))

    def do_steps(self, function, steps, end):
        frame, _ = self.start(function)
        for _ in range(steps):
            if not self.advance(frame):
                return
        if end == "throw":
            self.deliver(frame, "resumed")
            self.leave(frame, "thrown")
        self.deliver(frame, "dropped")

    def do_fail(self):
        raise Failed("program")

    def do_change(self, *details):
        self.change(*details)


# --- The same with the real thing. ---------------------------------------------------------------------------------

class Door:
    """Where the hooks of a sequence are added."""

    changes = CHANGES

    def __init__(self, **options):
        self.options = options

    def add(self, hook):
        framehook.add(hook, **self.options)

    def remove(self, hook):
        framehook.remove(hook)

    def installed(self, hooks):
        """Which of them are, in order."""
        return [hooks.index(info.hook) for info in framehook.hooks() if info.hook in hooks]


class OnlyRemoved(Door):
    """For hooks that are not added as they are: each is added once, at the beginning."""

    changes = {"remove": 1}

    def __init__(self):
        self.present = []

    def add(self, hook):
        self.present.append(hook)

    def remove(self, hook):
        if hook not in self.present:
            raise ValueError
        self.present.remove(hook)

    def installed(self, hooks):
        return [hooks.index(hook) for hook in self.present]


class Shared:
    """Hooks of all threads, each of which does in a thread what that thread's sequence says."""

    def __init__(self):
        self.hooks, self.handles, self.lock = [], [], threading.Lock()

    def door(self):
        return SharedDoor(self)

    def add(self, ask):
        thread = threading.get_ident()
        with self.lock:
            hook = next((hook for hook in self.hooks if thread not in hook), None)
            if hook is None:
                self.hooks.append(hook := {})
                self.handles.append(framehook.add(lambda view: hook.get(threading.get_ident(), lambda view: None)(view)))
            hook[thread] = ask

    def end(self):
        for handle in self.handles:
            framehook.remove(handle)


class SharedDoor(OnlyRemoved):
    def __init__(self, shared):
        super().__init__()
        self.shared = shared

    def add(self, hook):
        super().add(hook)
        self.shared.add(lambda view: hook(view) if hook in self.present else None)


class Real:
    """Does with functions and hooks what the model does without."""

    def __init__(self, program, scripts, door):
        self.program, self.scripts, self.door = program, scripts, door
        self.log, self.turns = [], {}
        self.namespace = {"log": self.log, "EXPECTED": (Boom, ValueError, TypeError), "Boom": Boom, "pair": (1, 2), "keywords": {"k": 3},
                          "finish": finish, "text_of": text_of, "change": self.change}
        self.codes = {}
        for n in range(len(program.kinds)):
            for variant in range(VARIANTS):
                compiled = compile(program.source(n, variant), "<program>", "exec")
                self.codes[n, variant] = find_code(compiled, f"f{n}")
                if not variant:
                    made = {}
                    exec(compiled, self.namespace, made)
                    self.namespace[f"f{n}"] = type(text_of)(made["make"].__code__, self.namespace)("free")
            self.codes[n, INCOMPATIBLE] = find_code(compile("def wrong(other, names): pass", "", "exec"), "wrong")
        self.names = {id(code): name for name, code in self.codes.items()}
        self.hooks = [self.make_hook(number) for number in range(program.hooks)]

    def make_hook(self, number):
        def on_event(event):
            if number not in self.installed():      # of a shared hook
                return
            self.log.append(("exit", number, self.names[id(event.code)], event.kind))
            if event.data.fails and event.kind in ("returned", "raised"):
                raise Boom(f"fails {number}")

        def hook(view):
            name = self.names.get(id(view.code))
            if name is None:
                return framehook.DISABLE
            self.log.append(("entry", number, name))
            self.turns[number, name] = turn = self.turns.get((number, name), -1) + 1
            script = self.scripts[number, name][turn % len(self.scripts[number, name])]
            if script.verdict == "fail" and script.details[0] == "TypeError":
                return "no code"
            if script.verdict == "fail":
                raise Boom(script.details[0])
            if script.verdict == "change":
                self.change(*script.details)
            if script.watch:
                view.watch(on_event, script, yields=script.yielded, resumes=script.resumed)
            if script.scope:
                getattr(view, script.scope)()
            if script.verdict == "disable":
                return framehook.DISABLE
            if script.verdict == "result":
                return view.result(f"result {number}")
            return self.codes[name[0], script.details[0]] if script.verdict == "replace" else None
        return hook

    def installed(self):
        return self.door.installed(self.hooks)

    def change(self, action, number=None, code=None):
        hook = self.hooks[number] if number is not None else None
        if action == "clear":
            for installed in self.installed():
                self.door.remove(self.hooks[installed])
        elif action in ("add", "remove"):
            getattr(self.door, action)(hook)
        elif number in self.installed():
            switch = getattr(framehook, action.replace(" ", "_for_"))
            switch(hook, self.codes[code]) if code else switch(hook)

    def make_action(self, action):
        """A function that does it."""
        lines = "".join(f"    {line}\n" for line in self.program.lines(*action))
        exec(f"def act():\n{lines}", self.namespace)
        return self.namespace["act"]


# --- Sequences. ----------------------------------------------------------------------------------------------------

class Script(NamedTuple):
    """What a hook does in one of its calls."""
    verdict: str
    details: tuple
    watch: bool
    yielded: bool
    resumed: bool
    fails: bool
    scope: str | None


def random_script(chance, hook, function, program):
    kind, details = program.kind(function), ()
    verdict = chance.choices(["pass", "disable", "replace", "fail", "change", "result"], [6, 2, 5, 0.7, 3, 1.5 * kind.has_results])[0]
    if verdict == "replace":
        details = chance.choices(range(VARIANTS + 1), [2, 4, 4, 1])
    elif verdict == "fail":
        details = (chance.choice([f"hook {hook}", "TypeError"]),)
    elif verdict == "change":
        details = program.change(chance)
    watch = chance.random() < 0.5
    return Script(verdict, details, watch, yielded=watch and chance.random() < 0.7, resumed=watch and chance.random() < 0.7,
                  fails=watch and not kind.is_generator and chance.random() < 0.1,
                  scope=chance.choices((None, "exclude_callees", "only_callees"), (8, 1, 1))[0])


def ignore(*details):
    """A profile function: code is instrumented while it is set."""


def surroundings(chance, framehooks):
    """What must make no difference."""
    return chance.choice([lambda: sys.setprofile(ignore), lambda: sys.setprofile(None),
                          lambda: framehooks.set_evaluator("pass"), lambda: framehooks.set_evaluator(None)])


def run_sequence(seed, door, framehooks=None):
    """Raise AssertionError where the real thing and the model differ; the number of steps."""
    chance = random.Random(seed)
    program = Program(chance, chance.randint(1, HOOKS), door.changes)
    functions = range(len(program.kinds))
    scripts = {(hook, (n, variant)): [random_script(chance, hook, n, program) for _ in range(chance.randint(1, 3))]
               for hook in range(program.hooks) for n in functions for variant in range(VARIANTS)}
    model, real = Model(program, scripts), Real(program, scripts, door)
    steps = [("change", "add", hook) for hook in chance.sample(range(program.hooks), program.hooks)]
    if "add" in door.changes:
        del steps[chance.randint(0, len(steps)):]
    done = 0
    try:
        for number in range(len(steps) + chance.randint(4, 16)):
            what = chance.choices(["use", "change", "surroundings"], [6, 4, 0.5 if framehooks else 0])[0]
            if what == "surroundings":
                surroundings(chance, framehooks)()
                continue
            if number < len(steps):
                step = steps[number]
            else:
                step = program.use(chance, chance.choice(functions), False) if what == "use" else ("change", *program.change(chance))
            act = real.make_action(step)
            # Often enough for a call to be specialized, now and then.
            for _ in range(chance.choice([1, 1, 1, 3, 30]) if step[0] != "change" else 1):
                done += 1
                outcomes = []
                for side, play in ((model, lambda: model.act(*step)), (real, act)):
                    side.log.clear()
                    outcome = None
                    try:
                        play()
                    except (Boom, ValueError, TypeError) as error:
                        outcome = text_of(error)
                    outcomes.append([*side.log, ("outcome", outcome)])
                outcomes[0].append(list(model.hooks))
                outcomes[1].append(real.installed())
                if outcomes[0] != outcomes[1]:
                    at = next(i for i, pair in enumerate(zip(*outcomes)) if pair[0] != pair[1])
                    raise AssertionError(f"seed {seed}, step {done}, {step}: after {outcomes[0][max(at - 6, 0):at]}\n  the model: "
                                         f"{outcomes[0][at:at + 4]}\n  in fact:   {outcomes[1][at:at + 4]}\n  kinds: {program.kinds}\n"
                                         f"  bodies: {program.bodies}")
    finally:
        for hook in real.installed():
            door.remove(real.hooks[hook])
        if framehooks:
            sys.setprofile(None)
            framehooks.set_evaluator(None)
    return done


def run_sequences(first_seed, count):
    use_extensions()
    import framehooks
    return sum(run_sequence(seed, Door(), framehooks) for seed in range(first_seed, first_seed + count))


def in_two_threads(seeds, share=False):
    """Two sequences at once. Their hooks are for their threads, or they share them: scopes concern the threads alone."""
    failures, shared = [], Shared() if share else None

    def run(seed):
        try:
            run_sequence(seed, shared.door() if shared else Door(this_thread=True))
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

    def enters():
        greenlet.getcurrent().parent.switch()

    kinds, others = [], []

    class Parked(OnlyRemoved):
        """In a greenlet that waits, each hook has said that it is called for nothing below, or for nothing else."""

        def __init__(self):
            super().__init__()
            self.handles = {}

        def add(self, hook):
            def first(view):
                if view.code is enters.__code__:
                    view.watch(kinds.append) if seed % 3 else view.exclude_callees() if seed % 2 else view.only_callees()
                    return None
                return hook(view)

            super().add(hook)
            self.handles[hook] = framehook.add(first)
            others.append(greenlet.greenlet(enters))
            others[-1].switch()

        def remove(self, hook):
            super().remove(hook)
            framehook.remove(self.handles[hook])

    def hook(view):
        if view.code is waits.__code__:
            view.exclude_callees()
            view.watch(lambda event: kinds.append(event.kind))

    with framehook.hook(hook):
        waiting = greenlet.greenlet(waits)
        waiting.switch()
        run_sequence(seed, Parked())
        waiting.switch()
        for other in others:
            other.switch()
    assert kinds == ["returned"], kinds


@needs_hooks
class HookModel(unittest.TestCase):
    def test_random_sequences(self):
        self.assertGreater(run_sequences(0, 3 * CI_SEQUENCES), 3 * CI_SEQUENCES)

    def test_two_threads_at_once_each_with_hooks_of_its_own(self):
        for seed in range(0, CI_SEQUENCES // 4, 2):
            in_two_threads((seed, seed + 1))

    def test_two_threads_at_once_that_share_their_hooks(self):
        for seed in range(0, CI_SEQUENCES // 4, 2):
            in_two_threads((seed, seed + 1), share=True)


def main():
    parser = argparse.ArgumentParser(description="Compare frame hooks with their model.")
    parser.add_argument("--count", type=int, default=20_000, help="sequences (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the first one (default %(default)s)")
    way = parser.add_mutually_exclusive_group()
    for name in ("--threads", "--shared", "--greenlets"):
        way.add_argument(name, action="store_true")
    options = parser.parse_args()
    last = options.seed + options.count - 1
    for seed in range(options.seed, last + 1):
        if options.threads or options.shared:
            in_two_threads((seed, seed + 500_000), share=options.shared)
        elif options.greenlets:
            beside_a_greenlet(seed)
        else:
            run_sequences(seed, 1)
        if seed == last or (seed + 1) % 1_000 == 0:
            print(f"sequences agree, the last with seed {seed}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:]:
        main()
    else:
        unittest.main()
