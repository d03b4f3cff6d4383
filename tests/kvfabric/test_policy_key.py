"""The policy of a scenario: names, mappings, orders of choice, and code that needs a permission."""

from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from kvfabric.build import services_of
from kvfabric.compare import jobs_of
from kvfabric.demand import demand_of
from kvfabric.load import Study, load
from kvfabric.run import run_cell
from kvfabric.schema import scenario_schema
from topo.error import KvfabricError
from traffic.policy.registry import policy
from traffic.serving.run import serve_all
from traffic.view.network import Network

BASE = """
name: policies
fabric: {{family: leaf_spine, hosts: 8, leaves: 2, spines: 2, nic: 100Gbps,
          switch: {{ports: 16, rate: 100Gbps, buffer: 16MiB}}}}
placement: {{prefill: 4, decode: 4, by: rack}}
model: Llama-3.1-8B
gpu: H100-SXM
requests: {{count: {count}, arrivals: {{rate: 400/s}}}}
budget: {{handoff: 10ms}}
run: {{seeds: 1, emulator: {emulator}}}
{more}
"""


def study(path: Path, more: str, *, count: int = 6, emulator: str = "fluid", **how: bool) -> Study:
    file = path / "s.yaml"
    file.write_text(BASE.format(more=more, count=count, emulator=emulator))
    return load(file, **how)


def refused(path: Path, more: str) -> str:
    with pytest.raises(KvfabricError) as told:
        jobs_of(study(path, more))
    return str(told.value).replace(str(path), "")


def test_a_mapping_holds_the_kind_the_order_and_the_policys_own_parameters(tmp_path: Path) -> None:
    made = study(
        tmp_path,
        "policy: {kind: static_groups, groups: 2, order: decode_first, staleness: 1ms,\n"
        "         local: {when: isl_or_load, prefill_busy: 2, decode_busy: 0.9, ratio: 1/2}}",
    )
    (job,) = jobs_of(made)
    (service,) = services_of(made.scenario, job.stage, job.stage.placed, 1)
    assert (service.policy.name, service.order) == ("static_groups", "decode_first")
    local = service.local
    assert local is not None
    assert (local.when, local.tokens, local.ratio) == ("isl_or_load", 2048, 0.5)
    assert (local.prefill_busy, local.decode_busy) == (2.0, 0.9)
    assert service.network is None  # static groups do not look at it
    assert job.alternative.policy.startswith("static_groups groups=2 order=decode_first")


def test_a_policy_that_looks_at_the_network_gets_pictures_at_the_stated_staleness(
    tmp_path: Path,
) -> None:
    made = study(tmp_path, "policy: {kind: network_aware, staleness: 2ms}")
    (job,) = jobs_of(made)
    (service,) = services_of(made.scenario, job.stage, job.stage.placed, 1)
    assert service.network is not None
    assert service.network.staleness_ps == 2 * 10**9
    assert service.network.rate_bps().tolist() == [[100 * 10**9] * 4] * 4


@pytest.mark.parametrize("emulator", ["packet", "fluid"])
def test_to_look_at_the_links_changes_nothing_for_those_who_do_not_act_on_it(
    emulator: str, tmp_path: Path
) -> None:
    (job,) = jobs_of(study(tmp_path, "policy: least_loaded", count=30))
    ready = job.stage
    (blind,) = services_of(job.alternative.scenario, ready, ready.placed, 1)
    pools = blind.deployment.prefill.instances, blind.deployment.decode.instances
    watched = Network(ready.fabric, ready.routes, *pools, 30 * 10**6)
    requests, _ = demand_of(job.alternative.scenario, job.alternative.source, 1)
    tables = []
    for network in (None, watched):
        service = replace(blind, network=network, policy=policy("least_loaded", blind.hops, seed=1))
        outcome = serve_all(requests, [service], ready.emulator(emulator, 1), seed=1)
        tables.append({name: column.tolist() for name, column in outcome.requests.items()})
    assert watched.at_ps > 10**10
    assert tables[0] == tables[1]


def test_orders_are_compared_beside_policies_whichever_key_stands_first(tmp_path: Path) -> None:
    for axes in (
        "compare: {policy.order: [prefill_first, decode_first], policy: [random, round_robin]}",
        "compare: {policy: [random, round_robin], policy.order: [prefill_first, decode_first]}",
    ):
        made = study(tmp_path, axes)
        found = {(a.scenario.policy_kind, a.policy.partition("order=")[2], a.fabric) for a in
                 made.alternatives}  # fmt: skip
        fabric = made.alternatives[0].fabric
        assert found == {
            (kind, order, fabric)
            for kind in ("random", "round_robin")
            for order in ("prefill_first", "decode_first")
        }
        assert all(job.impossible is None for job in jobs_of(made))


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (
            "{kind: random, order: both}",
            "policy.order: 'both' is unknown; write prefill_first or decode_first or joint",
        ),
        (
            "{kind: random, staleness: 50}",
            "policy.staleness: duration '50': a number needs its unit; write 50us, 50ms or 50s",
        ),
        (
            "{kind: random, local: {tokens: 0}}",
            "policy.local.tokens: 0: must be a whole number from 1",
        ),
        (
            "{kind: random, local: {hold: 1}}",
            "policy.local.hold: unknown key; known here: when, tokens, ratio",
        ),
        ("{kind: random, local: {when: prefill_load}}", "prefill_load without prefill_busy"),
        ("{kind: network_aware, staleness: 1us}", "link state is latched every 10 us"),
        ("{kind: random, order: joint}", "policy random: has no joint choice"),
        ("{kind: least_lodaded}", "did you mean least_loaded?"),
        (
            "{name: random}",
            "policy.name: no policy is named, which is done by `kind`; write kind: ",
        ),
        ("{groups: 2, order: joint}", "policy.groups: no policy is named, which is done by `kind`"),
        ("{kind: 3}", "policy.kind: 3: expected a name; write e.g. kind: least_loaded"),
        ("{kind: random, label: ''}", "policy.label: expected 1 to 80 characters"),
        ("{kind: random, label: [a]}", "policy.label: expected 1 to 80 characters"),
        ("{kind: static_groups, group: 2}", "policy.group: unknown key; did you mean `groups`?"),
        ("{kind: static_groups, groups: two}", "policy.groups: 'two': must be a whole number; "),
        ("{kind: random, groups: 2}", "policy.groups: unknown key; known here: none"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(
    policy: str, message: str, tmp_path: Path
) -> None:
    told = refused(tmp_path, f"policy: {policy}")
    assert told.startswith("/s.yaml:")
    assert message in told
    assert "\n" not in told


def test_every_order_and_short_prompts_run_to_the_end_by_packet(tmp_path: Path) -> None:
    made = study(
        tmp_path,
        "policy: {kind: least_loaded, local: {tokens: 5000, ratio: 1.0, when: isl_or_load,\n"
        "         prefill_busy: 0.001}}\n"
        "compare: {policy.order: [prefill_first, decode_first]}",
        count=40,
        emulator="packet",
    )
    for job in jobs_of(made):
        cell = run_cell(job)
        local = cell.requests["prefill"] < 0
        assert (cell.requests["status"] == 0).all()
        # All prompts have few tokens, and none is held: a ratio of 1 keeps none by length.
        assert (cell.requests["handoff_release_ps"][local] < 0).all()
        assert set(cell.flows["handoff"].tolist()) == set(cell.requests["request"][~local].tolist())


def test_editors_are_told_the_keys_of_a_policy(tmp_path: Path) -> None:
    schema = scenario_schema()
    keys = schema["$defs"]["ScenarioFile"]["properties"]["policy"]["anyOf"][1]["properties"]
    assert keys["staleness"]["default"] == "50ms"
    good = study(tmp_path, "policy: {kind: llm_d, order: decode_first, picker: random}")
    jsonschema.validate(good.source.value, schema)
    jsonschema.validate(good.source.value | {"policy": "my:Own"}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(good.source.value | {"policy": {"order": "both"}}, schema)


MINE = '''
class Last:
    """The last decode instance."""

    def __init__(self, back: int = 1):
        self.back = back

    def decode(self, request, prefill, view):
        return len(view.decode_requests) - self.back
'''


def test_code_that_a_scenario_names_is_not_run_without_a_permission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine_allowed.py").write_text("raise SystemExit('this was run')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    told = refused(tmp_path, "policy: {kind: 'mine_allowed:Last', back: 2}")
    assert "names code to be run" in told
    assert "--allow-code" in told
    assert told.startswith("/s.yaml:")


def test_with_a_permission_it_is_found_beside_the_scenario_and_its_text_is_part_of_the_study(
    tmp_path: Path,
) -> None:
    module = tmp_path / "mine_beside_the_scenario.py"
    module.write_text(MINE)
    more = "policy: {kind: 'mine_beside_the_scenario:Last', back: 2}"
    made = study(tmp_path, more, allow_code=True)
    (job,) = jobs_of(made)
    assert run_cell(job).requests["decode"].tolist() == [2] * 6
    module.write_text(MINE + "# changed\n")
    assert jobs_of(made)[0].scenario_sha256 != job.scenario_sha256
