"""A commented scenario from a few facts: what ``kvfabric init`` writes."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from topo.error import KvfabricError
from topo.fabric import Switch
from topo.family.registry import build

_TEMPLATE: Final = """\
# Which fabric and which mapping policy keep the KV-cache hand-off inside its budget?
# Every number carries its unit. `compare` turns any key into a list of alternatives and holds
# everything else equal. Run it with: kvfabric compare THIS-FILE --out results
name: {name}
question: Which fabric and policy keep the hand-off in budget for {prefill} + {decode} GPUs?

fabric:                       # `kvfabric topo list` tells the families and their keys
  family: {family}
  nic: {nic:<23}# one NIC a GPU
  switch: {{ports: {ports}, rate: {nic}, buffer: 64MiB, latency: 600ns}}
  cable: 10m                  # 5.05 ns a metre

placement:
  prefill: {prefill:<19}# GPUs that read prompts
  decode: {decode:<20}# GPUs that write answers
  by: rack                    # rack | rail | separate | interleaved

model: {model}
gpu: {{prefill: {gpu}, decode: {gpu}}}
instance: {{prefill: {{tp: {tp}}}, decode: {{tp: {tp}, max_batch: 64}}}}

requests:
  profile: base               # input 550 +- 150 tokens, output 150 +- 20
  arrivals: {{process: poisson, rate: {rate}}}
  # instead of the profile: trace: {{file: traces/AzureLLMInferenceTrace_code.csv, scale_rate: 2}}
  count: 50                   # requests a seed

handoff: {{when: after_prefill, direction: push, block: 256KiB, per_descriptor: 0us}}

network:
  transport: {{kind: rocev2, control: dcqcn, preset: connectx}}
  discipline: {{pfc: true, headroom: sonic, alpha: 1/8, ecn: sonic}}
  balancing: ecmp

budget:
  allowed: 5%                 # the share of hand-offs that may exceed it
  {handoff}
slo: {{ttft: {ttft}, tpot: {tpot}}}

run:
  emulator: packet            # packet | fluid (no queues: a fast look)
  seeds: 10                   # independent replications; more seeds, narrower intervals
  warmup: 10 requests         # left out of the statistics, in each seed
  control_delay: 20us         # from an event to the router's decision taking effect

compare:
  fabric:
{fabrics}
  policy: [random, round_robin, least_loaded, static_groups, topology_aware]
"""


_PORTS: Final = 64

_OFFERED: Final[Mapping[str, Mapping[str, int]]] = {
    "single_switch": {},
    "full_mesh": {},
    "fat_tree": {},
    "leaf_spine": {"oversubscription": 2},
    "bipartite": {"oversubscription": 2},
}
"""The families to compare, with their keys."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a newcomer knows: pool sizes, model, GPU, NIC, request rate and objectives.

    All quantities are text with units, as they will stand in the file.
    """

    prefill: int
    decode: int
    model: str
    gpu: str
    rate: str
    name: str = "my study"
    nic: str = "400Gbps"
    tp: int = 1
    ttft: str = "500ms"
    tpot: str = "40ms"
    handoff: str | None = None


def starter(facts: Facts) -> str:
    """The text of a scenario; it still has to pass `kvfabric.load.load`.

    Families that cannot cable so many hosts are left out, each with a comment that says so.
    """
    unfit = {
        family: why for family in _OFFERED if (why := _unfit(facts, family, **_OFFERED[family]))
    }
    fit = [family for family in _OFFERED if family not in unfit]
    if not fit:
        raise KvfabricError(f"init: {unfit['fat_tree']}")
    family = fit[0] if _unfit(facts, "leaf_spine") else "leaf_spine"
    handoff = (
        f"handoff: {facts.handoff:<17} # KV ready at decode minus prefill end"
        if facts.handoff
        else "# handoff: 25ms            # without it: what slo.ttft leaves after queue and prefill"
    )
    return _TEMPLATE.format(
        name=json.dumps(facts.name, ensure_ascii=False),
        prefill=facts.prefill,
        decode=facts.decode,
        nic=facts.nic,
        model=facts.model,
        gpu=facts.gpu,
        tp=facts.tp,
        rate=facts.rate,
        ttft=facts.ttft,
        tpot=facts.tpot,
        handoff=handoff,
        ports=_PORTS,
        family=family,
        fabrics="\n".join(_listed(each, unfit.get(each)) for each in _OFFERED),
    )


def _listed(family: str, why: str | None) -> str:
    """A family among those compared, or as a comment why it is not."""
    if why:
        return f"    # left out: {why.partition(';')[0]}"
    keys = "".join(f", {key}: {value}" for key, value in _OFFERED[family].items())
    return f"    - {{family: {family}{keys}}}"


def _unfit(facts: Facts, family: str, **keys: int) -> str:
    """Why a family cannot be built for so many hosts with NICs as fast as its switch's ports."""
    pools = {"prefill": facts.prefill, "decode": facts.decode}
    try:
        build(family, {**pools, **keys, "switch": Switch(ports=_PORTS)})
    except KvfabricError as error:
        return str(error)
    return ""
