"""The examples of docs/frame-hooks.md and README.md as a program with types: checked by mypy and pyright, never run."""

import collections
import types
from typing import Any, assert_type

import _framecore
import framehook

calls: collections.Counter[str] = collections.Counter()


def count(view: framehook.FrameView) -> None:
    calls[view.code.co_qualname] += 1


def first_seen(view: framehook.FrameView) -> object:
    return view.argument(0), view.argument("name"), view.arguments()


def faster(view: framehook.FrameView) -> types.CodeType | None:
    if view.code.co_name != "interesting":
        return None
    return view.code.replace(co_name="faster")


@framehook.hook
def disables(view: framehook.FrameView) -> Any:
    assert_type(view.argument_names, tuple[str, ...])
    return framehook.DISABLE


def on_event(event: framehook.FrameEvent) -> None:
    if event.kind == "returned" and event.arguments is not None and event.caller is not None:
        code, line = event.caller
        assert_type(code, types.CodeType | None)
        assert_type(line, int)


def watches(view: framehook.FrameView) -> framehook.Disable | None:
    if framehook.incompatibility(view.code, count) is None:
        return framehook.DISABLE
    view.exclude_callees()
    view.watch(on_event, [1.0], yields=True, resumes=True, arguments=True, caller=True)
    view.result(framehook.unhooked(str.upper, callees=True)("abc"))
    return None


def answers(view: framehook.FrameView) -> None:
    return view.result(view.argument(0))


def answers_once(view: framehook.FrameView) -> framehook.Disable | None:
    return view.result(1) if view.argument_names else framehook.DISABLE


with framehook.hook(count, "counter") as counter:
    sorted(["b", "a"], key=lambda word: word.upper())
    assert_type(counter.id, int)

with disables, framehook.disabled(disables), framehook.disabled_in_thread(disables), \
        framehook.disabled_for_code(disables, first_seen, first_seen.__code__):
    pass


@framehook.hook(faster)
def decorated(number: int) -> str:
    return str(number)


assert_type(decorated(1), str)
handle = framehook.add(faster, name="faster")
assert_type(handle, int)
framehook.disable_for_code(handle, decorated)
framehook.enable_for_code(faster, decorated)
for info in framehook.hooks():
    assert_type(info.seconds, float)
    assert_type(info.calls, int)
framehook.remove(faster)
framehook.clear()
try:
    framehook.remove(handle)
except framehook.IncompatibleCodeError as error:
    raise ValueError from error
assert_type(_framecore.info()["debian_revision"], str | None)
assert_type(_framecore.datastack_stats()["chunks_pushed"], int)
