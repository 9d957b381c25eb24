"""Callbacks that wait in a greenlet while the interpreter, or a thread of a program, ends, which they outlast or not.

Run by run.py with an interpreter that has greenlet and frame hooks.
"""

import os
import subprocess
import sys

from showing import check_equal, run, show_all

KINDS = ("returned", "raised", "yielded", "resumed", "dropped")

BEGINNING = """
import gc, os, sys, threading
import greenlet, framehook

def say(*words, write=os.write):
    write(1, (" ".join(map(str, words)) + "\\n").encode())

main = greenlet.getcurrent()
sys.unraisablehook = lambda report: None

def waits():
    main.switch()
def ends():
    return 1
def fails():
    raise KeyError
def gen():
    yield 1
    yield 2
def event_first(event):
    if event.kind == KIND and not waited:
        waited.append(1)
        main.switch()
        say("resumed")
        if END == "fails":
            raise ValueError("late")
waited, KIND, END = [], "returned", "fails"
def hook_late(view):
    if view.code is not waits.__code__:
        return framehook.DISABLE
    view.watch(event_late)
class HookFirst:
    def __call__(self, view):
        if view.code not in (ends.__code__, fails.__code__, gen.__code__):
            return framehook.DISABLE
        view.watch(event_first, None, yields=True, resumes=True)
    def __del__(self, say=say):
        say("freed")
def call():
    if KIND == "returned":
        ends()
    elif KIND == "raised":
        try:
            fails()
        except KeyError:
            pass
    elif KIND == "dropped":
        next(gen())
    else:
        list(gen())
"""


def in_child(program, lines, **environment):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "PYTHONMALLOC": "debug", **environment})
    check_equal((done.returncode, done.stdout.splitlines()), (0, lines))


def callbacks_continue_where_the_interpreter_ends():
    for kind in KINDS:
        for end in "returns", "fails":
            for removed in True, False:
                in_child(BEGINNING + f"""
KIND, END = {kind!r}, {end!r}
def event_late(event):
    if event.kind == "dropped":
        late.switch()
framehook.add(hook_late)
g = greenlet.greenlet(waits)
g.switch()
first = HookFirst()
handle = framehook.add(first)
late = greenlet.greenlet(call)
late.switch()
if {removed}:
    framehook.remove(handle)
del first
say("ends")
""", ["ends", "resumed", "freed"])


def callbacks_of_the_interpreter_s_end_that_never_continue():
    for kind in KINDS:
        for removed in True, False:
            in_child(BEGINNING + f"""
KIND = {kind!r}
first = HookFirst()
first.__class__.__del__ = lambda self: None
handle = framehook.add(first)
late = greenlet.greenlet(call)
late.switch()
if {removed}:
    framehook.remove(handle)
say("ends")
""", ["ends"])


def nothing_of_others_is_written_to_where_a_callback_continues_late():
    """The memory of the hook would be another one's by then."""
    in_child(BEGINNING + """
def event_late(event):
    if event.kind == "dropped":
        global keep
        keep = [bytearray(n) for size in range(40, 400, 8) for n in [size - 1] * 60]
        late.switch()

def work():
    global main, late, g
    main = greenlet.getcurrent()
    framehook.add(hook_late)
    g = greenlet.greenlet(waits)
    g.switch()
    first = HookFirst()
    handle = framehook.add(first)
    late = greenlet.greenlet(ends)
    late.switch()
    framehook.remove(handle)
    del first

thread = threading.Thread(target=work)
thread.start()
thread.join()
say("changed", [len(one) for one in keep if any(one)])
framehook.clear()
del keep, late, g
gc.collect()
""", ["resumed", "freed", "changed []"], PYTHONMALLOC="malloc")


# --- A signal waits to be handled as the hook is called. -----------------------------------------------------------------------------------


SHOWN = (callbacks_continue_where_the_interpreter_ends, callbacks_of_the_interpreter_s_end_that_never_continue,
         nothing_of_others_is_written_to_where_a_callback_continues_late)


def main():
    return 1 if show_all(SHOWN) else 0


run(main)
