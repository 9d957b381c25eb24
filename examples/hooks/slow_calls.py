"""Reports calls that take long, and coroutines that block their event loop."""
import asyncio
import time

import framehook

LIMIT = 0.2     # seconds

def text(value):
    try:
        return repr(value)
    except Exception:
        return f"<{type(value).__name__}>"

def on_event(event):
    now, since = time.perf_counter(), event.data
    if event.kind == "resumed":
        since[0] = now
    elif event.kind != "dropped" and now - since[0] > LIMIT:
        arguments = ", ".join(f"{name}={text(value)}" for name, value in event.arguments.items())
        code, line = event.caller
        print(f"{event.code.co_name}({arguments}) is slow, called by {code.co_name if code else 'C'}, line {line}")

def alarm(view):
    if view.code.co_filename != __file__:
        return framehook.DISABLE
    view.watch(on_event, [time.perf_counter()], yields=True, resumes=True, arguments=True, caller=True)

def load(seconds):
    time.sleep(seconds)

async def waits(seconds):
    await asyncio.sleep(seconds)        # other tasks run meanwhile: fine

async def blocks(seconds):
    time.sleep(seconds)
    await asyncio.sleep(0)

async def serve():
    await asyncio.gather(waits(0.5), blocks(0.4))

with framehook.hook(alarm):
    with framehook.disabled_for_code(alarm, load):      # may be slow as the program starts
        load(0.4)
    load(0.3), load(0.01)
    asyncio.run(serve())
