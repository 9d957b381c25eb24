"""The core, if this interpreter can load it: a subinterpreter cannot. Programs may import the package all the same, for its labels."""

try:
    from . import _core as core
    missing = None
except ImportError as error:
    if "subinterpreter" not in str(error):
        raise
    core, missing = None, str(error)
