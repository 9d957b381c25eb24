"""Operations of frame hooks of which each allocation fails, again and again: no hook is left, and nothing is lost.

What a failure loses is seen in what the process has at the end of each pass: in blocks of memory, those of the frame core too, and
on a debug build in references.
"""

import array
import functools
import gc
import sys
import tracemalloc

from support import ProgramTestCase, attempt, code_named, framecore, framehook, make_recursion, needs_failing_allocations, needs_hooks, use_extensions

use_extensions()
import codeextra
import datahooks

MANY_LOCALS = " = ".join(f"v{number}" for number in range(60)) + " = None"
PASSES = 5
LONGEST = 3000      # allocations of one operation
SUCCESSES = 20      # in a row: the operation has no more allocations that could fail


# --- What runs. No function and no list is made in it: CPython 3.13 itself loses memory where these fail. -------------

def leaf(a):
    return a


# With more arguments than fit into a frame of Rust while they move to another frame of Python.
PARAMETERS = ", ".join(f"p{number}" for number in range(30))
exec(f"def wide({PARAMETERS}):\n    return p0")


def raises(a):
    raise ERROR


def generator(a):
    yield a
    yield a


def caught(a):
    try:
        raises(a)
    except KeyError:
        return a
    finally:
        ERROR.__traceback__ = ERROR.__context__ = None


ERROR = KeyError("an error that is there")
LEAF, RAISES, GENERATOR, WIDE = leaf.__code__, raises.__code__, generator.__code__, wide.__code__
MANY_ARGUMENTS = (None,) * 30
LARGER = {code: code_named("made", f"def made({parameters}):\n {MANY_LOCALS}\n {give} None") for code, parameters, give in
          ((LEAF, "a", "return"), (GENERATOR, "a", "yield"), (WIDE, PARAMETERS, "return"))}
recurse = make_recursion(330)


def on_event(event):
    return None


def passes(view):
    return None


def disables(view):
    return framehook.DISABLE


def replaces(view):
    code = view.code
    if code is LEAF or code is GENERATOR or code is WIDE:
        return LARGER[code]


def watches(view):
    code = view.code
    if code is LEAF or code is RAISES or code is GENERATOR:
        view.watch(on_event, None, yields=True, resumes=True)


def limits(view):
    if view.code is LEAF:
        view.watch(on_event)
        view.only_callees()
    elif view.code is RAISES:
        view.exclude_callees()


def gives(view):
    if view.code is LEAF:
        return view.result(None)


def looks(view):
    """Takes frame objects, also of the frame that is offered."""
    if view.code is LEAF:
        view.arguments(), view.argument_names, view.caller
        FRAMES[0] = sys._getframe(1)


def adds(view):
    if view.code is LEAF and not framehook.hooks()[1:]:
        framehook.add(passes)


FRAMES = [None]
NONE = [None]


def use():
    leaf(NONE)
    wide(*MANY_ARGUMENTS)
    for one in generator(NONE):
        pass
    caught(NONE)
    return True


def beside(hook):
    def operation():
        framehook.add(hook)
        return use()
    return operation


def among_many():
    handle = framehook.add(watches, before=MANY[20])
    use()
    framehook.disable_in_thread(handle)
    framehook.disable_for_code(MANY[3], LEAF)
    framehook.enable_for_code(MANY[3], LEAF)
    framehook.enable_in_thread(handle)
    framehook.hooks()
    return leaf(True)


def calls_around():
    framehook.add(watches)
    framehook.unhooked(leaf)(NONE)
    framehook.reentrant(leaf)(NONE)
    return use()


def blocks():
    with framehook.hook(passes) as hook:
        with framehook.disabled(hook), framehook.disabled_in_thread(hook):
            return use()


def removed_while_watched():
    handle = framehook.add(watches)
    made = generator(NONE)
    next(made)
    framehook.remove(handle)
    next(made)
    made.close()
    return use()


def at_edges():
    framehook.add(replaces)
    framehook.add(watches)
    return recurse(30, use)


def data_of_c():
    datahooks.add(LEAF, 0, events=7)
    datahooks.add(GENERATOR, 0, events=7, scope=1)
    datahooks.add(GENERATOR, 1, events=7, object=LARGER[GENERATOR])
    return use()


def values():
    index = codeextra.request("none")
    INDICES[0] = index
    codeextra.set(LEAF, index, 5)
    codeextra.set(GENERATOR, index, 6)
    return True


INDICES = [None]
MANY = {}
OPERATIONS = {
    **{f"a hook that {hook.__name__}": beside(hook) for hook in (passes, disables, replaces, watches, limits, gives, looks, adds)},
    "among many": among_many, "calls around a hook": calls_around, "blocks": blocks,
    "removed while frames are watched": removed_while_watched, "at edges": at_edges, "data of C": data_of_c, "values": values,
}


def clean_up():
    framecore.clear_frame_hooks()
    FRAMES[0] = None
    ERROR.__traceback__ = ERROR.__context__ = None
    datahooks.take_frames(), datahooks.take_hooks()
    if INDICES[0] is not None:
        codeextra.release(INDICES[0])
        INDICES[0] = None


def prepare(name):
    if name == "among many":
        for number in range(30):
            # Each is another callable: one hook is installed once.
            MANY[number] = framehook.add(functools.partial(passes))


def one_pass(name, operation):
    """How many attempts failed: each allocation once."""
    failed = succeeded = 0
    for number in range(LONGEST):
        prepare(name)
        before = [info["id"] for info in framecore.frame_hooks()]
        outcome = attempt(number, operation)
        if outcome is MemoryError:
            failed, succeeded = failed + 1, 0
            left = [info["id"] for info in framecore.frame_hooks() if info["id"] in before]
            assert left == before, (name, number, left, before)
        else:
            assert outcome is True, (name, number, outcome)
            succeeded += 1
        clean_up()
        assert framecore.frame_hooks() == [], (name, number)
        if succeeded == SUCCESSES:
            break
    assert succeeded == SUCCESSES, (name, "needs more allocations than", LONGEST)
    return failed


def references():
    return sys.gettotalrefcount() if hasattr(sys, "gettotalrefcount") else 0


def run(name):
    """What a pass does not free, of bytes and of references: nothing, once what is made once is there."""
    operation = OPERATIONS[name]
    # Made before anything is counted, so that counting takes no memory.
    held, counted = (array.array("q", [0] * PASSES) for _ in range(2))
    tracemalloc.start(1)
    for number in range(PASSES):
        failed = one_pass(name, operation)
        gc.collect()
        held[number] = tracemalloc.get_traced_memory()[0]
        counted[number] = references()
    tracemalloc.stop()
    print(f"{failed} failed; bytes {[*held]}, references {[*counted]}")
    assert failed > 2, failed
    for what in (held, counted):
        # A loss is one in each pass. What is kept for the next use comes and goes.
        grown = [after - before for before, after in zip(what[1:], what[2:])]
        assert min(grown) <= 0, grown


@needs_hooks
@needs_failing_allocations
class Flat(ProgramTestCase):
    def test_no_failure_loses_anything(self):
        for name in OPERATIONS:
            with self.subTest(name):
                # In the second tier, where it is built in, a comprehension without memory crashes, on stock too. One is in hooks().
                environment = {"PYTHON_JIT": "0"} if OPERATIONS[name] is among_many else None
                self.assert_program_succeeds(f"import test_without_memory_flat as t; t.run({name!r})", timeout=900,
                                             environment=environment)
