"""Running a script in another process of this interpreter, with the evaluator or with hooks."""

import importlib.metadata
import json
import os
import subprocess
import sys
import sysconfig
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
# The torch of Debian 13. What it does not have the same is said where it matters.
TORCH_2_6 = importlib.metadata.version("torch").startswith("2.6.")
WAYS = ("evaluator", "hooks")
# The orders of installing: the hook is installed before torch is imported; when torch has compiled; again and again.
ORDERS = ("hooks", "late", "changing")
INSTALL = {"evaluator": "", "hooks": "import ferrule_dynamo\nferrule_dynamo.install()\n"}
# What a script begins with that compiles: a tensor, and a backend that keeps graphs and runs them as they are.
COMPILES = """
import json, sys, threading, torch, torch._dynamo
x = torch.ones(4)
graphs = []

def backend(module, inputs):
    graphs.append(module)
    return module.forward

def compiled(function, **options):
    return torch.compile(function, backend=backend, **options)
"""
# A script checks with this whether the evaluator of PEP 523 is the default one.
EVALUATOR = """
import ctypes
get_evaluator = ctypes.pythonapi._PyInterpreterState_GetEvalFrameFunc
get_evaluator.restype, get_evaluator.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
interpreter = ctypes.pythonapi.PyInterpreterState_Get
interpreter.restype = ctypes.c_void_p
default = get_evaluator(interpreter())

def is_default():
    return get_evaluator(interpreter()) == default
"""


def environment(**more):
    """Without what a user has set for torch, and without its messages."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TORCH", "FERRULE"))}
    # An interpreter that is not installed has its configuration elsewhere than its other headers.
    headers = os.path.dirname(sysconfig.get_config_h_filename())
    return kept | {"TORCH_LOGS": "-all", "PYTHONPATH": os.pathsep.join([HERE, *filter(None, [os.environ.get("PYTHONPATH")])]), "CPATH": headers} | more


def run(*arguments, **more):
    """The output of this interpreter, which has to succeed."""
    done = subprocess.run([sys.executable, *arguments], env=environment(**more), text=True, check=False, capture_output=True)
    if done.returncode:
        raise AssertionError(f"{arguments} ended with {done.returncode}:\n{done.stdout}{done.stderr[-4000:]}")
    return done.stdout


def run_script(way, script, **more):
    """What a script prints as JSON in its last line."""
    return json.loads(run("-c", INSTALL[way] + script, **more).splitlines()[-1])


def run_programs(way, module):
    """What the programs of a module have done, by name."""
    with tempfile.TemporaryDirectory() as directory:
        out = os.path.join(directory, "noted.json")
        # What inductor has compiled before would be found again.
        run(os.path.join(HERE, "run_programs.py"), way, module, out, TORCHINDUCTOR_CACHE_DIR=directory)
        with open(out) as file:
            return json.load(file)
