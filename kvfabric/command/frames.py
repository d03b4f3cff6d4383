"""What the commands on real frames share: their options, and which alternative they take."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from topo.error import KvfabricError

if TYPE_CHECKING:
    from kvfabric.load import Study
    from kvfabric.run import CellJob


def _times(_context: click.Context, _option: click.Parameter, text: str | None) -> int | None:
    """How many times slower: a whole number of at least 1; commas may part thousands."""
    if text is None:
        return None
    plain = text.replace(",", "")
    if not (plain.isascii() and plain.isdigit()) or int(plain) < 1:
        raise click.BadParameter(f"{text!r} is no whole number of at least 1; write 10000")
    return int(plain)


_OPTIONS: Final = (
    click.option(
        "--alternative",
        type=click.IntRange(1),
        default=None,
        help="Which of its `compare`, from 1 on.  [default: as it stands outside of it]",
    ),
    click.option(
        "--dilation",
        metavar="TIMES",
        callback=_times,
        default=None,
        help="How many times slower than the fabric's clock.  [default: what this machine can]",
    ),
    click.option(
        "--wall",
        metavar="DURATION",
        default="15min",
        show_default=True,
        help="What real frames may take, as 90s or 2h.",
    ),
    click.option(
        "--links",
        type=click.Choice(["veth", "memory"]),
        default="veth",
        show_default=True,
        help="Between switches: veth pairs, or wires inside the switch process.",
    ),
    click.option("--count", type=click.IntRange(1), default=None, help="Requests, at most."),
    click.option("--allow-code", is_flag=True, help="Run policies named as module:Class."),
)


def frame_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a run on real frames."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def seconds_of(wall: str) -> float:
    """The seconds of ``--wall``."""
    from topo.error import UnitError
    from topo.unit import PS_PER_S, duration

    try:
        return duration(wall) / PS_PER_S
    except UnitError:
        raise KvfabricError(
            f"--wall {wall!r}: no duration, or longer than 2,562 h; write 90s, 15min or 2h"
        ) from None


def one_job(
    scenario: Path, *, alternative: int | None, count: int | None, seed: int, allow_code: bool
) -> tuple["Study", "CellJob"]:
    """The one cell that a command puts on frames, and a study of nothing else.

    Raises `KvfabricError` where the scenario has no such alternative, or it cannot be.
    """
    from kvfabric.compare import jobs_of
    from kvfabric.load import load

    overrides: dict[tuple[str | int, ...], Any] = {
        ("run", "seeds"): seed,
        ("run", "emulator"): "packet",
    }
    if count is not None:
        overrides["requests", "count"] = count
    study = load(
        scenario, overrides=overrides, compare=alternative is not None, allow_code=allow_code
    )
    if alternative is not None:
        most = len(study.alternatives)
        if alternative > most:
            raise KvfabricError(
                f"--alternative {alternative}: {scenario} compares {most}; write at most {most}"
            )
        chosen = study.alternatives[alternative - 1]
        study = replace(study, scenario=chosen.scenario, alternatives=[chosen])
    job = jobs_of(study)[-1]
    if job.impossible is not None:
        raise study.source.error(("policy",), job.impossible)
    return study, job


def frames_place(name: str, alternative: int | None, what: str) -> Path:
    """The default results folder of what runs one alternative."""
    from kvfabric.command.study import place_of

    return place_of(name, *([str(alternative)] if alternative else []), what)
