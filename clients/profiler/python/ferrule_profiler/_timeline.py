"""A timeline that Perfetto opens: https://ui.perfetto.dev, or chrome://tracing."""

import json

from ._text import visible

END = -1


def lost(result):
    """Lines that say what a timeline of the result has not got."""
    return [f"the timeline has the last events of {visible(thread.name)}; {thread.dropped:,} before"
            " them are dropped (--trace-events keeps more)"
            for thread in result.threads if thread.dropped]


def spans(events, end):
    """Each call: (begin, end, number, task, arguments), with times in nanoseconds.

    What began before the buffer begins with it. A call belongs to the task of its caller.
    """
    stack = []
    for time, number, task, arguments in events:
        if number != END:
            task = task or (stack[-1][2] if stack else None)
            stack.append((time, number, task, arguments))
        elif stack:
            begun, *what = stack.pop()
            yield begun, time, *what
    while stack:
        begun, *what = stack.pop()
        yield begun, max(end, begun), *what


def timeline(result, seconds=None):
    """The last events of all threads, or those of the last seconds."""
    end = max((thread.events[-1][0] for thread in result.threads if thread.events), default=0)
    first = 0 if seconds is None else end - seconds * 1e9
    process = result.pid
    rows = [{"ph": "M", "name": "process_name", "pid": process,
             "args": {"name": visible(" ".join(result.program))}}]
    for number, thread in enumerate(result.threads, 1):
        rows.append({"ph": "M", "name": "thread_name", "pid": process, "tid": number,
                     "args": {"name": visible(thread.name)}})
        for begun, ended, function, task, arguments in spans(thread.events, end):
            if ended < first:
                continue
            known = result.codes[function]
            details = {"file": visible(f"{known[0]}:{known[1]}"), "task": task, "arguments": arguments}
            # All processes have the clock of these times.
            rows.append({"ph": "X", "pid": process, "tid": number,
                         "ts": (result.began + begun) / 1e3, "dur": (ended - begun) / 1e3,
                         "name": visible(known[3]), "cat": known[4],
                         "args": {name: text for name, text in details.items() if text}})
    text = ",\n".join(map(json.dumps, rows))
    about = json.dumps({"dropped events": {visible(thread.name): thread.dropped
                                           for thread in result.threads if thread.dropped}})
    return (f'{{"displayTimeUnit": "ns", "otherData": {about}, "traceEvents": [\n{text}\n]}}\n')
