"""Random programs, run by the interpreter and as machine code: results, exceptions with their lines and columns, and the
variables of all frames of a traceback must be equal.

    build/ferrule/python tests/jit/fuzz.py --count 20000 --seed 1 --packages DIRECTORY [--stock build/stock/python] [--around]

With --stock, the outcomes of the interpreter are compared with stock CPython's too. With --around, programs run under tools,
signals, threads and failing allocations in turn (surroundings.py). fuzz_many.py runs many, and prints totals.
"""

import argparse
import array
import copy
import itertools
import json
import re
import resource
import subprocess
import sys
import traceback
import types
import warnings

import generator
import generator_lists
import generator_objects
import surroundings

KINDS = [("int", "int", "int"), ("float", "float", "float"), ("int", "float", "int"), ("float", "int", "other"), ("int", "int", "other"),
         ("int", "int", "int"), ("list", "list", "int"), ("nested", "list", "int"), ("list", "bytes", "int"), ("array", "list", "int"),
         ("tuple", "list", "int"), ("pairs", "list", "int"), ("object", "int", "int"), ("object", "float", "float")]
CALLS = 8
# Of the address space of a process, which is far above what a program is to need: one that doubles a list or an int without end
# ends with a MemoryError, as it does without the compiler.
MEMORY = 4 << 30


def describe(value, depth=5):
    if isinstance(value, tuple | list):
        # A list may contain itself.
        items = ", ".join(describe(item, depth - 1) for item in value) if depth else "..."
        return f"({items})" if isinstance(value, tuple) else f"[{items}]"
    if isinstance(value, array.array | memoryview):
        return f"{type(value).__name__} {value.tolist()}"
    if isinstance(value, int) and not -10**40 < value < 10**40:
        return f"int {hash(value)} {value.bit_length()}"
    if isinstance(value, str | bytes) and len(value) > 10_000:
        return f"{type(value).__name__} {len(value)} {value[:100]!r}"   # the rest may not fit into memory once more
    if hasattr(value, "__next__"):
        return type(value).__name__  # with the address of what it loops over
    if type(value).__module__ == "builtins" and not isinstance(value, types.BuiltinFunctionType | types.FunctionType | types.MethodType | types.ModuleType):
        return f"{type(value).__name__} {value!r}"
    return type(value).__name__


def outcome(function, arguments):
    """What a call does, as text."""
    generator_lists.DROPPED.begin()
    dropped, lists = generator_lists.DROPPED.numbers, generator_lists.DROPPED.lists
    arguments = copy.deepcopy(arguments)  # lists are changed
    generator_lists.DROPPED.show(arguments)
    found = outcome_of(function, arguments)
    lists.clear()  # which have what refers to them
    changed = [describe(argument) for argument in arguments if isinstance(argument, list | bytearray | array.array | memoryview)]
    return f"{found} {changed} {dropped}" if changed else found


def outcome_of(function, arguments):
    try:
        result = function(*arguments)
    except Exception as error:
        frames = []
        step = error.__traceback__.tb_next
        while step is not None:
            positions = next(itertools.islice(step.tb_frame.f_code.co_positions(), step.tb_lasti // 2, None))
            local = {name: describe(value) for name, value in step.tb_frame.f_locals.items() if name[:2] != "__"}
            frames.append([step.tb_frame.f_code.co_name, step.tb_lineno, positions, sorted(local.items())])
            step = step.tb_next
        text = "" if isinstance(error, RecursionError) else str(error)[:200]
        return f"{type(error).__name__}: {text} {frames}"
    return described(result, arguments)


def described(result, arguments):
    # A number that was read from a container is another object, which docs/jit.md says; there it may have been that of an argument.
    may_be_read = isinstance(result, int | float) and any(isinstance(argument, list) for argument in arguments)
    return f"{describe(result)} {[index for index, argument in enumerate(arguments) if result is argument and not may_be_read]}"


def is_same(program, was, wanted):
    """Whether an outcome is the interpreter's. Of a shift by 0 that has an operand back, which docs/jit.md says of operators."""
    return was == wanted or (">>" in program.text and was == re.sub(r"^(int \S+(?: \d+)?) \[\d(, \d)*\]", r"\1 []", wanted))


class Program:
    """A generated program, with the arguments of its calls."""

    def __init__(self, seed):
        self.kinds = KINDS[seed % len(KINDS)]
        has_lists = "list" in self.kinds
        kind = generator_lists.ListGenerator if has_lists else generator.Generator
        if self.kinds[0] == "object":  # made of numbers
            kind, self.kinds = generator_objects.ObjectGenerator, (self.kinds[1], *self.kinds[1:])
        made = kind(seed, self.kinds)
        self.seed, self.text = seed, made.source()
        self.code = compile(self.text, f"<program {seed}>", "exec")
        if has_lists:
            self.calls = [generator_lists.arguments(made.rng, self.kinds, made.calm) for _ in range(CALLS)]
        else:
            self.calls = [generator.arguments(made.rng, self.kinds) for _ in range(CALLS)]
        if made.calm:
            # What is compiled first is for ints that fit into a machine word.
            self.calls.sort(key=lambda values: any(isinstance(value, int) and not -2**63 <= value < 2**63 for value in values))
        if made.style in ("globals", "module"):
            # Globals keep values until a later call, or the collector, drops them.
            self.calls = [generator_lists.silenced(values) for values in self.calls]

    def functions(self):
        namespace = {"__name__": "generated"}
        exec(self.code, namespace)
        return namespace

    text_of = staticmethod(described)

    def outcomes(self, before):
        """Of all calls, and the functions that were called."""
        functions = self.functions()
        before(functions)
        return [outcome(functions["main"], arguments) for arguments in self.calls], functions

    def run(self, before):
        return self.outcomes(before)[0]


def seeds(options):
    return range(options.seed, options.seed + options.count)


def around(options, seed):
    """What runs around a program: its name, and how."""
    if not options.around:
        return "nothing", surroundings.run_alone
    # Not the same for all programs with the same kinds of arguments.
    names = list(surroundings.SURROUNDINGS)
    name = names[seed // len(KINDS) % len(names)]
    return name, surroundings.SURROUNDINGS[name]


def interpreted(options):
    """The interpreter's outcomes, and what was observed, by seed."""
    return {seed: around(options, seed)[1](Program(seed), lambda main: None) for seed in seeds(options)}


def outcomes_of_stock(options):
    command = [options.stock, __file__, "--count", str(options.count), "--seed", str(options.seed), "--print"]
    found = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    return {int(seed): outcomes for seed, outcomes in json.loads(found).items()}


def compiled(options, expected):
    """Runs all once more with the compiler; the number of programs that were compiled, and the differences."""
    sys.path.insert(0, options.packages)
    import ferrule_jit
    ferrule_jit.enable(turns=1)  # where a function is not compiled as a whole, its loops are
    totals, differences = {"programs": 0, "calls": 0, "compiled": 0, "entered": 0, "left": 0, "around": {}, "refused": {}}, []

    def ask(main):
        if options.loops:
            return
        for function in list(main.values()):
            if isinstance(function, types.FunctionType):
                ferrule_jit.compile_at_next_call(function)

    for seed in seeds(options):
        program, functions = Program(seed), []
        name, run = around(options, seed)

        def before(main, functions=functions):
            ask(main)
            functions += [value for value in main.values() if isinstance(value, types.FunctionType | types.CodeType)]

        # The first run of a code object is interpreted, so that RESUME is specialized. Then twice compiled.
        for turn in range(3):
            # The second time alone, so that a tool meets code that is compiled.
            found, observed = (surroundings.run_alone if turn == 1 else run)(program, before)
            outcomes, wanted = expected[seed]
            if turn != 1 and observed != wanted:
                differences.append((seed, turn, name, wanted, observed))
            for arguments, was, wanted in zip(program.calls, found, outcomes):
                totals["calls"] += 1
                if not is_same(program, was, wanted) and not (name == "threads" and surroundings.lacks_memory(was, wanted)):
                    differences.append((seed, turn, arguments, wanted, was))
        totals["programs"] += 1
        totals["around"][name] = totals["around"].get(name, 0) + 1
        facts = [ferrule_jit.stats(function) for function in functions]
        totals["compiled"] += any(fact.get("versions") or fact.get("loops") for fact in facts)
        totals["entered"] += sum(fact.get("entered", 0) for fact in facts)
        totals["left"] += sum(fact.get("left", 0) for fact in facts)
        main = ferrule_jit.stats(functions[-1]).get("refused")
        if main:
            reason = "".join(character for character in main if not character.isdigit())
            totals["refused"][reason] = totals["refused"].get(reason, 0) + 1
    return totals, differences


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--packages", help="where ferrule_jit is")
    parser.add_argument("--stock", help="an interpreter to compare with")
    parser.add_argument("--loops", action="store_true", help="enter running loops, instead of having whole functions compiled")
    parser.add_argument("--around", action="store_true", help="run programs under tools, signals, threads and failing allocations in turn")
    parser.add_argument("--print", action="store_true", help="print the interpreter's outcomes")
    parser.add_argument("--json", action="store_true", help="print the totals as JSON")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    # Where there is a lower limit already, that holds.
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    memory = MEMORY if most == resource.RLIM_INFINITY else min(MEMORY, most)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    expected = interpreted(options)
    if options.print:
        json.dump({seed: outcomes for seed, (outcomes, _) in expected.items()}, sys.stdout)
        return
    failed = 0
    if options.stock:
        for seed, outcomes in outcomes_of_stock(options).items():
            if outcomes != json.loads(json.dumps(expected[seed][0])):
                failed += 1
                print(f"seed {seed} differs from stock without the compiler")
    totals, differences = compiled(options, expected)
    for seed, turn, arguments, wanted, was in differences[:5]:
        print(f"--- seed {seed}, turn {turn}, {arguments}\n{Program(seed).text}\nwanted {wanted}\nfound  {was}", file=sys.stderr)
    if options.json:
        json.dump({**totals, "differences": len(differences), "from stock": failed}, sys.stdout)
        sys.exit(bool(differences or failed))
    most = sorted(totals["refused"].items(), key=lambda item: -item[1])[:12]
    share = 100 * totals["compiled"] // max(totals["programs"], 1)
    print(f"{totals['programs']} programs, {totals['calls']} calls, {totals['compiled']} programs compiled ({share} %), "
          f"{totals['entered']} entries, {totals['left']} exits, {len(differences)} differences, {failed} from stock")
    print("not compiled:", most)
    sys.exit(bool(differences or failed))


if __name__ == "__main__":
    try:
        main()
    except Exception:
        traceback.print_exc()
        sys.exit(2)
