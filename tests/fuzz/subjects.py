"""What is mutated: modules of the standard library and of programs from PyPI, each with its own tests."""

import importlib.metadata
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

# Each brings its tests with it, of unittest; greenlet is of use to the worker. Exact, so that a seed means the same later.
GREENLET = "greenlet==3.5.6"
PROGRAMS = (
    "attrs==26.1.0", "automat==25.4.16", GREENLET, "hyperlink==21.0.0", "idna==3.20", "simplejson==4.3.0", "tornado==6.6.1",
    "zope.interface==8.7",
)


@dataclass(frozen=True)
class Subject:
    """A module that is mutated, and the tests that run on it."""

    module: str
    tests: tuple[str, ...]


def tested(module: str, *tests: str) -> Subject:
    return Subject(module, tests or (f"test.test_{module.lstrip('_')}",))


# Modules in Python whose tests take no longer than seconds.
LIBRARY = (
    tested("_collections_abc", "test.test_collections"), tested("_weakrefset", "test.test_weakset"), tested("abc"),
    tested("asyncio.queues", "test.test_asyncio.test_queues"), tested("asyncio.locks", "test.test_asyncio.test_locks"),
    tested("asyncio.taskgroups", "test.test_asyncio.test_taskgroups"), tested("asyncio.timeouts", "test.test_asyncio.test_timeouts"),
    tested("asyncio.runners", "test.test_asyncio.test_runners"), tested("calendar"), tested("codeop"), tested("collections", "test.test_userdict"),
    tested("configparser"), tested("contextlib", "test.test_contextlib", "test.test_contextlib_async"), tested("copy"), tested("csv"),
    tested("dataclasses", "test.test_dataclasses"), tested("difflib"), tested("dis"), tested("enum"), tested("fnmatch"), tested("fractions"),
    tested("functools"), tested("getopt"), tested("gettext"), tested("graphlib"), tested("heapq"), tested("html.parser", "test.test_htmlparser"),
    tested("inspect", "test.test_inspect.test_inspect"), tested("ipaddress"), tested("json.decoder", "test.test_json"),
    tested("json.encoder", "test.test_json"), tested("keyword"), tested("linecache"), tested("numbers", "test.test_abstract_numbers"),
    tested("opcode", "test.test__opcode"), tested("operator"), tested("pprint"), tested("quopri"), tested("queue"), tested("random"),
    tested("re._compiler", "test.test_re"), tested("re._parser", "test.test_re"), tested("reprlib"), tested("sched"), tested("shlex"),
    tested("string"), tested("textwrap"), tested("traceback"), tested("types"), tested("typing"),
    tested("unittest.mock", "test.test_unittest.testmock.testmock", "test.test_unittest.testmock.testsentinel"),
    tested("unittest.async_case", "test.test_unittest.test_async_case"), tested("unittest.suite", "test.test_unittest.test_suite"),
    tested("urllib.parse", "test.test_urlparse"), tested("warnings"), tested("weakref"),
)
FROM_PYPI = (
    tested("automat._core", "automat._test.test_core"), tested("automat._methodical", "automat._test.test_methodical"),
    tested("hyperlink._url", "hyperlink.test.test_url"), tested("hyperlink._url", "hyperlink.test.test_decoded_url"),
    tested("simplejson.decoder", "simplejson.tests.test_decode", "simplejson.tests.test_pass1", "simplejson.tests.test_fail"),
    tested("simplejson.encoder", "simplejson.tests.test_dump", "simplejson.tests.test_float", "simplejson.tests.test_iterable",
           "simplejson.tests.test_namedtuple", "simplejson.tests.test_separators"),
    tested("tornado.concurrent", "tornado.test.concurrent_test"), tested("tornado.escape", "tornado.test.escape_test"),
    tested("tornado.gen", "tornado.test.gen_test"), tested("tornado.locks", "tornado.test.locks_test"), tested("tornado.options", "tornado.test.options_test"),
    tested("tornado.queues", "tornado.test.queues_test"), tested("tornado.template", "tornado.test.template_test"),
    tested("tornado.util", "tornado.test.util_test"),
    tested("zope.interface.adapter", "zope.interface.tests.test_adapter"), tested("zope.interface.declarations", "zope.interface.tests.test_declarations"),
    tested("zope.interface.interface", "zope.interface.tests.test_interface"), tested("zope.interface.registry", "zope.interface.tests.test_registry"),
)


def install(directory: Path, programs: tuple[str, ...] = PROGRAMS) -> None:
    """Gets programs from PyPI, once. Their parts in C are of use to any 3.13; zope.interface and simplejson run without theirs too."""
    there = {f"{found.name.lower().replace('_', '.')}=={found.version}" for found in importlib.metadata.distributions(path=[str(directory)])}
    if set(programs) <= there:
        return
    directory.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--root-user-action", "ignore", "--no-deps", "--upgrade", "--only-binary", ":all:",
                    "--python-version", "3.13", "--target", directory, *programs], check=True)
