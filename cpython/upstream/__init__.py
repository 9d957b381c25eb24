"""CPython's source: where it comes from, and the patched tree that is made of it."""
