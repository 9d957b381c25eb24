"""Frame hooks, promises 15 to 17: calls stay specialized, and a disabled hook costs nothing.

Time is not measured here. The tests look at instructions and count how often a hook is called.
"""

import unittest

from support import FREE_THREADED, WARM, CApi, HookTestCase, PythonApi, code_named, needs_hooks, specialized


class CostPoints:
    """Promises 15 to 17."""

    # 15. Zero hooks: specialization intact.

    @unittest.skipIf(FREE_THREADED, "3.13 does not specialize without the GIL")
    def test_15_after_the_last_hook_calls_are_specialized(self):
        def leaf(a):
            return a

        def target(n):
            for i in range(n):
                leaf(i)

        for _ in range(5):
            target(WARM)
        expected = specialized(target)
        self.assertIn("CALL_PY_EXACT_ARGS", expected)
        self.assertIn("RESUME_CHECK", expected)
        handle = self.add(self.recorder(leaf))
        target(3)
        self.remove(handle)
        for _ in range(5):
            target(WARM)
        self.assertEqual(specialized(target), expected)

    @unittest.skipIf(FREE_THREADED, "3.13 does not specialize without the GIL")
    def test_15_a_replacement_that_is_disabled_is_specialized(self):
        def target():
            return "original"

        def other():
            return "replaced"

        handle = self.add(self.replacer((target, other)))
        for _ in range(WARM):
            self.assertEqual(target(), "replaced")
        self.assertNotIn("RESUME_CHECK", specialized(other))
        self.switch_for_code(handle, other.__code__, False)
        for _ in range(WARM):
            self.assertEqual(target(), "replaced")
        self.assertIn("RESUME_CHECK", specialized(other))
        # A hook that is not disabled for it is called.
        recorder = self.recorder(other)
        second = self.add(recorder)
        self.assertEqual((target(), other()), ("replaced", "replaced"))
        self.assertEqual(recorder.seen, ["other", "other"])
        self.remove(second)

    # 16. Hooks active: every start of a frame is seen, and no C stack is used for it.

    def test_16_specialized_calls_are_seen(self):
        class Kinds:
            def __init__(self):
                self.x = 1

            def method(self):
                pass

            @property
            def attribute(self):
                pass

            def __getitem__(self, index):
                pass

        class Dynamic:
            def __getattribute__(self, name):
                pass

        def numbers():
            yield 1

        def star(*args, **kwargs):
            pass

        def delegate():
            yield from numbers()

        thing, dynamic, arguments, keywords = Kinds(), Dynamic(), (1,), {"a": 1}

        def everything():
            Kinds()
            thing.method()
            thing.attribute
            thing[0]
            dynamic.anything
            for _ in numbers():
                pass
            for _ in delegate():
                pass
            star(*arguments, **keywords)
            star(1, a=2)
            list(map(star, arguments))

        for _ in range(WARM):
            everything()
        hook = self.recorder(everything, Kinds.__init__, Kinds.method, Kinds.attribute,
                             Kinds.__getitem__, Dynamic.__getattribute__, numbers, delegate, star)
        self.add(hook)
        expected = [
            "everything", "__init__", "method", "attribute", "__getitem__", "__getattribute__",
            "numbers", "delegate", "numbers", "star", "star", "star"
        ]
        for _ in range(WARM):
            del hook.seen[:]
            everything()
            self.assertEqual(hook.seen, expected)

    # 17. A verdict "not interested in this code" is remembered.

    def test_17_a_hook_is_not_called_again_for_disabled_code(self):
        def target():
            pass

        first = self.recorder(target, answer=self.DISABLE)
        second = self.recorder(target)
        self.add(first)
        self.add(second)
        for _ in range(WARM):
            target()
        self.assertEqual((first.seen, second.seen), (["target"], ["target"] * WARM))

    def test_17_disable_is_about_one_code_object(self):
        def target():
            pass

        equal = target.__code__.replace()
        self.assertEqual(equal, target.__code__)
        hook = self.recorder(target, equal, answer=self.DISABLE)
        self.add(hook)
        target()
        target.__code__ = equal
        target()
        target()
        self.assertEqual(hook.seen, ["target"] * 2)

    def test_17_disable_is_about_the_code_that_the_hook_before_chose(self):
        def target():
            return "original"

        new = code_named("target", "def target(): return 'replaced'")
        first = self.replacer((target, new))
        second = self.recorder(target, new, answer=self.DISABLE)
        handle = self.add(first)
        self.add(second)
        for _ in range(3):
            self.assertEqual(target(), "replaced")
        self.assertEqual(len(second.seen), 1)
        self.remove(handle)
        for _ in range(3):
            self.assertEqual(target(), "original")
        self.assertEqual(len(second.seen), 2)

    def test_17_a_new_hook_is_called_for_code_that_others_have_disabled(self):
        def target():
            pass

        old = self.recorder(target, answer=self.DISABLE)
        self.add(old)
        for _ in range(WARM):
            target()
        new = self.recorder(target, answer=self.DISABLE)
        self.add(new)
        for _ in range(WARM):
            target()
        self.assertEqual((old.seen, new.seen), (["target"], ["target"]))

    def test_17_a_hook_added_again_starts_afresh(self):
        def target():
            pass

        hook = self.recorder(target, answer=self.DISABLE)
        for n in range(3):
            handle = self.add(hook)
            target(), target()
            self.remove(handle)
            target()
            self.assertEqual(hook.seen, ["target"] * (n + 1))

    def test_17_disabled_generators(self):
        def target():
            yield 1

        hook = self.recorder(target, answer=self.DISABLE)
        self.add(hook)
        for _ in range(WARM):
            self.assertEqual(list(target()), [1])
        self.assertEqual(hook.seen, ["target"])

    @unittest.skipIf(FREE_THREADED, "3.13 does not specialize without the GIL")
    def test_17_disabled_code_is_specialized_again(self):
        class Kinds:
            def __init__(self):
                self.x = 1

            @property
            def attribute(self):
                return self.x

            def __getitem__(self, index):
                return index

        def leaf(a):
            return a

        def target(n):
            for i in range(n):
                leaf(i)
                Kinds().attribute
                Kinds()[i]

        for _ in range(5):
            target(WARM)
        expected = {
            function.__qualname__: specialized(function)
            for function in (leaf, target, Kinds.__init__, Kinds.attribute.fget, Kinds.__getitem__)
        }
        for name, opcodes in expected.items():
            self.assertIn("RESUME_CHECK", opcodes, name)
        entries = []

        def hook(view):
            entries.append(view.code)
            return self.DISABLE

        self.add(hook)
        # With two hooks, each of which disables itself for all code.
        self.add(lambda view: self.DISABLE)
        for _ in range(5):
            target(WARM)
        for function in (leaf, target, Kinds.__init__, Kinds.attribute.fget, Kinds.__getitem__):
            self.assertEqual(specialized(function), expected[function.__qualname__])
            self.assertEqual(sum(code is function.__code__ for code in entries), 1)


@needs_hooks
class PythonCost(PythonApi, CostPoints, HookTestCase):
    pass


@needs_hooks
class CCost(CApi, CostPoints, HookTestCase):
    pass
