"""Tenants and tokenisers: shares, priorities, and the load of the same words."""

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traffic.error import RequestError
from traffic.load.tokeniser import retold
from traffic.model import model
from traffic.request import request_table
from traffic.source.length import Constant
from traffic.source.profile import Profile
from traffic.source.session import Agent, sessions
from traffic.source.tenant import Tenant, tenanted
from traffic.source.workload import synthesise

CHAT = Tenant("chat", 0.7, priority=5)
BATCH = Tenant("batch", 0.3, lengths=Profile("flat", Constant(9), Constant(0), "test"))


def test_requests_go_to_tenants_by_their_shares_with_priority_and_lengths() -> None:
    plain = synthesise(count=10_000, rate_per_s=100, seed=1)
    table = tenanted(plain, [CHAT, BATCH], 1)
    batch = table.tenant == 1
    assert abs(batch.mean() - 0.3) < 5 * sqrt(0.21 / 10_000)
    assert set(table.priority[batch].tolist()) == {0}
    assert set(table.priority[~batch].tolist()) == {5}
    assert set(table.input_tokens[batch].tolist()) == {9}
    assert set(table.output_tokens[batch].tolist()) == {0}
    assert np.array_equal(table.input_tokens[~batch], plain.input_tokens[~batch])
    assert np.array_equal(table.arrival_ps, plain.arrival_ps)


def test_a_session_belongs_to_one_tenant() -> None:
    plain = sessions(Agent(turns=2, calls=2), count=3000, rate_per_s=50, seed=2)
    table = tenanted(plain, [Tenant("a", 0.5, 1), Tenant("b", 0.5, 2)], 2)
    for number in np.unique(table.session):
        assert len(np.unique(table.tenant[table.session == number])) == 1
    assert set(table.tenant.tolist()) == {0, 1}
    assert table.prefix is not None


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Tenant("a", 0), "tenant 'a': share 0: write e.g. 25%"),
        (lambda: Tenant("a", float("nan")), "share nan"),
        (lambda: Tenant("a", 1, 8), "tenant 'a': priority 8: write 0 to 7"),
        (lambda: given_to(Tenant("a", 0.5)), "shares add up to 50%; write shares of 100%"),
        (lambda: given_to(Tenant("a", 0.5), Tenant("a", 0.5)), "tenant 'a': stands twice"),
        (
            lambda: tenanted(sessions(Agent(), count=9, rate_per_s=9, seed=1), [CHAT, BATCH], 1),
            "does not go with sessions",
        ),
    ],
)
def test_impossible_tenants_are_refused(make: Callable[[], Any], told: str) -> None:
    with pytest.raises(RequestError, match=told) as refused:
        make()
    assert "\n" not in str(refused.value)


def given_to(*tenants: Tenant) -> None:
    tenanted(synthesise(count=3, rate_per_s=9, seed=1), tenants, 1)


def test_half_as_many_tokens_again_a_word_are_half_as_many_bytes_again() -> None:
    table = request_table(
        arrival_ps=[0, 10**12, 2 * 10**12], input_tokens=[1000] * 3, output_tokens=[100, 0, 1]
    )
    one, more = retold(table, model("Llama-3.1-8B"), (1.0, 1.5), recorded=1.0)
    assert one.summary.input.mean == 1000
    assert more.summary.input.mean == 1500
    assert one.words_in == more.words_in == 1000
    for found, tokens in ((one, 1000), (more, 1500)):
        load = found.summary.load
        assert load is not None
        assert load.kv_bytes.mean == tokens * 131_072
        assert load.kv_bps == 8 * 2 * tokens * 131_072 / 2
    assert more.summary.output.most == 150
    assert more.summary.output.p50 == 2


def test_the_recorded_tokeniser_changes_nothing() -> None:
    table = synthesise(count=500, rate_per_s=100, seed=3)
    (same,) = retold(table, model("gpt-oss-120b"), (1.33,), recorded=1.33)
    assert same.summary.input.mean == table.input_tokens.mean()
    assert same.summary.output.mean == table.output_tokens.mean()


@given(st.floats(0.1, 100), st.floats(0.1, 100))
def test_more_tokens_a_word_never_weigh_less(one: float, other: float) -> None:
    table = synthesise(count=5, rate_per_s=100, seed=4)
    less, more = retold(table, model("gpt-oss-120b"), sorted((one, other)), recorded=1.33)
    assert less.summary.load is not None
    assert more.summary.load is not None
    assert less.summary.load.kv_bytes.mean <= more.summary.load.kv_bytes.mean


@pytest.mark.parametrize(
    ("ratios", "recorded", "told"),
    [
        ((), 1.33, "tokens_per_word: none given"),
        ((0.0,), 1.33, "tokens_per_word 0: write 0.1 to 100"),
        ((1.33,), float("nan"), "tokens_per_word nan"),
    ],
)
def test_an_impossible_tokeniser_is_refused(
    ratios: tuple[float, ...], recorded: float, told: str
) -> None:
    table = synthesise(count=5, rate_per_s=100, seed=4)
    with pytest.raises(RequestError, match=told):
        retold(table, model("gpt-oss-120b"), ratios, recorded=recorded)
