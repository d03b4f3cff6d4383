"""DCQCN's rate in every preset against the rules in whole fractions, and where many flows settle.

The model below is written from the papers' text alone: an agenda of three timers, exact arithmetic.
"""

import random
from dataclasses import dataclass, field
from fractions import Fraction

import pytest

from emulate import _engine
from emulate.discipline import Discipline
from emulate.packet import PacketEmulator
from emulate.setting import dcqcn_columns
from emulate.transport import PRESETS, Dcqcn, Transport
from topo.route import equal_cost

US = 10**6
MS = 10**9
G = 10**9


@dataclass
class Point:
    """A reaction point: Zhu et al., SIGCOMM 2015, figure 7, with the settings of the vendors."""

    rule: Dcqcn
    line: int
    alpha: Fraction = Fraction(0)
    stages: dict[str, int] = field(default_factory=dict)
    due: dict[str, int] = field(default_factory=dict)
    marked: bool = False
    sent: int = 0

    def __post_init__(self):
        self.rate = self.target = Fraction(self.line)

    def until(self, now):
        order = ["alpha", "increase", "cut"]
        while self.due:
            at, turn = min((at, order.index(name)) for name, at in self.due.items())
            if at > now:
                return
            if order[turn] == "alpha":
                kept = Fraction(self.rule.keep_q10, 1024)
                # Rounded far below anything that shows, lest the fractions grow without end.
                self.alpha = round((kept * self.alpha + (1 - kept) * self.marked) * 2**60)
                self.alpha = Fraction(self.alpha, 2**60)
                self.marked, self.due["alpha"] = False, at + self.rule.alpha_period_ps
            elif order[turn] == "increase":
                self.due["increase"] = at + self.rule.increase_period_ps
                self.grow("timer")
            else:
                self.cut(at)

    def cut(self, now):
        rule = self.rule
        if rule.clamp or (rule.clamp_after_timer and self.stages["timer"]):
            self.target = self.rate
        least = max(self.rate * rule.least_percent / 100, min(rule.least_bps, self.line))
        self.rate = max(self.rate * (1 - self.alpha / 2**rule.gd_shift), least)
        self.stages, self.sent, self.last = {"timer": 0, "bytes": 0}, 0, now
        self.due.pop("cut", None)
        self.due["increase"] = now + rule.increase_period_ps

    def grow(self, own):
        rule = self.rule
        counts = self.stages.values() if rule.increase_bytes else [self.stages["timer"]]
        if min(counts) > rule.recovery:
            self.target += rule.hyper(self.line)
        elif max(counts) >= rule.recovery:
            self.target += rule.additive(self.line)
        self.target = min(self.target, Fraction(self.line))
        self.rate = Fraction(round((self.rate + self.target) * 2**20), 2**21)
        self.stages[own] += 1

    def cnp(self, now):
        rule = self.rule
        self.until(now)
        first = not self.due
        if first:
            self.alpha, self.first = Fraction(rule.initial_q10, 1024), now
            self.stages, self.last = {"timer": 0, "bytes": 0}, now - rule.cut_period_ps
            self.due["alpha"] = now + rule.alpha_period_ps
        self.marked = not (first and rule.cut_grid)
        period = rule.cut_period_ps
        if rule.cut_grid:
            self.due["cut"] = now + period - (now - self.first) % period
        elif now < self.last + period:
            self.due["cut"] = self.last + period
        else:
            self.cut(now)

    def send(self, now, count):
        self.until(now)
        if not self.due or not self.rule.increase_bytes:
            return
        self.sent += count
        while self.sent >= self.rule.increase_bytes:
            self.sent -= self.rule.increase_bytes
            self.grow("bytes")


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("seed", range(12))
def test_a_rate_is_that_of_the_rules_in_fractions_in_every_preset(name, seed):
    draw, rule = random.Random(seed), PRESETS[name]
    line = draw.choice([10, 25, 100, 400, 800]) * G
    columns = dcqcn_columns(Transport(preset=name))
    columns |= {"additive_bps": rule.additive(line), "hyper_bps": rule.hyper(line)}
    setting = _engine.dcqcn_setting(**columns)
    flow, point, now = _engine.Dcqcn(line), Point(rule, line), 0
    gap, share = draw.choice([2, 20, 100]) * US, draw.choice([0.02, 0.1, 0.5])
    for _ in range(300):
        # At odd picoseconds, so that no timer is due at the instant of a CNP.
        now += 2 * int(draw.expovariate(2 / gap)) + 2 - (now + 1) % 2
        if draw.random() < share:
            flow.cnp(setting, now)
            point.cnp(now)
        else:
            count = draw.choice([0, 83, 4178, 66_848, 500_000])
            flow.sent(setting, now, count)
            point.send(now, count)
        flow.advance(setting, now)
        point.until(now)
        # Alpha is rounded down to 2^-20 at every update: at most 2^-20 / (1 - kept) in all.
        lost = 2**-20 * 1024 / (1024 - rule.keep_q10)
        assert -1e-9 <= float(point.alpha) - flow.alpha_q20 / 2**20 <= lost
        assert flow.rate_bps == pytest.approx(float(point.rate), rel=0.02)
        assert flow.target_bps == pytest.approx(float(point.target), rel=0.02)


@pytest.mark.parametrize("senders", [2, 4, 10])
def test_long_flows_are_marked_as_often_as_at_the_published_fixed_point(lab, senders):
    # Zhu, Ghobadi, Misra, Padhye, ECN or delay, CoNEXT 2016 (formula recalled, not read): N flows
    # that share C settle where p = (R N^2 / (t C^2) * (1 / B + N / (T C))^2)^(1/3), in packets
    # and R the additive step. It holds for small p.
    mtu, rule, line = 1000, PRESETS["paper"], 40 * G
    packet = 8 * (mtu + 82)
    rate, step, count = (
        line / packet,
        rule.additive(line) / packet,
        rule.increase_bytes * 8 / packet,
    )
    times = rule.alpha_period_ps / 1e12, rule.increase_period_ps / 1e12
    often = 1 / count + senders / (times[1] * rate)
    fixed = (step * senders**2 / (times[0] * rate**2) * often**2) ** (1 / 3)
    fabric = lab.star(senders + 1, 40, 1_000_000, latency=0)
    *sources, sink = lab.hosts(fabric)
    discipline = Discipline(ecn="paper", headroom=100_000, marking="dequeue")
    transport = Transport(preset="paper", mtu=mtu, ack_every=64)
    emulator = PacketEmulator(fabric, equal_cost(fabric), discipline, transport, seed=1)
    emulator.submit(lab.flows(*((s, sink, 2 * 10**9, 0) for s in sources)))
    port = int(fabric.ports.reverse[fabric.ports.first[sink]])
    seen = []
    for until in (100 * MS, 300 * MS):
        assert not len(emulator.advance(until).completions)
        ports = emulator.telemetry().ports
        seen.append([int(ports[name][port]) for name in ("marked", "tx_packets", "tx_bytes")])
    marked, packets, sent = (after - before for before, after in zip(*seen, strict=True))
    assert sent * 8 * 5 == pytest.approx(line, rel=0.01)  # a fifth of a second
    assert marked / packets == pytest.approx(fixed, rel=0.25)
