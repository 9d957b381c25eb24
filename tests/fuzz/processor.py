"""How much of a processor fuzzing has taken."""

import resource


def minutes() -> float:
    """What the processes that were started here, and have ended, took of a processor."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) / 60
