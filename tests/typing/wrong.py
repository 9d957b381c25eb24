"""Each of these is a mistake, and a type checker must say so."""

import framehook


def no_code(view: framehook.FrameView) -> str:
    return view.code.co_name


framehook.add(no_code)
framehook.add(3)
framehook.remove("name")
framehook.hooks()[0].microseconds
framehook.DISABLE = None
