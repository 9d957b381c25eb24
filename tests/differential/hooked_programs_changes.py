"""Changes of hooks that last beyond the call that makes them, with a model of what they mean.

A program calls `hooks_do(what, number)`. On stock that does nothing. With hooks it adds hooks of one thread, begins and
ends blocks, in whichever thread or greenlet the program is, makes cycles through hooks, and has callbacks wait in
greenlets. Nothing of that may be seen in the program's trace. What is known of it is checked here: which hooks are
installed, which of them are called for a frame, and that nothing is left that the collector could free.
"""

import contextlib
import gc
import sys
import threading
import types
import weakref
from collections import Counter
from dataclasses import dataclass

import hooked_programs_helpers as helpers
from hooked_programs_models import make_scoped

framehook = None        # the worker imports it, unless there is to be no hook

MOST_HOOKS = 12         # of one program at once
PROBE = compile("lambda: None", "<probe>", "eval").co_consts[0]
PROBES = 20             # while a thread may be about to end
STAGES = ("called", "yielded", "resumed", "returned", "raised", "dropped")


@dataclass
class Block:
    kind: str
    block: object
    handle: int = 0
    thread: object = None
    code: object = None


@dataclass
class Parked:
    """A callback that waits in a greenlet for being switched to."""

    way: int
    stage: str
    home: object = None
    waits: bool = False
    done: bool = False
    handle: int = 0
    thread: object = None
    greenlet: object = None
    code: object = None

    def ask(self, view):
        if view.code is not self.code:
            return framehook.DISABLE
        view.watch(self.on_event, self, yields=True, resumes=True)
        if self.stage == "called":
            self.wait()
        return None

    def on_event(self, event):
        if event.kind == self.stage:
            self.wait()

    def wait(self):
        if not self.waits:
            self.waits = True
            self.home.switch()

    def run(self):
        """What the greenlet runs. At the stage it waits for its home to switch to it again."""
        job = types.FunctionType(self.code, globals())
        if self.stage == "dropped":
            generator = job()
            next(generator)
            generator = None
        elif self.stage == "raised":
            generator = job()
            next(generator)
            with contextlib.suppress(KeyError):
                generator.throw(KeyError())
        else:
            for _ in job():
                pass
        self.done = True


def steps():
    yield 1
    yield 2


async def waits():
    await helpers.worker.Suspend(1)


async def gives():
    yield await helpers.worker.Suspend(1)


class Tool:
    """What its hook, its callback and its data lead to, and which holds the generator that the hook watches."""

    def __init__(self, way):
        self.way, self.kinds = way, []
        self.code = (steps, waits, gives)[way % 3].__code__

    def hook(self, view):
        if view.code is not self.code:
            return framehook.DISABLE
        way = self.way // 3
        view.watch(self.on_event if way & 1 else ignore, [self] if way & 2 else None,
                   yields=bool(way & 4), resumes=bool(way & 8))
        if way & 16:
            view.exclude_callees()
        return None

    def on_event(self, event):
        self.kinds.append(event.kind)

    def begin(self):
        """Suspend a generator, or what is like one, in the middle."""
        how = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(None, None)
        try:
            if self.code is gives.__code__:
                self.current = gives()
                self.step = self.current.asend(None)
                self.step.send(None)
            else:
                self.current = types.FunctionType(self.code, globals())()
                self.current.send(None)
        finally:
            sys.set_asyncgen_hooks(*how)


def ignore(event):
    pass


def passes(view):
    return None


class Changes:
    """What the changes of one program have come to."""

    def __init__(self, around):
        self.around = around
        self.threads = {threading.get_ident(): 0}     # those that run -> a number that is not used again
        self.count = 0
        self.installed = {}             # handle -> the thread that it is for, or None
        self.once = set()               # all handles that were here
        self.limited = set()            # those of hooks with scopes
        self.blocks = []
        self.suspended, self.in_threads, self.about = Counter(), Counter(), Counter()
        self.shared, self.shared_blocks, self.shared_handle = None, 0, None
        self.quiet_here, self.entries = None, []
        self.parked, self.tools = [], []
        self.abandoned = False          # a callback is, with its thread: what it holds stays
        self.busy = False
        self.ending = False             # a thread has ended, or is about to

    # --- Threads. -----------------------------------------------------------------------------------------------

    def thread_begins(self):
        self.count += 1
        self.threads[threading.get_ident()] = self.count

    def thread_ends(self):
        """The calling thread runs nothing of the program any more."""
        thread = self.thread()
        for parked in [parked for parked in self.parked if parked.thread == thread]:
            self.finish_parked(parked)
        # Its hooks go with it, a little later.
        for handle, of in list(self.installed.items()):
            if of == thread:
                del self.installed[handle]
        for key in [key for key in self.in_threads if key[1] == thread]:
            del self.in_threads[key]
        del self.threads[threading.get_ident()]
        self.ending = True

    def threads_are_gone(self):
        """All threads that the calling one has started have ended."""
        if len(self.threads) == 1:
            self.ending = False
            self.check("after threads have ended")

    def thread(self):
        return self.threads.get(threading.get_ident())

    # --- What is installed, and what is called. -----------------------------------------------------------------

    def install(self, handle, thread=None):
        self.installed[handle] = thread
        self.once.add(handle)

    def check(self, when):
        there = {info.id for info in framehook.hooks()}
        here = there & self.once
        if self.ending:
            # Those of a thread that has just ended may be there.
            here &= set(self.installed)
        if here != set(self.installed):
            self.around.complain(f"other hooks than the model has {when}",
                                 f"{sorted(here - set(self.installed))} too many, "
                                 f"{sorted(set(self.installed) - here)} too few, of {sorted(self.once)}")

    def main(self):
        return self.around.handle

    def some_hook(self, number):
        handles = [self.main(), *self.installed]
        return handles[number % len(handles)]

    def do_probe(self, number, caller):
        if not self.around.can_be_probed:
            return
        probe = types.FunctionType(PROBE.replace(co_firstlineno=number + 1), {})
        thread = self.thread()
        watched = {self.main(): None, **self.installed}
        expected = {handle: not self.suspended[handle] and not self.in_threads[handle, thread] and of in (None, thread)
                    for handle, of in watched.items() if handle not in self.limited}
        for _ in range(PROBES):
            before = {info.id: info.calls for info in framehook.hooks()}
            probe()
            calls = {info.id: info.calls - before.get(info.id, 0) for info in framehook.hooks()}
            # It may be called for callbacks of monitoring besides.
            wrong = [handle for handle, is_called in expected.items() if bool(calls.get(handle, 0)) != is_called]
            if not wrong:
                return
            # A thread that ends runs code of the module threading, at the same time.
            if len(self.threads) == 1 and not self.ending:
                break
        for handle in wrong:
            self.around.complain("a hook was called or not called against the model",
                                 f"{calls.get(handle, 0)} calls of {handle}, the main one is {self.main()}, "
                                 f"in thread {thread}, for {watched[handle]}, {self.suspended[handle]} blocks, "
                                 f"{ {key: n for key, n in self.in_threads.items() if n} }")

    # --- What a program requests. -------------------------------------------------------------------------------

    def do(self, what, number, caller):
        # Not within itself: a destructor may run the program meanwhile. Nor in a thread that the program did not begin.
        if self.busy or self.thread() is None or helpers.worker.current.quiet:
            return
        self.busy = True
        try:
            # A name that is made would stay in CPython's cache of methods.
            WHAT[what](self, number, caller)
        finally:
            self.busy = False

    def do_hook(self, number, caller):
        """A hook of this thread; it ends with the thread, unless it is removed before."""
        if len(self.installed) < MOST_HOOKS:
            make = self.around.makers[number % len(self.around.makers)]
            self.install(framehook.add(make(), this_thread=True, first=number % 5 == 0), self.thread())
            if make is make_scoped:
                self.limited.add(list(self.installed)[-1])

    def do_remove(self, number, caller):
        """A hook of whichever thread."""
        if self.installed:
            self.remove(list(self.installed)[number % len(self.installed)])

    def remove(self, handle):
        try:
            framehook.remove(handle)
        except ValueError:
            self.around.complain("a hook that the model has is not installed", handle)
        del self.installed[handle]
        self.check("after one was removed")

    def do_begin(self, number, caller):
        if len(self.blocks) > MOST_HOOKS:
            return
        kind = ("hook", "shared", "disabled", "here", "about", "quiet", "abandoned")[number % 7]
        if kind in ("hook", "shared", "abandoned") and len(self.installed) >= MOST_HOOKS:
            return
        handle = self.some_hook(number // 7)
        thread = self.thread()
        if kind == "hook":
            block = framehook.hook(lambda view: framehook.DISABLE if number % 2 else None)
            block.__enter__()
            handle = block.id
            self.install(handle)
        elif kind == "abandoned":
            # Its hook stays, and nothing else may be taken for its block.
            block = framehook.hook(lambda view: None)
            contextlib.ExitStack().enter_context(block)
            self.install(block.id)
            return
        elif kind == "shared":
            if self.shared is None:
                self.shared = framehook.hook(lambda view: None)
            block = self.shared
            block.__enter__()
            if self.shared_handle not in self.installed:
                self.shared_handle, self.shared_blocks = block.id, 0
                self.install(block.id)
            self.shared_blocks += 1
            if block.id != self.shared_handle:
                self.around.complain("a block has another hook", f"{block.id}, not {self.shared_handle}")
        elif kind == "disabled":
            block = framehook.disabled(handle)
            block.__enter__()
            self.suspended[handle] += 1
        elif kind == "about":
            block = framehook.disabled_for_code(handle, caller.f_code)
            block.__enter__()
        elif kind == "here":
            block = framehook.disabled_in_thread(handle)
            block.__enter__()
            self.in_threads[handle, thread] += 1
        else:
            if self.quiet_here is None:
                self.quiet_here, self.quiet_handle = framehook.disabled_in_thread(self.main()), self.main()
                self.entries = []
            if self.quiet_handle not in (self.main(), *self.installed):
                return
            block, handle = self.quiet_here, self.quiet_handle
            block.__enter__()
            self.entries.append(thread)
            self.in_threads[handle, thread] += 1
        self.blocks.append(Block(kind, block, handle, thread))
        self.check("after a block has begun")

    def do_end(self, number, caller):
        """Ends a block of whichever thread and greenlet."""
        if self.blocks:
            self.end_block(self.blocks.pop(number % len(self.blocks)))

    def end_block(self, ends):
        ends.block.__exit__(None, None, None)
        if ends.kind == "hook":
            self.installed.pop(ends.handle, None)
        elif ends.kind == "shared":
            if self.shared_handle in self.installed:
                self.shared_blocks -= 1
                if not self.shared_blocks:
                    del self.installed[self.shared_handle]
        elif ends.kind == "disabled":
            self.suspended[ends.handle] -= 1
        elif ends.kind == "here":
            self.resume_in(ends.handle, ends.thread)
        elif ends.kind == "quiet":
            # It ends what the thread that ends it has begun, or what was begun last.
            thread = self.thread() if self.thread() in self.entries else self.entries[-1]
            del self.entries[len(self.entries) - 1 - self.entries[::-1].index(thread)]
            self.resume_in(ends.handle, thread)
        self.check("after a block has ended")

    def resume_in(self, handle, thread):
        if thread in self.threads.values():
            self.in_threads[handle, thread] -= 1

    def do_cycle(self, number, caller):
        """A hook that leads to a generator that it watches. It is removed, or goes with its thread."""
        if len(self.installed) >= MOST_HOOKS:
            return
        tool = Tool(number)
        stays = number % 4 == 0
        if number % 2:
            tool.block = framehook.hook(tool.hook)
            with tool.block:
                tool.begin()
        else:
            handle = framehook.add(tool.hook, this_thread=stays or number % 8 == 2)
            tool.begin()
            if stays:
                self.install(handle, self.thread())
            else:
                framehook.remove(handle)
        self.tools.append(weakref.ref(tool))

    def do_park(self, number, caller):
        """A callback waits in a greenlet."""
        if helpers.greenlet is None or len(self.parked) >= 4 or len(self.installed) >= MOST_HOOKS:
            return
        if helpers.greenlet.getcurrent().parent is not None:
            # It would keep a greenlet of the program, which is to end when the program lets it go.
            return
        parked = Parked(number, STAGES[number % len(STAGES)], helpers.greenlet.getcurrent())
        parked.code = steps.__code__.replace()
        parked.thread = self.thread()
        this_thread = number % 4 < 2
        # While a hidden callback waits, nothing is traced in its thread: greenlet does not switch what hides it.
        parked.handle = framehook.add(parked.ask, this_thread=this_thread, first=number % 3 == 0, visible=True)
        self.install(parked.handle, parked.thread if this_thread else None)
        parked.greenlet = helpers.greenlet.greenlet(parked.run)
        self.parked.append(parked)
        parked.greenlet.switch()
        if number // 6 % 2 and parked.handle in self.installed:
            self.remove(parked.handle)

    def do_unpark(self, number, caller):
        here = [parked for parked in self.parked if parked.thread == self.thread()]
        if here:
            self.unpark(here[number % len(here)])

    def unpark(self, parked):
        self.parked.remove(parked)
        if parked.waits:
            parked.home = parked.greenlet.parent = helpers.greenlet.getcurrent()
            parked.greenlet.switch()
        if not (parked.done and parked.greenlet.dead):
            self.around.complain("a callback that waited did not come back", parked)

    def finish_parked(self, parked):
        """The thread ends. Some callbacks wait for ever, some are ended by greenlet, some continue."""
        how = parked.way // 12 % 3
        if how == 0 or not parked.waits:
            self.unpark(parked)
            return
        self.abandoned = True
        # An exception from the callback of a dropped generator is shown to sys.unraisablehook.
        if how == 1 and parked.stage != "dropped":
            # greenlet raises GreenletExit where the callback waits.
            self.parked.remove(parked)
            parked.greenlet = parked.home = None
        else:
            parked.thread = None

    # --- The end of the program. --------------------------------------------------------------------------------

    def come_to_rest(self):
        """Ends all blocks, and removes all hooks. All threads but the calling one have ended."""
        self.busy = True
        for parked in [parked for parked in self.parked if parked.thread == self.thread()]:
            self.unpark(parked)
        while self.blocks:
            self.end_block(self.blocks.pop(0))
        for handle in list(self.installed):
            self.remove(handle)

    def end(self):
        self.come_to_rest()
        self.do_probe(1, None)
        self.check("at the end")
        for info in framehook.hooks():
            if info.id in self.once:
                self.around.complain("a hook of the program is left", info)
                framehook.remove(info.id)
        gc.collect()
        gc.collect()
        left = [tool() for tool in self.tools if tool() is not None]
        if left:
            self.around.complain("a cycle through a hook is left", [(tool.way, tool.kinds) for tool in left])
        self.parked.clear()


WHAT = {what: getattr(Changes, f"do_{what}")
        for what in ("hook", "remove", "begin", "end", "cycle", "park", "unpark", "probe")}
