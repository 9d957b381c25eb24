"""The pytest plugin: profiles of tests.

    pytest --ferrule-profile                                # with the wheel
    pytest -p ferrule_profiler.pytest_plugin --ferrule-profile

All tests are in one profile, where each is a label, or each has a profile of its own.
"""

import re

import pytest

from . import _profile
from ._export import maker, write_file
from ._label import label
from ._profile import ProfilerError, available
from ._table import table
from ._text import visible

# What is left of a test's name in a file's.
MOST_CHARACTERS = 120


def pytest_addoption(parser):
    group = parser.getgroup("ferrule_profiler")
    group.addoption("--ferrule-profile", action="store_true", help="profile the tests; each is a label of the profile")
    group.addoption("--ferrule-profile-each", action="store_true",
                    help="make a profile of each test; needs --ferrule-profile-output")
    group.addoption("--ferrule-profile-output", metavar="FILE", action="append", default=[],
                    help="write a file: see -o of python -m ferrule_profiler; may be given several times")
    group.addoption("--ferrule-profile-lines", metavar="FUNCTION", action="append", default=[],
                    help="the times of a function's lines too; may be given several times")


def pytest_configure(config):
    options = config.option
    wanted = options.ferrule_profile or options.ferrule_profile_each
    if not wanted:
        if options.ferrule_profile_output or options.ferrule_profile_lines:
            raise pytest.UsageError("--ferrule-profile-output and --ferrule-profile-lines need --ferrule-profile or"
                                    " --ferrule-profile-each")
        return
    if options.ferrule_profile_each and not options.ferrule_profile_output:
        raise pytest.UsageError("--ferrule-profile-each needs --ferrule-profile-output FILE")
    missing = available()
    if missing:
        raise pytest.UsageError(f"ferrule_profiler: {missing}")
    try:
        outputs = [(path, maker(path)) for path in options.ferrule_profile_output]
    except ValueError as error:
        raise pytest.UsageError(f"--ferrule-profile-output: {error}") from None
    # With pytest-xdist the tests run in workers, which have profiles of their own.
    worker = getattr(config, "workerinput", {}).get("workerid", "")
    if worker or getattr(options, "dist", "no") == "no":
        config.pluginmanager.register(Profiled(options, outputs, worker), "ferrule_profiler.profiled")


def between(path, text):
    """The name of a file with a text in it: found.text.html"""
    directory, slash, name = path.rpartition("/")
    stem, dot, end = name.partition(".")
    return f"{directory}{slash}{stem}.{text}{dot}{end}"


class Profiled:
    def __init__(self, options, outputs, worker):
        self.each, self.lines = options.ferrule_profile_each, options.ferrule_profile_lines
        self.outputs = [(between(path, worker) if worker else path, make) for path, make in outputs]
        self.names = set()
        self.result = None      # of all tests
        self.said = []

    def start(self):
        try:
            return _profile.start(lines=self.lines)
        except ProfilerError as error:
            raise pytest.UsageError(f"ferrule_profiler: {error}") from None

    def write(self, result, name):
        for path, make in self.outputs:
            path = between(path, name) if name else path
            try:
                write_file(path, make(result))
                self.said.append(visible(f"{path} is written"))
            except OSError as error:
                self.said.append(visible(f"{path} is not written: {error}"))

    def name_of(self, nodeid):
        """A part of a file's name that no other test has."""
        name = known = re.sub(r"[^\w.\[\]-]+", "-", nodeid)[-MOST_CHARACTERS:]
        count = 1
        while name in self.names:
            count += 1
            name = f"{known}-{count}"
        self.names.add(name)
        return name

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session):
        if self.each or session.config.option.collectonly:
            return (yield)
        profile = self.start()
        try:
            return (yield)
        finally:
            self.result = profile.stop().result
            self.write(self.result, "")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item):
        if not self.each:
            entered = label(item.nodeid)
            entered.__enter__()
            try:
                return (yield)
            finally:
                entered.__exit__(None, None, None)
        profile = self.start()
        try:
            return (yield)
        finally:
            self.write(profile.stop().result, self.name_of(item.nodeid))

    def pytest_terminal_summary(self, terminalreporter):
        terminalreporter.section("ferrule_profiler")
        for line in self.said:
            terminalreporter.line(line)
        if self.result is not None:
            terminalreporter.line(table(self.result))
