"""What a cell is asked to serve: a table of requests, or users who wait for their answers."""

from kvfabric.build import requests_of
from kvfabric.deployment import shares_of
from kvfabric.mistake import unmeasured
from kvfabric.request import ClosedPart, RequestsPart
from kvfabric.scenario import Scenario
from kvfabric.source import Source, file_path, located
from kvfabric.workload import agent_of, lengths_of, tenants_of, tenants_told
from topo.unit import show_duration
from traffic.error import RequestError
from traffic.request import RequestTable
from traffic.source.crowd import Script, Users, Work, talk
from traffic.source.session import played
from traffic.source.tenant import check_tenants, modelled

Demand = RequestTable | Users


def demand_of(scenario: Scenario, source: Source, seed: int) -> tuple[Demand, list[str]]:
    """The requests or the users of one seed, each with its model, and notes on them."""
    part, shares = scenario.requests, shares_of(scenario)
    if part.closed is not None:
        with located(source, "requests"):
            return _users(part, part.closed, shares, source, seed)
    table, notes = requests_of(scenario, source, seed)
    if scenario.warmup_requests >= len(table):
        raise unmeasured(source, scenario.warmup_requests, len(table))
    if len(shares) > 1:
        with located(source, "models"):
            table = modelled(table, shares, seed)
    return table, notes


def _users(
    part: RequestsPart, closed: ClosedPart, shares: list[float], source: Source, seed: int
) -> tuple[Users, list[str]]:
    """A crowd of users; traces know no users, and arrivals are what the loop makes."""
    if part.trace is not None:
        raise RequestError(
            "closed: a recorded trace has arrivals of its own; remove trace, or closed"
        )
    if part.arrivals != RequestsPart().arrivals:
        raise RequestError("closed: users decide when they ask; remove arrivals, or closed")
    tenants = tenants_of(part)
    if tenants:
        check_tenants(tenants)
    script: Script
    if part.sessions is not None:
        if any(tenant.lengths is not None for tenant in tenants):
            raise RequestError("tenants: a profile of one's own does not go with sessions")
        agent = agent_of(part, part.sessions)
        script = Work(played(agent, seed), seed)
        told = f"sessions of {agent.turns:g} turns of {agent.calls:g} model calls on average"
    else:
        lengths = lengths_of(part, lambda file: file_path(file, source))
        script = talk(closed.users, tenants, lengths, int(closed.think), seed)
        told = f"lengths of {lengths.name}, a mean thought of {show_duration(closed.think)}"
    users = Users(
        closed.users,
        part.count,
        script,
        seed,
        tenants=tenants,
        models=shares if len(shares) > 1 else (),
    )
    note = f"Closed loop: {closed.users} users ask again after their answers; {told}."
    return users, [note, *tenants_told(part)]
