"""What may be added as a frame hook and removed again, and what becomes of its user data."""

import contextlib
import copy
import pickle
import sys

from hook_variants import in_a_child
from support import HookTestCase, ProgramTestCase, counter, framecore, framehook, needs_hooks, new_function, use_extensions

use_extensions()
import framehooks
import neighbourhooks


class Tool:
    """Has a method as its hook, which is a new object at each access."""

    def __init__(self, code=None):
        self.code, self.entries = code, 0

    def hook(self, view):
        self.entries += view.code is self.code

    def __eq__(self, other):
        return True

    __hash__ = None


AUDITED = """
import sys, framehook, framehooks
seen, refused = [], set()

def auditor(event, arguments):
    if event == "framehook.add":
        seen.append(arguments[0])
        framehook.hooks()
        if arguments[0] in refused:
            raise PermissionError(arguments[0])

sys.addaudithook(auditor)
one = framehook.add(lambda view: None, "one")
with framehook.hook(lambda view: None, "block"):
    pass
framehooks.add_native("pass")
assert seen == ["one", "block", "pass"], seen
framehook.remove(one)
left = [hook.name for hook in framehook.hooks()]
refused |= {"no", "disable"}
for add in (lambda: framehook.add(print, "no"), lambda: framehook.hook(print, "no").__enter__(),
            lambda: framehooks.add_native("disable")):
    try:
        add()
    except PermissionError:
        continue
    raise AssertionError("a hook was added that an audit hook has refused")
assert [hook.name for hook in framehook.hooks()] == left

def adds_one_more(event, arguments):
    if event == "framehook.add" and arguments[0] == "outer":
        framehook.add(lambda view: None, "inner")

sys.addaudithook(adds_one_more)
framehook.add(lambda view: None, "outer")
assert [hook.name for hook in framehook.hooks()][-2:] == ["inner", "outer"]
print("audited")
"""


@needs_hooks
class Auditing(ProgramTestCase):
    def test_frames_of_audit_hooks_are_not_dispatched(self):
        # An audit hook cannot be removed: in a process of its own. Frame hooks are called for one that wants to be traced.
        self.assert_program_succeeds("""
import sys
import framehook

def helper():
    pass

def hidden(event, arguments):
    if event == "test.hidden":
        helper()

def traced(event, arguments):
    if event == "test.traced":
        helper()

traced.__cantrace__ = True
sys.addaudithook(hidden)
sys.addaudithook(traced)
seen = []

def target(event):
    sys.audit(event)

with framehook.hook(lambda view: seen.append(view.code.co_name)):
    target("test.hidden")
    target("test.traced")
assert seen == ["target", "traced", "target", "traced", "helper"], seen
""")

    def test_an_audit_hook_sees_each_hook_and_may_refuse_it(self):
        self.assertEqual(self.assert_program_succeeds(AUDITED), "audited\n")


@needs_hooks
class Adding(HookTestCase):
    NAMES = ("a\0b", "\0", "\udcff", "a\ud800")

    def test_a_name_with_a_nul_or_a_surrogate_is_refused(self):
        callable = lambda view: None
        ways = {
            "_framecore": lambda name: framecore.add_frame_hook(callable, name),
            "framehook": lambda name: framehook.add(callable, name),
            "a block": lambda name: framehook.hook(callable, name).__enter__(),
        }
        for way, add in ways.items():
            for name in self.NAMES:
                with self.subTest(way, name=name):
                    with self.assertRaises(ValueError):
                        add(name)
                    self.assertEqual(framecore.frame_hooks(), [])

    def test_a_name_of_c_that_is_not_utf_8_is_refused(self):
        for name in (b"bad\xff\xfename", b"\x80", b"cut \xe2\x82"):
            with self.subTest(name):
                with self.assertRaises(ValueError):
                    neighbourhooks.add_named(name)
                self.assertEqual(framecore.frame_hooks(), [])
        handle = neighbourhooks.add_named("\N{EURO SIGN}".encode())
        self.assertEqual(self.info(handle)["name"], "\N{EURO SIGN}")
        neighbourhooks.add_named(b"")
        function = new_function()
        callable = counter(function)
        with framehook.hook(callable):
            function()
        function()
        self.assertEqual(callable.entries, 1)

    @in_a_child
    def test_null_is_refused_as_a_hook(self):
        for add in (neighbourhooks.add_null, neighbourhooks.add_null_extended):
            with self.assertRaises(ValueError):
                add()
            self.assertEqual(framecore.frame_hooks(), [])

    @in_a_child
    def test_true_is_no_handle(self):
        # This test has a process of its own, so the handle of its first hook is 1.
        handle = framehook.add(lambda view: None)
        self.assertEqual(handle, True)
        for remove in (framecore.remove_frame_hook, framehook.remove):
            for wrong in (True, False):
                with self.assertRaises(ValueError):
                    remove(wrong)
        for switch in (framehook.disable, framehook.disable_in_thread,
                       lambda hook: framehook.disable_for_code(hook, self.setUp)):
            with self.assertRaises((TypeError, ValueError)):
                switch(True)
        self.assertEqual([(info["id"], info["enabled"]) for info in framecore.frame_hooks()],
                         [(handle, True)])

    def test_a_bound_method_is_found_again(self):
        function = new_function()
        tool, other = Tool(function.__code__), Tool()
        self.assertIsNot(tool.hook, tool.hook)
        for add, remove in ((framehook.add, framehook.remove),
                            (framecore.add_frame_hook, framecore.remove_frame_hook)):
            add(tool.hook)
            function()
            self.assertEqual(tool.entries, 1)
            # This method is equal, but of another object.
            with self.assertRaises(ValueError):
                remove(other.hook)
            framehook.disable(tool.hook)
            function()
            framehook.enable(tool.hook)
            remove(tool.hook)
            self.assertEqual((tool.entries, framecore.frame_hooks()), (1, []))
            tool.entries = 0

    def test_copies_of_disable_are_disable_itself(self):
        disabled_code = framehook.DISABLE
        copies = [copy.copy(disabled_code), copy.deepcopy(disabled_code), copy.deepcopy([disabled_code])[0]]
        copies += [pickle.loads(pickle.dumps(disabled_code, protocol))
                   for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
        for one in copies:
            self.assertIs(one, disabled_code)
        function = new_function()
        callable = counter(function, copies[-1])
        with framehook.hook(callable):
            function(), function()
        self.assertEqual(callable.entries, 1)

    def test_the_error_of_a_wrong_answer_names_the_hook(self):
        def a_name_for_the_error(view):
            return answer if view.code is function.__code__ else None

        function = new_function()
        for answer in (0, True, "code", len, object()):
            for name in ("the name of a tool", None):
                with self.subTest(answer=answer, name=name), framehook.hook(a_name_for_the_error, name):
                    with self.assertRaisesRegex(TypeError, name or "a_name_for_the_error") as caught:
                        function()
                    self.assertIn(type(answer).__name__, str(caught.exception))


# --- The end of a hook's user data. ---------------------------------------------------------------

@contextlib.contextmanager
def unraisable():
    """The types of exceptions that come to sys.unraisablehook."""
    types = []
    before = sys.unraisablehook
    sys.unraisablehook = lambda arguments: types.append(arguments.exc_type)
    try:
        yield types
    finally:
        sys.unraisablehook = before


@needs_hooks
class UserData(HookTestCase):
    """What frees a hook's user data runs with no exception set, and leaves none set."""

    def leaving(self, fails, at_end):
        """A function, and a hook in C that removes itself when it is called for it."""
        function = new_function(body="return 'ran'")
        neighbourhooks.take_pending_at_free()
        return function, neighbourhooks.add_leaving(function.__code__, fails, at_end)

    def fail(self):
        raise KeyError("left behind")

    def test_the_hooks_own_exception_survives_the_end_of_its_data(self):
        ends = []
        function, _ = self.leaving(True, lambda: ends.append([x for x in range(3)]))
        with self.assertRaisesRegex(ValueError, "the hook's own error"):
            function()
        self.assertEqual((ends, neighbourhooks.take_pending_at_free()), ([[0, 1, 2]], 0))
        self.assertEqual(function(), "ran")

    def test_what_the_end_of_the_data_leaves_behind_is_reported(self):
        function, _ = self.leaving(False, self.fail)
        with unraisable() as reported:
            self.assertEqual(function(), "ran")
        self.assertEqual(reported, [KeyError])

    def test_both_exceptions_go_where_they_belong(self):
        function, _ = self.leaving(True, self.fail)
        with unraisable() as reported:
            with self.assertRaisesRegex(ValueError, "the hook's own error"):
                function()
        self.assertEqual((reported, neighbourhooks.take_pending_at_free()), ([KeyError], 0))

    def test_removing_succeeds_whatever_the_end_of_the_data_leaves_behind(self):
        for remove in (framehook.remove, framehooks.remove, lambda handle: framehook.clear(),
                       lambda handle: framehooks.clear()):
            _, handle = self.leaving(False, self.fail)
            with unraisable() as reported:
                remove(handle)
            self.assertEqual((reported, framecore.frame_hooks()), ([KeyError], []))


@needs_hooks
class Ends(ProgramTestCase):
    def test_what_the_data_leaves_behind_at_the_end_of_the_interpreter_is_reported(self):
        printed = self.assert_program_succeeds("""if True:
            import sys, neighbourhooks
            def report(arguments, print=print):
                print(arguments.exc_type.__name__, flush=True)
            sys.unraisablehook = report
            def fail():
                raise KeyError
            neighbourhooks.add_leaving(fail.__code__, False, fail)
            """)
        self.assertEqual(printed, "KeyError\n")

    def test_a_daemon_thread_that_wants_to_run_on_at_the_end_hangs_and_is_not_unwound(self):
        printed = self.assert_program_succeeds("""if True:
            import builtins, os, select, threading, neighbourhooks
            may_continue, unwound = os.pipe(), os.pipe()
            waits = threading.Event()
            def wait():
                waits.set()
                os.read(may_continue[0], 1)
            threading.Thread(target=lambda: neighbourhooks.call_below(wait, unwound[1]),
                             daemon=True).start()
            waits.wait()
            class Late:
                def __del__(self, write=os.write, select=select.select, go=may_continue[1],
                            unwound=unwound[0]):
                    write(go, b"!")
                    write(1, b"unwound" if select([unwound], [], [], 2)[0] else b"hangs")
            builtins.late = Late()
            """)
        self.assertEqual(printed, "hangs")
