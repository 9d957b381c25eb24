"""Programs for the compiler, as users write them. Run by benchmarks/jit.py in the interpreters that are measured: no annotations.

    python benchmarks/jit_programs.py NAME [PACKAGES | --numba]       # see main()
"""

import math
import sys
import time
import types


def longest_collatz(limit):
    best, where = 0, 0
    for start in range(1, limit):
        number, length = start, 1
        while number > 1:
            if number & 1:
                number = number * 3 + 1
            else:
                number >>= 1
            length += 1
        if length > best:
            best, where = length, start
    return where, best


def mandelbrot(width, height, most):
    inside = 0
    for row in range(height):
        imaginary = row * 2.0 / height - 1.0
        for column in range(width):
            real = column * 3.0 / width - 2.0
            a = b = 0.0
            turns = 0
            while turns < most and a * a + b * b <= 4.0:
                a, b = a * a - b * b + real, 2.0 * a * b + imaginary
                turns += 1
            if turns == most:
                inside += 1
    return inside


def common_divisor(a, b):
    while b != 0:
        a, b = b, a % b
    return a


def coprime_pairs(limit):
    pairs = 0
    for a in range(1, limit):
        for b in range(1, a):
            if common_divisor(a, b) == 1:
                pairs += 1
    return pairs


def pi_by_leibniz(terms):
    total, sign = 0.0, 4.0
    for term in range(terms):
        total += sign / (2 * term + 1)
        sign = -sign
    return total


def fibonacci(n):
    if n < 2:
        return n
    return fibonacci(n - 1) + fibonacci(n - 2)


def congruential(turns):
    state, ones = 42, 0
    for _ in range(turns):
        state = (state * 1664525 + 1013904223) % 4294967296
        ones += state >> 31
    return state, ones


def is_prime(number):
    if number < 4:
        return number > 1
    if number % 2 == 0:
        return False
    divisor = 3
    while divisor * divisor <= number:
        if number % divisor == 0:
            return False
        divisor += 2
    return True


def count_primes(limit):
    found = 0
    for number in range(limit):
        if is_prime(number):
            found += 1
    return found


def place_queens(everywhere, columns, left, right):
    if columns == everywhere:
        return 1
    solutions = 0
    free = everywhere & ~(columns | left | right)
    while free:
        place = free & -free
        free ^= place
        solutions += place_queens(everywhere, columns | place, (left | place) << 1, (right | place) >> 1)
    return solutions


def queens(size):
    return place_queens((1 << size) - 1, 0, 0, 0)


def sieve(limit):
    composite = bytearray(limit + 1)
    found = 0
    for number in range(2, limit + 1):
        if not composite[number]:
            found += 1
            for multiple in range(number * number, limit + 1, number):
                composite[multiple] = 1
    return found


def matrix_product(size):
    a = [[float(row * size + column) for column in range(size)] for row in range(size)]
    b = [[float(row - column) for column in range(size)] for row in range(size)]
    trace = 0.0
    for row in range(size):
        for column in range(size):
            total = 0.0
            for k in range(size):
                total += a[row][k] * b[k][column]
            if row == column:
                trace += total
    return trace


def edit_distance(first, second):
    above = list(range(len(second) + 1))
    for i in range(len(first)):
        row = [i + 1]
        for j in range(len(second)):
            change = above[j] + (first[i] != second[j])
            row.append(min(change, above[j + 1] + 1, row[j] + 1))
        above = row
    return above[-1]


def planets(steps):
    x, y, v, w = [0.0, 4.8, 8.3, 12.9], [0.0, -1.2, 4.1, -15.1], [0.0, 0.6, -1.0, 1.1], [0.0, 2.8, 1.8, 0.9]
    mass = [39.5, 0.04, 0.01, 0.0017]
    for _ in range(steps):
        for i in range(4):
            for j in range(4):
                if i != j:
                    dx, dy = x[i] - x[j], y[i] - y[j]
                    squared = dx * dx + dy * dy
                    pull = mass[j] * 0.01 / (squared * math.sqrt(squared))
                    v[i] -= dx * pull
                    w[i] -= dy * pull
        for i in range(4):
            x[i] += 0.01 * v[i]
            y[i] += 0.01 * w[i]
    return x[1], y[1]


PROGRAMS = {
    "collatz": lambda: longest_collatz(60_000), "mandelbrot": lambda: mandelbrot(300, 200, 100), "gcd": lambda: coprime_pairs(900),
    "leibniz": lambda: pi_by_leibniz(4_000_000), "fib": lambda: fibonacci(29), "lcg": lambda: congruential(4_000_000),
    "primes": lambda: count_primes(150_000), "queens": lambda: queens(12), "sieve": lambda: sieve(2_000_000),
    "matmul": lambda: matrix_product(130), "levenshtein": lambda: edit_distance(b"kitten" * 80, b"sitting" * 80),
    "nbody": lambda: planets(20_000),
}


def codes_of(code):
    """A code object and those that it makes functions of."""
    return [code, *(inner for constant in code.co_consts if isinstance(constant, types.CodeType) for inner in codes_of(constant))]


def functions_of(program):
    """The code of all functions that a program calls, by name."""
    codes, seen = [], [program.__code__]
    while seen:
        for name in seen.pop().co_names:
            value = program.__globals__.get(name)
            found = codes_of(value.__code__) if isinstance(value, types.FunctionType) and value.__code__ not in codes else []
            codes += found
            seen += found
    return codes


def compiled(program, stats):
    """How many of a program's functions were compiled, or a loop of them, with nothing refused; and how many there are."""
    facts = [stats(code) for code in functions_of(program)]
    whole = [(fact.get("versions") or fact.get("loops")) and not fact["refused"] for fact in facts]
    return f"{sum(map(bool, whole))} of {len(facts)}"


def use_numba(program):
    """Has Numba compile the functions that a program calls, as they are, and run the program once, which compiles them."""
    import numba
    values = program.__globals__
    codes = functions_of(program)
    values.update({name: numba.njit(value) for name, value in values.items()
                   if isinstance(value, types.FunctionType) and value.__code__ in codes})
    program()


def main(programs=PROGRAMS):
    """Prints the seconds that a program took, what was compiled, and the result, with tabs between them."""
    if sys.argv[1] == "--list":
        print(*programs, sep="\n")
        return
    name, *packages = sys.argv[1:]
    program = programs[name]
    found = ""
    if packages == ["--numba"]:
        use_numba(program)
    elif packages:
        sys.path.insert(0, packages[0])
        import ferrule_jit
        ferrule_jit.enable()
    began = time.perf_counter()
    result = program()
    seconds = time.perf_counter() - began
    if packages and packages != ["--numba"]:
        found = compiled(program, ferrule_jit.stats)
    print(seconds, found, result, sep="\t")


if __name__ == "__main__":
    main()
