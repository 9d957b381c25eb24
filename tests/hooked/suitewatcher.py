"""The hook "watch-python": it watches every frame, and its callback checks each event.

sitecustomize loads this module, and takes it out of sys.modules. What it uses is in its own namespace, so no test patches
it. The state of a frame is in its data, of a type in C, which ends the process if it is freed before the frame's exit event;
see tests/c/suitehooks.c.
"""

import _framecore
import framehook

BaseException = BaseException
isinstance = isinstance

extension = FrameData = AFTER = None


def watch_frame(view):
    own_data = FrameData(view.code)
    view.watch(check_event, own_data, yields=True, resumes=True)
    own_data.begin()


def check_event(event):
    kind, value, code, own_data = event
    after = AFTER[own_data.state].get(kind)
    if after is None:
        after = state_after_miss(event)
    own_data.state = after
    if code is not own_data.code:
        refuse(event, "it is not the frame's code")
    if kind == "raised":
        if not isinstance(value, BaseException):
            refuse(event, "its value is no exception")
    elif value is not None and (kind == "resumed" or kind == "dropped"):
        refuse(event, "it has a value")


def refuse(event, why):
    extension.fatal(f"{event.kind!r} of {event.code.co_qualname} in state {event.data.state}: {why}")


def state_after_miss(event):
    """The state after an event that cannot come in the state that is known: the callback has missed one, or it is wrong."""
    if not (isinstance(event.value, MemoryError) or extension.excused()):
        refuse(event, "impossible in that state")
    states = {state for after in AFTER for known, state in after.items() if known == event.kind}
    if len(states) != 1:
        refuse(event, "unknown kind")
    return states.pop()


def watch(suitehooks):
    """Install the hook in this interpreter; `suitehooks` is the extension."""
    global extension, FrameData, AFTER
    extension, FrameData, AFTER = suitehooks, suitehooks.FrameData, suitehooks.AFTER
    handle = framehook.add(watch_frame, "watch-python")
    suitehooks.watched_by(handle, _framecore.frame_hooks)
