"""Twenty programs that the compiler was not tuned for: tasks of the Benchmarks Game, Rosetta Code and Project Euler, as plain Python.

    python benchmarks/jit_untuned.py NAME [PACKAGES | --numba]        # see main() of jit_programs.py

Run by `benchmarks/jit.py --untuned` in the interpreters that are measured: no annotations.
"""

import math

import jit_programs


def spectral_norm(n):
    """Benchmarks Game: the largest singular value of an infinite matrix."""
    def entry(i, j):
        return 1.0 / ((i + j) * (i + j + 1) // 2 + i + 1)

    def times(vector):
        return [sum(entry(i, j) * vector[j] for j in range(n)) for i in range(n)]

    def times_transposed(vector):
        return [sum(entry(j, i) * vector[j] for j in range(n)) for i in range(n)]

    u = [1.0] * n
    for _ in range(3):
        v = times_transposed(times(u))
        u = times_transposed(times(v))
    dot = sum(a * b for a, b in zip(u, v))
    return round(math.sqrt(dot / sum(b * b for b in v)), 9)


def pancake_flips(n):
    """Benchmarks Game: the most flips over all permutations, and a checksum."""
    permutation, count = list(range(n)), list(range(n))
    most = checksum = turns = 0
    remaining = n
    while True:
        while remaining > 1:
            count[remaining - 1] = remaining
            remaining -= 1
        flipped = permutation[:]
        flips = 0
        while flipped[0]:
            first = flipped[0] + 1
            flipped[:first] = flipped[first - 1::-1]
            flips += 1
        most = max(most, flips)
        checksum += -flips if turns & 1 else flips
        turns += 1
        while True:
            if remaining == n:
                return most, checksum
            permutation.insert(remaining, permutation.pop(0))
            count[remaining] -= 1
            if count[remaining] > 0:
                break
            remaining += 1
        remaining = max(remaining, 1)


def random_sequence(length):
    """Benchmarks Game (fasta): letters by a linear congruential generator, counted."""
    chances = [0.27, 0.39, 0.51, 0.78, 0.80, 0.82, 0.84, 0.86, 0.88, 0.90, 0.92, 0.94, 0.96, 0.98, 1.0]
    counts, seed = [0] * len(chances), 42
    for _ in range(length):
        seed = (seed * 3877 + 29573) % 139968
        chance, letter = seed / 139968, 0
        while chances[letter] < chance:
            letter += 1
        counts[letter] += 1
    return counts


def complement(data):
    """Benchmarks Game: the reverse complement of a sequence."""
    table = bytearray(range(256))
    for a, b in zip(b"ACGTacgt", b"TGCATGCA"):
        table[a] = b
    left, right = 0, len(data) - 1
    while left < right:
        data[left], data[right] = table[data[right]], table[data[left]]
        left += 1
        right -= 1
    return sum(data)


def ackermann(m, n):
    """Rosetta Code."""
    if m == 0:
        return n + 1
    if n == 0:
        return ackermann(m - 1, 1)
    return ackermann(m - 1, ackermann(m, n - 1))


def happy_numbers(limit):
    """Rosetta Code: how many numbers end at 1."""
    found = 0
    for number in range(1, limit):
        while number not in (1, 4):
            total = 0
            while number:
                number, digit = divmod(number, 10)
                total += digit * digit
            number = total
        found += number == 1
    return found


def perfect_numbers(limit):
    """Rosetta Code."""
    return [number for number in range(2, limit) if sum(divisor for divisor in range(1, number) if number % divisor == 0) == number]


def life(size, generations):
    """Rosetta Code: Conway's game on a torus."""
    board = [[(row * row + column * 3) % 7 < 3 for column in range(size)] for row in range(size)]
    for _ in range(generations):
        following = [[False] * size for _ in range(size)]
        for row in range(size):
            for column in range(size):
                neighbours = -board[row][column]
                for other in range(row - 1, row + 2):
                    for beside in range(column - 1, column + 2):
                        neighbours += board[other % size][beside % size]
                following[row][column] = neighbours == 3 or (board[row][column] and neighbours == 2)
        board = following
    return sum(sum(row) for row in board)


def knapsack(capacity):
    """Rosetta Code: the best value, by dynamic programming."""
    weights = [9, 13, 153, 50, 15, 68, 27, 39, 23, 52, 11, 32, 24, 48, 73, 42, 43, 22, 7, 18, 4, 30]
    values = [150, 35, 200, 160, 60, 45, 60, 40, 30, 10, 70, 30, 15, 10, 40, 70, 75, 80, 20, 12, 50, 10]
    best = [0] * (capacity + 1)
    for weight, value in zip(weights, values):
        for room in range(capacity, weight - 1, -1):
            best[room] = max(best[room], best[room - weight] + value)
    return best[capacity]


def longest_common_subsequence(first, second):
    """Rosetta Code: its length."""
    lengths = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            if a == b:
                lengths[i + 1][j + 1] = lengths[i][j] + 1
            else:
                lengths[i + 1][j + 1] = max(lengths[i + 1][j], lengths[i][j + 1])
    return lengths[-1][-1]


def shortest_paths(count):
    """Rosetta Code: Floyd and Warshall."""
    distance = [[0 if i == j else (i * 17 + j * 31) % 97 + 1 for j in range(count)] for i in range(count)]
    for k in range(count):
        for i in range(count):
            for j in range(count):
                through = distance[i][k] + distance[k][j]
                if through < distance[i][j]:
                    distance[i][j] = through
    return sum(map(sum, distance))


def monte_carlo(throws):
    """Rosetta Code: pi, with a generator of its own."""
    state, inside = 12345, 0
    for _ in range(throws):
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        x = state / 0x7FFFFFFF
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        y = state / 0x7FFFFFFF
        if x * x + y * y <= 1.0:
            inside += 1
    return 4 * inside / throws


def shell_sort(count):
    """Rosetta Code."""
    numbers = [(i * 7919 + 104729) % 1_000_003 for i in range(count)]
    gap = count // 2
    while gap:
        for i in range(gap, count):
            number, j = numbers[i], i
            while j >= gap and numbers[j - gap] > number:
                numbers[j] = numbers[j - gap]
                j -= gap
            numbers[j] = number
        gap = 1 if gap == 2 else gap * 5 // 11
    return numbers[0], numbers[count // 2], numbers[-1]


def runge_kutta(steps):
    """Rosetta Code: dy/dt = t sqrt(y)."""
    def slope(t, y):
        return t * math.sqrt(y)

    t, y, step = 0.0, 1.0, 10.0 / steps
    for _ in range(steps):
        a = step * slope(t, y)
        b = step * slope(t + step / 2, y + a / 2)
        c = step * slope(t + step / 2, y + b / 2)
        d = step * slope(t + step, y + c)
        t += step
        y += (a + 2 * b + 2 * c + d) / 6
    return round(y, 6)


def amicable(limit):
    """Project Euler 21."""
    sums = [1] * limit
    for divisor in range(2, limit // 2 + 1):
        for multiple in range(2 * divisor, limit, divisor):
            sums[multiple] += divisor
    return sum(number for number in range(2, limit) if sums[number] < limit and sums[number] != number and sums[sums[number]] == number)


def palindrome_products(low, high):
    """Project Euler 4."""
    best = 0
    for a in range(low, high):
        for b in range(a, high):
            product = a * b
            if product > best:
                reversed_product, rest = 0, product
                while rest:
                    reversed_product = reversed_product * 10 + rest % 10
                    rest //= 10
                if reversed_product == product:
                    best = product
    return best


def coins(amount):
    """Project Euler 31."""
    ways = [1] + [0] * amount
    for coin in (1, 2, 5, 10, 20, 50, 100, 200):
        for total in range(coin, amount + 1):
            ways[total] += ways[total - coin]
    return ways[amount] % 1_000_000_007


def right_triangles(limit):
    """Project Euler 39: the perimeter with the most triangles of whole sides."""
    best, where = 0, 0
    for perimeter in range(12, limit, 2):
        solutions = 0
        for a in range(1, perimeter // 3):
            if perimeter * (perimeter - 2 * a) % (2 * (perimeter - a)) == 0:
                solutions += 1
        if solutions > best:
            best, where = solutions, perimeter
    return where


def digit_powers(power):
    """Project Euler 30: numbers that are the sum of such powers of their digits."""
    powers, total = [digit**power for digit in range(10)], 0
    for number in range(10, 355_000):
        rest, found = number, 0
        while rest > 0:
            found += powers[rest % 10]
            rest //= 10
        if found == number:
            total += number
    return total


def quadratic_primes(limit):
    """Project Euler 27."""
    def is_prime(number):
        if number < 2:
            return False
        divisor = 2
        while divisor * divisor <= number:
            if number % divisor == 0:
                return False
            divisor += 1
        return True

    best, where = 0, 0
    for a in range(-limit + 1, limit):
        for b in range(2, limit + 1):
            n = 0
            while is_prime(n * n + a * n + b):
                n += 1
            if n > best:
                best, where = n, a * b
    return where


PROGRAMS = {
    "spectral norm": lambda: spectral_norm(250), "pancakes": lambda: pancake_flips(9), "fasta": lambda: random_sequence(600_000),
    "complement": lambda: complement(bytearray(b"ACGTTGCAAC" * 200_000)), "ackermann": lambda: [ackermann(2, 300) for _ in range(8)][0],
    "happy": lambda: happy_numbers(100_000), "perfect": lambda: perfect_numbers(5000), "life": lambda: life(100, 30),
    "knapsack": lambda: knapsack(100_000), "subsequence": lambda: longest_common_subsequence(b"ACGTTGCA" * 200, b"TGCACGTA" * 200),
    "paths": lambda: shortest_paths(200), "monte carlo": lambda: monte_carlo(1_500_000), "shell sort": lambda: shell_sort(150_000),
    "runge kutta": lambda: runge_kutta(1_000_000), "amicable": lambda: amicable(300_000), "palindromes": lambda: palindrome_products(100, 4000),
    "coins": lambda: coins(1_000_000), "triangles": lambda: right_triangles(6000), "digit powers": lambda: digit_powers(5),
    "quadratic primes": lambda: quadratic_primes(400),
}


if __name__ == "__main__":
    jit_programs.main(PROGRAMS)
