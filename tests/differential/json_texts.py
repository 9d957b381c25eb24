"""Random JSON texts, right and wrong: prints what each becomes, a line for each. The lines are the same on stock and here.

    json_texts.py SEED COUNT

Strings have each length up to three words of a machine and some beyond, characters of one, two and four bytes, escapes, and control characters,
at each place; texts end within strings.
"""

import json
import random
import sys
from json.decoder import scanstring

PLAIN = "abcdefgh !#[]^~\x7f"
SPECIAL = ('"', "\\", "\\n", "\\u0041", "\\ud83d\\udc0d", "\\ud83d", "\\x", "\\u12", "\x00", "\x1f", "\t", "\n", "\xa2", "\xdc", "\x80", "\x9f", "\xff")
WIDE = ("", "", "", "\u0122", "\u225c", "\u2022", "\U0001005c", "\U00010022")


def string(choose: random.Random) -> str:
    """What may be between quotes."""
    pieces = choose.choices(PLAIN, k=choose.choice((choose.randint(0, 25), choose.randint(0, 9), 64)))
    for _ in range(choose.choice((0, 0, 1, 1, 2, 3))):
        pieces.insert(choose.randint(0, len(pieces)), choose.choice(SPECIAL))
    pieces.insert(choose.randint(0, len(pieces)), choose.choice(WIDE))
    return "".join(pieces)


def value(choose: random.Random, depth: int) -> str:
    kind = choose.random()
    if kind < 0.6 or depth == 0:
        return '"' + string(choose) + '"'
    if kind < 0.7:
        return choose.choice(("1", "-2.5e3", "true", "null", "NaN", "-", "01"))
    parts = [value(choose, depth - 1) for _ in range(choose.randint(0, 3))]
    if kind < 0.85:
        return "[" + ", ".join(parts) + "]"
    return "{" + ", ".join('"' + string(choose) + '": ' + part for part in parts) + "}"


def outcome(function, *arguments):
    try:
        return ascii(function(*arguments))
    except ValueError as error:
        return ascii(error)


def main() -> None:
    seed, count = map(int, sys.argv[1:])
    for number in range(seed, seed + count):
        choose = random.Random(number)
        text = value(choose, 2)
        if choose.random() < 0.2:
            text = text[:choose.randint(0, len(text))]
        print(number, ascii(text), *(outcome(json.JSONDecoder(strict=strict).decode, text) for strict in (True, False)), sep="\t")
        begin = choose.randint(-1, len(text) + 1)
        print(number, begin, *(outcome(scanstring, text, begin, strict) for strict in (True, False)), sep="\t")


if __name__ == "__main__":
    main()
