"""Whether the better of two policies depends on the fabric: all pairs at once as each by itself."""

from itertools import combinations, product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.pairing import Paired, discoveries, paired
from analysis.turn import Turn, turned

Means = dict[tuple[str, str], dict[int, float]]
VALUES = st.dictionaries(st.integers(1, 5), st.integers(1, 30).map(float), max_size=5)


def pairwise(held: Means) -> Turn | None:
    """The rule, pair by pair: two policies turn when differences both ways are believed."""
    fabrics = list(dict.fromkeys(fabric for fabric, _ in held))
    policies = list(dict.fromkeys(policy for _, policy in held))
    keys, gaps = [], []
    for (one, other), fabric in product(combinations(policies, 2), fabrics):
        if (fabric, one) in held and (fabric, other) in held:
            gap = paired(held[fabric, one], held[fabric, other])
            if gap is not None:
                keys.append((one, other, fabric))
                gaps.append(gap)
    sure: dict[tuple[str, str], list[tuple[str, Paired]]] = {}
    for place, gap in discoveries(gaps).items():
        one, other, fabric = keys[place]
        sure.setdefault((one, other), []).append((fabric, gap))
    found = []
    for (one, other), each in sure.items():
        wins, gain = max(each, key=lambda pair: pair[1].gap.value)
        loses, loss = min(each, key=lambda pair: pair[1].gap.value)
        if gain.gap.value > 0 > loss.gap.value:
            found.append(Turn(one, other, wins, gain, loses, loss))
    return max(found, key=lambda each: min(each.gain.gap.value, -each.loss.gap.value), default=None)


@settings(deadline=None)
@given(st.dictionaries(st.tuples(st.sampled_from("fgh"), st.sampled_from("pqrs")), VALUES))
def test_any_means_turn_as_pair_by_pair(held: Means) -> None:
    assert turned(held) == pairwise(held)


def test_policies_that_turn_are_found_as_pair_by_pair() -> None:
    rng, found = np.random.default_rng(5), 0
    for _ in range(40):
        held: Means = {
            (fabric, policy): {
                seed: float(rng.normal(mean, 1.0))
                for seed in range(1, 13)
                if rng.random() < rng.choice([0.8, 1.0])
            }
            for fabric, policy in product("fgh", "pqrstu")
            for mean in [50 + rng.normal(0, 1.5)]
        }
        told = turned(held)
        assert told == pairwise(held)
        found += told is not None
    assert 5 < found < 40


def test_one_fabric_turns_nothing() -> None:
    assert turned({("f", "p"): {1: 1.0, 2: 1.0}, ("f", "q"): {1: 2.0, 2: 2.0}}) is None
