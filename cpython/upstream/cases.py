"""What CPython's own generators make of the instructions' definitions."""

import subprocess
import sys

from tools import patches

from .messages import FetchError

# What CPython's own tools make of the instructions' definitions, as its target
# regen-cases does: (generator, output, inputs).
BYTECODES = "Python/bytecodes.c"
OPTIMIZER_BYTECODES = "Python/optimizer_bytecodes.c"
GENERATED_CASES = (
    ("opcode_id_generator.py", "Include/opcode_ids.h", (BYTECODES,)),
    ("target_generator.py", "Python/opcode_targets.h", (BYTECODES,)),
    ("uop_id_generator.py", "Include/internal/pycore_uop_ids.h", (BYTECODES,)),
    ("py_metadata_generator.py", "Lib/_opcode_metadata.py", (BYTECODES,)),
    ("tier1_generator.py", "Python/generated_cases.c.h", (BYTECODES,)),
    ("tier2_generator.py", "Python/executor_cases.c.h", (BYTECODES,)),
    ("optimizer_generator.py", "Python/optimizer_cases.c.h", (OPTIMIZER_BYTECODES, BYTECODES)),
    ("opcode_metadata_generator.py", "Include/internal/pycore_opcode_metadata.h", (BYTECODES,)),
    ("uop_metadata_generator.py", "Include/internal/pycore_uop_metadata.h", (BYTECODES,)),
)
OLDEST_GENERATOR_PYTHON = (3, 11)


def regenerate_cases(tree, written):
    """Generate anew what depends on a patched input; the files that came out different.

    Without the Rust core they must be what upstream ships, as the patched files are.
    """
    if sys.version_info < OLDEST_GENERATOR_PYTHON:
        raise FetchError(f"{BYTECODES} is patched, and CPython's generators need Python 3.11: "
                         "run with a newer python3 (PYTHON3=)")
    changed = []
    for generator, output, inputs in GENERATED_CASES:
        if not set(inputs) & set(written):
            continue
        before = patches.read(tree / output)
        # -I would hide the generators' own modules from them; -B leaves no __pycache__.
        run = subprocess.run([sys.executable, "-B", f"Tools/cases_generator/{generator}", "-o", output, *inputs],
                             cwd=tree, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                             errors="replace")
        if run.returncode != 0:
            raise FetchError(f"{generator} failed in {tree}:\n{run.stderr.strip()[-1500:]}")
        after = patches.read(tree / output)
        if patches.stock_lines(after) != patches.stock_lines(before):
            raise FetchError(f"{output}, generated anew, is not upstream's where there is no Rust core: "
                             f"what the patches add to {BYTECODES} changes more than the code between its guards")
        if after != before:
            changed.append(output)
    return changed
