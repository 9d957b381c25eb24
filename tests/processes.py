"""Processes that tests start, and that end with the test."""

import os
import subprocess
import threading


def start(case, command, seconds=100, **environment):
    """A process with pipes of text, which is killed after so many seconds: a test would wait for it for ever."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, **environment})
    watchdog = threading.Timer(seconds, process.kill)
    watchdog.start()

    def end():
        watchdog.cancel()
        watchdog.join()
        process.kill()
        process.communicate()
    case.addCleanup(end)
    return process
