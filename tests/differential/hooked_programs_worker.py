"""Runs random programs while a frame hook is installed. Under the interpreter that is tested.

    python hooked_programs_worker.py BATCH RESULTS SECONDS MODE
           [--site DIR] [--extension FILE] [--leaks EVERY]

BATCH and RESULTS are as for programs_worker.py. MODE is one of MODES; on stock it is "none". One of
EVERY programs is repeated, and the worker complains if each repetition takes more memory.
"""

import argparse
import array
import dis
import gc
import importlib.machinery
import importlib.util
import inspect
import os
import signal
import sys
import threading
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import hooked_programs_changes as changes
import hooked_programs_helpers as helpers
import hooked_programs_hooks as hooks
import hooked_programs_models as models
import programs_worker as worker
from hooked_programs_hooks import answer_nothing, disable_all, make_copier, make_looker, make_observer, read_everything
from programs_worker import chain, own_frame

FIRST_REPEATS, REPEATS = 2, 6     # of a program, before memory is measured and while it is
MOST_MEASUREMENTS = 5       # before growth counts as one without an end
CLEANUP_THROW = dis.opmap["CLEANUP_THROW"]

# A hook in Python takes a part of the recursion limit. No program must come to it.
worker.RECURSION_LIMIT = 4000
hooks.HELPERS |= {__file__, changes.__file__, models.__file__}


def bring_up_to_date():
    """Instruments the code of all frames that run, as a change of hooks does.

    sys.settrace() does not reach frames of other greenlets, until something else does this.
    """
    sys.monitoring.restart_events()


class Plain(worker.Surroundings):
    """No hook."""

    def __init__(self, options):
        self.options = options
        self.complaints = []
        self.details = []

    def names(self):
        return {
            "LOGGER": helpers.LOGGER,
            "inspect": inspect,
            "warnings": warnings,
            "threading": threading,
            "names_of": helpers.names_of,
            "formatted": helpers.formatted,
            "captured": helpers.captured,
            "state_of": helpers.state_of,
            "referents_of": helpers.referents_of,
            "interleave": helpers.interleave,
            "turn": helpers.turn,
            "send_signal": helpers.send_signal,
            "make_jumper": helpers.make_jumper,
            "with_other_code": helpers.with_other_code,
            "own_frame": own_frame,
            "starve": helpers.starve,
            "change_hooks": self.change_hooks,
            "hooks_do": self.hooks_do,
            "in_thread": helpers.in_thread,
            "step": helpers.step,
            **({"greenlet": helpers.greenlet.greenlet, "switch_out": helpers.switch_out}
               if helpers.greenlet else {}),
        }

    # Events of opcodes are switched on for one code object, so a copy has none.
    tells_opcodes = False

    def report_collected(self, tag, count):
        """Nothing is reported: a hook has objects of its own."""

    def is_reported(self, event, code, arguments):
        # Whether the `def` line has an event depends on how its first instruction is specialized.
        # Not in code that a hook is called for.
        if event != "LINE":
            return True
        if arguments[0] == code.co_firstlineno:
            return False
        # Nor is RESUME in a generator that is watched, which decides on an event where `await` gets an exception.
        frame = sys._getframe(2)
        return frame.f_code is not code or code.co_code[frame.f_lasti] != CLEANUP_THROW

    def change_hooks(self, how):
        bring_up_to_date()

    def hooks_do(self, what, number):
        bring_up_to_date()

    def thread_begins(self):
        """The calling thread runs a part of the program from now on."""

    def thread_ends(self):
        """The calling thread ends, and runs nothing of the program any more."""

    def come_to_rest(self):
        """Nothing that hooks_do() has begun lasts any longer."""

    def threads_are_gone(self):
        """Threads that the calling one has started have ended."""

    def starve_one(self, function, start, stop, number):
        helpers.run_starved(function, start, stop)

    def complain(self, complaint, detail=""):
        if complaint not in self.complaints:
            self.complaints.append(complaint)
            self.details.append(f"{complaint}: {detail}")

    def result(self, seed, source):
        # CPython itself loses memory where an allocation fails.
        is_measured = self.options.leaks and seed % self.options.leaks == 0
        if is_measured and "starve(" not in source and not self.keeps_for_ever():
            self.look_for_leaks(source)
        found = {"complaints": self.complaints, "details": self.details}
        self.complaints, self.details = [], []
        return found

    def keeps_for_ever(self):
        """Whether something of the program stays until the process ends, as it has to."""
        return False

    def look_for_leaks(self, source):
        for _ in range(FIRST_REPEATS):
            worker.run_one(source, self)
        for _ in range(MOST_MEASUREMENTS):
            growths = self.growths(source)
            growing = [name for name, numbers in growths.items() if min(numbers) > 0]
            if not growing:
                return
        for name in growing:
            self.complain(f"more {name} each time", f"by {growths[name]}")

    def growths(self, source):
        """By how much each number grows from run to run."""
        # To store a number in an array takes no memory.
        blocks, references = (array.array("q", [0]) * (REPEATS + 1) for _ in range(2))
        for i in range(REPEATS + 1):
            worker.run_one(source, self)
            gc.collect()
            blocks[i] = sys.getallocatedblocks()
            references[i] = getattr(sys, "gettotalrefcount", int)()
        return {name: [after - before for before, after in zip(numbers, numbers[1:])]
                for name, numbers in (("blocks", blocks), ("references", references))}


class Hooked(Plain):
    """A hook in Python, made anew for each program."""

    can_be_added_again = True
    can_be_probed = True

    def __init__(self, options, make_hook):
        super().__init__(options)
        self.make_hook = make_hook

    def add(self):
        self.handle = framehook.add(self.hook)

    def begin(self):
        self.hook = self.make_hook()
        self.extra = make_copier()
        self.add()

    def __enter__(self):
        self.before = {info.id for info in framehook.hooks()}
        self.watching = models.Watching(self)
        self.begin()
        self.makers = (lambda: lambda view: None, lambda: lambda view: read_everything(view),
                       lambda: self.watching.watcher(), lambda: lambda view: disable_all(view), models.make_scoped)
        self.changes = changes.Changes(self)

    def __exit__(self, *exception):
        info = self.info(self.handle)
        if info is None:
            self.complain("the hook is gone")
        elif not info.calls and not self.changed:
            self.complain("the hook was not called")
        if info is not None:
            self.changes.end()
        self.end()
        self.watching.end()
        left = [info for info in framehook.hooks() if info.id not in self.before]
        if left:
            self.complain("a hook is left", left)
            for info in left:
                framehook.remove(info.id)

    changed = False

    def end(self):
        for hook in (self.handle, self.extra):
            if self.info(hook) is not None:
                framehook.remove(hook)
        self.hook = self.extra = None

    def info(self, hook):
        return next((info for info in framehook.hooks() if hook in (info.id, info.hook)), None)

    def keeps_for_ever(self):
        return self.changes.abandoned

    def hooks_do(self, what, number):
        bring_up_to_date()
        self.changed = True
        self.changes.do(what, number, sys._getframe(1))

    def thread_begins(self):
        self.changes.thread_begins()

    def come_to_rest(self):
        self.changes.come_to_rest()

    def thread_ends(self):
        self.changes.thread_ends()

    def threads_are_gone(self):
        self.changes.threads_are_gone()

    def change_hooks(self, how):
        """Change the hooks while the program runs; afterwards its own is called as before."""
        bring_up_to_date()
        self.changed = True
        handle = self.handle
        if how == 0 and self.can_be_added_again:
            framehook.remove(handle)
            self.add()
        elif how == 1:
            framehook.disable(handle)
            worker.fuel.__name__
            framehook.enable(handle)
        elif how == 2:
            if self.info(self.extra) is None:
                framehook.add(self.extra, "another")
            else:
                framehook.remove(self.extra)
        elif how == 3:
            with framehook.disabled(handle):
                chain(sys._getframe(1))
        elif how == 4:
            framehook.disable_in_thread(handle)
            chain(sys._getframe(1))
            framehook.enable_in_thread(handle)
        elif how == 5:
            with framehook.hook(disable_all, "disables"):
                chain(sys._getframe(1))
        elif how == 6:
            with framehook.hook(read_everything):
                sorted([2, 1], key=str)
        elif how == 7:
            with framehook.disabled_in_thread(handle):
                chain(sys._getframe(1))
        elif how == 8:
            code = sys._getframe(1).f_code
            framehook.disable_for_code(handle, code)
            framehook.enable_for_code(handle, code)
        elif how == 9:
            with framehook.disabled_for_code(handle, sys._getframe(1).f_code):
                chain(sys._getframe(1))

    def starve_one(self, function, start, stop, number):
        before = [info.id for info in framehook.hooks()]
        if number % 3 == 0:
            function = in_a_block(function)
        try:
            helpers.run_starved(function, start, stop)
        except Exception:
            helpers.end_starving()
        after = [info.id for info in framehook.hooks()]
        if before != after:
            self.complain("other hooks after an end of memory", f"{start, stop}: {before}, {after}")
            for handle in set(after) - set(before):
                framehook.remove(handle)


class Watches(Hooked):
    """A hook that watches each frame, and a model of what may become of one."""

    def __init__(self, options):
        super().__init__(options, lambda: self.watching.watcher())


class Scoped(Hooked):
    """A hook that passes, one that has scopes, and one from which a model knows where that is called."""

    def __init__(self, options):
        super().__init__(options, lambda: answer_nothing)

    def begin(self):
        super().begin()
        self.scopes = models.Scopes(self)

    def end(self):
        self.scopes.end()
        super().end()


def in_a_block(function):
    hook = framehook.hook(read_everything)

    def inside(argument):
        with hook:
            function(argument)

    return inside


class Native(Hooked):
    """A hook in C that passes, added for each program."""

    def __init__(self, options, kind):
        super().__init__(options, None)
        self.kind = kind
        self.extension = load_extension(options.extension)

    def begin(self):
        self.hook = None
        self.extra = make_copier()
        self.add()

    def add(self):
        self.handle = self.extension.add(self.kind)


class NativeForGood(Native):
    """A hook in C that is added once, as it takes one of few slots of code objects."""

    can_be_added_again = False

    def __init__(self, options, kind, *more):
        super().__init__(options, kind)
        self.for_good = self.extension.add(kind, *more)

    def add(self):
        self.handle = self.for_good

    def end(self):
        if self.info(self.extra) is not None:
            framehook.remove(self.extra)
        self.extra = None


def load_extension(path):
    loader = importlib.machinery.ExtensionFileLoader("suitehooks", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("suitehooks", loader))
    loader.exec_module(module)
    return module


def native_observer(options):
    """The hook that looks for frames when CPython's own suite is run with hooks."""
    directory = os.path.join(os.path.dirname(HERE), "hooked")
    sys.path.insert(0, directory)
    spec = importlib.util.spec_from_file_location("hooked_sitecustomize",
                                                  os.path.join(directory, "sitecustomize.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.private_observer(load_extension(options.extension).alone)


MODES = {
    "none": Plain,
    "native": lambda options: Native(options, "pass"),
    "pass": lambda options: Hooked(options, lambda: answer_nothing),
    "disable": lambda options: Hooked(options, lambda: lambda view: disable_all(view)),
    "read": lambda options: Hooked(options, lambda: lambda view: read_everything(view)),
    "copy": lambda options: Hooked(options, make_copier),
    "observe": lambda options: Hooked(options, make_observer),
    "observe-copy": lambda options: Hooked(options, lambda: make_copier(make_looker())),
    "watch": Watches,
    "scope": Scoped,
    "native-copy": lambda options: NativeForGood(options, "copy"),
    "native-observe": lambda options: NativeForGood(options, "observe", native_observer(options)),
}


def main():
    global framehook
    parser = argparse.ArgumentParser()
    parser.add_argument("batch")
    parser.add_argument("results")
    parser.add_argument("seconds", type=float)
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("--site")
    parser.add_argument("--extension")
    parser.add_argument("--leaks", type=int, default=0)
    options = parser.parse_args()
    if options.site:
        sys.path.append(options.site)
        import greenlet
        helpers.greenlet = greenlet
    if options.mode != "none":
        import framehook
        hooks.framehook = changes.framehook = models.framehook = framehook
    signal.signal(signal.SIGUSR1, helpers.handle_signal)
    around = MODES[options.mode](options)
    worker.prepare()
    worker.run_batch(options.batch, options.results, options.seconds, around)


if __name__ == "__main__":
    main()
