#!/usr/bin/env python3
"""The profiler's paths are those of its timeline, in pytest and Django: each path, how often it ran, and its own time.

    ci/profiler-paths               # makes an environment that has both, and runs this in it

The tree of paths is added up while the program runs. The timeline has each beginning and end of a call, so the stack at any
moment follows from it alone.
"""

import argparse
import collections
import os
import sys
import tempfile
import textwrap

EVENTS = 3_000_000
SUITE = """
    import functools, pytest

    def timed(function):
        @functools.wraps(function)
        def wrapper(*args, **options):
            return function(*args, **options)
        return wrapper

    @pytest.fixture(scope="module")
    def numbers():
        yield list(range(50))

    @pytest.fixture(params=[1, 2, 3])
    def factor(request, numbers):
        return request.param

    @timed
    def scaled(values, factor):
        return [once(value, factor) for value in values]

    @timed
    def once(value, factor):
        return value * factor

    def down(n):
        return up(n - 1) if n else 0

    def up(n):
        return down(n) + 1

    @pytest.mark.parametrize("shift", range(5))
    def test_scaled(numbers, factor, shift, monkeypatch, tmp_path):
        monkeypatch.setenv("SHIFT", str(shift))
        (tmp_path / "out").write_text("x")
        assert scaled(numbers, factor)[1] == factor

    def test_recursion(capsys):
        print(down(100))
        assert "100" in capsys.readouterr().out

    def test_generator():
        def numbers(n):
            if n:
                yield n
                yield from numbers(n - 1)
        assert sum(numbers(20)) == 210

    @pytest.mark.xfail
    def test_failing():
        assert [1, 2, 3] == [1, 2, 4]

    @pytest.mark.skip
    def test_skipped():
        pass
"""


def run_pytest():
    import pytest
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "test_shown.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(textwrap.dedent(SUITE))
        status = pytest.main(["-q", "-p", "no:cacheprovider", path])
    assert status == 0, status


def run_django():
    import django
    from django.conf import settings
    settings.configure(
        ALLOWED_HOSTS=["*"], SECRET_KEY="x", ROOT_URLCONF=__name__,
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "django.contrib.sessions"],
        SESSION_ENGINE="django.contrib.sessions.backends.cache",
        MIDDLEWARE=[f"django.{name}Middleware" for name in (
            "middleware.security.Security", "contrib.sessions.middleware.Session", "middleware.gzip.GZip", "middleware.common.Common",
            "middleware.csrf.CsrfView", "contrib.auth.middleware.Authentication", "middleware.clickjacking.XFrameOptions")],
        TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates"}])
    django.setup()
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from django.http import HttpResponse
    from django.template import engines
    from django.test import Client
    from django.urls import path

    page = engines["django"].from_string("{% for user in users %}{{ user.username|upper }}{% endfor %}{{ n }}")

    def listed(request, n):
        request.session["n"] = n
        return HttpResponse(page.render({"users": User.objects.filter(id__gte=n).order_by("username"), "n": n}))

    async def waits(request):
        return HttpResponse(str(await User.objects.acount()))

    globals()["urlpatterns"] = [path("users/<int:n>/", listed), path("waits/", waits)]
    call_command("migrate", verbosity=0)
    for n in range(5):
        User.objects.create_user(f"user{n}")
    client = Client()
    for n in range(20):
        assert client.get(f"/users/{n}/").status_code == 200
        assert client.get("/waits/").content == b"5"
        assert client.get("/none/").status_code == 404


PROGRAMS = {"pytest": run_pytest, "django": run_django}


def paths_of_timeline(events):
    """{path: [runs, own nanoseconds]}. A function that calls itself directly stays at its place."""
    found, stack, paths, last = {}, [], [()], 0
    for time, number, _, _ in events:
        if stack:
            found[paths[-1]][1] += time - last
        last = time
        if number < 0:
            stack.pop()
            paths.pop()
            continue
        path = paths[-1] if paths[-1][-1:] == (number,) else (*paths[-1], number)
        stack.append(number)
        paths.append(path)
        found.setdefault(path, [0, 0])[0] += 1
    assert not stack, "calls without an end"
    return found


def compare(name, run):
    """How many paths and runs are equal. AssertionError: some are not."""
    import ferrule_profiler
    with ferrule_profiler.profile(trace=EVENTS) as profile:
        run()
    result = profile.result
    assert not result.cuts, "paths are cut"
    paths = runs = deepest = 0
    for thread in result.threads:
        assert not thread.dropped, f"{thread.name}: {thread.dropped} events are dropped"
        expected = paths_of_timeline(thread.events)
        found = {path: (count, own) for path, count, own in thread.paths}
        pieces = collections.Counter()      # of time, of which the own one is the sum
        for path, (count, _) in expected.items():
            pieces[path] += count
            pieces[path[:-1]] += count
        assert found.keys() == expected.keys(), f"{thread.name}: {len(found.keys() ^ expected.keys())} paths differ"
        for path, (count, own) in expected.items():
            assert found[path][0] == count, (thread.name, path, found[path], count)
            # Each event's time is rounded to a nanosecond.
            assert abs(found[path][1] * 1e9 - own) <= pieces[path] + 2, (thread.name, path, found[path], own)
        paths, runs = paths + len(expected), runs + sum(count for count, _ in expected.values())
        deepest = max([deepest, *map(len, expected)])
    twice = sum(len(set(path)) < len(path) for thread in result.threads for path, _, _ in thread.paths)
    print(f"{name}: {paths:,} paths, {runs:,} runs in {len(result.threads)} threads are equal; the deepest has {deepest} functions,"
          f" on {twice:,} one stands more than once")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="*", choices=[*PROGRAMS, []])
    for name in parser.parse_args().programs or PROGRAMS:
        compare(name, PROGRAMS[name])


if __name__ == "__main__":
    sys.exit(main())
