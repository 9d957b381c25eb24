"""Whether an evaluator of PEP 523 is set, without CPython's private function that says so.

Where none is set, the eval loop runs a call of one Python function by another in itself. An evaluator is called, and calls the eval loop, through C.
"""

from ferrule_dynamo._core import c_recursion_left


def here():
    return c_recursion_left()


def one_call_further():
    return here()


def is_set():
    """Whether a call of a Python function takes levels of C recursion."""
    return one_call_further() != here()
