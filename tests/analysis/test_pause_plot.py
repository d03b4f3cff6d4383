"""The figure of stops stays small however many there are."""

import numpy as np

from analysis.plot.pause import bars


def test_few_stops_are_drawn_as_they_are() -> None:
    since, until, kind = np.array([0, 50]), np.array([10, 70]), np.array([1, 0])
    for drawn, given in zip(bars(since, until, kind), (since, until, kind), strict=True):
        np.testing.assert_array_equal(drawn, given)


def test_many_stops_are_columns_in_the_colour_that_has_most_of_each() -> None:
    # 6,000 stops of 60 in every 100, in the first half of kind 0 and in the second of kind 1, but
    # for short ones of the other kind between them and a gap of a tenth in the middle.
    at = np.arange(6000) * 100
    at = np.where(at >= 300_000, at + 60_000, at)
    kind = (at >= 300_000).astype(np.int64)
    since = np.concatenate([at, at + 70])
    until = np.concatenate([at + 60, at + 80])
    since, until, drawn = bars(since, until, np.concatenate([kind, 1 - kind]))
    assert drawn.tolist() == [0, 1]
    column = 660_000 / 600
    np.testing.assert_allclose(since, [0, 360_000], atol=column)
    np.testing.assert_allclose(until, [300_000, 660_000], atol=column)


def test_a_hundred_thousand_stops_leave_at_most_600_bars() -> None:
    rng = np.random.default_rng(1)
    since = np.sort(rng.integers(0, 10**12, 10**5))
    since, until, _ = bars(since, since + 10**5, rng.integers(0, 6, 10**5))
    assert len(since) <= 600
    assert np.all(until > since)
