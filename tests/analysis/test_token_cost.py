"""The cost of a token by hand: an hour's dollars over an hour's tokens within the objectives."""

from collections.abc import Callable, Sequence
from math import inf, isnan

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from analysis.breakeven import breakeven, rivals, sentences
from analysis.economics import bill, bills, token_cost, token_costs
from analysis.export import summary_rows
from analysis.interval import Estimate
from analysis.measure import MEASURES
from analysis.price import PriceFact
from analysis.record import Cell, StudyManifest
from analysis.summary import UNDECIDED, Sample, Summary
from topo.unit import PS_PER_S as S

Rows = Callable[..., Cell]
Ask = Callable[..., StudyManifest]


def price(mode: str = "disaggregated", **changes: float) -> PriceFact:
    """40 dollars an hour for GPUs, and a fabric of 2 that only disaggregated serving uses."""
    found = PriceFact(
        gpu_usd_per_hour=40.0,
        fabric_usd=87_600.0,
        life_hours=43_800.0,
        crosses=mode == "disaggregated",
        mode=mode,
    )
    return msgspec.structs.replace(found, **changes)


@pytest.fixture(scope="session")
def serve(make_rows: Rows) -> Callable[..., Sample]:
    """Eleven requests, one a second, of which each seed names how many are in time."""

    def served(
        fabric: str, paid: PriceFact | None, in_time: Sequence[int], tokens: int = 100
    ) -> Sample:
        cells = []
        for seed, many in enumerate(in_time, 1):
            rows = [
                {
                    "arrival_ps": place * S,
                    "output_tokens": tokens,
                    "first_token_ps": place * S + (1 if place < many else 5) * S,
                    "finish_ps": (place + 9) * S,
                }
                for place in range(11)
            ]
            made = make_rows(rows)
            manifest = msgspec.structs.replace(made.manifest, seed=seed, price=paid)
            cells.append(Cell(manifest, made.requests, made.flows, made.ports))
        return Sample(fabric, "p", tuple(cells), (), (), None)

    return served


@pytest.fixture
def ask(make_question: Ask) -> StudyManifest:
    """First tokens within 2 s; two ways of serving on one fabric."""
    return make_question(
        ttft_ps=2 * S,
        fabrics=["apart", "together"],
        varied={
            "apart": {"fabric": "f", "serving": "disaggregated"},
            "together": {"fabric": "f", "serving": "colocated"},
        },
    )


def test_summary_rows_hold_the_cost_that_is_told(
    serve: Callable[..., Sample], ask: StudyManifest
) -> None:
    samples = [serve("apart", price(), [11, 11]), serve("free", None, [11])]
    rows = [Summary(sample.fabric, sample.policy, UNDECIDED) for sample in samples]
    columns, told = summary_rows(rows, bills(samples, ask))
    held = [dict(zip(columns, row, strict=True)) for row in told]
    assert held[0]["tokens_per_s_within_objectives"] == pytest.approx(100)
    assert (held[0]["gpu_usd_per_hour"], held[0]["fabric_usd_per_hour"]) == (40, 2)
    ends = [held[0][f"usd_per_million_tokens{end}"] for end in ("", "_low", "_high")]
    assert ends == [pytest.approx(42 / 0.36)] * 3
    assert isnan(float(str(held[1]["usd_per_million_tokens"])))


def test_an_hours_dollars_are_shared_by_the_tokens_in_time(
    serve: Callable[..., Sample], ask: StudyManifest
) -> None:
    whole = serve("f", price(), [11]).cells[0]  # 100 tokens/s, 360,000 an hour, for 42 dollars
    assert token_cost(whole, ask) == pytest.approx(42 / 0.36)
    unused = serve("f", price("colocated"), [11]).cells[0]
    assert token_cost(unused, ask) == pytest.approx(40 / 0.36)
    some = serve("f", price(), [5]).cells[0]
    assert token_cost(some, ask) == pytest.approx(42 / 0.36 * 11 / 5)


def test_without_tokens_in_time_the_cost_is_infinite_and_without_prices_unknown(
    serve: Callable[..., Sample], ask: StudyManifest, make_question: Ask
) -> None:
    assert token_cost(serve("f", price(), [0]).cells[0], ask) == inf
    assert isnan(token_cost(serve("f", None, [11]).cells[0], ask))
    assert isnan(token_cost(serve("f", price(), [11]).cells[0], make_question()))
    assert token_costs([serve("f", None, [11])], ask).rows == ()
    assert sentences([serve("apart", None, [9]), serve("together", None, [9])], ask) == []


def test_a_seed_without_tokens_in_time_makes_the_others_dearer(
    serve: Callable[..., Sample], ask: StudyManifest
) -> None:
    sample = serve("f", price(), [11, 0])  # as many tokens in twice the hours
    found = MEASURES["token_cost"].estimate(sample, ask)
    assert found is not None
    assert found.value == pytest.approx(2 * 42 / 0.36)
    assert found.high == inf


def test_the_table_tells_dollars_with_their_interval(
    serve: Callable[..., Sample], ask: StudyManifest
) -> None:
    samples = [serve("apart", price(), [11, 11]), serve("together", price("colocated"), [11, 11])]
    assert token_costs(samples, ask).rows == (
        ("apart", "p", "disaggregated", "100", "$40", "$2", "$117"),
        ("together", "p", "colocated", "100", "$40", "$0, not used", "$111"),
    )


def test_twice_the_tokens_pay_for_a_fabric_as_dear_as_the_gpus(
    serve: Callable[..., Sample], ask: StudyManifest
) -> None:
    samples = [serve("apart", price(), [10, 8]), serve("together", price("colocated"), [5, 4])]
    (pair,) = rivals(samples, ask)
    assert pair.ratio.value == pytest.approx(2)
    assert pair.cost.value == pytest.approx(42 / 40 / 2)
    assert pair.turn.value == pytest.approx(20)  # 2 dollars an hour become 40
    assert pair.gains == "colocated"
    (row,) = breakeven(samples, ask).rows
    assert row[-2:] == ("disaggregated", "$1.75 M, 20x its price")
    (told,) = sentences(samples, ask)
    assert told.startswith("Worth disaggregating: ")
    assert "costs 48 % less with apart with p than with together with p" in told
    assert "The order turns at a fabric of $1.75 M" in told


def test_as_many_tokens_never_pay_for_a_fabric(
    serve: Callable[..., Sample], ask: StudyManifest
) -> None:
    samples = [serve("apart", price(), [11, 11]), serve("together", price("colocated"), [11, 11])]
    (told,) = sentences(samples, ask)
    assert told.startswith("Not worth disaggregating: ")
    assert "costs 5.0 % more" in told
    assert "(the same in every seed, 2 common seeds; $117 a million tokens and $111" in told
    assert "No price of the fabric above $0 turns the order." in told
    assert "the load sets the tokens" in told


def test_seeds_that_disagree_show_no_difference(
    serve: Callable[..., Sample], ask: StudyManifest
) -> None:
    samples = [serve("apart", price(), [10, 3]), serve("together", price("colocated"), [3, 10])]
    (told,) = sentences(samples, ask)
    assert "no difference found" in told
    assert breakeven(samples, ask).rows[0][-2] == "no difference found"
    single = [serve("apart", price(), [10]), serve("together", price("colocated"), [5])]
    assert "one common seed cannot show one" in sentences(single, ask)[0]
    assert all(row[-1].endswith(" (one seed)") for row in token_costs(single, ask).rows)
    assert breakeven(single, ask).rows[0][2:4] == ("2x (one seed)", "0.525x (one seed)")


def test_a_way_that_serves_nothing_in_time_has_no_interval(
    serve: Callable[..., Sample], ask: StudyManifest
) -> None:
    samples = [serve("apart", price(), [9, 8]), serve("together", price("colocated"), [0, 0])]
    (told,) = sentences(samples, ask)
    assert "no token within the objectives" in told
    assert "without an interval" in told


def test_the_cheapest_of_each_kind_are_compared_and_settings_kept_apart(
    serve: Callable[..., Sample], make_question: Ask
) -> None:
    labels = [("slow", "disaggregated"), ("slow", "colocated"), ("fast", "disaggregated")]
    study = make_question(
        ttft_ps=2 * S,
        varied={f"{rate} {mode}": {"load": rate, "serving": mode} for rate, mode in labels},
    )
    samples = [
        serve(f"{rate} {mode}", price(mode), [9, 8], tokens=100 if rate == "slow" else 900)
        for rate, mode in labels
    ]
    (pair,) = rivals(samples, study)
    assert (pair.apart.sample.fabric, pair.together.sample.fabric) == (
        "slow disaggregated",
        "slow colocated",
    )
    dear = serve("slow disaggregated", price(gpu_usd_per_hour=400.0), [9, 8])
    assert rivals([*samples, dear], study)[0].apart.price.gpu_usd_per_hour == 40


dollars = st.floats(1, 1000)


@given(dollars, dollars, dollars, dollars, st.booleans(), st.integers(1, 11), st.integers(1, 11))
def test_at_the_turn_both_cost_the_same(
    serve: Callable[..., Sample],
    make_question: Ask,
    gpu: float,
    other: float,
    fabric: float,
    its: float,
    crosses: bool,
    some: int,
    rest: int,
) -> None:
    study = make_question(ttft_ps=2 * S, varied={k: {"fabric": "f"} for k in ("a", "t")})
    paid = [
        price(gpu_usd_per_hour=gpu, fabric_usd=fabric, life_hours=1.0),
        price("colocated", gpu_usd_per_hour=other, fabric_usd=its, life_hours=1.0, crosses=crosses),
    ]
    samples = [serve("a", paid[0], [some, some]), serve("t", paid[1], [rest, rest])]
    (pair,) = rivals(samples, study)
    turn = pair.turn.value
    assume(not isnan(turn) and turn < 1e6)

    def costs(factor: float) -> list[float]:
        hours = [p.gpu_usd_per_hour + factor * p.fabric_usd_per_hour for p in paid]
        return [hours[0] / some, hours[1] / rest]

    assert costs(turn)[0] == pytest.approx(costs(turn)[1])
    apart, together = costs(2 * turn)
    assert (pair.gains == "disaggregated") == (apart < together)


def test_the_interval_of_the_turn_follows_from_that_of_the_tokens(
    serve: Callable[..., Sample], ask: StudyManifest
) -> None:
    samples = [
        serve("apart", price(), [9, 10, 10]),
        serve("together", price("colocated"), [4, 5, 4]),
    ]
    (pair,) = rivals(samples, ask)
    assert pair.turn == Estimate(*((40 * r - 40) / 2 for r in (
        pair.ratio.value, pair.ratio.low, pair.ratio.high)))  # fmt: skip
    found = bill(samples[0], ask)
    assert found is not None
    assert found.usd.low < found.usd.value < found.usd.high < inf
