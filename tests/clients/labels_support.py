"""What tests of labels share."""

from profiler_support import ProfilerTestCase


def leaf(n=0):
    return n


class LabelsCase(ProfilerTestCase):
    def setUp(self):
        super().setUp()
        self.label = self.profiler.label

    def profiled(self, run, **options):
        with self.profiler.profile(**options) as profile:
            run()
        self.check(profile.result)
        return profile.result

    def check(self, result):
        """What holds with labels and without them."""
        for function in result.functions.values():
            self.assertLessEqual(function.recursive, function.runs, function)
            self.assertLessEqual(function.own, function.total + 1e-9, function)
        for thread in result.threads:
            self.assertAlmostEqual(sum(node.own for node in thread.nodes), thread.seconds, delta=1e-6)

    def within(self, result, name="leaf"):
        """{the labels around a function's runs, the outermost first: runs}"""
        found = {}
        for thread in result.threads:
            for path, runs, _ in thread.paths:
                functions = [result.functions[number] for number in path]
                if functions[-1].name == name and runs:
                    labels = tuple(function.name for function in functions if function.kind == "label")
                    found[labels] = found.get(labels, 0) + runs
        return found

    def counted(self, result):
        return {label.name: (label.calls, label.runs, label.recursive, label.raised) for label in result.labels}
