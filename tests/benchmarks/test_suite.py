"""The benchmarks' own logic: pairs, intervals, verdicts, the journal, pyperf's format, committed counts. No time is
measured. Run by tests/run.py in the environment that benchmarks/suite/environment.py makes."""

import contextlib
import dataclasses
import io
import json
import random
import subprocess
import sys
import tempfile
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]

import pyperf

import committed
import measuring
import run as harness
from made_up import make_run
from suite import environment, plots, pyperformance_tasks, ratios, tasks
from suite.page import Report, render
from suite.results import Journal, Results, sample, write_suites


class Turns(unittest.TestCase):
    def test_everybody_is_first_and_last_equally_often(self):
        for names in ("ab", "abc"):
            orders = [measuring.order_of_turn(names, turn) for turn in range(12)]
            for name in names:
                self.assertEqual(sum(order[0] == name for order in orders), 12 // len(names))
                self.assertEqual(sum(order[-1] == name for order in orders), 12 // len(names))

    def test_each_turn_has_each_once(self):
        for turn in range(9):
            self.assertEqual(sorted(measuring.order_of_turn("abcd", turn)), list("abcd"))

    def test_what_was_measured_in_one_turn_is_divided(self):
        # The second turn met a machine twice as slow; its ratio is the same.
        figures = iter([("x", 20.0), ("x", 10.0), ("x", 20.0), ("x", 40.0)])
        results = measuring.measure_in_turns(["python", "base"], 2, lambda which: dict([next(figures)]))
        self.assertEqual(results, {"x": {"python": [20.0, 40.0], "base": [10.0, 20.0]}})
        self.assertEqual(measuring.ratio_of_pairs(*results["x"].values()).median, 2.0)

    def test_pairs_of_unequal_length_are_refused(self):
        with self.assertRaises(ValueError):
            measuring.ratio_of_pairs([1.0], [1.0, 2.0])


class Profiles(unittest.TestCase):
    PROFILE = """\
events: Ir

ob=(1) /lib/libc.so.6
fn=(1) memcpy
10 7
ob=(2) /build/python
fn=(2) main
20 100
cob=(1)
cfn=(1)
calls=1 10
+3 7
-2 20
* 3
cob=(3) /lib/libm.so.6
cfn=(3) exp
calls=2 30
* 50
ob=(3)
fn=(3)
30 50
ob=(2)
fn=(4) other
7 1000
"""

    def own(self, path):
        return measuring.own_instructions(io.StringIO(self.PROFILE), path)

    def test_the_files_own_cost_is_without_its_callees(self):
        self.assertEqual(self.own("/build/python"), 1123)

    def test_a_name_that_a_call_gave_first_is_known(self):
        self.assertEqual(self.own("/lib/libm.so.6"), 50)

    def test_a_file_that_is_not_there_has_none(self):
        self.assertEqual(self.own("/build/other"), 0)


class Committed(unittest.TestCase):
    FACTS = {"compiler": "Clang 22"}

    def check(self, own, committed_own=1000, facts=FACTS, name="calls"):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "counts.toml")
            committed.write(path, self.counts("calls", committed_own), self.FACTS)
            return committed.check(path, self.counts(name, own), facts)

    @staticmethod
    def counts(name, own):
        own *= measuring.CALLGRIND_ITERATIONS
        return {name: {"python": measuring.Instructions(own + 5, own)}}

    def test_a_rise_of_one_per_cent_is_allowed_and_more_is_not(self):
        self.assertTrue(self.check(1010)[1])
        lines, fine = self.check(1011)
        self.assertFalse(fine)
        self.assertIn("+1.10 %", lines[0])

    def test_a_fall_is_reported_and_allowed(self):
        lines, fine = self.check(900)
        self.assertTrue(fine)
        self.assertIn("better", lines[0])

    def test_a_benchmark_without_a_figure_and_a_figure_without_one_fail(self):
        lines, fine = self.check(1000, name="new")
        self.assertFalse(fine)
        self.assertEqual(len(lines), 2)

    def test_figures_of_another_compiler_are_not_compared(self):
        lines, fine = self.check(5000, facts={"compiler": "GCC 12"})
        self.assertTrue(fine)
        self.assertTrue(lines[0].startswith("not compared"))

    def test_the_committed_file_has_the_benchmarks_there_are(self):
        import tomllib
        figures = tomllib.loads(Path(committed.FILE).read_text())["instructions"]
        self.assertEqual(set(figures), set(harness.CALLS))
        self.assertGreater(min(figures.values()), 1000)


class Verdicts(unittest.TestCase):
    def verdict(self, *values):
        return ratios.median_with_interval(values).verdict

    def test_each(self):
        self.assertEqual(self.verdict(1.05, 1.06, 1.07, 1.05, 1.06, 1.06), ratios.SLOWER)
        self.assertEqual(self.verdict(0.95, 0.96, 0.97, 0.95, 0.96, 0.96), ratios.FASTER)
        self.assertEqual(self.verdict(0.99, 1.0, 1.01, 1.0, 1.0, 0.995), ratios.SAME)
        self.assertEqual(self.verdict(0.8, 1.3, 1.0, 0.9, 1.2, 1.1), ratios.NOISY)
        self.assertEqual(self.verdict(1.5, 1.5, 1.5, 1.5), ratios.FEW)

    def test_few_values_have_their_whole_range_as_interval(self):
        found = ratios.median_with_interval([1.0, 1.3, 1.1, 0.9, 1.2])
        self.assertEqual((found.value, found.low, found.high), (1.1, 0.9, 1.3))

    def test_values_that_are_all_equal(self):
        self.assertEqual(ratios.median_with_interval([1.25] * 7), (1.25, 1.25, 1.25, 7))
        self.assertEqual(ratios.median_with_interval([2.0]), (2.0, 2.0, 2.0, 1))

    def test_one_wild_pair_moves_neither_the_ratio_nor_its_interval_far(self):
        calm = [1.0, 1.001, 0.999, 1.0, 1.002, 0.998, 1.0, 1.001, 0.999, 1.0, 1.0]
        found = ratios.median_with_interval([*calm, 9.0])
        self.assertLess(found.high, 1.003)
        self.assertAlmostEqual(found.value, 1.0, places=3)

    def test_intervals_hold_the_truth_about_as_often_as_they_say(self):
        source = random.Random(6)
        held = 0
        for _ in range(200):
            found = ratios.median_with_interval([source.lognormvariate(0, 0.05) for _ in range(11)])
            held += found.low <= 1 <= found.high
        self.assertGreater(held, 180)

    def test_what_is_listed_is_surely_beyond_two_per_cent(self):
        self.assertTrue(ratios.Ratio(1.03, 1.01, 1.05, 9).is_beyond)
        self.assertTrue(ratios.Ratio(0.97, 0.95, 0.99, 9).is_beyond)
        self.assertFalse(ratios.Ratio(1.03, 0.99, 1.05, 9).is_beyond)
        self.assertFalse(ratios.Ratio(1.01, 1.005, 1.015, 9).is_beyond)
        self.assertFalse(ratios.Ratio(1.5, 1.4, 1.6, 3).is_beyond)

    def test_only_rounds_that_both_have_are_pairs(self):
        self.assertEqual(ratios.pair({0: 2.0, 1: 4.0, 3: 9.0}, {1: 2.0, 0: 2.0, 2: 1.0}), {0: 1.0, 1: 2.0})
        self.assertIsNone(ratios.compare({0: 1.0}, {1: 1.0}))

    def test_a_mean_is_of_the_rounds_that_have_every_benchmark(self):
        one = {0: 2.0, 1: 2.0, 2: 99.0}, {0: 1.0, 1: 1.0, 2: 1.0}
        two = {0: 8.0, 1: 8.0}, {0: 1.0, 1: 1.0}
        found = ratios.mean_of([one, two])
        self.assertAlmostEqual(found.value, 4.0)
        self.assertEqual(found.pairs, 2)
        self.assertIsNone(ratios.mean_of([]))
        self.assertIsNone(ratios.mean_of([({0: 1.0}, {0: 1.0}), ({1: 1.0}, {1: 1.0})]))

    def test_of_a_link_with_several_rounds_the_median_counts_once(self):
        # Three links, one of them slow: twelve rounds are three figures, not twelve.
        rounds = {number: 1.1 if number % 3 == 0 else 1.0 for number in range(12)}
        self.assertEqual(sorted(ratios.by_link(rounds, 3)), [1.0, 1.0, 1.1])
        self.assertEqual(ratios.by_link(rounds, 1), list(rounds.values()))
        self.assertEqual(ratios.by_link({0: 1.0, 3: 5.0, 6: 2.0}, 3), [2.0])
        ones = dict.fromkeys(rounds, 1.0)
        self.assertEqual(ratios.compare(rounds, ones, 3).pairs, 3)
        self.assertEqual(ratios.mean_of([(rounds, ones)], 3).pairs, 3)
        self.assertEqual(ratios.compare(rounds, ones).pairs, 12)

    def test_ticks_keep_their_distance_and_have_one(self):
        for low, high in ((0.98, 1.02), (0.5, 20), (0.9, 400), (0.97, 1.2)):
            ticks = plots.ratio_ticks(low, high)
            self.assertIn(1, ticks)
            self.assertTrue(all(low <= tick <= high for tick in ticks))
            self.assertLessEqual(len(ticks), 11)


class InDirectory(unittest.TestCase):
    def setUp(self):
        directory = self.enterContext(tempfile.TemporaryDirectory())
        self.directory = Path(directory)


class Files(InDirectory):
    def entry(self, round, values, python="stock"):
        return {"task": "t", "python": python, "round": round, "date": "2026-01-01T00:00:00", "seconds": 1.0,
                "samples": [sample("g/x", values, loops=4, warmups=[(4, 0.5)], best_of=3),
                            sample("m/y", [4096], "byte")]}

    def test_pyperf_reads_what_was_written(self):
        write_suites(self.directory, [self.entry(0, [1.5, 1.25]), self.entry(1, [2.0])],
                     {"stock": {"cpu_count": 2, "python_version": "3.13.5"}, "absent": {}})
        self.assertFalse((self.directory / "absent.json").exists())
        suite = pyperf.BenchmarkSuite.load(str(self.directory / "stock.json"))
        found = suite.get_benchmark("g/x")
        self.assertEqual([run.values for run in found.get_runs()], [(1.5, 1.25), (2.0,)])
        self.assertEqual([run.warmups for run in found.get_runs()], [((4, 0.5),)] * 2)
        self.assertEqual([run.get_metadata()["round"] for run in found.get_runs()], [0, 1])
        self.assertEqual(found.get_metadata()["cpu_count"], 2)
        self.assertEqual((found.get_unit(), suite.get_benchmark("m/y").get_unit()), ("second", "byte"))

    def test_a_journal_continues_where_it_was_cut_off(self):
        journal = Journal(self.directory)
        journal.add(**self.entry(0, [1.0]))
        journal.add(**self.entry(1, [1.0]))
        journal.close()
        path = self.directory / "journal.jsonl"
        path.write_bytes(path.read_bytes()[:-30])       # power went while the second was written
        journal = Journal(self.directory)
        self.assertTrue(journal.has("t", "stock", 0))
        self.assertFalse(journal.has("t", "stock", 1))
        self.assertEqual(journal.seconds, 1.0)
        journal.add(**self.entry(1, [3.0]))
        journal.close()
        self.assertEqual([json.loads(line)["round"] for line in path.read_text().splitlines()], [0, 1])


class Rounds(InDirectory):
    """The harness with tasks that measure nothing."""

    FACTS = {"minutes": 60, "pythons": {"stock": "/s", "ferrule": "/f"}, "free_threaded": {}, "metadata": {"stock": {}, "ferrule": {}}}

    def new_run(self, **facts):
        run = harness.Run(self.directory, {**self.FACTS, **facts})
        run.progress.active = True      # no lines about progress
        run.progress.show = lambda *_: None
        self.addCleanup(run.journal.close)
        return run

    def task(self, measure, name="calls/x"):
        return tasks.Task(name, measure, ("stock", "ferrule"), seconds=0.0)

    def test_what_is_in_the_journal_is_not_measured_again(self):
        measured = []

        def measure(python, round):
            if len(measured) == 3:
                raise KeyboardInterrupt
            measured.append((round, python))
            return [sample("calls/x", [1.0])]

        task, run = self.task(measure), self.new_run()
        with self.assertRaises(KeyboardInterrupt):
            for round in range(2):
                run.measure(task, round)
        measured_before, run = list(measured), self.new_run()
        measured.clear()
        for round in range(2):
            run.measure(task, round)
        self.assertEqual(measured_before, [(0, "stock"), (0, "ferrule"), (1, "ferrule")])
        self.assertEqual(measured, [(1, "stock")])
        self.assertEqual(run.write().keys(), {"stock", "ferrule"})
        (self.directory / "run.json").write_text(json.dumps(run.facts))
        self.assertEqual(Results(self.directory).figures("ferrule", "calls/x"), {0: 1.0, 1: 1.0})

    def test_what_fails_is_reported_and_left_out_from_then_on(self):
        measured = []

        def measure(python, round):
            measured.append(python)
            raise measuring.ChildFailed("no such luck")

        task, run = self.task(measure), self.new_run()
        for round in range(3):
            self.assertTrue(run.measure(task, round))
        self.assertEqual(measured, ["stock"])
        self.assertEqual(run.journal.failures(), {"calls/x": "stock: no such luck"})
        resumed = self.new_run()
        resumed.measure(task, 3)
        self.assertEqual(measured, ["stock"])

    def test_what_is_measured_together_runs_at_the_same_time(self):
        both = threading.Barrier(2, timeout=60)

        def measure(python, round):
            both.wait()
            return [sample("calls/x", [1.0 if python == "stock" else 2.0])]

        task, run = dataclasses.replace(self.task(measure), together=True), self.new_run()
        run.measure(task, 0)
        self.assertEqual({(entry["python"], entry["samples"][0]["values"][0]) for entry in run.journal.entries},
                         {("stock", 1.0), ("ferrule", 2.0)})
        run.measure(task, 0)
        self.assertEqual(len(run.journal.entries), 2)

    def test_of_a_pair_that_was_cut_off_what_is_missing_is_measured(self):
        run = self.new_run()
        run.journal.add(task="calls/x", python="stock", round=0, seconds=1.0, samples=[])
        measured = []
        run.measure(dataclasses.replace(self.task(lambda python, round: measured.append(python)), together=True), 0)
        self.assertEqual(measured, ["ferrule"])

    def test_one_of_a_pair_that_fails_is_reported(self):
        def measure(python, round):
            if python == "ferrule":
                raise measuring.ChildFailed("no such luck")
            return [sample("calls/x", [1.0])]

        run = self.new_run()
        task = dataclasses.replace(self.task(measure), together=True)
        run.measure(task, 0)
        self.assertEqual(run.journal.failures(), {"calls/x": "ferrule: no such luck"})
        run.measure(task, 1)
        self.assertEqual(len(run.journal.entries), 2)

    def test_a_task_that_does_not_fit_into_the_time_left_is_not_begun(self):
        run = self.new_run(minutes=1)
        task = tasks.Task("long", mock.Mock(side_effect=AssertionError), ("stock", "ferrule"), seconds=40.0)
        self.assertFalse(run.measure(task, 0))

    def test_each_round_measures_the_next_of_the_links(self):
        measured = []

        def make_tasks(link, base, extensions, sizes, together):
            def measure(python, round):
                measured.append((round, link[python]))
                return [sample("calls/x", [1.0])]
            return [self.task(measure)]

        run = self.new_run(base="stock", quick=True, instructions=False, only=[], remarks=[], together=False)
        with (mock.patch.object(tasks, "make_tasks", make_tasks), mock.patch.object(harness, "MOST_ROUNDS", 3),
              mock.patch.object(measuring, "pin_to_one_core", return_value=False)):
            harness.measure_rounds(run, [run.facts["pythons"], {"stock": "/s1", "ferrule": "/f1"}], {}, {})
        self.assertEqual(sorted(measured), [(0, "/f"), (0, "/s"), (1, "/f1"), (1, "/s1"), (2, "/f"), (2, "/s")])

    def test_some_can_be_chosen_by_name(self):
        everything = [self.task(None, name) for name in ("pyperformance/scimark_lu", "calls", "pyperformance/scimark_sor")]
        self.assertEqual([task.name for task in harness.choose(everything, ["scimark_lu", "calls"])],
                         ["pyperformance/scimark_lu", "calls"])
        self.assertEqual(harness.choose(everything, ["pyperformance/scimark_sor"]), everything[2:])
        self.assertEqual(harness.choose(everything, ["pyperformance"]), [everything[0], everything[2]])
        with self.assertRaisesRegex(SystemExit, "(?s)no benchmark is called scimark.*pyperformance/scimark_lu"):
            harness.choose(everything, ["calls", "scimark"])
        with self.assertRaisesRegex(SystemExit, "no benchmark is called"):
            harness.choose(everything, [""])      # "calls" is in no group

    def test_of_the_scripts_those_that_have_the_chosen_come_first(self):
        scripts = {name: name for name in ("2to3", "chaos", "richards", "scimark")}
        self.assertEqual(harness.scripts_of(["pyperformance/scimark_lu", "calls"], scripts),
                         ["scimark", "2to3", "chaos", "richards"])
        self.assertEqual(harness.scripts_of([], scripts), list(scripts))

    def test_where_processes_are_not_pinned_none_are_measured_together(self):
        run = self.new_run(base="stock", quick=True, instructions=False, only=[], remarks=[], together=True)
        with (mock.patch.object(harness, "MOST_ROUNDS", 0), mock.patch.object(tasks, "make_tasks", return_value=[]),
              mock.patch.object(measuring, "pin_to_one_core", return_value=False)):
            harness.measure_rounds(run, [run.facts["pythons"]], {}, {})
        self.assertFalse(run.facts["together"])
        self.assertIn("in turns", run.facts["remarks"][0])

    def test_where_no_other_link_can_be_made_the_builds_are_measured_as_they_are(self):
        facts, pythons = {"layouts": 8, "remarks": []}, {"stock": "/usr/bin/python3.13"}
        with contextlib.ExitStack() as stack:
            self.assertEqual(harness.make_links(stack, pythons, facts), [pythons])
        self.assertEqual(facts["layouts"], 1)
        self.assertIn("one link of each build", facts["remarks"][0])
        self.assertIn("/usr/bin/python3.13", facts["remarks"][0])

    def test_a_further_link_is_found_in_the_environment_of_the_first(self):
        inside = self.directory / "python"
        inside.symlink_to("/build/python")
        self.assertEqual(environment.link_in(str(inside), "/build/python"), str(inside))
        further = Path(environment.link_in(str(inside), "/build/python-layout1"))
        self.assertEqual((further.parent, further.readlink()), (self.directory, Path("/build/python-layout1")))
        self.assertEqual(environment.link_in(str(inside), "/build/python-layout1"), str(further))

    def test_each_process_of_an_environment_starts_with_the_compiler_until_a_run_without(self):
        packages = self.directory / "packages"
        packages.mkdir()
        (packages / "ferrule_jit.py").write_text("def enable():\n    import builtins\n    builtins.is_enabled = True\n")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", self.directory / "made"], check=True)
        inside = str(self.directory / "made" / "bin" / "python")

        def says():
            return subprocess.check_output([inside, "-c", "print('is_enabled' in dir(__builtins__))"], text=True).strip()
        environment.enable_compiler(inside, str(packages))
        self.assertEqual(says(), "True")
        for _ in range(2):      # where there is nothing to remove, too
            environment.enable_compiler(inside, None)
            self.assertEqual(says(), "False")

    def test_a_child_that_does_not_end_is_a_failure(self):
        for run in (measuring.run, measuring.time_process):
            with self.assertRaisesRegex(measuring.ChildFailed, "more than 0.1 s: sleep 60"):
                run(["sleep", "60"], timeout=0.1)

    def test_a_child_that_fails_is_reported(self):
        for run in (measuring.run, measuring.time_process):
            with self.assertRaisesRegex(measuring.ChildFailed, "(?s)exit code 3: sh -c.*no such luck"):
                run(["sh", "-c", "echo no such luck >&2; exit 3"])

    def test_a_process_is_timed_with_what_it_waited_for_and_without_the_others(self):
        busy = "for _ in range(2_000_000): pass"
        inner = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}])"
        with ThreadPoolExecutor(2) as pool:
            work = pool.submit(measuring.time_process, [sys.executable, "-c", inner])
            rest = pool.submit(measuring.time_process, ["sleep", "0.2"])
        self.assertGreater(work.result().cpu, 5 * rest.result().cpu)
        self.assertGreaterEqual(rest.result().wall, 0.2)


class Together(InDirectory):
    """Pairs of pyperformance's scripts on one core."""

    def test_a_script_measures_cpu_time_and_sees_nothing_else_of_it(self):
        (self.directory / "beside.py").write_text("name = 'beside'")
        script = self.directory / "script.py"
        script.write_text("import beside, sys, time; from time import perf_counter\n"
                          "__builtins__.added = sys.modules[__name__].__doc__\n"
                          "print(abs(time.perf_counter_ns() / 1e9 - perf_counter()) < 1, __name__, beside.name, sys.argv, __file__, added)\n"
                          "import resource, subprocess; own, begun = time.process_time(), perf_counter()\n"
                          "subprocess.run([sys.executable, '-c', 'import time; sum(range(1_000_000)); time.sleep(0.1)'])\n"
                          "used = resource.getrusage(resource.RUSAGE_CHILDREN); took = perf_counter() - begun\n"
                          "own = time.process_time() - own\n"
                          "print(used.ru_utime + used.ru_stime <= took <= used.ru_utime + used.ru_stime + own)\n")
        run = subprocess.run([sys.executable, pyperformance_tasks.CPU_CLOCK, str(script), "--worker"],
                             capture_output=True, text=True, check=True)
        self.assertEqual(run.stdout, f"True __main__ beside {[str(script), '--worker']} {script} None\nTrue\n")

    def test_what_times_a_command_has_the_command_run_by_each_interpreter(self):
        commands = []

        def time_process(command, *_, **environment):
            commands.append((*command, environment["PYTHONHASHSEED"]))
            return measuring.Times(wall=2.0, cpu=1.0)

        for together, expected in ((True, 1.0), (False, 2.0)):
            task = pyperformance_tasks.make_task({"stock": "/s/python"}, None, 0, together, "python_startup", loops=2,
                                                 seconds=0.03, arguments=("-c", "pass"))
            with mock.patch.object(pyperformance_tasks, "time_process", time_process):
                found, = task.measure("stock", 5)
            self.assertEqual(found["values"], [expected] * 6)       # two loops, three values, and a warm-up before
        self.assertEqual(commands, [("/s/python", "-c", "pass", "5")] * 16)

    def test_large_blocks_do_not_always_lie_at_the_same_place(self):
        script = "import ctypes; print(ctypes.addressof(ctypes.create_string_buffer(100_000)) % 4096)"

        def place():
            with pyperformance_tasks.surroundings(sys.executable, 0) as (directory, environment):
                return measuring.run([sys.executable, "-c", script], directory, **environment).stdout

        self.assertGreater(len({place() for _ in range(12)}), 3)
        # It is the padding that does it, and not the system.
        with mock.patch.object(pyperformance_tasks, "PADDING", [1000]):
            self.assertEqual(len({place() for _ in range(6)}), 1)

    def test_scripts_that_would_meet_are_scripts_of_pyperformance(self):
        there = {Path(benchmark.runscript).parent.name for benchmark in pyperformance_tasks.scripts(False).values()}
        self.assertLessEqual(pyperformance_tasks.SERVERS | pyperformance_tasks.WRITERS, there)

    def test_servers_take_turns_where_they_have_no_network_of_their_own(self):
        scripts = pyperformance_tasks.scripts(False)
        for allowed in (True, False):
            with mock.patch.object(pyperformance_tasks, "has_own_networks", lambda python: allowed):
                self.assertEqual(pyperformance_tasks.can_be_together(scripts["asyncio_tcp"], ["/s"]), allowed)
                self.assertTrue(pyperformance_tasks.can_be_together(scripts["chaos"], ["/s"]))

    def test_two_servers_on_one_port_do_not_meet(self):
        script = self.directory / "serve.py"
        script.write_text("import socket, sys\naddress = '127.0.0.1', 8882\n"
                          "with socket.create_server(address), socket.create_connection(address) as client:\n"
                          "    print(client.getpeername()[1], flush=True)\n"
                          "    sys.stdin.read()")
        python = next((path for path in map(str, (ROOT / "build").glob("*/python"))
                       if pyperformance_tasks.has_own_networks(path)), None)
        if python is None:
            self.skipTest("no interpreter in build/, or no network namespaces on this system")
        command = [python, pyperformance_tasks.CPU_CLOCK, "--own-network", str(script)]
        with contextlib.ExitStack() as stack:
            servers = [stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                                            text=True)) for _ in range(2)]
            self.assertEqual([server.stdout.readline() for server in servers], ["8882\n"] * 2)
            for server in servers:
                server.stdin.close()

    def test_the_figure_of_a_process_that_shared_its_core_is_its_mean(self):
        entries = [{"task": name, "python": "stock", "round": 0, "date": "2026-01-02T03:04:05", "seconds": 1.0,
                    "samples": [sample(name, [1.0, 2.0, 6.0], clock=clock)]} for name, clock in (("a", "cpu"), ("b", "wall"))]
        write_suites(self.directory, entries, {"stock": {}})
        (self.directory / "run.json").write_text(json.dumps({"pythons": {"stock": "/s"}, "free_threaded": {}}))
        results = Results(self.directory)
        self.assertEqual(results.figures("stock", "a"), {0: 3.0})
        self.assertEqual(results.figures("stock", "b"), {0: 1.0})


class Page(InDirectory):
    def report(self, **options):
        make_run(self.directory, **options)
        return Report(Results(self.directory))

    def test_it_says_what_is_in_the_results(self):
        text = render(self.report())
        for part in ("pyperformance", "geometric mean", "Cost of a call by depth", "Frame hooks against PEP 523",
                     "What was not measured", "no such luck", "make bench", "EPYC"):
            self.assertIn(part, text)
        self.assertEqual(text.count("<figure"), text.count("<svg"))
        self.assertEqual(text.count("<figure"), len({plot.name for section in Report(
            Results(self.directory)).sections() for plot in section.plots}))

    def test_it_is_made_of_the_results_alone(self):
        report = self.report()
        self.assertEqual(render(report), render(Report(Results(self.directory))))

    def test_a_slow_benchmark_is_listed_and_an_equal_one_is_not(self):
        section, = self.report().pyperformance()
        self.assertEqual([row[0] for row in section.rows], ["slower", "faster"])
        self.assertIn("about 1 would be listed as slower", section.after)

    def test_noise_is_reported(self):
        self.assertIn("too noisy", self.report(noise=0.3).noise()[1])
        self.assertNotIn("too noisy", self.report(noise=0.002).noise()[1])

    def test_links_are_reported(self):
        self.assertIn("9 rounds over 8 links of each build", render(self.report()))

    def test_names_from_outside_are_escaped(self):
        make_run(self.directory, remark="<script>alert(1)</script>")
        text = render(Report(Results(self.directory)))
        self.assertNotIn("<script", text)
        self.assertIn("&lt;script&gt;", text)

    def test_a_run_with_nothing_but_calls_has_a_page(self):
        self.assertIn("Calls", render(self.report(only="calls/")))


class Arguments(unittest.TestCase):
    def refused(self, *arguments):
        with mock.patch.object(sys, "argv", ["run.py", *arguments]), contextlib.redirect_stderr(io.StringIO()) as said:
            with self.assertRaises(SystemExit) as caught:
                harness.parse_arguments()
        self.assertEqual(caught.exception.code, 2)
        return said.getvalue()

    def test_what_is_wrong_is_said(self):
        self.assertIn("are needed", self.refused("--quick"))
        self.assertIn("no such program", self.refused("--base", "a=/nowhere/python"))
        self.assertIn("above 0", self.refused("--layouts", "0", "--base", "a=/bin/sh", "--python", "b=/bin/sh"))
        self.assertIn("same name", self.refused("--base", "a=/bin/sh", "--python", "a=/bin/sh"))
