"""What one choice of every mapping policy costs: processor time, beside its limit.

    python bench/policy.py                      # every policy at 16 x 16 and 256 x 256 instances
    python bench/policy.py --policy dynamo_kv --size 256 --profile

A choice is one question at a time, prefill and decode apart, and the pair where the policy has a
joint choice, as the router asks them: over pools under random load, prompts of 24 blocks of 512
tokens (the mean of the Mooncake trace) of which the instances hold some, and a picture of a
leaf-spine fabric. The least of five means is told, so that other load on the machine matters
little. A choice by load or topology may take 20 us, one that looks at caches or at the network
200 us; a joint one looks at every pair, and has no limit.
"""

import argparse
import cProfile
import pstats
import time
from collections.abc import Callable

import numpy as np

from topo.fabric import Switch
from topo.family.registry import build
from topo.route import equal_cost
from traffic.cache.holding import Held, Holding
from traffic.compute.gpu import gpu
from traffic.instance import Pool
from traffic.model import model
from traffic.policy.choice import Policy, Request, View
from traffic.policy.registry import POLICIES, policy
from traffic.view.forecast import Forecast
from traffic.view.network import Network

BLOCKS = 24
BLOCK_TOKENS = 512
PROMPTS = 400
GBPS = 10**9
SIMPLE_US, CACHE_US = 20, 200
MORE: dict[str, tuple[str, dict[str, object]]] = {
    "dynamo_kv, softmax": ("dynamo_kv", {"temperature": 0.5}),
    "slo_guard, acting": ("slo_guard", {"queue": 100.0, "utilisation": 0.01}),
}
"""Policies with settings under which they do more: the name told, the policy, its settings."""


def requests(draw: np.random.Generator) -> list[Request]:
    """Prompts of blocks, of which half share a root with others."""
    found = []
    for number in range(PROMPTS):
        root = number // 8 if number % 2 else 10_000 + number
        blocks = tuple(root * 100 + place for place in range(BLOCKS))
        tokens = BLOCKS * BLOCK_TOKENS - int(draw.integers(0, 400))
        found.append(
            Request(number, tokens, 150, tokens * 131_072, number % 50, 0, 0, blocks, BLOCK_TOKENS)
        )
    return found


def pictured(size: int, asked: list[Request], draw: np.random.Generator) -> View:
    """The view of ``size`` x ``size`` instances of one GPU under load."""
    fabric = build(
        "leaf_spine",
        {"hosts": 2 * size, "nic_bps": 100 * GBPS, "switch": Switch(64, 100 * GBPS)},
    )
    hosts = [node.index for node in fabric.hosts]
    routes = equal_cost(fabric)
    places = [(host,) for host in hosts]
    prefill, decode = places[::2], places[1::2]
    view = View.idle(routes.distances(hosts[::2], hosts[1::2]), 40 * 2**30)
    view.prefill_requests[:] = draw.integers(0, 9, size)
    view.prefill_running[:] = view.prefill_requests > 0
    view.prefill_tokens[:] = view.prefill_requests * 5_000
    view.prefill_free_ps[:] = view.prefill_requests * 10**11
    view.decode_requests[:] = draw.integers(0, 65, size)
    view.decode_running[:] = view.decode_requests // 2
    view.decode_tokens[:] = view.decode_requests * 6_000
    view.decode_bytes[:] = view.decode_tokens * 65_536
    view.handoff_ps.extend(draw.integers(10**9, 10**11, 256).tolist())
    view.now_ps = 10**12
    holding = [Holding(size), Holding(size)]
    for request in asked:
        for side in holding:
            for instance in draw.choice(size, min(8, size), replace=False).tolist():
                for block in request.blocks[: int(draw.integers(1, BLOCKS + 1))]:
                    side.add(block, instance)
    view.prefix = Held((size, size), holding[0], holding[1], lambda blocks: len(blocks) // 2)
    network = Network(fabric, routes, prefill, decode)
    ports = len(fabric.ports.node)
    state = {"queued_bytes": draw.integers(0, 10**6, ports), "paused": draw.random(ports) < 0.1}
    network.look(state, draw.integers(0, 10**11, ports), 10**11)
    view.network = network
    kind, card = model("Llama-3.1-8B"), gpu("H100-SXM")
    view.time = Forecast(Pool(tuple(prefill), kind, card), Pool(tuple(decode), kind, card))
    return view


def cost_us(ask: Callable[[Request], object], asked: list[Request]) -> float:
    """Processor time of one answer in microseconds: the least of five means."""
    means = []
    for _ in range(5):
        began = time.process_time_ns()
        for request in asked:
            ask(request)
        means.append((time.process_time_ns() - began) / len(asked) / 1000)
    return min(means)


def asks(chosen: Policy, view: View) -> dict[str, Callable[[Request], object]]:
    """The questions that a router asks this policy."""
    found: dict[str, Callable[[Request], object]] = {
        "prefill": lambda request: chosen.prefill(request, view),
        "decode": lambda request: chosen.decode(request, request.request % len(view.hops), view),
    }
    for name in ("pair", "scores"):
        joint = getattr(chosen, name, None)
        if joint is not None:
            found["joint"] = lambda request, joint=joint: joint(request, view)  # type: ignore[misc]
            break
    return found


def main() -> None:
    """Print one row a policy and size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, action="append", help="instances a pool")
    rows = {name: (name, {}) for name in POLICIES} | MORE
    parser.add_argument("--policy", choices=list(rows), action="append")
    parser.add_argument("--profile", action="store_true", help="tell where the time goes")
    given = parser.parse_args()
    print(f"{'policy':<25}{'instances':>12}{'prefill us':>12}{'decode us':>11}{'joint us':>10}"
          f"{'limit':>7}")  # fmt: skip
    over = 0
    for size in given.size or (16, 256):
        draw = np.random.default_rng(1)
        asked = requests(draw)
        view = pictured(size, asked, draw)
        for name in given.policy or rows:
            kind, settings = rows[name]
            chosen = policy(kind, view.hops, seed=1, settings=settings)
            limit = CACHE_US if {"cache", "network"} & chosen.sees else SIMPLE_US
            told = {side: cost_us(ask, asked) for side, ask in asks(chosen, view).items()}
            late = max(told["prefill"], told["decode"]) > limit
            over += late
            joint = f"{told['joint']:.0f}" if "joint" in told else "-"
            print(f"{name:<25}{f'{size} x {size}':>12}{told['prefill']:>12.1f}"
                  f"{told['decode']:>11.1f}{joint:>10}{limit:>7}{' over' * late}")  # fmt: skip
            if given.profile:
                with cProfile.Profile() as seen:
                    for ask in asks(chosen, view).values():
                        cost_us(ask, asked)
                pstats.Stats(seen).sort_stats("tottime").print_stats(12)
    if over:
        raise SystemExit(f"{over} row(s) over the limit")


if __name__ == "__main__":
    main()
