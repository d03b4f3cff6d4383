"""The prices of a scenario: of each pool's GPUs, and of the fabric where serving uses it."""

from pathlib import Path

import pytest

from analysis.price import PriceFact
from kvfabric.compare import jobs_of
from kvfabric.limit import not_modelled
from kvfabric.load import load
from kvfabric.run import settings_of
from kvfabric.source import ScenarioError

TEXT = """\
name: prices
fabric: {family: leaf_spine, nic: 100Gbps, switch: {ports: 16, rate: 100Gbps}}
placement: {prefill: 8, decode: 4}
model: Llama-3.1-8B
gpu: {prefill: H100-SXM, decode: H20}
instance: {prefill: {tp: 2}, decode: {tp: 2}}
requests: {arrivals: {rate: 50/s}, count: 10}
budget: {handoff: 50ms}
run: {seeds: 1, emulator: fluid}
"""


def prices(tmp_path: Path, keys: str, storage: int = 0) -> list[PriceFact | None]:
    """What each alternative is paid by."""
    path = tmp_path / "s.yaml"
    text = TEXT.replace("decode: 4}", f"decode: 4, storage: {storage}}}")
    path.write_text(text + keys, encoding="utf-8")
    return [job.price for job in jobs_of(load(path))]


def test_every_gpu_of_both_pools_is_paid_by_its_name(tmp_path: Path) -> None:
    (found,) = prices(tmp_path, "cost: {gpu_usd_per_hour: {H100-SXM: 2.5, H20: 1.0}}\n")
    assert found is not None
    assert found.gpu_usd_per_hour == 8 * 2.5 + 4 * 1.0
    assert found.life_hours == 5 * 8760


def test_one_price_is_for_all_and_a_quote_takes_the_place_of_the_model(tmp_path: Path) -> None:
    keys = "gpu_usd_per_hour: 2, fabric_usd: 87600, life_years: 4, utilisation: 50%"
    (found,) = prices(tmp_path, f"cost: {{{keys}}}\n")
    assert found is not None
    assert found.gpu_usd_per_hour == 24
    assert found.fabric_usd_per_hour == 5  # 87,600 dollars over 17,520 hours of use
    assert found.usd_per_hour == 29


def test_only_what_serving_sends_something_over_is_paid(tmp_path: Path) -> None:
    keys = """\
cost: {gpu_usd_per_hour: 2}
compare:
  serving: [{mode: disaggregated}, {mode: colocated}, {mode: multi_node, span: 4}]
"""
    found = prices(tmp_path, keys)
    assert [each.crosses for each in found if each is not None] == [True, False, True]
    pool = "cache: {tiers: [{kind: remote, size: 1TB}]}\nserving: {mode: colocated}\n"
    (pooled,) = prices(tmp_path, "cost: {gpu_usd_per_hour: 2}\n" + pool, storage=1)
    assert pooled is not None
    assert pooled.crosses


def test_without_prices_nothing_is_paid_and_nothing_said(tmp_path: Path) -> None:
    assert prices(tmp_path, "") == [None]
    scenario = load(tmp_path / "s.yaml").scenario
    assert not any("paid by" in line for line in not_modelled(scenario))


def test_the_report_tells_the_prices(tmp_path: Path) -> None:
    prices(tmp_path, "cost: {gpu_usd_per_hour: {H100-SXM: 2.5, H20: 1}}\n")
    study = load(tmp_path / "s.yaml")
    told = settings_of(study.scenario, jobs_of(study)[0].stage)["prices"]
    assert told.startswith("GPU hour H100-SXM $2.5, H20 $1; fabric as modelled, paid off over 5 y")
    assert any("paid by GPU hours" in line for line in not_modelled(study.scenario))


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ("gpu_usd_per_hour: {H100-SXM: 2.5}", "prices H100-SXM and not H20; add `H20: 2.5`"),
        ("gpu_usd_per_hour: 2, utilisation: 0%", "utilisation: 0%: a fabric that is never used"),
        ("life_years: 3", "`gpu_usd_per_hour` is missing"),
        ("gpu_usd_per_hour: -1", "above 0"),
    ],
)
def test_prices_that_leave_something_open_are_refused_with_their_place(
    tmp_path: Path, keys: str, told: str
) -> None:
    with pytest.raises(ScenarioError) as error:
        prices(tmp_path, f"cost: {{{keys}}}\n")
    assert told in str(error.value)
    assert "s.yaml:10: cost" in str(error.value)
