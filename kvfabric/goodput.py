"""The search for goodput: rates are tried on every alternative until its bracket is narrow.

A trial is one (alternative, rate, seed), kept as a small file of its own, so that an interrupted
search goes on where it was and a finer one begins where a coarser ended. All alternatives are tried
with the same seeds: at another rate the same requests come closer together.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from dataclasses import replace as replaced
from importlib.metadata import version
from math import nan
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from analysis.budget import after_warmup
from analysis.disk import write_synced
from analysis.goodput import GOAL, Point, Search, Trial, next_rate, rounded, rounds_left
from analysis.lossless import frames
from analysis.record import FINISHED, Cell, CellManifest, StudyManifest
from analysis.service import attained
from kvfabric.compare import StudyError, jobs_of, locked, manifest_of, vacant
from kvfabric.load import Alternative, Study
from kvfabric.quantity import Frequency
from kvfabric.run import CellJob, served
from kvfabric.sweep import sweep
from topo.unit import PS_PER_S
from traffic.request import RequestTable

Progress = Callable[[float, str], None]

LEAST_PRECISION: Final = 0.01


@dataclass(frozen=True)
class Attempt:
    """One trial to be made: a cell at a rate, the factor on the rate of a trace, and its file."""

    job: CellJob
    rate_per_s: float
    faster: float
    manifest: StudyManifest
    file: Path


def goodput(
    study: Study,
    out: Path,
    *,
    goal: float = GOAL,
    precision: float = 0.05,
    processes: int = 1,
    progress: Progress,
    announce: Callable[[str], None] = lambda _: None,
) -> list[Search]:
    """Search the goodput of every alternative, with trials kept in ``out``.

    ``announce`` gets a line of every damaged trial, which is run again. Raises `ScenarioError` for
    a scenario without objectives, or whose rate is not to be chosen, and `StudyError` for a folder
    that holds something else.
    """
    progress(0.0, "checking")
    _check(study)
    jobs = jobs_of(study)
    manifest = manifest_of(study, jobs, "")
    start = _rate(study, jobs[0])
    with locked(out):
        _claim(out, jobs[0].scenario_sha256)
        every = [
            [job for job in jobs if job.alternative is alternative]
            for alternative in study.alternatives
        ]
        while True:
            found = [_known(mine, out, start, goal, precision, announce) for mine in every]
            wanted = [
                (mine, rate)
                for mine, search in zip(every, found, strict=True)
                if not search.reason
                and (rate := next_rate(search.met, start, precision)) is not None
            ]
            if not wanted:
                progress(1.0, "done")
                return found
            attempts = [
                Attempt(job, rate, rate / start, manifest, _file(out, job, rate))
                for mine, rate in wanted
                for job in mine
            ]
            missing = [one for one in attempts if not one.file.exists()]
            tell = _teller(found, start, precision, missing, progress)
            if processes == 1:
                for done, one in enumerate(missing):
                    tell(done, ())
                    measure(one)
            else:
                sweep(missing, measure, processes=processes, progress=tell)


def measure(attempt: Attempt, report: Callable[[int], None] | None = None) -> None:
    """Serve the requests at the rate and write how many met their objectives."""
    job = attempt.job
    scenario = job.alternative.scenario
    part = scenario.requests
    if part.trace is None:
        arrivals = replace(part.arrivals, rate=Frequency(attempt.rate_per_s))
        part = replace(part, arrivals=arrivals)
    else:
        scale = part.trace.scale_rate * attempt.faster
        part = replace(part, trace=replace(part.trace, scale_rate=scale))
    at_rate = replaced(job.alternative, scenario=replace(scenario, requests=part))
    told = 0

    def tell(done: int, _: int) -> None:
        nonlocal told
        if report is not None:
            report(done - told)
        told = done

    outcome, emulator, _ = served(replaced(job, alternative=at_rate), tell)
    cell = Cell(
        CellManifest(
            cell=job.cell,
            fabric=at_rate.fabric,
            policy=at_rate.policy,
            seed=job.seed,
            scenario_sha256=job.scenario_sha256,
            version=version("kvfabric"),
            emulator=scenario.run.emulator,
            warmup_requests=scenario.warmup_requests,
            totals=emulator.telemetry().totals,
        ),
        outcome.requests,
    )
    _write(attempt.file, msgspec.json.encode(_trial(cell, attempt)))


def _trial(cell: Cell, attempt: Attempt) -> Trial:
    manifest, table = attempt.manifest, after_warmup(cell)
    ended = (table["status"] == FINISHED) & (table["finish_ps"] >= 0)
    met = attained(cell, manifest)
    first = attained(cell, replace(manifest, tpot_ps=None))
    token = attained(cell, replace(manifest, ttft_ps=None))
    return Trial(
        rate_per_s=attempt.rate_per_s,
        seed=attempt.job.seed,
        counted=len(met),
        met=int(met.sum()),
        unserved=int((~ended).sum()),
        late_first=int((ended & ~first).sum()),
        late_token=int((ended & ~token).sum()),
        tokens=int(table["output_tokens"][met].sum()),
        lossless=frames(cell.manifest.totals),
    )


def _write(file: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    part = file.with_name(f".{file.name}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_synced(part, content)
        part.replace(file)
    except OSError as error:
        raise StudyError(f"{file}: {error.strerror}; write another --out folder") from None


def _known(
    mine: Sequence[CellJob],
    out: Path,
    start: float,
    goal: float,
    precision: float,
    announce: Callable[[str], None],
) -> Search:
    """What has been tried on an alternative: rates for which every seed is there."""
    first = mine[0]
    by_rate: dict[float, list[Trial]] = {}
    for job in mine:
        for file in sorted(_folder(out, job).glob(f"*-{job.seed}.json")):
            try:
                trial = msgspec.json.decode(file.read_bytes(), type=Trial)
            except msgspec.MsgspecError:
                announce(f"{file}: damaged; this trial is run again")
                file.unlink()
                continue
            by_rate.setdefault(trial.rate_per_s, []).append(trial)
    points = tuple(
        Point(rate, tuple(trials))
        for rate, trials in sorted(by_rate.items())
        if len(trials) == len(mine)
    )
    gpus = first.facts.prefill + first.facts.decode
    return Search(
        first.alternative.fabric,
        first.alternative.policy,
        gpus,
        points,
        start,
        goal,
        precision,
        first.impossible or "",
        first.price.usd_per_hour if first.price is not None else nan,
        bool(first.alternative.scenario.faults),
    )


def _folder(out: Path, job: CellJob) -> Path:
    """Where the trials of a cell's alternative lie; all seeds share it."""
    return out / "trials" / replaced(job, seed=0).cell


def _file(out: Path, job: CellJob, rate: float) -> Path:
    return _folder(out, job) / f"{rate:g}-{job.seed}.json"


def _teller(
    found: Sequence[Search],
    start: float,
    precision: float,
    missing: Sequence[Attempt],
    progress: Progress,
) -> Callable[[int, Sequence[int]], None]:
    """Progress over all alternatives, as far as the rates still to be tried can be foreseen."""
    ran = [s for s in found if not s.reason]
    done = sum(len(s.points) for s in ran)
    left = sum(rounds_left(s.met, start, precision) for s in ran)
    rates = sorted({one.rate_per_s for one in missing})
    note = "at " + " to ".join(f"{rate:g}" for rate in dict.fromkeys((*rates[:1], *rates[-1:])))
    note += " requests/s"
    now = len({(id(one.job.alternative), one.rate_per_s) for one in missing})

    def tell(jobs: int, _: Sequence[int]) -> None:
        share = now * jobs / len(missing) if missing else 0.0
        progress((done + share) / max(1, done + left), note)

    return tell


def _check(study: Study) -> None:
    """Refuse what has no goodput, or no rate to search."""
    for one in study.alternatives:
        slo, requests = one.scenario.slo, one.scenario.requests
        if slo.ttft is None and slo.tpot is None:
            raise one.source.error(
                ("slo",), "goodput is measured against objectives; write slo: {ttft: 300ms}"
            )
        if requests.closed is not None:
            raise one.source.error(
                ("requests", "closed"),
                "users decide when they ask: there is no rate to search; write arrivals",
            )
    if len({_declared(one) for one in study.alternatives}) > 1:
        raise study.source.error(
            ("compare",), "alternatives differ in their rate or trace, which goodput searches"
        )


def _declared(one: Alternative) -> tuple[float, float, str]:
    requests = one.scenario.requests
    trace = requests.trace
    scale, file = (1.0, "") if trace is None else (trace.scale_rate, trace.file)
    return float(requests.arrivals.rate), scale, file


def _rate(study: Study, job: CellJob) -> float:
    """The first rate: the declared one, or that of the trace as it is played."""
    scenario = study.scenario
    if scenario.requests.trace is None:
        return rounded(float(scenario.requests.arrivals.rate))
    from kvfabric.demand import demand_of

    table, _ = demand_of(scenario, job.alternative.source, 1)
    if not isinstance(table, RequestTable) or not table.span_ps:
        raise study.source.error(("requests", "trace"), "has no span of time, and so no rate")
    return rounded((len(table) - 1) * PS_PER_S / float(np.int64(table.span_ps)))


def _claim(out: Path, digest: str) -> None:
    """Make the folder this scenario's, or refuse one that is another's."""
    key = hashlib.sha256(f"{digest} {version('kvfabric')}".encode()).hexdigest()
    mark = out / "goodput.key"
    if mark.exists():
        if mark.read_text("utf-8") != key:
            raise StudyError(
                f"{out}: holds a search of another scenario or version; write another --out folder"
            )
        return
    if not vacant(out):
        raise StudyError(f"{out}: holds something else; write another --out folder")
    _write(mark, key.encode())
