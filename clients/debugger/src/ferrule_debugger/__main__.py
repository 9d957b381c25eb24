"""python -m ferrule_debugger [-c command] (-m module | script.py) [arguments]"""

import pdb
import sys

from . import install, missing


def main():
    install()
    if (lacking := missing()) is not None:
        print(f"{lacking} Code is found by events of sys.monitoring instead.", file=sys.stderr)
    pdb.main()


if __name__ == "__main__":
    main()
