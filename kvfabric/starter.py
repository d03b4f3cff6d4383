"""A commented scenario from a few facts: what ``kvfabric init`` writes."""

import json
from dataclasses import dataclass
from typing import Final

_TEMPLATE: Final = """\
# Which fabric and which mapping policy keep the KV-cache hand-off inside its budget?
# Every number carries its unit. `compare` turns any key into a list of alternatives and holds
# everything else equal. Run it with: kvfabric compare THIS-FILE --out results
name: {name}
question: Which fabric and policy keep the hand-off in budget for {prefill} + {decode} GPUs?

fabric:                       # `kvfabric topo list` tells the families and their keys
  family: leaf_spine
  nic: {nic:<23}# one NIC a GPU
  switch: {{ports: 64, rate: {nic}, buffer: 64MiB, latency: 600ns}}
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
    - {{family: full_mesh}}
    - {{family: fat_tree}}
    - {{family: leaf_spine, oversubscription: 2}}
    - {{family: bipartite, oversubscription: 2}}
  policy: [random, round_robin, least_loaded, static_groups, topology_aware]
"""


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
    """The text of a scenario; it still has to pass `kvfabric.load.load`."""
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
    )
