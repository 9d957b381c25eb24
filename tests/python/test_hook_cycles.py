"""What a hook, a watch, or anything else of frame hooks refers to is found by the collector.

EDGES is the list: each makes a cycle of references through one of them, and a generator, coroutine or asynchronous
generator that a hook watches. Where the hook is removed, gc.collect() frees the cycle. What is not in the list: values
in a code object's extra slots. Code objects are not collected in cycles, on stock neither, so nothing visits those.
"""

import gc
import os
import sys
import threading
import types
import weakref

from hook_edges import EDGES, KINDS, Hook, Thing, generator_function, ignore, run_nothing, while_installed
from hook_variants import SurroundedTestCase, extension, surrounded
from support import framehook, in_a_child, needs_hooks


@needs_hooks
class Cycles(SurroundedTestCase):
    KINDS = [(kind,) for kind in KINDS]
    collects_often = True

    @surrounded
    def test_a_cycle_through_each_edge_is_collected(self, kind):
        left = []
        for edge in EDGES:
            reference = edge(*KINDS[kind])
            gc.collect()
            if reference() is not None:
                left.append(edge.__name__)
        self.assertEqual(left, [])

    @surrounded
    def test_cycles_through_all_edges_at_once_are_collected(self, kind):
        references = [edge(*KINDS[kind]) for _ in range(20) for edge in EDGES]
        gc.collect()
        self.assertEqual([reference for reference in references if reference() is not None], [])

    @surrounded
    def test_what_is_watched_is_collected_and_has_one_exit_event(self, kind):
        """While the hook is installed, what it watches is collected too, with one exit callback."""
        function, run = KINDS[kind]
        kinds = []
        for edge in "callback", "data":
            thing = Thing()
            if edge == "callback":
                # The generator leads to the callback, and that to the generator.
                thing.on_event = types.MethodType(lambda thing, event: kinds.append(event.kind), thing)
                hook = Hook(function, thing.on_event)
            else:
                hook = Hook(function, lambda event: kinds.append(event.kind), thing)
            with framehook.hook(hook):
                thing.made = run(function())
                del kinds[:]
                hook.on_event = hook.data = None
                reference = weakref.ref(thing)
                del thing
                self.assertEqual(kinds, [])
                gc.collect()
                # Where it waits for another one, CPython throws a GeneratorExit into it.
                self.assertIn((edge, kinds, reference()), [(edge, ["dropped"], None), (edge, ["resumed", "raised"], None)])

    @in_a_child
    @surrounded
    def test_a_callback_finds_whole_what_is_collected(self, kind):
        """The collector has cleared nothing yet when a callback is called: neither what it refers to, nor the callback itself."""
        function, run = KINDS[kind]
        found, reports = [], []

        def session(number):
            thing = Thing()
            thing.numbers, thing.table = [1, 2, 3], {"a": [4]}
            box = [thing]

            def on_event(event, *, in_defaults=thing):
                if event.kind not in ("resumed", "yielded"):
                    found.append((event.kind, len(box[0].numbers), thing.table["a"], in_defaults.numbers[2], on_event.box[-1] is not None,
                                  event.data is thing))

            # Some of these are cleared before the generator's frame goes, whichever order the collector has.
            on_event.box = [run_nothing] * (number % 3)
            reference = weakref.ref(on_event)

            def hook(view):
                on_event = reference()
                if view.code is not function.__code__ or on_event is None:
                    return framehook.DISABLE
                view.watch(on_event, on_event.__kwdefaults__["in_defaults"], yields=True, resumes=True)

            framehook.add(hook)
            made = run(function())
            on_event.box.append(made)
            thing.on_event = on_event
            if number % 2:
                thing.made = made

        before, sys.unraisablehook = sys.unraisablehook, lambda report: reports.append(repr(report.exc_value))
        try:
            for number in range(30):
                session(number)
                gc.collect()
                framehook.clear()
        finally:
            sys.unraisablehook = before
        self.assertEqual([report for report in reports if "never awaited" not in report], [])
        self.assertLessEqual(set(map(str, found)), {str((kind, 3, [4], 3, True, True)) for kind in ("dropped", "raised")})
        self.assertEqual(len(found), 30)

    @in_a_child
    def test_a_callback_finds_whole_what_is_collected_of_a_generator_that_yields_when_it_is_closed(self):
        def yields_again():
            while True:
                try:
                    yield
                except GeneratorExit:
                    pass

        def session():
            def on_event(event):
                found.append((event.kind, len([print])))

            reference = weakref.ref(on_event)

            def hook(view):
                on_event = reference()
                return view.watch(on_event) if view.code is yields_again.__code__ and on_event else framehook.DISABLE

            framehook.add(hook)
            on_event.made = yields_again()
            next(on_event.made)

        reports, found = [], []
        before, sys.unraisablehook = sys.unraisablehook, lambda report: reports.append(repr(report.exc_value))
        try:
            for _ in range(30):
                session()
                gc.collect()
                framehook.clear()
        finally:
            sys.unraisablehook = before
        self.assertEqual(set(reports), {repr(RuntimeError("generator ignored GeneratorExit"))})
        self.assertEqual(found, [("dropped", 1)] * 30)

    @surrounded
    def test_what_lives_is_kept(self, kind):
        """A cycle that something leads to is left alone, however often one collects."""
        function, run = KINDS[kind]
        kinds = []
        hook = Hook(function, lambda event: kinds.append(event.kind), Thing())
        hook.made = while_installed(hook, function, run)
        alive = weakref.ref(hook.data)
        for _ in range(3):
            gc.collect()
        self.assertIs(alive(), hook.data)
        self.assertIsNotNone(hook.made)
        # An installed hook keeps what it refers to, and the generator what its watch does.
        made = hook.made
        del hook.made
        framehook.add(hook)
        reference = weakref.ref(hook)
        del hook
        gc.collect()
        self.assertIsNotNone(reference())
        framehook.clear()
        gc.collect()
        # The generator does not need it any more.
        self.assertIsNone(reference())
        self.assertIsNotNone(made)

    def test_many_sessions_of_a_tool_leave_nothing(self):
        class Tool:
            def hook(self, view):
                if view.code is not generator_function.__code__:
                    return framehook.DISABLE
                view.watch(ignore)

        def session():
            tool = Tool()
            with framehook.hook(tool.hook):
                tool.current = generator_function()
                next(tool.current)
            return weakref.ref(tool)

        left = [session() for _ in range(500)]
        gc.collect()
        self.assertEqual(sum(reference() is not None for reference in left), 0)

    def test_a_cycle_begun_in_a_thread_that_has_ended_is_collected_in_another(self):
        for kind in KINDS:
            for edge in EDGES:
                references = []
                thread = threading.Thread(target=lambda: references.append(edge(*KINDS[kind])))
                thread.start()
                thread.join()
                # A thread's function is the thread's.
                del thread
                gc.collect()
                self.assertIsNone(references[0](), (kind, edge.__name__))

    def test_user_data_of_a_hook_in_c_goes_with_the_hook(self):
        """The collector cannot look into it; so it does not wait for what the hook has watched."""
        datahooks = extension("datahooks")
        for kind, (function, run) in KINDS.items():
            with self.subTest(kind):
                thing = Thing()
                handle = datahooks.add(function.__code__, 0, events=7, keeps=thing)
                thing.made = run(function())
                datahooks.remove(handle)
                reference = weakref.ref(thing)
                del thing
                gc.collect()
                self.assertIsNone(reference())
                self.assertEqual(datahooks.take_hooks(), (1, 1))
                frames = datahooks.take_frames()
                self.assertEqual([frame[2:] for frame in frames], [(1, 0)])

    def test_a_child_process_collects_what_its_parent_has_begun(self):
        if not hasattr(os, "fork"):
            self.skipTest("no fork")
        self.assert_program_succeeds("""
import gc, os
from test_hook_cycles import EDGES, KINDS
gc.disable()
references = [edge(*KINDS[kind]) for edge in EDGES for kind in KINDS]
pid = os.fork()
gc.collect()
left = sum(reference() is not None for reference in references)
if pid == 0:
    os._exit(left > 0)
assert os.waitpid(pid, 0)[1] == 0
assert left == 0, left
""")
