"""Collectives on the critical path: what a step of an instance waits for that spans servers.

A tensor-parallel layer all-reduces its activations twice in a forward pass (Shoeybi et al.,
Megatron-LM, arXiv 1909.08053, section 3). Inside a server this is left to the scale-up network;
over s servers every rank then goes round a ring of s with its share, 2 (s - 1) messages one after
the other, each of an s-th of that share. So a step of L layers waits for

    L x (all-reduces a layer) x 2 (s - 1)  messages

of ``latency + bytes / rate`` each, and the number times the latency is paid whatever the step
holds: 20 us more a message are 6.4 ms more a token at 80 layers over two servers. The messages are
delays: they see an idle fabric and load none. What they add to it is `traffic.background`'s.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import Final

from topo.fabric import Fabric
from topo.route import Routes
from topo.unit import PS_PER_S, duration_text
from traffic.compute.step import Chunk, StepTime
from traffic.error import ComputeError
from traffic.model import Model

PER_LAYER: Final = 2
"""All-reduces a layer in a forward pass."""

ACTIVATION_BYTES: Final = 2
"""Of one activation, bf16."""


@dataclass(frozen=True, slots=True)
class Collective:
    """The messages of one step of one instance.

    messages: one after the other; latency_ps: of each, whatever its size; share: bytes of a message
    a token of the step, as numerator and denominator; rate_bps: of a rank's NIC.
    """

    messages: int
    latency_ps: int
    share: tuple[int, int]
    rate_bps: int

    @property
    def waiting_ps(self) -> int:
        """Count times latency: what a step waits for at least."""
        return self.messages * self.latency_ps

    def step_ps(self, tokens: int) -> int:
        """The messages of a step of so many tokens.

        >>> Collective(320, 20_000_000, (8192, 1), 400 * 10**9).step_ps(1)  # 8192 B: 163.84 ns
        6452428800
        """
        number, over = self.share
        size = -(-tokens * number // over)
        return self.messages * (self.latency_ps - (-size * 8 * PS_PER_S // self.rate_bps))


class Spanned:
    """A `StepTime` whose every step waits for its messages as well."""

    def __init__(self, inner: StepTime, collective: Collective) -> None:
        self._inner = inner
        self._collective = collective

    def prefill_ps(self, tokens: int) -> int:
        """The prompt, and the messages of its tokens."""
        return self._inner.prefill_ps(tokens) + self._collective.step_ps(tokens)

    def steps_ps(self, batch: int, context: int, read: int, steps: int) -> int:
        """The steps, and for each the messages of a token a sequence."""
        took = self._inner.steps_ps(batch, context, read, steps)
        return took + steps * self._collective.step_ps(batch)

    def mixed_ps(self, batch: int, context: int, read: int, chunks: Sequence[Chunk]) -> int:
        """The step, and the messages of all its tokens."""
        took = self._inner.mixed_ps(batch, context, read, chunks)
        return took + self._collective.step_ps(batch + sum(more for _, more in chunks))


def collective(
    model: Model,
    fabric: Fabric,
    routes: Routes,
    ranks: Sequence[int],
    *,
    per_layer: int = PER_LAYER,
    extra_ps: int = 0,
) -> Collective | None:
    """What a step of the instance on these hosts waits for; None where it lies in one server.

    A host without a server number is a server of its own. The latency is propagation and switches
    on the slowest idle path between neighbours on the ring, plus ``extra_ps`` for software.
    """
    if per_layer < 1 or extra_ps < 0:
        raise ComputeError(
            f"collective: {per_layer} a layer with {duration_text(extra_ps)} each; write 1 or "
            "more, and 0us or more"
        )
    first: dict[int, int] = {}
    for rank in ranks:
        server = fabric.nodes[rank].server
        first.setdefault(server if server >= 0 else -1 - rank, rank)
    heads = list(first.values())
    if len(heads) < 2:
        return None
    latency, rate = 0, 0
    for one, other in zip(heads, heads[1:] + heads[:1], strict=True):
        paths = routes.paths(one, other, limit=1)
        if not paths:
            raise ComputeError(
                f"instance {list(ranks)}: no path from {fabric.nodes[one].name!r} to "
                f"{fabric.nodes[other].name!r}; an instance must be connected in itself"
            )
        took, slowest = _lone(fabric, paths[0])
        latency = max(latency, took)
        rate = min(rate or slowest, slowest)
    share = model.hidden * ACTIVATION_BYTES
    cut = gcd(share, len(ranks))
    return Collective(
        messages=model.layers * per_layer * 2 * (len(heads) - 1),
        latency_ps=latency + extra_ps,
        share=(share // cut, len(ranks) // cut),
        rate_bps=rate,
    )


def _lone(fabric: Fabric, path: list[int]) -> tuple[int, int]:
    """(latency in ps, slowest rate) of an idle path; what a frame takes to send is not in it."""
    ports, latency = fabric.ports, 0
    for port in path:
        switch = fabric.nodes[int(ports.node[port])].switch
        latency += int(ports.delay_ps[port]) + (switch.latency_ps if switch is not None else 0)
    return latency, min(int(ports.rate_bps[port]) for port in path)
