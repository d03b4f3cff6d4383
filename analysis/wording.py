"""Numbers as people read them: with their unit, three digits, and their interval.

An infinite duration is one that did not finish; an infinite end of an interval is one that the
data does not bound.
"""

from collections.abc import Sequence
from math import inf, isnan

from analysis.interval import Estimate
from topo.unit import PS_PER_MS, show_duration, show_ratio

NONE = "n/a"
ONE_SEED = "one seed"
"""In the place of an interval over the seeds where there is one seed, and so none."""


def duration(ps: float) -> str:
    """A duration with its unit.

    >>> duration(3_200_000_000), duration(float("inf"))
    ('3.2 ms', 'not finished')
    """
    if isnan(ps):
        return NONE
    return "not finished" if ps == inf else show_duration(ps)


def milliseconds(ps: float) -> str:
    """A duration in ms without the unit, for columns and axes that name it.

    >>> milliseconds(3_200_000_000)
    '3.2'
    """
    return NONE if isnan(ps) else "never" if ps == inf else f"{ps / PS_PER_MS:.3g}"


def percent(share: float) -> str:
    """A share as a percentage.

    >>> percent(0.0371), percent(0)
    ('3.7 %', '0 %')
    """
    if isnan(share):
        return NONE
    scaled = 100 * share
    if scaled == 0:
        return "0 %"
    return (
        "< 0.1 %" if 0 < scaled < 0.1 else f"{scaled:.1f} %" if scaled < 10 else f"{scaled:.0f} %"
    )


def between(low: str, high: str, estimate: Estimate) -> str:
    """The interval in words, for ends already written."""
    if estimate.low == -inf and estimate.high == inf:
        return "no interval"
    if estimate.low == -inf:
        return f"below {high}"
    return f"above {low}" if estimate.high == inf else f"{low} to {high}"


def duration_span(estimate: Estimate) -> str:
    """The interval of a duration.

    >>> duration_span(Estimate(2e9, 1e9, float("inf")))
    'above 1 ms'
    """
    return between(duration(estimate.low), duration(estimate.high), estimate)


def share_span(estimate: Estimate) -> str:
    """The interval of a share."""
    return f"{percent(estimate.low)} to {percent(estimate.high)}"


def duration_told(found: Estimate | None) -> str:
    """A duration with its interval.

    >>> duration_told(Estimate(2e9, 1e9, 3e9)), duration_told(None)
    ('2 ms (1 ms to 3 ms)', 'n/a')
    """
    return f"{duration(found.value)} ({duration_span(found)})" if found is not None else NONE


def share_told(found: Estimate | None, otherwise: str = NONE) -> str:
    """A share with its interval, or what else stands in its place.

    >>> share_told(Estimate(0.5, 0.25, 1)), share_told(None, "no cell has run")
    ('50 % (25 % to 100 %)', 'no cell has run')
    """
    return f"{percent(found.value)} ({share_span(found)})" if found is not None else otherwise


def ratio(value: float | None) -> str:
    """An oversubscription, as in labels.

    >>> ratio(2.0), ratio(None)
    ('2:1', 'n/a')
    """
    return NONE if value is None else show_ratio(value)


def times(ratio: float) -> str:
    """A factor.

    >>> times(13.2), times(1.04)
    ('13x', '1.0x')
    """
    if isnan(ratio):
        return NONE
    if ratio == inf:
        return "without bound"
    return f"{ratio:.0f}x" if ratio >= 9.95 else f"{ratio:.1f}x"


def money(usd: float) -> str:
    """US dollars, three digits.

    >>> money(1_234_000), money(83_000), money(0)
    ('$1.23 M', '$83 k', '$0')
    """
    for unit, name in ((1e6, " M"), (1e3, " k")):
        if abs(usd) >= unit:
            return f"${usd / unit:.3g}{name}"
    return f"${usd:.3g}"


def name(q: float) -> str:
    """A quantile's name.

    >>> name(0.9), name(0.999)
    ('P90', 'P99.9')
    """
    return f"P{100 * q:g}"


def count(number: int, noun: str) -> str:
    """A number with its noun.

    >>> count(1, "seed"), count(2400, "hand-off"), count(5, "policy")
    ('1 seed', '2,400 hand-offs', '5 policies')
    """
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{number:,} {noun if number == 1 else plural}"


def printable(text: str) -> str:
    """A stranger's text without what a terminal would obey.

    >>> printable("a\\x1b[31mb")
    'a [31mb'
    """
    return "".join(c if c.isprintable() else " " for c in text)


def more_seeds(number: int | None) -> str:
    """Advice on sample size, to be put behind a difference that was not found.

    >>> more_seeds(20), more_seeds(None)
    ('; 20 more seeds would separate these two if the difference stays', '')
    """
    if number is None:
        return ""
    return f"; {count(number, 'more seed')} would separate these two if the difference stays"


def listed(names: Sequence[str]) -> str:
    """Some names in a sentence.

    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)
