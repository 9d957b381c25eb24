"""Frame hooks, promises 9 to 11, 13 and 14: when a hook is called, and how that is changed."""

import sys
import threading
import types

from support import WARM, CApi, HookTestCase, PythonApi, code_named, code_of, framecore, in_new_thread, needs_hooks


class DispatchPoints:
    """Promises 9 to 11, 13 and 14."""

    # 9. A hook sees a frame once, at first entry: never on generator resume or throw.

    def test_09_once_for_each_generator(self):
        def target():
            try:
                yield 1
                yield 2
            except KeyError:
                yield 3
            finally:
                pass

        hook = self.recorder(target)
        self.add(hook)
        generator = target()
        self.assertEqual(hook.seen, ["target"])
        self.assertEqual((next(generator), generator.send(None), generator.throw(KeyError)),
                         (1, 2, 3))
        generator.close()
        self.assertEqual(list(target()), [1, 2])
        for _ in target():
            pass
        self.assertEqual(hook.seen, ["target"] * 3)

    def test_09_once_for_each_coroutine_and_asynchronous_generator(self):
        @types.coroutine
        def pause():
            yield

        async def numbers():
            await pause()
            yield 1
            await pause()
            yield 2

        async def target():
            return [x async for x in numbers()]

        hook = self.recorder(target, numbers, pause)
        self.add(hook)
        for _ in range(3):
            coroutine = target()
            resumed = 0
            try:
                while True:
                    coroutine.send(None)
                    resumed += 1
            except StopIteration as stopped:
                self.assertEqual(stopped.value, [1, 2])
            self.assertEqual(resumed, 2)
        self.assertEqual(hook.seen, ["target", "numbers", "pause", "pause"] * 3)

    def test_09_a_generator_made_before_the_hook_was_added_is_not_dispatched(self):
        def target():
            yield 1
            yield 2

        started, fresh = target(), target()
        next(started)
        hook = self.recorder(target)
        self.add(hook)
        self.assertEqual((list(started), list(fresh)), ([2], [1, 2]))
        self.assertEqual(hook.seen, [])

    # 10. No re-entry on the same thread while a hook runs; other threads are not affected.

    def test_10_what_a_hook_calls_is_not_dispatched(self):
        def helper():
            return inner() + sum(x for x in range(3))

        def inner():
            return 1

        def target():
            return helper()

        seen = []

        def hook(view):
            seen.append(view.code.co_name)
            if view.code is target.__code__:
                helper()
                seen.append("hook ends")

        self.add(hook)
        del seen[:]
        target()
        self.assertEqual(seen[:], ["target", "hook ends", "helper", "inner", "<genexpr>"])

    def test_10_a_hook_that_fails_leaves_the_guard_open(self):
        def target():
            pass

        fails = [True, False, True, False]

        def hook(view):
            if view.code is target.__code__ and fails.pop(0):
                raise KeyError
        self.add(hook)
        for _ in range(2):
            with self.assertRaises(KeyError):
                target()
            target()
        self.assertEqual(fails, [])

    def test_10_other_threads_are_not_affected(self):
        def slow():
            pass

        def quick():
            pass

        called_for_quick = threading.Event()
        waited = []

        def hook(view):
            if view.code is slow.__code__:
                # Until the same hook is called in another thread.
                waited.append(called_for_quick.wait(60))
            elif view.code is quick.__code__:
                called_for_quick.set()

        self.add(hook)
        thread = threading.Thread(target=slow)
        thread.start()
        quick()
        thread.join()
        self.assertEqual(waited, [True])

    # 11. Adding and removing hooks inside a hook is safe. Adding a hook twice and removing an
    # unknown one raise.

    def test_11_a_hook_added_in_a_dispatch_is_called_from_the_next_frame_on(self):
        def first():
            pass

        def second():
            pass

        late = self.recorder(first, second)
        added = []

        def hook(view):
            if view.code is first.__code__ and not added:
                added.append(self.add(late))

        self.add(hook)
        first()
        self.assertEqual(late.seen, [])
        second()
        first()
        self.assertEqual(late.seen, ["second", "first"])

    def test_11_a_hook_removed_in_a_dispatch_is_not_called_any_more(self):
        def target():
            pass

        later = self.recorder(target)
        handles = []

        def hook(view):
            if view.code is target.__code__ and handles:
                self.remove(handles.pop())

        self.add(hook)
        handles.append(self.add(later))
        target()
        target()
        self.assertEqual(later.seen, [])
        self.assertEqual(len(framecore.frame_hooks()), 1)

    def test_11_a_hook_may_remove_itself_and_all(self):
        def target():
            return "original"

        new = code_named("target", "def target(): return 'replaced'")
        handles = []

        def remove_itself(view):
            if view.code is target.__code__:
                self.remove(handles[0])
                return new

        handles.append(self.add(remove_itself))
        self.assertEqual((target(), target()), ("replaced", "original"))

        def remove_all(view):
            if view.code is target.__code__:
                self.clear()
                return new

        later = self.recorder(target, new)
        self.add(remove_all)
        self.add(later)
        self.assertEqual((target(), target()), ("replaced", "original"))
        self.assertEqual(later.seen, [])
        self.assertEqual(framecore.frame_hooks(), [])

    def test_11_a_hook_that_removes_itself_and_fails(self):
        def target():
            return "ran"

        handles = []

        def hook(view):
            if view.code is target.__code__:
                self.remove(handles.pop())
                raise KeyError("last words")

        handles.append(self.add(hook))
        with self.assertRaisesRegex(KeyError, "last words"):
            target()
        self.assertEqual(target(), "ran")

    def test_11_churn_inside_a_hook(self):
        def target():
            return "ran"

        def churn(view):
            if view.code is target.__code__:
                handles = [self.add(self.recorder()) for _ in range(20)]
                for handle in handles[::2] + handles[1::2]:
                    self.remove(handle)

        self.add(churn)
        for _ in range(50):
            self.assertEqual(target(), "ran")
        self.assertEqual(len(framecore.frame_hooks()), 1)

    def test_11_unknown_hooks(self):
        handle = self.add(self.recorder())
        self.remove(handle)
        for unknown in (handle, 0, -1, 1 << 40):
            with self.assertRaises(ValueError):
                self.remove(unknown)
            with self.assertRaises(ValueError):
                self.switch(unknown, True)
            with self.assertRaises(ValueError):
                self.switch_in_thread(unknown, True)
            with self.assertRaises(ValueError):
                self.switch_for_code(unknown, code_of(self.setUp), True)

    def test_11_handles_are_never_used_again(self):
        handles = []
        for _ in range(100):
            handles.append(self.add(self.recorder()))
            self.remove(handles[-1])
        self.assertEqual(len(set(handles)), 100)

    def test_11_there_is_room_for_1024(self):
        def target():
            return "ran"

        hooks = [self.recorder(target) for _ in range(1_025)]
        handles = [self.add(hook) for hook in hooks[:1_024]]
        with self.assertRaises(RuntimeError):
            self.add(hooks[1_024])
        self.assertEqual(target(), "ran")
        self.assertEqual([hook.seen for hook in hooks], [["target"]] * 1_024 + [[]])
        self.remove(handles[10])
        self.add(hooks[1_024])
        target()
        self.assertEqual([len(hook.seen) for hook in hooks], [2] * 10 + [1] + [2] * 1_013 + [1])

    # 13. Enable and disable per hook, per thread, per code object.

    def test_13_per_hook(self):
        def target():
            pass

        hooks = [self.recorder(target) for _ in range(3)]
        handles = [self.add(hook) for hook in hooks]
        self.switch(handles[1], False)
        target()
        self.assertEqual([len(hook.seen) for hook in hooks], [1, 0, 1])
        self.assertEqual([info["enabled"] for info in framecore.frame_hooks()], [True, False, True])
        self.switch(handles[1], True)
        target()
        self.assertEqual([len(hook.seen) for hook in hooks], [2, 1, 2])

    def test_13_a_disabled_hook_keeps_its_disabled_code(self):
        def disabled_code():
            pass

        def other():
            pass

        hook = self.recorder(disabled_code, other)
        for_disabled = self.recorder(disabled_code, answer=self.DISABLE)
        both = lambda view: (hook(view), for_disabled(view))[1]
        handle = self.add(both)
        disabled_code(), other()
        self.switch(handle, False)
        disabled_code(), other()
        self.switch(handle, True)
        disabled_code(), other()
        self.assertEqual(hook.seen, ["disabled_code", "other", "other"])

    def test_13_per_thread(self):
        def target():
            pass

        seen = []

        def hook(view):
            if view.code is target.__code__:
                seen.append(threading.get_ident())

        handle = self.add(hook)
        here = threading.get_ident()
        self.switch_in_thread(handle, False)
        target()
        self.assertEqual(seen, [])

        def elsewhere():
            target()
            self.switch_in_thread(handle, False)
            target()
            self.switch_in_thread(handle, True)
            target()

        in_new_thread(elsewhere)
        self.assertEqual((len(seen), here in seen), (2, False))
        # Another thread's switching has done nothing here.
        target()
        self.assertNotIn(here, seen)
        self.switch_in_thread(handle, True)
        target()
        self.assertEqual(seen.count(here), 1)

    def test_13_per_thread_is_per_hook(self):
        def target():
            pass

        hooks = [self.recorder(target) for _ in range(3)]
        handles = [self.add(hook) for hook in hooks]
        self.switch_in_thread(handles[0], False)
        self.switch_in_thread(handles[2], False)
        target()
        self.assertEqual([len(hook.seen) for hook in hooks], [0, 1, 0])
        self.remove(handles[0])
        newest = self.recorder(target)
        self.add(newest)
        target()
        # A new hook does not inherit the place of the one that went.
        self.assertEqual(([len(hook.seen) for hook in hooks], newest.seen), ([0, 2, 0], ["target"]))

    def test_13_per_code(self):
        def one():
            pass

        def two():
            pass

        hook = self.recorder(one, two)
        handle = self.add(hook)
        self.switch_for_code(handle, one.__code__, False)
        for _ in range(WARM):
            one(), two()
        self.assertEqual(hook.seen, ["two"] * WARM)
        del hook.seen[:]
        self.switch_for_code(handle, one.__code__, True)
        one(), two()
        self.assertEqual(hook.seen, ["one", "two"])

    def test_13_enabling_for_code_takes_disable_back(self):
        def target():
            pass

        hook = self.recorder(target, answer=self.DISABLE)
        other = self.recorder(target, answer=self.DISABLE)
        handle = self.add(hook)
        self.add(other)
        for _ in range(WARM):
            target()
        self.switch_for_code(handle, target.__code__, True)
        for _ in range(WARM):
            target()
        self.assertEqual((hook.seen, other.seen), (["target"] * 2, ["target"]))

    def test_13_for_something_that_is_no_code(self):
        handle = self.add(self.recorder())
        for wrong in (None, self.setUp, "code", 3):
            with self.assertRaises(TypeError):
                self.switch_for_code(handle, wrong, True)
            with self.assertRaises(TypeError):
                self.switch_for_code(handle, wrong, False)

    # 14. Frames started by trace, profile and monitoring callbacks are skipped. (By audit hooks too: test_frame_hooks_adding.py.)

    def test_14_trace_and_profile_functions(self):
        def helper():
            pass

        def callback(frame, event, argument):
            if not events:
                helper()
            events.append(event)
            return callback

        def target():
            return [1]

        hook = self.recorder(helper, callback, target)
        self.add(hook)
        for install in (sys.settrace, sys.setprofile):
            events = []
            del hook.seen[:]
            install(callback)
            try:
                target()
            finally:
                install(None)
            self.assertIn("call", events)
            self.assertEqual(hook.seen, ["target"])

    def test_14_monitoring_callbacks(self):
        def helper():
            pass

        def started(code, offset):
            if code is target.__code__:
                helper()
                events.append("start")

        def returned(code, offset, value):
            if code is target.__code__:
                helper()
                events.append("return")

        def target():
            return [1]

        events = []
        hook = self.recorder(helper, started, returned, target)
        self.add(hook)
        monitoring = sys.monitoring
        tool = 4
        monitoring.use_tool_id(tool, "test")
        try:
            monitoring.register_callback(tool, monitoring.events.PY_START, started)
            monitoring.register_callback(tool, monitoring.events.PY_RETURN, returned)
            monitoring.set_events(tool, monitoring.events.PY_START | monitoring.events.PY_RETURN)
            try:
                target()
            finally:
                monitoring.set_events(tool, 0)
        finally:
            monitoring.free_tool_id(tool)
        self.assertEqual((hook.seen, events), (["target"], ["start", "return"]))

    def test_14_after_a_callback_frames_are_dispatched_again(self):
        def target():
            pass

        hook = self.recorder(target)
        self.add(hook)

        def failing(frame, event, argument):
            raise KeyError

        # A trace function that fails is taken away.
        sys.settrace(failing)
        try:
            target()
        except KeyError:
            failed = True
        else:
            failed = False
        self.assertEqual((failed, sys.gettrace()), (True, None))
        del hook.seen[:]
        target()
        self.assertEqual(hook.seen, ["target"])


@needs_hooks
class PythonDispatch(PythonApi, DispatchPoints, HookTestCase):
    pass


@needs_hooks
class CDispatch(CApi, DispatchPoints, HookTestCase):
    pass
