"""What the C interface of frame hooks has besides what both APIs share: the proposal's functions, user data, hooks
that break the rules."""

import os
import sys
import sysconfig
import unittest
import weakref

from support import ROOT, CView, HookTestCase, ProgramTestCase, code_named, framecore, needs_framecore, needs_hooks, use_extensions

use_extensions()
import framehooks


class Availability(unittest.TestCase):
    @needs_framecore
    def test_the_header_is_where_extensions_look_for_it(self):
        header = os.path.join(sysconfig.get_path("include"), "cpython", "framehook.h")
        with open(header, encoding="utf-8") as installed, open(
                os.path.join(ROOT, "overlay", "Include", "cpython", "framehook.h"), encoding="utf-8") as ours:
            self.assertEqual(installed.read(), ours.read())

    def test_an_extension_with_optional_hooks_loads_everywhere(self):
        self.assertEqual(framehooks.available(), framecore is not None)


@needs_hooks
class SimpleHooks(HookTestCase):
    """PyUnstable_AddFrameHook() and PyUnstable_RemoveFrameHook()."""

    def setUp(self):
        super().setUp()
        self.addCleanup(framehooks.forget_simple)
        self.addCleanup(framehooks.clear)

    def simple(self, slot, hook):
        view = CView(framehooks)
        framehooks.add_simple(slot, lambda: hook(view))

    def test_null_is_no_change_and_code_is_a_replacement(self):
        def target(a):
            return "original", a

        new = code_named("target", "def target(a):\n b = c = d = a\n return 'replaced', (lambda: d)()")
        answers = [None, new, target.__code__, None, new]
        self.simple(0, lambda view: answers.pop(0) if view.code is target.__code__ else None)
        self.assertEqual([target(n)[0] for n in range(5)],
                         ["original", "replaced", "original", "original", "replaced"])

    def test_references_are_exact(self):
        def target(a):
            return a

        new = target.__code__.replace()
        argument = object()
        for answer in (None, new, target.__code__):
            self.simple(0, lambda view: answer if view.code is target.__code__ else None)
            counted = (target.__code__, new, argument, target)
            for _ in range(20):
                target(argument)
            before = list(map(sys.getrefcount, counted))
            for _ in range(100):
                target(argument)
            self.assertEqual(list(map(sys.getrefcount, counted)), before)
            framehooks.remove_simple(0)

    def test_null_with_an_exception_fails_the_call(self):
        def target():
            self.fail("it ran")

        def hook(view):
            if view.code is target.__code__:
                raise KeyError("refused")

        self.simple(1, hook)
        for _ in range(100):
            with self.assertRaisesRegex(KeyError, "refused"):
                target()

    def test_something_else_than_code(self):
        def target():
            return "ran"

        answers = [(), "code", None]
        self.simple(0, lambda view: answers.pop(0) if view.code is target.__code__ else None)
        for _ in range(2):
            with self.assertRaises((TypeError, SystemError)):
                target()
        self.assertEqual(target(), "ran")

    def test_order_among_all_forms(self):
        def target():
            pass

        entries = []

        def note(mark):
            def hook(view):
                if view.code is target.__code__:
                    entries.append(mark)
            return hook

        view = CView(framehooks)
        self.simple(2, note("simple 2"))
        third = note("definition")
        framehooks.add_extended(lambda: third(view), None)
        framecore.add_frame_hook(note("Python"))
        self.simple(0, note("simple 0"))
        target()
        self.assertEqual(entries, ["simple 2", "definition", "Python", "simple 0"])

    def test_add_and_remove(self):
        ids = lambda: [info["id"] for info in framecore.frame_hooks()]
        nothing = lambda: None
        framehooks.add_simple(1, nothing)
        framehooks.add_simple(3, nothing)
        first, second = ids()
        with self.assertRaises(ValueError):
            framehooks.add_simple(1, nothing)
        self.assertEqual(ids(), [first, second])
        framehooks.remove_simple(1)
        self.assertEqual(ids(), [second])
        for slot in (0, 1):
            with self.assertRaises(ValueError):
                framehooks.remove_simple(slot)
        framehooks.clear()
        self.assertEqual(ids(), [])
        framehooks.clear()

    def test_the_id_of_a_simple_hook(self):
        def target():
            pass

        hook = self.recorder(target)
        self.simple(2, hook)
        handle = framecore.frame_hooks()[0]["id"]
        target()
        framehooks.switch(handle, False)
        target()
        framehooks.switch(handle, True)
        framehooks.switch_for_code(handle, target.__code__, False)
        target()
        framehooks.switch_for_code(handle, target.__code__, True)
        framehooks.switch_in_thread(handle, False)
        target()
        framehooks.switch_in_thread(handle, True)
        target()
        self.assertEqual(hook.seen, ["target"] * 2)
        framehooks.remove(handle)
        with self.assertRaises(ValueError):
            framehooks.remove_simple(2)

    def test_a_removed_simple_hook_can_be_added_again(self):
        def target():
            pass

        hook = self.recorder(target)
        for n in range(1, 4):
            self.simple(0, hook)
            target()
            framehooks.remove_simple(0)
            target()
            self.assertEqual(len(hook.seen), n)


@needs_hooks
class DefinedHooks(HookTestCase):
    def test_names(self):
        handles = [framehooks.add_extended(lambda: None, name) for name in ("one", "zwei \N{LATIN SMALL LETTER ETH}", None)]
        infos = framecore.frame_hooks()
        self.assertEqual([info["id"] for info in infos], handles)
        self.assertEqual([info["name"] for info in infos[:2]], ["one", "zwei \N{LATIN SMALL LETTER ETH}"])
        self.assertIsInstance(infos[2]["name"], str)
        self.assertEqual([info["hook"] for info in infos], [None] * 3)

    def test_unknown_flags(self):
        for flags in (8, 9, -1, 1 << 30):
            with self.assertRaises(ValueError):
                framehooks.add_extended(lambda: None, "flags", flags)
        self.assertEqual(framecore.frame_hooks(), [])

    def test_one_function_with_different_user_data(self):
        def target():
            pass

        handles = [framehooks.add_native("pass") for _ in range(3)]
        self.assertEqual(len(set(handles)), 3)
        target()
        self.assertTrue(all(info["calls"] >= 1 for info in framecore.frame_hooks()))

    def test_user_data_is_freed_on_removal(self):
        class Hook:
            def __call__(self):
                pass

        before = framehooks.freed()
        for remove in (lambda handle: framehooks.remove(handle), lambda handle: framecore.remove_frame_hook(handle),
                       lambda handle: framehooks.clear(), lambda handle: framecore.clear_frame_hooks()):
            hook = Hook()
            reference = weakref.ref(hook)
            handle = framehooks.add_extended(hook, "freed")
            del hook
            self.assertIsNotNone(reference())
            remove(handle)
            self.assertIsNone(reference())
        self.assertEqual(framehooks.freed() - before, 4)

    def test_user_data_is_not_freed_when_adding_fails(self):
        before = framehooks.freed()
        with self.assertRaises(ValueError):
            framehooks.add_extended(lambda: None, "flags", 8)
        handles = [framehooks.add_native("pass") for _ in range(1_024)]
        with self.assertRaises(RuntimeError):
            framehooks.add_extended(lambda: None, "one too many")
        self.assertEqual(framehooks.freed(), before)
        for handle in handles:
            framehooks.remove(handle)

    def test_user_data_lives_until_the_dispatch_is_over(self):
        def target():
            return "ran"

        before = framehooks.freed()
        freed_in_the_dispatch = []

        def hook():
            if framehooks.get_code() is target.__code__:
                framehooks.remove(handle)
                freed_in_the_dispatch.append(framehooks.freed() - before)

        handle = framehooks.add_extended(hook, "removes itself")
        self.assertEqual(target(), "ran")
        self.assertEqual((freed_in_the_dispatch, framehooks.freed() - before), ([0], 1))

    def test_the_free_function_may_use_hooks(self):
        class Hook:
            def __call__(self):
                pass

            def __del__(self):
                framehooks.add_native("pass")

        handle = framehooks.add_extended(Hook(), "adds one when it is freed")
        framehooks.remove(handle)
        self.assertEqual([info["name"] for info in framecore.frame_hooks()], ["pass"])

    def test_a_hook_that_answers_with_the_frames_own_code(self):
        def target(a):
            return sys._getframe().f_code

        handle = framehooks.add_native("own code")
        for _ in range(100):
            self.assertIs(target(1), target.__code__)
        self.assertEqual(self.info(handle)["replacements"], 0)

    def test_a_hook_that_exchanges_one_code_object(self):
        def target(a):
            return "original", a

        def other(a):
            return target(a)

        new = code_named("target", "def target(a):\n b = c = a\n return 'replaced', (lambda: c)()")
        handle = framehooks.add_exchange((target.__code__, new))
        for n in range(100):
            self.assertEqual(other(n), ("replaced", n))
        self.assertEqual(self.info(handle)["replacements"], 100)
        framehooks.remove(handle)
        self.assertEqual(other(1), ("original", 1))

    def test_hooks_in_c_alone(self):
        def target():
            return "ran"

        passing, disabled = framehooks.add_native("pass"), framehooks.add_native("disable")
        for _ in range(100):
            target()
        passed, called = self.info(passing)["calls"], self.info(disabled)["calls"]
        for _ in range(100):
            target()
        self.assertGreaterEqual(self.info(passing)["calls"], passed + 100)
        self.assertLess(self.info(disabled)["calls"], called + 100)

    def test_what_a_hook_costs_is_counted(self):
        def target():
            pass

        def hook():
            if framehooks.get_code() is target.__code__:
                for _ in range(10_000):
                    pass

        handle = framehooks.add_extended(hook, "slow", framehooks.TIMED)
        before, = framecore.frame_hooks()
        target()
        after, = framecore.frame_hooks()
        self.assertEqual((before["id"], after["calls"] - before["calls"]), (handle, 1))
        self.assertGreater(after["nanoseconds"], before["nanoseconds"])


# A broken hook's answer reaches every call, so each has a process of its own.
BROKEN = """
import sys
sys.path.append(sys.argv[1])
import framehooks, _framecore
def target():
    return "ran"
def inside():
    return target()
inside()
remove = framehooks.remove
handle = framehooks.add_native(sys.argv[2])
try:
    print(inside())
except Exception as error:
    remove(handle)
    print(type(error).__name__, "|", error)
else:
    remove(handle)
assert inside() == "ran"
assert _framecore.frame_hooks() == []
"""


@needs_hooks
class BrokenHooks(ProgramTestCase):
    """A hook that breaks the rules makes calls fail; the interpreter keeps working."""

    def outcome(self, kind):
        return self.assert_program_succeeds(BROKEN, use_extensions(), kind).strip()

    def test_an_error_without_an_exception(self):
        self.assertRegex(self.outcome("error without exception"), r"^SystemError \| ")

    def test_a_replacement_that_is_null(self):
        self.assertRegex(self.outcome("replace by NULL"), r"^SystemError \| ")

    def test_a_replacement_that_is_no_code(self):
        self.assertRegex(self.outcome("replace by tuple"), r"^(TypeError|SystemError) \| ")

    def test_a_verdict_that_does_not_exist(self):
        self.assertRegex(self.outcome("unknown verdict"), r"^SystemError \| ")

    def test_an_exception_left_behind(self):
        self.assertRegex(self.outcome("pass with exception"), r"^(LookupError|SystemError) \| ")
