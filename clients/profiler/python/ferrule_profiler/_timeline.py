"""A timeline that Perfetto opens: https://ui.perfetto.dev, or chrome://tracing."""

import json
import os

END = -1


def spans(events, end):
    """(begin, end, number) of each call, in nanoseconds; without what began before the buffer."""
    stack = []
    for time, number in events:
        if number != END:
            stack.append((time, number))
        elif stack:
            begun, number = stack.pop()
            yield begun, time, number
    while stack:
        begun, number = stack.pop()
        yield begun, max(end, begun), number


def write_timeline(result, path, seconds=None):
    """Write the last events of all threads, or those of the last seconds."""
    end = max((thread.events[-1][0] for thread in result.threads if thread.events), default=0)
    first = 0 if seconds is None else end - seconds * 1e9
    process = os.getpid()
    with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write('{"displayTimeUnit": "ns", "traceEvents": [\n')
        rows = []
        for number, thread in enumerate(result.threads, 1):
            rows.append({"ph": "M", "name": "thread_name", "pid": process, "tid": number,
                         "args": {"name": thread.name}})
            for begun, ended, function in spans(thread.events, end):
                if ended < first:
                    continue
                known = result.codes[function]
                rows.append({"ph": "X", "pid": process, "tid": number, "ts": begun / 1e3,
                             "dur": (ended - begun) / 1e3, "name": known[3], "cat": known[4],
                             "args": {"file": f"{known[0]}:{known[1]}"}})
        file.write(",\n".join(map(json.dumps, rows)))
        file.write("\n]}\n")
