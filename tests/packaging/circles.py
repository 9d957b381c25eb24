"""Circles in a graph of modules: {module: {module that it uses: the text by which it does}}."""


def name_of(module):
    """A Rust module's name is a tuple, () the root of its crate; a Python module's is its path."""
    return module if isinstance(module, str) else "::".join(module) or "lib"


def shortest_way(graph, start):
    """The shortest circle through `start`, as (user, used) pairs; None: there is none."""
    ways, seen = [[start]], set()
    for way in ways:
        if start in graph[way[-1]]:
            return list(zip(way, [*way[1:], start]))
        fresh = [target for target in graph[way[-1]] if target not in seen]
        seen.update(fresh)
        ways += [[*way, target] for target in fresh]
    return None


def circles(graph):
    """What to say of circles: the shortest ones, and no two that have a use in common."""
    found = filter(None, (shortest_way(graph, start) for start in graph))
    reported, messages = set(), []
    for circle in sorted(found, key=len):
        if reported.isdisjoint(circle):
            reported.update(circle)
            messages.append("a circle:" + "".join(f"\n    {name_of(user)} uses {name_of(used)}: {graph[user][used]}"
                                                  for user, used in circle))
    return messages
