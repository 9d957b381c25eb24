"""A timeline that Perfetto opens: https://ui.perfetto.dev, or chrome://tracing."""

import json
from os import getpid

END = -1


def spans(events, end):
    """Each call: (begin, end, number, task, arguments), with times in nanoseconds.

    What began before the buffer is left out. A call belongs to the task of its caller.
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
    process = getpid()
    rows = []
    for number, thread in enumerate(result.threads, 1):
        rows.append({"ph": "M", "name": "thread_name", "pid": process, "tid": number,
                     "args": {"name": thread.name}})
        for begun, ended, function, task, arguments in spans(thread.events, end):
            if ended < first:
                continue
            known = result.codes[function]
            details = {"file": f"{known[0]}:{known[1]}", "task": task, "arguments": arguments}
            rows.append({"ph": "X", "pid": process, "tid": number, "ts": begun / 1e3,
                         "dur": (ended - begun) / 1e3, "name": known[3], "cat": known[4],
                         "args": {name: text for name, text in details.items() if text}})
    text = ",\n".join(map(json.dumps, rows))
    return f'{{"displayTimeUnit": "ns", "traceEvents": [\n{text}\n]}}\n'
