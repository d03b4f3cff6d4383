"""From the keys under ``requests`` to a request table that nobody recorded."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from kvfabric.request import ArrivalsPart, LengthPart, LengthsPart, RequestsPart, SessionsPart
from topo.unit import show_duration
from traffic.error import RequestError
from traffic.request import RequestTable
from traffic.source.length import Constant, Gamma, Length, Lognormal, Normal
from traffic.source.modulation import Modulation
from traffic.source.profile import Lengths, Profile, Rows, profile
from traffic.source.session import Agent, sessions
from traffic.source.tenant import Tenant, tenanted
from traffic.source.workload import synthesise
from traffic.trace.registry import trace


def synthetic(
    part: RequestsPart, seed: int, find: Callable[[str], Path]
) -> tuple[RequestTable, list[str]]:
    """The requests of one seed and notes on where they come from; ``find`` places a file."""
    if part.sessions is not None:
        table, notes = _sessions(part, part.sessions, seed)
    else:
        lengths = lengths_of(part, find)
        arrivals = part.arrivals
        table = synthesise(
            lengths,
            count=part.count,
            rate_per_s=float(arrivals.rate),
            seed=seed,
            process=arrivals.process,
            cv=arrivals.cv,
            modulation=Modulation(
                int(arrivals.burst), int(arrivals.lull), int(arrivals.period), float(arrivals.swing)
            ),
        )
        called = f"profile {lengths.name}" if lengths.name == part.profile else lengths.name
        notes = [f"Lengths: {called}, {lengths.source}.", *_rhythm(arrivals)]
    if part.tenants:
        table = tenanted(table, tenants_of(part), seed)
    return table, [*notes, *tenants_told(part)]


def tenants_of(part: RequestsPart) -> list[Tenant]:
    """The tenants, each with lengths of its own if it has a profile."""
    return [
        Tenant(t.name, float(t.share), t.priority, None if not t.profile else profile(t.profile))
        for t in part.tenants
    ]


def tenants_told(part: RequestsPart) -> list[str]:
    """A note on the tenants, or none."""
    told = ", ".join(
        f"{number} {t.name} {100 * t.share:g}% priority {t.priority}"
        for number, t in enumerate(part.tenants)
    )
    return [f"Tenants: {told}."] if told else []


def _rhythm(arrivals: ArrivalsPart) -> list[str]:
    if arrivals.process == "on_off":
        return [
            f"Arrivals: bursts of {show_duration(arrivals.burst)} and lulls of "
            f"{show_duration(arrivals.lull)}, both exponential; the rate is the mean over both."
        ]
    if arrivals.process == "diurnal":
        return [
            f"Arrivals: the rate swings by {100 * arrivals.swing:g}% around its mean in "
            f"{show_duration(arrivals.period)}."
        ]
    return []


def _sessions(part: RequestsPart, keys: SessionsPart, seed: int) -> tuple[RequestTable, list[str]]:
    if part.arrivals.process != "poisson":
        raise RequestError(
            f"arrivals.process {part.arrivals.process}: sessions start as a Poisson process; "
            "write poisson or leave it out"
        )
    agent = agent_of(part, keys)
    table = sessions(agent, count=part.count, rate_per_s=float(part.arrivals.rate), seed=seed)
    return table, [
        f"Sessions: {agent.turns:g} turns of {agent.calls:g} model calls on average, contexts up "
        f"to {agent.context:,} tokens; open loop: answer and think times are drawn, not simulated."
    ]


def agent_of(part: RequestsPart, keys: SessionsPart) -> Agent:
    """How the sessions go."""
    if part.lengths is not None or part.profile != "base":
        raise RequestError("sessions: have lengths of their own; remove profile and lengths")
    set_: dict[str, Any] = {}
    for name in keys.__struct_fields__:
        value = getattr(keys, name)
        if value is None:
            continue
        if name in ("think", "run", "wait", "token", "retry_after"):
            set_[f"{name}_ps"] = int(value)
        elif isinstance(value, LengthPart):
            set_[name] = _length(value)
        else:
            set_[name] = value
    return replace(Agent(), **set_)


def lengths_of(part: RequestsPart, find: Callable[[str], Path]) -> Lengths:
    """The lengths of single requests; ``find`` places a file."""
    named = profile(part.profile)
    own: LengthsPart | None = part.lengths
    if own is None:
        return named
    if own.table is not None:
        if own.input is not None or own.output is not None or own.correlation:
            raise RequestError(
                "lengths.table: its rows give both lengths; remove input, output and correlation"
            )
        rows = trace(find(own.table), jitter=False)
        return Rows(f"rows of {Path(own.table).name}", rows.requests, rows.source)
    return Profile(
        "own",
        named.input if own.input is None else _length(own.input),
        named.output if own.output is None else _length(own.output),
        f"as the scenario says, rank correlation {own.correlation:g}",
        own.correlation,
    )


def _length(part: LengthPart) -> Length:
    if part.kind == "constant":
        if part.std or part.mean != int(part.mean):
            raise RequestError(
                f"constant length {part.mean:g} +- {part.std:g}: write a whole number and no std"
            )
        return Constant(int(part.mean))
    if part.kind == "normal":
        return Normal(part.mean, part.std)
    if part.kind == "gamma":
        return Gamma(part.mean, part.std)
    return Lognormal(part.mean, part.std)
