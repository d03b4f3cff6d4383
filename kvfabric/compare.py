"""A study from a scenario file to a results folder: checked first, then run cell by cell.

An existing folder is resumed for the same scenario and refused for another; more seeds extend it.
One command at a time may work in a folder.
"""

import fcntl
import hashlib
import platform
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from analysis.error import RecordError
from analysis.record import (
    FabricFact,
    StudyManifest,
    cell_directory,
    check_cell,
    read_manifest,
    write_cell,
    write_study,
)
from analysis.wording import listed
from kvfabric.build import Stage, files_of, impossible, stage
from kvfabric.demand import demand_of
from kvfabric.effort import SERVED_HOPS, foretold, hops_of
from kvfabric.limit import limits_of
from kvfabric.load import Study
from kvfabric.policy import is_code, kind_of
from kvfabric.price import price_of
from kvfabric.request import RequestsPart, load_told
from kvfabric.run import CellJob, fabric_fact, run_cell
from kvfabric.source import located
from kvfabric.sweep import sweep
from topo.error import KvfabricError
from topo.intake import Intake
from traffic.trace.registry import shelf, take_over

Progress = Callable[[float, str], None]
"""Called with the share of the work done (0..1) and a short note."""

_LOADS: Final = 6
"""Loads that are told one by one, at most."""

_LIBRARIES: Final = ("kvfabric", "numpy", "networkx", "pyarrow")


class StudyError(KvfabricError):
    """A results folder that belongs to something else, or cannot be worked in."""


def jobs_of(study: Study) -> list[CellJob]:
    """Every cell of a study, checked as far as it can be without moving a packet.

    Alternatives that differ only in their policy share one stage. The requests of the first seed
    are read once for every alternative that has its own.
    """
    _refuse_code(study)
    digest = _digest(study)
    stages: dict[bytes, tuple[Stage, FabricFact]] = {}
    read: set[bytes] = set()
    jobs: list[CellJob] = []
    for alternative in study.alternatives:
        scenario, source = alternative.scenario, alternative.source
        rest = msgspec.structs.replace(scenario, policy="", requests=RequestsPart())
        key = msgspec.json.encode(rest, enc_hook=str)
        if key not in stages:
            ready = stage(scenario, source)
            stages[key] = (ready, fabric_fact(ready, scenario.fabric))
        wanted = msgspec.json.encode((scenario.requests, scenario.models), enc_hook=str)
        if wanted not in read:
            demand_of(scenario, source, 1)
            read.add(wanted)
        ready, facts = stages[key]
        reason = impossible(scenario, source, ready)
        with located(source, "cost"):
            price = price_of(scenario, ready.placed, facts.cost_usd)
        jobs += [
            CellJob(alternative, ready, facts, reason, seed, digest, price)
            for seed in range(1, scenario.run.seeds + 1)
        ]
    if all(job.impossible for job in jobs):
        raise study.source.error(("policy",), str(jobs[0].impossible))
    return jobs


def _refuse_code(study: Study) -> None:
    """Refuse policies that are named by an import path, without the permission to run them."""
    for alternative in study.alternatives:
        policy = alternative.scenario.policy
        if is_code(policy) and not study.allow_code:
            raise alternative.source.error(
                ("policy",),
                f"{kind_of(policy)!r} names code to be run, and a scenario may come from a "
                "stranger; write --allow-code if you trust it, or install it as an entry point",
            )


def run_study(
    study: Study,
    out: Path,
    *,
    processes: int,
    progress: Progress,
    reproduce: str,
    announce: Callable[[str], None] = lambda _: None,
) -> StudyManifest:
    """Run what is missing of a study into ``out`` and return its manifest.

    Nothing is written before everything that can be checked is checked. ``reproduce`` is the
    command line that gives the same study again; ``announce`` gets a line where it will take
    minutes, and one of every damaged cell, which is run again.
    """
    progress(0.0, "checking")
    jobs = jobs_of(study)
    manifest = manifest_of(study, jobs, reproduce)
    _refuse_other(out, manifest)
    with locked(out):
        _refuse_other(out, manifest)
        write_study(out, manifest)
        missing = [job for job in jobs if not _kept(cell_directory(out, job.cell), announce)]
        if missing:
            hops = hops_of(missing)
            if line := foretold(missing, hops, processes):
                announce(line)
            asked = np.array([_steps(job) for job in missing])
            effort = np.array(hops) + SERVED_HOPS * asked
            kept = len(jobs) - len(missing)

            def tell(done: int, steps: Sequence[int]) -> None:
                left = 1 - done / len(missing)
                if effort.any():
                    left = float(effort @ (1 - steps / asked.clip(1))) / int(effort.sum())
                note = f"{kept + done}/{len(jobs)} cells"
                if asked.any() and not kept + done:
                    # later they would be told apart from those of a run before
                    note += f", {sum(steps):,} requests"
                progress(1 - left * len(missing) / len(jobs), note)

            work = CellWork(out)
            # What was read to check the study is not read again by those who run it.
            begin = partial(take_over, shelf())
            sweep(missing, work, processes=processes, progress=tell, begin=begin)
        progress(1.0, f"{len(jobs)}/{len(jobs)} cells")
    return manifest


def _kept(cell: Path, announce: Callable[[str], None]) -> bool:
    """Whether a finished cell is there and whole; a damaged one is removed, to be run again."""
    if not cell.exists():
        return False
    try:
        check_cell(cell)
    except RecordError as error:
        announce(f"{str(error).partition(';')[0]}; this cell is run again")
        shutil.rmtree(cell)
        return False
    return True


class CellWork:
    """Runs one cell in a worker process and writes it."""

    def __init__(self, out: Path) -> None:
        self.out = out

    def __call__(self, job: CellJob, report: Callable[[int], None]) -> None:
        told = 0

        def progress(done: int, whole: int) -> None:
            nonlocal told
            # The last one counts when the cell is written: what is told as done is on the disk.
            done = min(done, whole - 1)
            report(done - told)
            told = done

        write_cell(cell_directory(self.out, job.cell), run_cell(job, progress))
        report(_steps(job) - told)


def _steps(job: CellJob) -> int:
    """The steps that a cell reports: its requests, and none when it cannot run."""
    return 0 if job.impossible else job.alternative.scenario.requests.count


def manifest_of(study: Study, jobs: list[CellJob], reproduce: str) -> StudyManifest:
    """What the study asks, for the report."""
    scenario = study.scenario
    budget, slo = scenario.budget, scenario.slo
    seeds = max(job.seed for job in jobs)
    return StudyManifest(
        name=scenario.name,
        question=scenario.question,
        scenario_sha256=jobs[0].scenario_sha256,
        fabrics=list(dict.fromkeys(a.fabric for a in study.alternatives)),
        policies=list(dict.fromkeys(a.policy for a in study.alternatives)),
        varied={a.fabric: dict(a.varied) for a in study.alternatives},
        seeds=list(range(1, seeds + 1)),
        allowed=float(budget.allowed),
        budget_ps=None if budget.handoff is None else int(budget.handoff),
        ttft_ps=None if slo.ttft is None else int(slo.ttft),
        tpot_ps=None if slo.tpot is None else int(slo.tpot),
        load=_load(study),
        limits=limits_of(study.alternatives),
        versions={"python": platform.python_version(), **{n: version(n) for n in _LIBRARIES}},
        reproduce=[reproduce],
        scenario=study.source.text,
    )


def _load(study: Study) -> str:
    """How much is asked for; of very many loads how many there are."""
    told = [load_told(alternative.scenario.requests) for alternative in study.alternatives]
    each = list(dict.fromkeys(told))
    return listed(each) if len(each) <= _LOADS else f"{len(each)} loads, as compared"


def _digest(study: Study) -> str:
    """The scenario's digest, with the contents of the files that it reads."""
    digest = hashlib.sha256(study.sha256.encode())
    seen: set[Path] = set()
    for alternative in study.alternatives:
        for place, path in files_of(alternative.scenario, alternative.source):
            if path in seen:
                continue
            seen.add(path)
            refuse = partial(alternative.source.error, place)
            intake = Intake(refuse, absent="write a file that is there", other="write one")
            with intake.opened(path) as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _refuse_other(out: Path, manifest: StudyManifest) -> None:
    """Refuse a folder that holds another study, or something else altogether."""
    if out.exists() and not out.is_dir():
        raise StudyError(f"{out}: is a file; write another --out folder")
    if vacant(out):
        return
    if not (out / "study.json").is_file():
        raise StudyError(f"{out}: holds something else than results; write another --out folder")
    found = read_manifest(out)
    if found.scenario_sha256 != manifest.scenario_sha256:
        raise StudyError(
            f"{out}: holds results of another scenario ({found.name!r}) or of another version of "
            "it; write another --out folder, or remove this one"
        )
    made = found.versions.get("kvfabric", "?")
    if made != manifest.versions["kvfabric"]:
        raise StudyError(f"{out}: was made by kvfabric {made}; write another --out folder")
    if len(found.seeds) > len(manifest.seeds):
        raise StudyError(
            f"{out}: holds {len(found.seeds)} seeds; write --seeds {len(found.seeds)} or more, "
            "or another --out folder"
        )


def vacant(out: Path) -> bool:
    """Whether a results folder has nothing, or what a command left that was ended at its begin."""
    if not out.exists():
        return True
    return all(p.name == ".lock" or re.fullmatch(r"\..*\.part", p.name) for p in out.iterdir())


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """Keep other commands out of a results folder while this one works in it."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = (out / ".lock").open("w")
    except OSError as error:
        raise StudyError(f"{out}: {error.strerror}; write another --out folder") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StudyError(f"{out}: another command works in it; wait, or use another") from None
        yield
