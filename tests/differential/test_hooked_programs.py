"""Random programs leave with frame hooks the trace that they leave on stock without, and what goes wrong is noticed.

How many and which: 100 in each mode, always the same. `hooked_programs.py --help` says how to run more.
"""

import os
import unittest
from dataclasses import replace

from tests.differential import hooked_programs, hooked_programs_generator, program_runs

FERRULE = os.path.abspath(os.environ["FERRULE_PYTHON"])
STOCK = os.path.abspath(os.environ["STOCK_PYTHON"])

FIRST_SEED = 0
COUNT = 100
LEAST_THAT_END_WELL = 0.9
MOST_THAT_CRASH_STOCK = 0.05

EXTENSIONS = os.path.join(program_runs.ROOT, "build", "test-extensions", "hooked-programs")
IS_HOOKED = "('framehook' in sys.modules)"


class HookedPrograms(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.extension = hooked_programs.extension_for(FERRULE, EXTENSIONS)

    def programs(self, modes=hooked_programs.MODES, **how):
        return hooked_programs.programs_for(FERRULE, STOCK, self.extension, modes, **how)

    def run_sources(self, *sources, modes=("pass",), **how):
        """Run given sources as if they were the programs 0, 1, ...; returns the summary."""
        programs = replace(self.programs(modes, **how), generate=lambda seed: (sources[seed], {}))
        return program_runs.run_batch(programs, list(range(len(sources))))

    def test_they_leave_the_same_trace(self):
        # Repeating a program takes as long as some hundred others.
        summary = program_runs.run_for(self, self.programs(leaks=50), list(range(FIRST_SEED, FIRST_SEED + COUNT)))
        self.assertGreater(summary.ends["to its end"], LEAST_THAT_END_WELL * COUNT)
        self.assertLessEqual(len(summary.stock_died), MOST_THAT_CRASH_STOCK * COUNT)
        # A comparison of nothing would be equal, too.
        self.assertGreater(summary.lines, 50 * COUNT)
        for event in ("jumped", "signal", "logged", "warning", "others", "in", "stack", "step"):
            self.assertGreater(summary.tags[event], 0, event)
        for construct in ("hooks changed for longer", "tasks in threads that take turns", "shared generator is resumed"):
            self.assertGreater(summary.programs_with[construct], COUNT / 10, construct)

    def test_every_mode_works(self):
        source = "def f(a): return chain(sys._getframe())\nfor i in range(9): emit('called', f(i)); change_hooks(i)\n"
        summary = self.run_sources(source, modes=hooked_programs.ALL_MODES, leaks=1)
        self.assertEqual((summary.failures, summary.stock_died), ([], []))
        self.assertEqual(summary.runs, len(hooked_programs.ALL_MODES))

    def test_a_hook_that_looks_does_not_look_at_whole_stacks_for_ever(self):
        source = """\
looks = 0
def look(context):
    global looks
    looks += 1
def called(): pass
before, inspect.stack = inspect.stack, look
for i in range(90000): called()
inspect.stack = before
emit('looks for ever', looks > 300)
"""
        summary = self.run_sources(source, modes=("observe",))
        self.assertEqual(summary.failures, [])

    def test_a_program_that_sees_its_hook_is_noticed(self):
        source = f"emit('hooked', {IS_HOOKED})\n"
        summary = self.run_sources("emit('one')\n", source, modes=("none", "pass"))
        failure, = summary.failures
        self.assertEqual((failure.seed, failure.way.name), (1, "ferrule pass"))
        self.assertIn("-hooked False", program_runs.difference(failure))

    def test_what_happens_at_the_end_of_the_stack_may_differ_and_a_crash_there_may_not(self):
        differs = f"try: raise RecursionError\nexcept RecursionError as e: emit('error', e)\nemit('hooked', {IS_HOOKED})\n"
        summary = self.run_sources(differs, f"{differs}\nimport os\nif {IS_HOOKED}: os.abort()\n")
        self.assertEqual(([failure.seed for failure in summary.failures], summary.set_aside), ([1], 1))

    def test_a_crash_that_stock_has_at_times_is_none_of_ours(self):
        summary = self.run_sources(f"import os, time\nif {IS_HOOKED} or time.time_ns() // 1000 % 2: os.abort()\n")
        self.assertEqual((summary.failures, summary.stock_died), ([], [0]))

    def test_a_hook_that_is_left_is_noticed(self):
        source = f"if {IS_HOOKED}: sys.modules['framehook'].add(lambda view: None)\n"
        failure, = self.run_sources(source).failures
        self.assertEqual(failure.ours.complaints, ("a hook is left",))

    def test_a_hook_that_is_gone_is_noticed(self):
        failure, = self.run_sources(f"if {IS_HOOKED}: sys.modules['framehook'].clear()\n").failures
        self.assertEqual(failure.ours.complaints, ("the hook is gone",))

    def complaints(self, source, mode="pass"):
        """Of a program that finds `framehook`, which does something there that the models do not know."""
        failure, = self.run_sources(f"if {IS_HOOKED}:\n    import framehook\n    {source}\n", modes=(mode,), leaks=0).failures
        return failure.ours.complaints

    def test_hooks_that_a_model_does_not_have_are_noticed(self):
        gone = "hooks_do('hook', 0); framehook.remove(framehook.hooks()[0].id); hooks_do('begin', 2)"
        self.assertIn("other hooks than the model has after a block has begun", self.complaints(gone))

    def test_a_hook_that_is_called_against_the_model_is_noticed(self):
        off = "hook = framehook.hooks()[0].id; framehook.disable(hook); hooks_do('probe', 1); framehook.enable(hook)"
        on = "hooks_do('begin', 2); framehook.disabled(framehook.hooks()[0].id).__exit__(None, None, None); hooks_do('probe', 1)"
        self.assertEqual(self.complaints(off), ("a hook was called or not called against the model",))
        self.assertEqual(self.run_sources("for i in range(7): hooks_do('begin', i); hooks_do('probe', i)\n"
                                          "for i in range(7): hooks_do('probe', i); hooks_do('end', i)\n").failures, [])
        self.assertEqual(self.run_sources(f"if {IS_HOOKED}:\n    import framehook\n    {on}\n").failures, [])

    def test_a_scope_that_is_not_kept_is_noticed(self):
        off = "def f(): pass\n    framehook.disable(framehook.hooks()[-1].id)\n    for _ in range(3): f()"
        self.assertEqual(self.complaints(off, "scope"), ("the hook with scopes was not called",))

    def test_an_event_that_cannot_be_is_noticed(self):
        wrong = "sys.modules['hooked_programs_models'].EVENTS['returned'] = set(), 'over'; exec('def f(): pass'); f()"
        self.assertEqual(self.complaints(wrong, "watch"), ("an event that cannot be",))

    def test_a_cycle_that_is_left_is_noticed(self):
        keeps = "hooks_do('cycle', 1); sys.kept = [x for x in gc.get_objects() if type(x).__name__ == 'Tool']"
        self.assertEqual(self.complaints(keeps), ("a cycle through a hook is left",))

    def test_memory_that_grows_with_each_run_is_noticed_and_other_growth_is_not(self):
        leak = f"if {IS_HOOKED}: sys.__dict__.setdefault('leak', []).append(object())\n"
        once = f"if {IS_HOOKED}: sys.kept_once = [object() for _ in range(9)]\n"
        failure, = self.run_sources(once, leak, leaks=1).failures
        self.assertEqual((failure.seed, failure.ours.end), (1, "to its end"))
        self.assertIn("more blocks each time", failure.ours.complaints)

    def test_without_stock_a_crash_and_a_complaint_are_failures_and_nothing_else_is(self):
        sources = (f"emit('hooked', {IS_HOOKED})\n", "import os; os.abort()\n", "emit('after')\n",
                   "sys.modules['framehook'].add(lambda view: None)\n")
        programs = replace(hooked_programs.programs_for(FERRULE, None, self.extension, ("pass",)),
                           generate=lambda seed: (sources[seed], {}))
        summary = program_runs.run_batch(programs, [0, 1, 2, 3])
        self.assertEqual([failure.seed for failure in summary.failures], [1, 3])

    def test_a_seed_gives_one_program_and_the_options_matter(self):
        program = hooked_programs_generator.program
        self.assertEqual(program(5), program(5))
        sources = [program(seed, greenlets=True)[0] for seed in range(50)]
        self.assertTrue(any("greenlet(" in source for source in sources))
        self.assertFalse(any("greenlet(" in program(seed)[0] for seed in range(50)))
        self.assertTrue(any("starve(False" in source for source in sources))
        self.assertFalse(any("starve(" in program(seed, memory="none")[0] for seed in range(50)))
