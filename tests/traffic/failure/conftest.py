"""What tests of failures share: requests, rules by which nobody is told, and a service."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from traffic.cache.tier import Caching
from traffic.emulator import Emulator
from traffic.failure.outage import Outage, OutageError, ordered
from traffic.failure.resilience import Hazard, Health, Resilience, Retry
from traffic.instance import Deployment
from traffic.policy.registry import policy
from traffic.request import RequestTable, request_table
from traffic.serving.mode import Serving
from traffic.serving.router import Service
from traffic.serving.run import Outcome, serve_all

MS = 10**9
FLIGHT_PS = 5 * MS


@pytest.fixture(scope="session")
def calm() -> Resilience:
    """Nobody is told of a death; attempts are given up after 10 ms and made again 2 ms later."""
    return Resilience(
        health=Health(interval_ps=0),
        breaker=None,
        retry=Retry(backoff_ps=2 * MS, factor=1, jitter=0),
        timeout_ps=10 * MS,
    )


@pytest.fixture(scope="session")
def some() -> Callable[..., RequestTable]:
    """Requests of equal lengths at the given times."""

    def made(*arrival_ps: int, tokens: int = 1000, output: int = 20) -> RequestTable:
        count = len(arrival_ps)
        return request_table(
            arrival_ps=arrival_ps, input_tokens=[tokens] * count, output_tokens=[output] * count
        )

    return made


@pytest.fixture(scope="session")
def befallen() -> Callable[..., list[Outage]]:
    """Those of drawn outages (kind, side, instance, start, length) that can follow each other in
    pools of ``size`` instances."""

    def kept(
        drawn: list[tuple[str, str, int, int, int | None]], size: int, load_ps: int
    ) -> list[Outage]:
        found: list[Outage] = []
        for kind, side, instance, start, length in sorted(drawn, key=lambda row: row[3]):
            until = None if length is None or kind == "join" else start + length
            outage = Outage(kind, side, instance, start, until)
            try:
                ordered([*found, outage], (size, size), load_ps)
            except OutageError:
                continue
            found.append(outage)
        return found

    return kept


@pytest.fixture(scope="session")
def serve(
    pools: Callable[..., Deployment], wire: Callable[..., Emulator], calm: Resilience
) -> Callable[..., Outcome]:
    """Serves with outages, by the round-robin policy: request r goes to prefill r mod n."""

    def served(
        requests: RequestTable,
        *outages: Outage,
        rules: Resilience = calm,
        sizes: tuple[int, int] = (2, 2),
        name: str = "round_robin",
        order: str = "prefill_first",
        until_ps: int | None = None,
        serving: Serving | None = None,
        hazard: bool = True,
        cache: Caching | None = None,
        **how: Any,
    ) -> Outcome:
        hops = np.full(sizes, 4, np.int32)
        told = Hazard(outages, rules) if hazard else None
        deployment = replace(pools(*sizes, **how), cache=cache)
        service = Service(deployment, policy(name, hops, seed=1), hops, order=order, hazard=told)
        return serve_all(
            requests, [service], wire(FLIGHT_PS), rules=serving, until_ps=until_ps, seed=1
        )

    return served
