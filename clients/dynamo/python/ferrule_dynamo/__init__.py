"""TorchDynamo on frame hooks.

`ferrule_dynamo.install()` has `torch.compile` compile, guard and run code through a frame hook, in
place of an evaluator (PEP 523). `FERRULE_DYNAMO=1` in the environment does it as soon as torch's
compiler is imported.
"""

from ferrule_dynamo._exclusive import lock as _lock

__all__ = ["install", "installed", "missing", "uninstall"]


def __getattr__(name):
    # Each interpreter imports this package when it starts, subinterpreters too; few need the rest.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with _lock:
        from ferrule_dynamo import _patching

    return getattr(_patching, name)
