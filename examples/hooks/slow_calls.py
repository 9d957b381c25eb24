"""Reports calls that take long, and coroutines that block their event loop."""
import asyncio
import time

import framehook

LIMIT = 0.2     # seconds

def text(value: object) -> str:
    try:
        return repr(value)
    except Exception:
        return f"<{type(value).__name__}>"

def on_event(event: framehook.FrameEvent) -> None:
    now, since = time.perf_counter(), event.data
    if event.kind == "resumed":
        since[0] = now
    elif event.kind != "dropped" and now - since[0] > LIMIT:
        assert event.arguments is not None and event.caller is not None       # requested by alarm()
        arguments = ", ".join(f"{name}={text(value)}" for name, value in event.arguments.items())
        code, line = event.caller
        print(f"{event.code.co_name}({arguments}) is slow, called by {code.co_name if code else 'C'}, line {line}")

def alarm(view: framehook.FrameView) -> framehook.Disable | None:
    if view.code.co_filename != __file__:
        return framehook.DISABLE
    view.watch(on_event, [time.perf_counter()], yields=True, resumes=True, arguments=True, caller=True)
    return None

def load(seconds: float) -> None:
    time.sleep(seconds)

async def waits(seconds: float) -> None:
    await asyncio.sleep(seconds)        # other tasks run meanwhile: fine

async def blocks(seconds: float) -> None:
    time.sleep(seconds)
    await asyncio.sleep(0)

async def serve() -> None:
    await asyncio.gather(waits(0.5), blocks(0.4))

with framehook.hook(alarm):
    with framehook.disabled_for_code(alarm, load):      # may be slow as the program starts
        load(0.4)
    load(0.3)
    load(0.01)
    asyncio.run(serve())
