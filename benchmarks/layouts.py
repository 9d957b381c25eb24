"""One build linked several times, each time with its functions in another order.

Where the eval loop comes to lie decides what shares cache lines and entries of the branch predictor: on its own that
moves single call benchmarks by up to ten per cent, in either direction, without one instruction being different. A
ratio of two builds is therefore taken over several layouts of both (Mytkowicz et al., "Producing Wrong Data Without
Doing Anything Obviously Wrong!", ASPLOS 2009). It needs lld, as `make release` does.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

from measuring import ROOT, ChildFailed, Progress, Pythons

FLAGS = "-Xlinker -export-dynamic -ffunction-sections -Wl,--shuffle-sections=.text*={seed}"


def link(python: str, seed: int) -> str:
    """The path of `python`, which is a build tree's, linked anew in the order of that seed."""
    directory = os.path.dirname(python)
    variant = os.path.basename(directory)
    if directory != os.path.join(ROOT, "build", variant):
        raise SystemExit(f"only builds of this tree can be linked again, not {python}")
    name = f"python-layout{seed}"
    command = [sys.executable, "-m", "tools.build", "make", variant,
               f"BUILDPYTHON={name}", "LINKFORSHARED=" + FLAGS.format(seed=seed), name]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise ChildFailed(f"linking failed: {' '.join(command)}\n{done.stdout[-2000:]}")
    return os.path.join(directory, name)


@contextlib.contextmanager
def linked(pythons: Pythons, count: int) -> Iterator[list[dict[str, str]]]:
    """A list of `count` dictionaries like `pythons`, {name: path}; the files are gone when the context ends."""
    made: list[str] = []
    progress = Progress(count * len(pythons))
    try:
        layouts = []
        for seed in range(1, count + 1):
            layout = {}
            for which, python in pythons.items():
                layout[which] = link(python, seed)
                made.append(layout[which])
                progress.step(f"linked {which}, layout {seed}")
            layouts.append(layout)
        progress.end()
        yield layouts
    finally:
        for path in made:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
