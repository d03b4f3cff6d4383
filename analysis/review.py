"""What a design review asks beside hand-off times: load against capacity, and where the rest is.

The sections of a review document are those of Oppenheimer (Top-Down Network Design, chapter 14).
Nothing is claimed for what a run did not look at: the command that answers it is named instead.
"""

import shlex
from collections.abc import Sequence
from math import isfinite, nan
from typing import Final

import numpy as np

from analysis.breakdown import Breakdown
from analysis.condition import conditions
from analysis.handoff import window_ps
from analysis.record import Cell, StudyManifest
from analysis.summary import Sample
from analysis.wording import NONE, percent
from topo.unit import PS_PER_S

_HOST: Final = 0

UNHURT: Final = "No link or switch fails."
"""The limit that the manifest of a study without such faults tells."""

_ELSEWHERE: Final = (
    (
        "failure analysis, N-1: what is left of the max-flow without the worst link, switch or "
        "plane",
        "topo compare {scenario}",
    ),
    ("the load at which objectives are missed (knee)", "goodput {scenario}"),
    ("parts list, power, rack units, price ranges and their date", "topo show {scenario} --bill"),
    (
        "cable map and port map (of a scenario or file with one fabric)",
        "topo export {scenario} --to cables.csv --format cable-map",
    ),
    ("deadlock freedom of other routings, and the channels they need", "topo check {scenario}"),
    ("flows slowed by the congestion of others", "victims {scenario}"),
    ("the same hand-offs by every emulator, on real frames as root", "crosscheck {scenario}"),
)
"""What a review asks and this report does not answer, and the command that does."""


def offered_bps(cell: Cell) -> float:
    """Payload bits that hand-offs brought to the fabric, per second of arrivals.

    The rate of arrivals, (n - 1) / (last - first), times the mean payload of the flows of a
    request's hand-off, warm-up included; NaN without two arrivals.
    """
    arrival = cell.requests.get("arrival_ps", np.empty(0, np.int64)).astype(np.int64)
    span = int(arrival.max() - arrival.min()) if len(arrival) > 1 else 0
    if not span:
        return nan
    handed = cell.flows["handoff"] >= np.int64(0)
    mean = int(cell.flows["bytes"][handed].astype(np.int64).sum()) / len(arrival)
    return 8 * mean * (len(arrival) - 1) / span * PS_PER_S


def capacity(parts: Sequence[Sample]) -> Breakdown:
    """Offered load against the max-flow of the fabric, and how busy its switches' ports were."""
    rows = []
    for part in parts:
        cells = [cell for cell in part.cells if cell.requests]
        facts = next((cell.manifest.facts for cell in cells if cell.manifest.facts), None)
        known = [load for cell in cells if isfinite(load := offered_bps(cell))]
        if facts is None or not known:
            continue
        load = float(np.mean(known))
        busy = np.concatenate([_busy(cell) for cell in cells])
        of_ports = (
            (percent(float(x)) for x in (busy.mean(), _crowded(busy), busy.max()))
            if len(busy)
            else (NONE,) * 3
        )
        rows.append(
            (
                *(part.fabric, part.policy, f"{load / 1e9:,.4g} Gbps"),
                *(f"{facts.mu_bps / 1e9:,.4g} Gbps",),
                percent(load / facts.mu_bps) if facts.mu_bps else NONE,
                *of_ports,
            )
        )
    return Breakdown(
        "Load against capacity",
        "Offered: payload of all hand-offs over the time in which requests arrived, mean over "
        "seeds. Max-flow: what all prefill NICs together can send to all decode NICs. Busy: share "
        "of the time with hand-offs that ports of switches were sending, all seeds together. A "
        "low mean does not bound the tail: hand-offs collide at single ports.",
        (
            *("fabric", "policy", "offered", "max-flow", "offered of it"),
            *("switch ports busy, mean", "P99 of ports", "most"),
        ),
        tuple(rows),
    )


def elsewhere(study: StudyManifest) -> Breakdown:
    """What a review asks that this run has not looked at, each with its command."""
    scenario = shlex.quote(scenario_of(study))
    rows = []
    for asked, command in _ELSEWHERE:
        rows.append((asked, f"kvfabric {command.format(scenario=scenario)}"))
    where = conditions(study).values()
    if len({one.load for one in where}) < 2:
        rows.append(
            (
                "tail and share over budget against the load",
                "compare: requests.arrivals.rate, as in scenarios/load-sweep.yaml",
            )
        )
    if len({one.workload for one in where}) < 2:
        rows.append(
            (
                "which design to choose for which workload",
                "compare: requests.profile, as in scenarios/decision-map.yaml",
            )
        )
    if UNHURT in study.limits:
        rows.append(
            (
                "hand-offs while a link or switch is slow, down or gone (into the scenario)",
                f"kvfabric topo losses {scenario}",
            )
        )
    rows += [
        (
            "settings for devices (ECN, PFC, buffers)",
            "simulated values under Assumptions: candidates, to be checked against the devices",
        ),
        ("growth, prices of vendors, staff", "not in a scenario; state them beside this report"),
    ]
    return Breakdown(
        "Asked by a review, and answered elsewhere",
        "This report holds one run: nothing below was looked at for it.",
        ("question", "where"),
        tuple(rows),
    )


def scenario_of(study: StudyManifest) -> str:
    """The scenario file that the study was made from; SCENARIO where it does not say.

    >>> from types import SimpleNamespace as Some
    >>> scenario_of(Some(reproduce=["kvfabric compare a/mine.yaml --out o"]))
    'a/mine.yaml'
    """
    for line in study.reproduce:
        try:
            words = shlex.split(line)
        except ValueError:
            continue
        if words[1:2] in (["compare"], ["run"]) and len(words) > 2:
            return words[2]
    return "SCENARIO"


def _busy(cell: Cell) -> np.ndarray:
    switch = cell.ports["tier"] > np.int64(_HOST)
    busy = cell.ports["busy_ps"].astype(np.int64)[switch]
    return busy / max(1, window_ps(cell))


def _crowded(busy: np.ndarray) -> float:
    return float(np.quantile(busy, 0.99, method="inverted_cdf"))
