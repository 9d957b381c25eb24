"""Answers calls of some functions in their place, for the tests of one thread; no name is patched."""
import threading

import framehook

answers = framehook.CodeMap()       # code -> what gives the value of the call

def answer(view):
    if view.code not in answers:
        return framehook.DISABLE    # for this code object, until fake() needs it
    make = answers[view.code]
    return view.result(make(**view.arguments()))

def fake(function, value):
    answers[function] = value
    framehook.enable_for_code(answer, function)

def report(view):
    if view.code.co_filename != __file__:
        return framehook.DISABLE
    print(f"{threading.current_thread().name}: {view.code.co_name}")
    view.exclude_callees()          # the outermost calls only

def fetch(url):
    return connect(url)

def connect(url):
    return f"the page at {url}"

def test():
    print(fetch("/a"))

with framehook.hook(answer, first=True, this_thread=True):
    test()
    fake(connect, lambda url: f"a fake of {url}")
    test()
    with framehook.hook(report, after=answer):      # sees what was not answered
        thread = threading.Thread(target=connect, args=("/b",), name="another thread")
        thread.start(), thread.join()
        connect("/c")
        test()
