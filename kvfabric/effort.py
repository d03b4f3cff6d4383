"""How long the packets of a study will take, told before they move where that is some minutes.

An estimate by what is known before: the prompts' KV bytes, cut at the MTU, over the mean number of
links between prefill and decode instances, with an ACK every so many packets; prompts that no
decode instance can hold do not move. What depends on the run (prefix caches, retransmissions,
background traffic, users who wait for answers) is left out.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from kvfabric.build import Stage
from kvfabric.demand import demand_of
from kvfabric.deployment import Placed
from kvfabric.run import CellJob
from traffic.request import RequestTable

HOPS_PER_S: Final = 5_000_000
"""Packet-hops a second and process: half of what an idle processor does (docs/packet-core.md)."""

_TOLD_FROM_S: Final = 180


def foretold(jobs: Sequence[CellJob], processes: int) -> str | None:
    """One line about what these cells will take; None where it is less than some minutes."""
    known: dict[tuple[int, bytes], int] = {}
    whole = 0
    for job in jobs:
        scenario = job.alternative.scenario
        asked = msgspec.json.encode((scenario.requests, scenario.models), enc_hook=str)
        key = id(job.stage), asked
        if key not in known:
            known[key] = packet_hops(job)
        whole += 0 if job.impossible else known[key]
    at_once = min(processes, len(jobs))
    seconds = whole / (HOPS_PER_S * max(at_once, 1))
    if seconds < _TOLD_FROM_S:
        return None
    minutes = seconds / 60
    time = f"{minutes:,.0f} min" if minutes < 100 else f"{minutes / 60:,.0f} h"
    return (
        f"{len(jobs)} cells, some {whole / 1e6:,.0f} million packet-hops: about {time} with "
        f"{at_once} at once; a smaller --count, fewer --seeds or --emulator fluid take less"
    )


def packet_hops(job: CellJob) -> int:
    """About so many packets and ACKs cross a link in a cell; 0 where none do, or none are known."""
    scenario, ready = job.alternative.scenario, job.stage
    if scenario.run.emulator != "packet" or ready.rules.mode != "disaggregated":
        return 0
    requests, _ = demand_of(scenario, job.alternative.source, job.seed)
    if not isinstance(requests, RequestTable):
        return 0
    model = np.zeros(len(requests.input_tokens), np.int32)
    if requests.model is not None:
        model = requests.model
    return sum(
        _of_model(ready, placed, requests.input_tokens[model == number])
        for number, placed in enumerate(ready.placed)
    )


def _of_model(ready: Stage, placed: Placed, tokens: NDArray[np.int32]) -> int:
    kv_bytes = placed.deployment.prefill.model.kv_bytes
    most = placed.deployment.decode.kv_capacity_bytes
    lengths, counts = np.unique(tokens, return_counts=True)
    size: int = sum(
        kv_bytes(length) * count
        for length, count in zip(lengths.tolist(), counts.tolist(), strict=True)
        if kv_bytes(length) <= most
    )
    reached = placed.hops[placed.hops >= 0]
    links = float(reached.mean()) if reached.size else 0.0
    answers = 1 + 1 / ready.transport.ack_every
    return round(size / ready.transport.mtu * links * answers)
