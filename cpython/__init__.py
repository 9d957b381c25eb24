"""The pinned releases of CPython, and how to get them."""
