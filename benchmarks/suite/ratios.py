"""From runs in pairs to a ratio, how sure it is, and what may be said.

Processes of the same round make a pair, and a pair's ratio is what both have in common of the machine taken off. The
ratio of a benchmark is the median of its pairs, or of its links' medians, with a bootstrap interval of 95 %.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy
from scipy import stats

Figures = Mapping[int, float]       # {round: figure of its process}
CONFIDENCE = 0.95
RESAMPLES = 2000
FEWEST_PAIRS = 5        # fewer say nothing: the interval of three pairs misses the truth every fourth time
WIDEST = 0.04           # an interval that includes 1.00 and is wider than this hides what is looked for
BEYOND = 1.02           # what is listed by name, either way

FASTER, SLOWER, SAME, NOISY, FEW = "faster", "slower", "same", "too noisy to tell", "too few pairs to tell"

RULE = (f"A ratio is the median over pairs of neighbouring runs (over links, where each link has several pairs, of which"
        f" it has the median); its interval is a bootstrap of that median at {CONFIDENCE:.0%}. “Slower” and “faster” mean that the whole"
        " interval is on one side of 1.00. Where it includes"
        f" 1.00 it is “same” if at most {WIDEST:.2f} wide, else “too noisy to tell”; fewer than {FEWEST_PAIRS} pairs are"
        f" “too few”.")


class Ratio(NamedTuple):
    value: float
    low: float
    high: float
    pairs: int

    @property
    def verdict(self) -> str:
        if self.pairs < FEWEST_PAIRS:
            return FEW
        if self.low > 1:
            return SLOWER
        if self.high < 1:
            return FASTER
        return SAME if self.high - self.low <= WIDEST else NOISY

    @property
    def is_beyond(self) -> bool:
        """Whether it is to be listed by name: more than 2 % off, and surely off."""
        return self.verdict in (SLOWER, FASTER) and not 1 / BEYOND <= self.value <= BEYOND


def median_with_interval(values: Sequence[float]) -> Ratio:
    """The median, and a bootstrap interval of it: the whole range where values are few."""
    value = float(numpy.median(values))
    if len(values) < 2 or max(values) == min(values):
        return Ratio(value, float(min(values)), float(max(values)), len(values))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        found = stats.bootstrap((values,), numpy.median, confidence_level=CONFIDENCE, n_resamples=RESAMPLES,
                                method="percentile", rng=0).confidence_interval
    return Ratio(value, float(found.low), float(found.high), len(values))


def pair(mine: Figures, base: Figures) -> dict[int, float]:
    """{round: ratio} of what two {round: figure} have in common, in the order of rounds."""
    return {number: mine[number] / base[number] for number in sorted(mine.keys() & base.keys())}


def by_link(ratios: Figures, links: int) -> list[float]:
    """What an interval is taken over, from {round: ratio}: one figure for each link of the builds, the median of its rounds.

    Rounds of one link share where its code lies, which moves a ratio more than the noise of a pair: as if they were
    independent, they would make an interval too narrow. Of the builds as they are, each round is a figure.
    """
    if links == 1:
        return list(ratios.values())
    groups: dict[int, list[float]] = {}
    for number, ratio in ratios.items():
        groups.setdefault(number % links, []).append(ratio)
    return [float(numpy.median(group)) for group in groups.values()]


def compare(mine: Figures, base: Figures, links: int = 1) -> Ratio | None:
    """The Ratio of two {round: figure}, or None where they have no round in common."""
    ratios = pair(mine, base)
    return median_with_interval(by_link(ratios, links)) if ratios else None


def mean_of(pairs: Iterable[tuple[Figures, Figures]], links: int = 1) -> Ratio | None:
    """The geometric mean over benchmarks as a Ratio; None where no round has them all.

    `pairs` has (mine, base) of each benchmark. Each round that has them all gives one mean: so its interval holds what
    moves the whole machine, and a few rounds with some of the benchmarks do not tilt it.
    """
    pairs = list(pairs)
    if not pairs:
        return None
    rounds = set.intersection(*(mine.keys() & base.keys() for mine, base in pairs))
    means = {number: float(stats.gmean([mine[number] / base[number] for mine, base in pairs])) for number in sorted(rounds)}
    return median_with_interval(by_link(means, links)) if means else None


def spread(values: Sequence[float]) -> float:
    """How far the middle half of values reaches, as a part of their median."""
    return float(stats.iqr(values) / numpy.median(values))
