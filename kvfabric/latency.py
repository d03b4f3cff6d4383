"""Count times latency of the messages that steps wait for, and what it causes beyond itself.

A request waits for the messages of its own steps: their count times their latency, the *direct*
part. Longer steps also let it queue longer, wait longer for memory, join and share other batches:
what it takes more than in the same run without latency, less the direct part, is *caused*. That
other run has the same requests, seed and policy (which decides anew), and hand-offs that take what
they took (`traffic.recorded`); it is run, not estimated, so both parts add up to the picosecond.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from analysis.idle import union_ps
from analysis.observed import INSTANCES, STAGES
from kvfabric.collective import waits_of
from traffic.compute.collective import Collective
from traffic.emulator import Table
from traffic.instance import Deployment
from traffic.serving.run import Outcome

Whole = NDArray[np.int64]

_SIDES: Final = ("prefill", "decode")


@dataclass(frozen=True, slots=True)
class Seats:
    """The instances of one side, over all models: what each waits for, and its GPUs."""

    waits: tuple[Collective | None, ...]
    gpus: Whole

    @property
    def messages(self) -> Whole:
        """Of one step."""
        return np.array([0 if one is None else one.messages for one in self.waits], np.int64)

    @property
    def step_ps(self) -> Whole:
        """Count times latency of one step."""
        return np.array([0 if one is None else one.waiting_ps for one in self.waits], np.int64)


def seats_of(deployments: Sequence[Deployment], *, colocated: bool) -> tuple[Seats, Seats]:
    """The prefill and the decode instances as tables number them; the same ones if colocated."""
    sides = [[d.prefill for d in deployments], [d.decode for d in deployments]]
    if colocated:
        both = [pool for d in deployments for pool in (d.prefill, d.decode)]
        sides = [both, both]
    prefill, decode = (
        Seats(
            tuple(one for pool in pools for one in waits_of(pool)),
            np.array([pool.tp for pool in pools for _ in pool.instances], np.int64),
        )
        for pools in sides
    )
    return prefill, decode


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """A run as its tables tell it, with the messages that every request's own steps wait for.

    A prompt waits for the steps in which it is computed; a decoding request for a step a token, or
    one less where the prefill makes the first token. Prompts computed on a decode instance wait
    there. Steps that compute an evicted cache again are not counted.
    """

    column: dict[str, Whole]
    seats: tuple[Seats, Seats]
    steps: tuple[int, ...]
    colocated: bool

    @classmethod
    def of(
        cls, outcome: Outcome, deployments: Sequence[Deployment], *, colocated: bool
    ) -> "Served":
        """What became of the requests on these instances."""
        column = {name: values.astype(np.int64) for name, values in outcome.requests.items()}
        seats = seats_of(deployments, colocated=colocated)
        return cls(column, seats, outcome.steps, colocated)

    @property
    def finished(self) -> NDArray[np.bool_]:
        """Which requests have their last token."""
        return self.column["finish_ps"] >= 0

    def own(self) -> tuple[Whole, Whole, Whole]:
        """(messages, count x latency of the prompt, count x latency of the tokens) by request."""
        column = self.column
        prefill, decode, output = (column[n] for n in ("prefill", "decode", "output_tokens"))
        local = (prefill < 0) & (decode >= 0)
        made_first = np.bool_(self.colocated) | local
        tokens = np.where(made_first, np.maximum(output - 1, 0), output)
        at = ((0, prefill, ~local & (prefill >= 0)), (1, decode, local))
        messages, prompt = np.zeros((2, len(output)), np.int64)
        for side, where, rows in at:
            seats = self.seats[side]
            messages[rows] = seats.messages[where[rows]] * column["prompt_steps"][rows]
            prompt[rows] = seats.step_ps[where[rows]] * column["prompt_steps"][rows]
        rows, answer = decode >= 0, np.zeros(len(output), np.int64)
        messages[rows] += self.seats[1].messages[decode[rows]] * tokens[rows]
        answer[rows] = self.seats[1].step_ps[decode[rows]] * tokens[rows]
        return messages, prompt, answer

    def stages(self) -> dict[str, Whole]:
        """The time of every finished request, cut into `STAGES`."""
        column = self.column
        end = column["prefill_end_ps"]
        ready = np.where(column["kv_ready_ps"] < 0, end, column["kv_ready_ps"])
        start = np.where(column["decode_start_ps"] < 0, ready, column["decode_start_ps"])
        parts = (
            column["prefill_start_ps"] - column["arrival_ps"],
            end - column["prefill_start_ps"],
            ready - end,
            start - ready,
            column["finish_ps"] - start,
        )
        return dict(zip(STAGES, parts, strict=True))

    def instances(self) -> Table:
        """`INSTANCES` to the time at work: of prefill instances, then the others.

        A prefill instance makes one step a prompt. At work it is while a prompt runs on it, a
        decode instance while a sequence decodes, a colocated one while it has a request.
        """
        column, tables = self.column, []
        for side in (1,) if self.colocated else (0, 1):
            seats, where = self.seats[side], column[_SIDES[side]]
            begin = column["prefill_start_ps" if side == 0 or self.colocated else "decode_start_ps"]
            over = column["prefill_end_ps" if side == 0 else "finish_ps"]
            ran = (where >= 0) & (begin >= 0) & (over >= 0)
            count = len(seats.gpus)
            made = np.array(self.steps, np.int64)
            if side == 0:
                made = np.bincount(where[ran], minlength=count)
            worked = [
                union_ps(where[mine], begin[mine], over[mine])
                for mine in (ran & (where == number) for number in range(count))
            ]
            tables.append(
                (
                    np.full(count, side),
                    np.arange(count),
                    seats.gpus,
                    made,
                    seats.messages * made,
                    seats.step_ps * made,
                    np.array(worked, np.int64),
                )
            )
        joined = (np.concatenate(parts) for parts in zip(*tables, strict=True))
        return dict(zip(INSTANCES, joined, strict=False))

    @property
    def waits(self) -> bool:
        """Whether any instance waits for messages."""
        return any(one is not None for seats in self.seats for one in seats.waits)


def waiting(served: Served) -> dict[str, int]:
    """Totals over the finished requests: how many, the messages on their paths, count x latency.

    ``gpu_ps`` is the time that all ranks idle for these messages at least: count x latency of every
    step that ended, times ranks. Empty where nobody waits.
    """
    if not served.waits:
        return {}
    done = served.finished
    messages, prompt, answer = served.own()
    table = served.instances()
    idle = table["latency_ps"].astype(np.int64) * table["gpus"].astype(np.int64)
    return {
        "collective.requests": int(done.sum()),
        "collective.messages": int(messages[done].sum()),
        "collective.latency_ps": int((prompt + answer)[done].sum()),
        "collective.gpu_ps": int(idle.sum()),
    }


def caused(with_latency: Served, without: Served) -> tuple[dict[str, Table], dict[str, int]]:
    """The tables ``latency`` and ``instances`` of `analysis.observed`, the latter without memory,
    and their totals.

    Requests that are finished in both runs are compared; both have the same requests, by number.
    """
    both = np.flatnonzero(with_latency.finished & without.finished)
    messages, prompt, answer = with_latency.own()
    stages, bare = with_latency.stages(), without.stages()
    direct = {"prefill": prompt, "decode": answer}
    zero = np.zeros(len(messages), np.int64)
    requests: Table = {
        "request": with_latency.column["request"][both],
        "messages": messages[both],
        "prompt_latency_ps": prompt[both],
        "answer_latency_ps": answer[both],
    }
    for name in STAGES:
        more = stages[name] - bare[name] - direct.get(name, zero)
        requests[f"caused_{name}_ps"] = more[both]
    instances = with_latency.instances()
    instances["work_without_ps"] = without.instances()["work_ps"]
    gpus = instances["gpus"].astype(np.int64)
    whole = sum(stages.values(), zero)[both]
    totals = {
        "compared": len(both),
        "compared_latency_ps": int((prompt + answer)[both].sum()),
        "compared_end_to_end_ps": int(whole.sum()),
        **{
            f"caused_{name}_ps": int(requests[f"caused_{name}_ps"].astype(np.int64).sum())
            for name in STAGES
        },
        "work_gpu_ps": int((instances["work_ps"].astype(np.int64) * gpus).sum()),
        "work_without_gpu_ps": int((instances["work_without_ps"].astype(np.int64) * gpus).sum()),
    }
    return {"latency": requests, "instances": instances}, {
        f"collective.{name}": value for name, value in totals.items()
    }
