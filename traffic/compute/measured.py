"""Measured times in place of a roofline: prefill by prompt length, decode by batch and context.

A CSV file with the columns ``phase``, ``tokens``, ``batch`` and ``seconds``, in any order and
others beside them:

    phase,tokens,batch,seconds
    prefill,512,,0.021          a prompt of 512 tokens alone
    prefill,4096,,0.180
    decode,512,1,0.0061         one step of 1 sequence that holds 512 tokens
    decode,8192,64,0.0190       one step of 64 sequences that hold 8192 tokens each on average

Between two points times are linear: in the tokens first, in the batch then. Before the first point
they stay as there; beyond the last they go on with the slope of the last two, or stay where that
falls or there is one point. A phase that the file leaves out keeps the roofline. A mixed step is a
decode step and, after it, what its chunks add to the prefill times of their prompts: an engine that
shares one read of the weights between both is faster.

Sums over steps are in closed form, with one rounding down a linear piece; picoseconds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Final

from topo.unit import PS_PER_S
from traffic.catalog.table import Row, read, rows
from traffic.compute.step import Chunk, StepTime
from traffic.error import ComputeError

_COLUMNS: Final = ("phase", "tokens", "batch", "seconds")
_MOST_TOKENS: Final = 10**9
_MOST_S: Final = 10**5
_PREFILL: Final = 0
"""Stands for the batch of a prefill row."""


@dataclass(frozen=True)
class Curve:
    """Times over tokens, linear between ``points``: (tokens, picoseconds), tokens rising."""

    points: tuple[tuple[int, int], ...]

    @cached_property
    def pieces(self) -> list[tuple[int, int, int, int]]:
        """(first token, time there, rise, over so many tokens) of every linear piece."""
        first, last = self.points[0], self.points[-1]
        found = [(0, first[1], 0, 1)] if first[0] else []
        found += [(t, ps, more - ps, end - t) for (t, ps), (end, more) in pairwise(self.points)]
        _, _, rise, over = found[-1] if found else (0, 0, 0, 1)
        return [*found, (*last, max(0, rise), over)]

    def at(self, tokens: int) -> int:
        """The time at some tokens, rounded down.

        >>> [Curve(((10, 100), (20, 300))).at(tokens) for tokens in (1, 15, 25)]
        [100, 200, 400]
        """
        return self.steps(1, tokens, 1)

    def steps(self, batch: int, context: int, steps: int) -> int:
        """The times of so many steps of a batch together, by its mean context.

        The batch holds ``context`` tokens at the first step and ``batch`` more at each further.

        >>> Curve(((0, 0), (1000, 1000))).steps(2, 20, 3)  # means of 10, 11 and 12 tokens
        33
        """
        pieces, total = self.pieces, 0
        for place, (first, ps, rise, over) in enumerate(pieces):
            here = steps
            if place + 1 < len(pieces):
                left = batch * pieces[place + 1][0] - context
                here = min(steps, max(0, -(-left // batch)))
            beyond = here * (context - batch * first) + batch * (here * (here - 1) // 2)
            total += here * ps + rise * beyond // (over * batch)
            context, steps = context + here * batch, steps - here
        return total


@dataclass(frozen=True)
class Measurements:
    """What a file tells: a curve of prompts, or None, and one of contexts for each batch size."""

    prefill: Curve | None
    decode: Mapping[int, Curve] = field(default_factory=dict)

    def curve(self, batch: int) -> Curve:
        """The decode times of a batch size, over the mean context."""
        sizes = sorted(self.decode)
        if batch in self.decode or batch < sizes[0] or len(sizes) == 1:
            return self.decode.get(batch, self.decode[sizes[0]])
        place = min(sum(size < batch for size in sizes), len(sizes) - 1)
        low, high = sizes[place - 1], sizes[place]
        one, other = self.decode[low], self.decode[high]
        points: list[tuple[int, int]] = []
        for tokens in sorted({t for t, _ in one.points} | {t for t, _ in other.points}):
            small, large = one.at(tokens), other.at(tokens)
            rise = large - small if batch < high else max(0, large - small)
            origin, size = (small, low) if batch < high else (large, high)
            points.append((tokens, origin + rise * (batch - size) // (high - low)))
        return Curve(tuple(points))


class Measured:
    """`traffic.compute.step.StepTime` from measurements, and from ``otherwise`` where there are
    none."""

    def __init__(self, found: Measurements, otherwise: StepTime) -> None:
        self._found = found
        self._otherwise = otherwise
        self._curve: dict[int, Curve] = {}

    def prefill_ps(self, tokens: int) -> int:
        """One prompt alone."""
        curve = self._found.prefill
        return self._otherwise.prefill_ps(tokens) if curve is None else curve.at(tokens)

    def steps_ps(self, batch: int, context: int, read: int, steps: int) -> int:
        """Steps of a batch by its mean context; ``read`` matters to the roofline only."""
        if not self._found.decode:
            return self._otherwise.steps_ps(batch, context, read, steps)
        curve = self._curve.get(batch)
        if curve is None:
            curve = self._curve[batch] = self._found.curve(batch)
        return curve.steps(batch, context, steps)

    def mixed_ps(self, batch: int, context: int, read: int, chunks: Sequence[Chunk]) -> int:
        """A decode step, and after it what the chunks add to their prompts."""
        took = self.steps_ps(batch, context, read, 1) if batch else 0
        for done, more in chunks:
            took += self.prefill_ps(done + more) - (self.prefill_ps(done) if done else 0)
        return max(1, took)


def measurements(path: Path) -> Measurements:
    """The measurements in a file, at most 4 MiB; anything wrong is one line with its place.

    Refused: an unknown phase, numbers that are not finite or out of range, a point that stands
    twice, a prompt that takes less time than a shorter one, and a file without points.
    """
    found: dict[int, dict[int, tuple[int, str]]] = {}
    for row in rows(read(path, "a table of times"), str(path), _COLUMNS):
        batch, tokens, ps = _point(row)
        before = found.setdefault(batch, {}).setdefault(tokens, (ps, row.place))
        if before != (ps, row.place):
            raise ComputeError(f"{row.place}: the same point as {before[1]}; keep one of them")
    if not found:
        raise ComputeError(f"{path}: no points; write rows of phase prefill or decode")
    prompts = sorted(found.pop(_PREFILL, {}).items())
    for (short, (less, _)), (long, (more, place)) in pairwise(prompts):
        if more < less:
            raise ComputeError(
                f"{place}: {long} tokens take less than {short}; measure again, or leave one out"
            )
    decode = {
        batch: Curve(tuple((tokens, ps) for tokens, (ps, _) in sorted(points.items())))
        for batch, points in found.items()
    }
    prefill = Curve(tuple((tokens, ps) for tokens, (ps, _) in prompts)) if prompts else None
    return Measurements(prefill, decode)


def _point(row: Row) -> tuple[int, int, int]:
    """Batch, tokens and picoseconds of a row."""
    phase = row.text("phase")
    if phase not in ("prefill", "decode"):
        raise ComputeError(f"{row.place}: phase {phase[:40]!r}: write prefill or decode")
    tokens = row.whole("tokens")
    if not 1 <= tokens <= _MOST_TOKENS:
        raise ComputeError(f"{row.place}: tokens {tokens}: write 1 to {_MOST_TOKENS}")
    batch = row.whole("batch", 1)
    if not 1 <= batch <= 65_536 or (phase == "prefill" and batch != 1):
        raise ComputeError(
            f"{row.place}: batch {batch}: write 1 to 65536 for decode, nothing or 1 for prefill"
        )
    if phase == "decode" and not row.text("batch"):
        raise ComputeError(f"{row.place}: batch is empty; write the sequences of the step")
    seconds = row.number("seconds")
    ps = round(seconds * PS_PER_S) if seconds <= _MOST_S else 0
    if ps < 1:
        raise ComputeError(f"{row.place}: seconds {seconds:g}: write above 0, at most {_MOST_S}")
    return _PREFILL if phase == "prefill" else batch, tokens, ps
