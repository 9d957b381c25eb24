"""Measures what each generator and coroutine takes without the time in which it is suspended."""
import asyncio
import inspect
import threading
import time

import framehook

GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
records = []

class Record:
    def __init__(self, name):
        self.name, self.steps, self.seconds, self.end = name, 0, 0.0, "suspended"

def on_event(event):
    record = event.data
    if event.kind == "resumed":                 # or started
        record.since = time.thread_time()
    elif event.kind == "dropped":               # in the thread that gave it up
        record.end = f"dropped in {threading.current_thread().name}"
    else:                                       # yielded, returned or raised
        record.seconds += time.thread_time() - record.since
        record.steps += 1
        if event.kind != "yielded":
            record.end = event.kind

def measure(view):
    if view.code.co_filename != __file__ or not view.code.co_flags & GENERATORS:
        return framehook.DISABLE
    records.append(Record(view.code.co_name))
    view.watch(on_event, records[-1], yields=True, resumes=True)

async def busy():
    until = time.thread_time() + 0.3
    while time.thread_time() < until:
        pass
    await asyncio.sleep(0.1)

async def forever():
    await asyncio.Event().wait()

async def main():
    task = asyncio.create_task(forever())
    await busy()
    task.cancel()

def countdown():
    yield 3
    yield 2

with framehook.hook(measure):
    asyncio.run(main())
    given_up = [countdown()]
    next(given_up[0])
    thread = threading.Thread(target=given_up.clear, name="worker")
    thread.start(), thread.join()
for record in records:
    print(f"{record.name}: {record.seconds:.1f} s in {record.steps} steps, {record.end}")
