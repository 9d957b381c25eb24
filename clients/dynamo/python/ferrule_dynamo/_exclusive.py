"""The lock of the package: held while the rest of it is imported, and while torch's functions are exchanged.

A fork waits for it. Its child has no thread that would go on with either, and would wait for ever to import what another thread was importing.
It is registered before the package can be used: a fork waits for the locks that there are when it begins.
"""

import _thread
import os

lock = _thread.RLock()
os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
