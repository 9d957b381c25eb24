"""Read at the start of each process that ci/real-programs wants a frame hook in, by a .pth file of the environment: see environments.py."""

import site

# In a virtual environment CPython reads such files twice.
if not hasattr(site, "ferrule_hook"):
    site.ferrule_hook = True
    exec(compile(open(INSTALLS).read(), INSTALLS, "exec"), {"__name__": "sitecustomize"})
