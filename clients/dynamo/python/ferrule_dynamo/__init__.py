"""TorchDynamo on frame hooks.

`ferrule_dynamo.install()` has `torch.compile` compile, guard and run code through a frame hook, in
place of an evaluator (PEP 523). `FERRULE_DYNAMO=1` in the environment does it as soon as torch's
compiler is imported.
"""

from ferrule_dynamo._patching import install, installed, missing, uninstall

__all__ = ["install", "installed", "missing", "uninstall"]
