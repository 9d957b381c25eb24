"""Measures what each generator and coroutine takes without the time in which it is suspended."""
import asyncio
import inspect
import threading
import time
from collections.abc import Iterator

import framehook

GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
class Record:
    since = 0.0

    def __init__(self, name: str) -> None:
        self.name, self.steps, self.seconds, self.end = name, 0, 0.0, "suspended"

records: list[Record] = []

def on_event(event: framehook.FrameEvent) -> None:
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

def measure(view: framehook.FrameView) -> framehook.Disable | None:
    if view.code.co_filename != __file__ or not view.code.co_flags & GENERATORS:
        return framehook.DISABLE
    records.append(Record(view.code.co_name))
    view.watch(on_event, records[-1], yields=True, resumes=True)
    return None

async def busy() -> None:
    until = time.thread_time() + 0.3
    while time.thread_time() < until:
        pass
    await asyncio.sleep(0.1)

async def forever() -> None:
    await asyncio.Event().wait()

async def main() -> None:
    task = asyncio.create_task(forever())
    await busy()
    task.cancel()

def countdown() -> Iterator[int]:
    yield 3
    yield 2

with framehook.hook(measure):
    asyncio.run(main())
    given_up = [countdown()]
    next(given_up[0])
    thread = threading.Thread(target=given_up.clear, name="worker")
    thread.start()
    thread.join()
for record in records:
    print(f"{record.name}: {record.seconds:.1f} s in {record.steps} steps, {record.end}")
