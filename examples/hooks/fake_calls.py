"""Answers calls of some functions in their place, for the tests of one thread; no name is patched."""
import threading
from collections.abc import Callable

import framehook

answers: framehook.CodeMap[Callable[..., object]] = framehook.CodeMap()     # code -> what gives the value of the call

def answer(view: framehook.FrameView) -> framehook.Disable | None:
    if view.code not in answers:
        return framehook.DISABLE    # for this code object, until fake() needs it
    make = answers[view.code]
    return view.result(make(**view.arguments()))

def fake(function: Callable[..., object], value: Callable[..., object]) -> None:
    answers[function] = value
    framehook.enable_for_code(answer, function)

def report(view: framehook.FrameView) -> framehook.Disable | None:
    if view.code.co_filename != __file__:
        return framehook.DISABLE
    print(f"{threading.current_thread().name}: {view.code.co_name}")
    view.exclude_callees()          # the outermost calls only
    return None

def fetch(url: str) -> str:
    return connect(url)

def connect(url: str) -> str:
    return f"the page at {url}"

def test() -> None:
    print(fetch("/a"))

with framehook.hook(answer, first=True, this_thread=True):
    test()
    fake(connect, lambda url: f"a fake of {url}")
    test()
    with framehook.hook(report, after=answer):      # sees what was not answered
        thread = threading.Thread(target=connect, args=("/b",), name="another thread")
        thread.start()
        thread.join()
        connect("/c")
        test()
