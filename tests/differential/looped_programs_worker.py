"""Runs random programs while a hook is called at each turn of each loop. Under the interpreter that is tested.

    python looped_programs_worker.py BATCH RESULTS SECONDS MODE DIRECTORY

BATCH and RESULTS are as for programs_worker.py. MODE is "move": the callback takes all values out of the frame and puts
them back; "end": it ends functions now and then; on stock there is no
hook, and nothing is done, so the collector counts the same. DIRECTORY has the extension modules.
"""

import builtins
import os
import sys
import types

HERE = os.path.dirname(os.path.abspath(__file__))
MODE, DIRECTORY = sys.argv.pop(4), sys.argv.pop(4)
sys.path[:0] = [HERE, DIRECTORY]

import compilers

import programs_worker as worker

hook = compilers.add_hook(MODE)


def watch(code):
    compilers.watch_loops(hook, code, 1)
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            watch(const)


def compile_watched(*arguments, **names):
    code = builtins.compile(*arguments, **names)
    watch(code)
    return code


worker.compile = compile_watched

if __name__ == "__main__":
    worker.main()
