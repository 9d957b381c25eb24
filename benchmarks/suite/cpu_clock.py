"""Runs a script that measures with time.perf_counter, and has it measure the CPU time of its process instead.

    cpu_clock.py SCRIPT [ARGUMENT...]

For two processes that share a core: the time that the other has it is not counted. Runs in the measured interpreter.
"""

import os
import runpy
import sys
import time

if __name__ == "__main__":
    time.perf_counter = time.process_time
    del sys.argv[0]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")
