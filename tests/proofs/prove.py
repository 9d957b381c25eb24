"""Proves the claims about arithmetic (rust-core/src/*/proofs.rs) for all numbers, of the compiled functions.

angr runs a function with symbolic numbers, on every way through it; z3 says whether any numbers come to the result that
means "fails", or to a panic (overflow is one in this build). What angr does not understand is a failure.
Prints a line for each claim. Its last line is `N passed, N failed`.
"""

import argparse
import logging
import sys
import time

for name in ("angr", "cle", "pyvex", "claripy"):
    logging.getLogger(name).setLevel(logging.CRITICAL)

import angr  # noqa: E402
import claripy  # noqa: E402

FAILS, HOLDS, OUTSIDE = 0, 1, 2
REGISTERS = ("rdi", "rsi", "rdx", "rcx", "r8", "r9")
# Far beyond what any claim takes. A loop without a bound would not end.
MOST_STATES, MOST_BLOCKS = 5000, 100_000


class Panic(angr.SimProcedure):
    NO_RET = True

    def run(self):
        self.state.globals["panicked"] = True
        self.exit(1)


def project_of(binary):
    project = angr.Project(binary, auto_load_libs=False)
    for symbol in project.loader.main_object.symbols:
        # Rust's, whose names are mangled: all that begins a panic is in core::panicking or std::panicking, or names it.
        if symbol.is_function and symbol.name.startswith("_R") and "panic" in symbol.name:
            project.hook(symbol.rebased_addr, Panic(), replace=True)
    return project


def prove(project, symbol):
    """None, or what is wrong."""
    numbers = [claripy.BVS(register, 64) for register in REGISTERS]
    state = project.factory.call_state(symbol.rebased_addr, *numbers, prototype="unsigned f(%s)" % ", ".join(["unsigned long"] * 6))
    state.options |= {angr.options.SYMBOL_FILL_UNCONSTRAINED_MEMORY, angr.options.SYMBOL_FILL_UNCONSTRAINED_REGISTERS}
    state.options -= angr.options.unicorn
    manager = project.factory.simulation_manager(state, save_unconstrained=True)
    blocks = 0
    while manager.active:
        manager.step()
        blocks += 1
        if len(manager.active) > MOST_STATES or blocks > MOST_BLOCKS:
            return "it has too many ways"
    if manager.errored or manager.unconstrained:
        return f"angr does not understand it: {manager.errored or manager.unconstrained}"

    def shown(state, *extra):
        values = [state.solver.eval(number, extra_constraints=extra) for number in numbers]
        return ", ".join(f"{register}={value:#x}" for register, value in zip(REGISTERS, values))

    holds = False
    for end in manager.deadended:
        if end.globals.get("panicked"):
            if end.solver.satisfiable():
                return f"it panics for {shown(end)}"
            continue
        result = end.regs.eax
        wrong = claripy.And(result != HOLDS, result != OUTSIDE)
        if end.solver.satisfiable(extra_constraints=[wrong]):
            return f"it fails for {shown(end, wrong)}"
        holds = holds or end.solver.satisfiable(extra_constraints=[result == HOLDS])
    return None if holds else "it claims nothing"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary")
    parser.add_argument("claims", nargs="*", help="without claim_; default: all")
    options = parser.parse_args()
    project = project_of(options.binary)
    symbols = {symbol.name.removeprefix("claim_"): symbol for symbol in project.loader.main_object.symbols
               if symbol.is_function and symbol.name.startswith("claim_")}
    passed = failed = 0
    for name in options.claims or sorted(symbols):
        started = time.monotonic()
        wrong = prove(project, symbols[name]) if name in symbols else "there is no such claim"
        print(f"{'FAIL' if wrong else 'ok  '}  {name}  [{time.monotonic() - started:.0f} s]{': ' + wrong if wrong else ''}", flush=True)
        passed, failed = passed + (not wrong), failed + bool(wrong)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
