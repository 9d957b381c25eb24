"""Finds words that have the same letters, in a slow way: something to profile and to debug.

    python -m ferrule_profiler examples/anagrams.py
    python -m ferrule_debugger examples/anagrams.py
"""

TEXT = "listen silent enlist google elbow below state taste rat tar art inlets stone notes onset tones"


def letters(word):
    return "".join(sorted(word))


def are_anagrams(one, other):
    return letters(one) == letters(other)


def group_of(word, groups):
    for group in groups:
        if are_anagrams(word, group[0]):
            return group
    groups.append([])
    return groups[-1]


def grouped(text):
    groups = []
    for word in text.split():
        group_of(word, groups).append(word)
    return groups


def largest(groups):
    best = max(groups, key=len)
    return sorted(best)


for _ in range(1000):
    found = largest(grouped(TEXT))
print(*found)
