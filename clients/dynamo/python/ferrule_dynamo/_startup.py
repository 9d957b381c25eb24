"""Installs as soon as torch's compiler is imported, if FERRULE_DYNAMO says so.

A .pth file imports this when an interpreter starts, so it costs next to nothing.
"""

import os
import sys


class Watcher:
    """Finds no module, but learns that torch's compiler is about to be imported."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "torch._dynamo":
            sys.meta_path.remove(Watcher)
            import ferrule_dynamo

            ferrule_dynamo.install()


if os.environ.get("FERRULE_DYNAMO", "0") not in ("", "0"):
    sys.meta_path.insert(0, Watcher)
