"""When a router learns of a death, a return and a newcomer: by probes at multiples of a time."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traffic.emulator import Emulator
from traffic.failure.outage import Outage
from traffic.failure.resilience import Health, Resilience
from traffic.failure.spell import Spell
from traffic.failure.watch import Watch
from traffic.loop import Loop
from traffic.record.ledger import Ledger

MS = 10**9
END = 10_000 * MS


def watched(
    outages: list[Outage], rules: Resilience, wire: Callable[[], Emulator]
) -> tuple[list[tuple[int, bool]], list[Spell]]:
    """What the router knew of instance 0: (time, used) at every change, and the spells."""
    loop = Loop(Ledger(1), wire(), MS)
    loop.ledger.arrival_ps[0] = 2 * END
    told: list[tuple[int, bool]] = []

    def changed(instance: int, now: int) -> None:
        if not told or told[-1][1] != watch.used(instance):
            told.append((now, watch.used(instance)))

    watch = Watch(loop, rules, 1, outages, changed)
    for outage in outages:
        loop.call(outage.from_ps, lambda now, outage=outage: watch.starts(outage, now))
    loop.go(END, None)
    return told, watch.spells


@given(
    died=st.integers(0, 500 * MS),
    interval=st.integers(1, 100 * MS),
    share=st.floats(0, 1),
    failures=st.integers(1, 5),
)
def test_a_death_is_known_after_so_many_probes_and_the_timeout_of_the_last(
    died: int, interval: int, share: float, failures: int, wire: Callable[[], Emulator]
) -> None:
    timeout = int(interval * share)
    rules = Resilience(health=Health(interval, timeout, failures))
    told, spells = watched([Outage("fail", "prefill", 0, died)], rules, wire)
    first = -(-died // interval) * interval
    known = first + (failures - 1) * interval + timeout
    assert told == [(known, False)]
    assert (spells[0].unseen_ps, spells[0].served_ps, spells[0].seen_ps) == (known, -1, -1)


def test_a_return_is_known_after_load_discovery_and_so_many_good_probes(
    wire: Callable[[], Emulator],
) -> None:
    rules = Resilience(
        health=Health(10 * MS, 5 * MS, failures=2, successes=3),
        load_ps=30 * MS,
        discovery_ps=17 * MS,
    )
    told, (spell,) = watched([Outage("fail", "prefill", 0, 101 * MS, 200 * MS)], rules, wire)
    # Probes at 110 and 120 fail, the second is given up at 125. It serves at 230, is found at 247:
    # probes at 250, 260 and 270 are good.
    assert told == [(125 * MS, False), (270 * MS, True)]
    assert (spell.served_ps, spell.unseen_ps, spell.seen_ps) == (230 * MS, 125 * MS, 270 * MS)


def test_a_death_shorter_than_the_probes_need_is_never_known(wire: Callable[[], Emulator]) -> None:
    rules = Resilience(health=Health(10 * MS, 0, failures=2))
    told, (spell,) = watched([Outage("fail", "prefill", 0, 101 * MS, 119 * MS)], rules, wire)
    assert not any(not used for _, used in told)
    assert spell.unseen_ps == -1
    # One picosecond into the second probe it is.
    told, _ = watched([Outage("fail", "prefill", 0, 101 * MS, 120 * MS + 1)], rules, wire)
    assert told[0] == (120 * MS, False)


@pytest.mark.parametrize(("interval", "known"), [(0, 150 * MS), (40 * MS, 200 * MS)])
def test_a_newcomer_is_used_once_it_is_loaded_discovered_and_checked(
    interval: int, known: int, wire: Callable[[], Emulator]
) -> None:
    rules = Resilience(
        health=Health(interval, 0, successes=2), load_ps=30 * MS, discovery_ps=20 * MS
    )
    told, (spell,) = watched([Outage("join", "prefill", 0, 100 * MS)], rules, wire)
    # Loaded at 130, discovered at 150; with checks, probes at 160 and 200.
    assert told == [(known, True)]
    assert spell.served_ps == 130 * MS


def test_without_health_checks_a_death_is_never_known(wire: Callable[[], Emulator]) -> None:
    rules = Resilience(health=Health(interval_ps=0))
    told, _ = watched([Outage("fail", "prefill", 0, 0)], rules, wire)
    assert told == []


def test_a_drain_is_known_at_once_and_its_end_after_load_and_discovery(
    wire: Callable[[], Emulator],
) -> None:
    rules = Resilience(load_ps=30 * MS, discovery_ps=20 * MS)
    told, _ = watched([Outage("drain", "prefill", 0, 100 * MS, 200 * MS)], rules, wire)
    assert told == [(100 * MS, False), (250 * MS, True)]


def test_a_second_death_before_the_first_return_is_known_starts_the_probes_anew(
    wire: Callable[[], Emulator],
) -> None:
    rules = Resilience(health=Health(10 * MS, 0, failures=1, successes=5))
    told, spells = watched(
        [
            Outage("fail", "prefill", 0, 100 * MS, 200 * MS),
            Outage("fail", "prefill", 0, 225 * MS, 300 * MS),
        ],
        rules,
        wire,
    )
    # Good at 200, 210 and 220, then it is dead again; five good ones from 300 on.
    assert told == [(100 * MS, False), (340 * MS, True)]
    assert (spells[0].seen_ps, spells[1].seen_ps) == (-1, 340 * MS)
