# needs: python3.13-minimal
# only: ferrule
"""What is Ferrule's own is there, and nothing of it in the way."""
import sys

import framehook

seen = []


def watched():
    return 1


def hook(view):
    if view.code is not watched.__code__:
        return framehook.DISABLE
    seen.append(view.code.co_name)


with framehook.hook(hook):
    watched()
assert seen == ["watched"], seen
assert framehook.__file__ == "/usr/lib/python3.13-ferrule/framehook.py", framehook.__file__
assert "(Ferrule " in sys.version, sys.version
print(sys.version)
