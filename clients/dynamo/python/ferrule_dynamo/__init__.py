"""TorchDynamo on frame hooks.

`ferrule_dynamo.install()` has `torch.compile` compile, guard and run code through a frame hook, in
place of an evaluator (PEP 523). `FERRULE_DYNAMO=1` in the environment does it as soon as torch's
compiler is imported.
"""

import _thread
import os

__all__ = ["install", "installed", "missing", "uninstall"]

# Held while the rest of the package is imported, and while torch's functions are exchanged. A fork waits for that: its child has no thread that
# would go on with it, and would wait for ever for what another thread has begun to import.
_changes = _thread.RLock()
os.register_at_fork(before=_changes.acquire, after_in_parent=_changes.release, after_in_child=_changes.release)


def __getattr__(name):
    # Each interpreter imports this package when it starts, subinterpreters too; few need the rest.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with _changes:
        from ferrule_dynamo import _patching

    return getattr(_patching, name)
