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
        return framehook.SETTLED
    seen.append(view.code.co_name)


with framehook.hook(hook):
    watched()
print(seen, framehook.__file__.startswith("/usr/lib/python3.13-ferrule/"), "Ferrule" in sys.version)
