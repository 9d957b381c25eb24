"""Random regular expressions on random texts: prints what each finds, a line for each. The lines are the same on stock and here.

    regular_expressions.py SEED COUNT

Texts are of characters of one, two and four bytes, of bytes, and of a buffer; some are long, with what is sought far behind. Patterns begin
with literals, sets and groups, have alternatives with equal beginnings, and repeat greedily, lazily and possessively.
"""

import random
import re
import sys
import warnings

LETTERS = "aab1_ \n"
WIDE = {1: "\xe9", 2: "\u2603", 4: "\U0001f40d"}
SETS = ("[ab]", "[^a]", "[^\\n]", "[a-c_]", "[\\d_]", "[^\\w]", "[1b\xe9]", "[\u2603a]", "[^ab\u2603]", "\\w", "\\d", "\\s", "\\W", "\\S", ".", "[a1 _\\n]")
PLACES = ("^", "$", "\\b", "\\B", "\\A", "\\Z")
# Only characters are repeated without an end, and three times in a pattern: others take CPython hours.
ENDLESS, MOST_ENDLESS = ("*", "+", "{2,}"), 3
REPEATS = ("?", "{2}", "{1,3}", "{,2}")
FLAGS = (0, 0, 0, re.DOTALL, re.MULTILINE, re.IGNORECASE, re.ASCII, re.IGNORECASE | re.DOTALL)


def literal(choose: random.Random) -> str:
    return re.escape(choose.choice(LETTERS + "b" + choose.choice(list(WIDE.values()))))


def atom(choose: random.Random, depth: int) -> str:
    kind = choose.random()
    if kind < 0.45 or depth == 0:
        return literal(choose)
    if kind < 0.65:
        return choose.choice(SETS)
    if kind < 0.70:
        return choose.choice(PLACES)
    inner = alternatives(choose, depth - 1)
    return choose.choice(("({})", "({})", "(?:{})", "(?:{})", "(?>{})", "(?={})", "(?!{})", "(?i:{})")).format(inner)


def piece(choose: random.Random, depth: int) -> str:
    one = atom(choose, depth)
    if choose.random() < 0.4 and one not in PLACES:
        repeats = REPEATS if "(" in one or choose.random() < 0.3 else ENDLESS
        return one + choose.choice(repeats) + choose.choice(("", "", "?", "?", "+"))
    return one


def sequence(choose: random.Random, depth: int) -> str:
    return "".join(piece(choose, depth) for _ in range(choose.randint(1, 3)))


def alternatives(choose: random.Random, depth: int) -> str:
    # Equal beginnings, so that an alternative is left at its second character.
    begin = literal(choose) if choose.random() < 0.3 else choose.choice(SETS) if choose.random() < 0.2 else ""
    return "|".join(begin + sequence(choose, depth) for _ in range(choose.choice((1, 1, 1, 2, 3))))


def text(choose: random.Random, width: int, letters: str) -> str:
    letters += WIDE[width] if choose.random() < 0.8 else ""
    found = "".join(choose.choices(letters, k=choose.randint(0, 14)))
    if choose.random() < 0.15:
        found = choose.choice("a1 \xe9") * choose.randint(20, 40) + found
    # Whatever else there is, it has this width.
    return found + WIDE[width]


def part_of_a_group(choose: random.Random) -> str:
    """A lazy repetition before the end of a group, with a condition on that group: it sees what an attempt that failed has left of the group."""
    def one() -> str:
        return "".join(choose.choices("ab1", k=choose.randint(1, 3)))

    middle = choose.choice(("b?", "b*", "(?:b|1)?", "(?:(b)|a)*", "(?:a|(b))*?", "(?:a(b)a|a(b)1|)", "(?<=(a))"))
    condition = choose.choice((f"(?(1){one()}|{one()})", f"(?(2){one()}|{one()})", one()))
    lazy = choose.choice(("1*?", ".*?", "[ab]??", "a{0,2}?", "[^b]+?"))
    source = f"(?P<outer>(a){middle}{condition}{lazy}){choose.choice('ab1')}"
    if choose.random() < 0.3:
        return f"(?:{source}){choose.choice(('?', '{1,2}', '*?', '++'))}{one()}"
    # A beginning that overlaps with itself.
    return choose.choice(("", "", "abab", "aab", "aaa", "abaab")) + source


def begins_with_a_set(choose: random.Random) -> str:
    """A set first, in groups and repetitions: where it is not tried at each character, a search goes to the next one that is in the set."""
    source = choose.choice(SETS) + choose.choice(("", "", literal(choose), "\\b", "(?<=(.))", "(?=(.))"))
    endless = choose.choice(("", "", "+", "+?", "++", "{2,}", "{0,}"))
    source = choose.choice(("({})", "(?:{})", "(?>{})")).format(source) + endless
    for _ in range(2):
        repeats = ("", "?") if endless else ("", "{1,2}", "{1,3}?", "{2}+", "{0,2}")
        source = choose.choice(("({0})", "({0})", "(?:{0})", "(?>{0})", "({0}|b)", "(?:1{0}|{0})")).format(source) + choose.choice(repeats)
    return source + choose.choice(("", literal(choose), "(?(1)a|b)", "\\1", "$"))


def shown(found: "re.Match[str] | None") -> object:
    return found and (found.span(), found.regs, found.lastindex, found.lastgroup)


def results(pattern: "re.Pattern[str]", where: str, replacement: str) -> list[object]:
    begin = len(where) // 3
    scanner = pattern.scanner(where)
    return [
        [shown(step()) for step in (scanner.search, scanner.match, scanner.search)],
        [shown(found) for found in pattern.finditer(where)],
        shown(pattern.match(where)), shown(pattern.fullmatch(where)), shown(pattern.search(where, begin, len(where) - 1)),
        pattern.split(where, maxsplit=3), pattern.subn(replacement, where),
    ]


def main() -> None:
    warnings.simplefilter("ignore")
    seed, count = map(int, sys.argv[1:])
    for number in range(seed, seed + count):
        choose = random.Random(number)
        source = alternatives(choose, 2)
        while len(re.findall(r"[*+]|,}", source)) > MOST_ENDLESS:
            source = alternatives(choose, 2)
        letters = LETTERS
        kind = choose.random()
        if kind < 0.5:
            source, letters = part_of_a_group(choose), "aaabb1"
        elif kind < 0.7:
            source = begins_with_a_set(choose)
        groups = len(re.findall(r"(?<!\\)\((?!\?)", source))
        if groups and choose.random() < 0.2:
            source += f"\\{choose.randint(1, groups)}"
        flags = choose.choice(FLAGS)
        try:
            pattern = re.compile(source, flags)
        except re.error as error:
            print(number, ascii(source), error)
            continue
        for width in WIDE:
            where = text(choose, width, letters)
            print(number, ascii(source), flags, ascii(where), ascii(results(pattern, where, "<\\g<0>>")))
        if source.isascii() or max(source) < "\u0100":
            octets = re.compile(source.encode("latin-1"), flags & ~re.ASCII | choose.choice((0, 0, re.LOCALE)))
            where = text(choose, 1, letters).encode("latin-1")
            for buffer in (where, bytearray(where), memoryview(where)):
                print(number, "bytes", results(octets, buffer, b"<>"))


if __name__ == "__main__":
    main()
