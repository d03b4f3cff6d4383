"""One flow over two links, simulated apart: stops, credits, DCQCN, losses, to the picosecond.

The simulations below share nothing with the engines but the numbers of settings; where the flow
alone fills every queue, few lines say all that happens.
"""

import heapq
import itertools
import random

import pytest

from emulate.discipline import Discipline
from emulate.marking import Threshold
from emulate.packet import PacketEmulator
from emulate.transport import PRESETS, Transport
from topo.fabric import Fabric
from topo.route import equal_cost

G = 10**9
BIT_PS = 8 * 10**12


@pytest.fixture(params=["core", "reference"])
def engine(request):
    return request.param


class Agenda:
    """What is to come, by time, then rank, then as it was put in."""

    def __init__(self):
        self.now, self.heap, self.count = 0, [], itertools.count()

    def at(self, time, rank, name, what=None):
        heapq.heappush(self.heap, (time, rank, next(self.count), name, what))

    def __iter__(self):
        while self.heap:
            self.now, _, _, name, what = heapq.heappop(self.heap)
            yield name, what


def moved(lab, engine, way, discipline, transport, size):
    """The telemetry of one flow from a host over a switch to another host, and its finish."""
    (fast, slow), (near, far), latency, buffer = way
    fabric = Fabric("way")
    a, b = fabric.add_host("a"), fabric.add_host("b")
    middle = fabric.add_switch("s", tier=1, switch=lab.switch(buffer=buffer, latency=latency))
    fabric.connect(a, middle, rate_bps=fast * G, delay_ps=near)
    fabric.connect(middle, b, rate_bps=slow * G, delay_ps=far)
    emulator = PacketEmulator(
        fabric, equal_cost(fabric), discipline, transport, seed=1, engine=engine
    )
    emulator.submit(lab.flows((a, b, size, 0)))
    return lab.finish(emulator)[0], emulator.telemetry()


@pytest.mark.parametrize("seed", range(12))
def test_a_stopped_sender_stops_and_goes_on_as_in_a_simulation_apart(lab, engine, seed):
    draw = random.Random(seed)
    fast, slow = draw.choice([100, 200, 400]), draw.choice([10, 25, 40])
    near, far = draw.randrange(2_000_000), draw.randrange(2_000_000)
    latency, response = draw.choice([0, 300_000]), draw.choice([0, 100_001, 2_017_280])
    mtu, count = draw.choice([1024, 4096]), draw.randint(20, 150)
    reserve, offset = draw.choice([0, 4096]), draw.choice([0, 3072, 9000])
    pool, alpha = draw.choice([60_000, 120_000]), draw.choice([1, 1 / 2, 1 / 4])
    room = 60_000 + (2 * near + response) * fast // 8000
    wire, stored = mtu + 82, mtu + 62
    per_fast, per_slow = 8000 // fast, 8000 // slow
    kept = shared = beyond = waiting = sent = done = stops = finish = 0
    stopped = told = busy = serving = telling = paused = False
    agenda = Agenda()
    agenda.at(0, 3, "begin")
    for event, what in agenda:
        now = agenda.now
        if event == "obey":
            paused = what
        elif event == "free":
            busy = False
        elif event == "told":
            telling = False
        elif event == "in":
            first = min(stored, reserve - kept)
            rest = stored - first
            kept += first
            fits = shared + rest <= min(int(alpha * (pool - shared)), pool)
            beyond, shared = (beyond, shared + rest) if fits else (beyond + rest, shared)
            waiting += 1
            if not stopped and (beyond or shared > int(alpha * (pool - shared))):
                stopped, told, stops = True, True, stops + 1
        elif event == "out":
            serving, done, left = False, done + 1, stored
            gone = min(left, beyond)
            beyond, left = beyond - gone, left - gone
            gone = min(left, shared)
            shared, kept = shared - gone, kept - (left - gone)
            finish = now + latency + far
            low = not shared or shared <= int(alpha * (pool - shared)) - offset
            if stopped and not beyond and low:
                stopped, told = False, True
        if waiting and not serving:
            waiting, serving = waiting - 1, True
            agenda.at(now + wire * per_slow, 1, "out")
        if told and not telling:
            told, telling = False, True
            agenda.at(now + 84 * per_fast, 1, "told")
            agenda.at(now + 84 * per_fast + near + response, 0, "obey", stopped)
        if sent < count and not busy and not paused:
            sent, busy = sent + 1, True
            agenda.at(now + wire * per_fast, 1, "free")
            agenda.at(now + wire * per_fast + near, 2, "in")
    assert done == count
    discipline = Discipline(
        ecn="off",
        headroom=room,
        alpha=alpha,
        reserve_bytes=reserve,
        xon_offset_bytes=offset,
        response_ps=response,
    )
    transport = Transport(control="none", mtu=mtu, ack_every=10**6, rto_ps=10**12)
    way = (fast, slow), (near, far), latency, pool + 2 * (room + reserve)
    found, telemetry = moved(lab, engine, way, discipline, transport, count * mtu)
    assert (found, telemetry.totals["stops"]) == (finish, stops)


@pytest.mark.parametrize("seed", range(12))
def test_credits_hold_a_sender_as_in_a_recurrence(lab, engine, seed):
    draw = random.Random(seed)
    rates = draw.choice([10, 25, 100, 400]), draw.choice([10, 25, 100, 400])
    delays = draw.randrange(3_000_000), draw.randrange(3_000_000)
    latency, mtu, count = draw.choice([0, 600_000]), draw.choice([256, 4096]), draw.randint(1, 60)
    wire, blocks = mtu + 82, -(-(mtu + 62) // 64)
    credits = draw.choice([blocks * 64, blocks * 64 + 63, 2 * blocks * 64 + 17, 5 * blocks * 64])
    room = credits // 64 // blocks  # frames under way on a link at most
    per = [8000 // rate for rate in rates]
    end, back = [[0], [0]], [[], []]
    for i in range(count):
        for hop in (0, 1):
            ready = end[0][-1] + delays[0] if hop else 0
            free = back[hop][i - room] if i >= room else 0
            end[hop].append(max(ready, end[hop][-1], free) + wire * per[hop])
        back[0].append(end[1][-1] + delays[0] + 8 * per[0])
        back[1].append(end[1][-1] + latency + 2 * delays[1] + 8 * per[1])
    transport = Transport(
        kind="infiniband", control="none", mtu=mtu, credits=credits, rto_ps=10**12
    )
    way = rates, delays, latency, 64 * 2**20
    found, _ = moved(lab, engine, way, Discipline(ecn="off"), transport, count * mtu)
    assert found == end[1][-1] + latency + delays[1]


class Rate:
    """DCQCN in the whole numbers that the engines count in; `test_packet_rate` has fractions."""

    def __init__(self, rule, line):
        self.rule, self.line, self.now, self.target = rule, line, line, line
        self.alpha = self.timer = self.bytes = self.sent = 0
        self.due, self.marked, self.first, self.last = {}, False, None, None

    def until(self, time):
        rule = self.rule
        while self.due and min(self.due.values()) <= time:
            at = min(self.due.values())
            if self.due["alpha"] == at:
                self.alpha = self.alpha * rule.keep_q10 >> 10
                self.alpha += (1024 - rule.keep_q10 << 10) * self.marked
                self.marked, self.due["alpha"] = False, at + rule.alpha_period_ps
            elif self.due.get("increase") == at:
                self.due["increase"] = at + rule.increase_period_ps
                self.grow()
                self.timer += 1
            else:
                self.cut(at)

    def cut(self, time):
        rule, was = self.rule, self.now
        if rule.clamp or (rule.clamp_after_timer and self.timer):
            self.target = was
        least = max(was * rule.least_percent // 100, min(rule.least_bps, self.line))
        self.now = max(was - (was * self.alpha >> 20 + rule.gd_shift), least)
        self.timer = self.bytes = self.sent = 0
        self.due.pop("cut", None)
        self.due["increase"], self.last = time + rule.increase_period_ps, time

    def grow(self):
        rule = self.rule
        counts = [self.timer, self.bytes] if rule.increase_bytes else [self.timer]
        if min(counts) > rule.recovery:
            self.target += rule.hyper(self.line)
        elif max(counts) >= rule.recovery:
            self.target += rule.additive(self.line)
        self.target = min(self.target, self.line)
        self.now = (self.now + self.target + 1) // 2

    def cnp(self, time):
        rule, period = self.rule, self.rule.cut_period_ps
        self.until(time)
        new = self.first is None
        if new:
            self.first, self.last, self.alpha = time, time - period, rule.initial_q10 << 10
            self.due["alpha"] = time + rule.alpha_period_ps
        self.marked = not (new and rule.cut_grid)
        if rule.cut_grid:
            self.due["cut"] = time + period - (time - self.first) % period
        elif time < self.last + period:
            self.due["cut"] = self.last + period
        else:
            self.cut(time)

    def send(self, time, wire):
        if self.due and self.rule.increase_bytes:
            self.until(time)
            self.sent += wire
            while self.sent >= self.rule.increase_bytes:
                self.sent -= self.rule.increase_bytes
                self.grow()
                self.bytes += 1


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("seed", range(4))
def test_marks_notifications_and_pace_are_those_of_a_simulation_apart(lab, engine, name, seed):
    draw, rule = random.Random(seed), PRESETS[name]
    fast, slow = draw.choice([100, 200, 400]), draw.choice([10, 25, 40])
    near, far = draw.randrange(1, 2_000_000), draw.randrange(1, 2_000_000)
    latency, mtu = draw.choice([0, 300_001]), draw.choice([1000, 4096])
    count, kmin = draw.randint(300, 1500), draw.choice([0, 10_000, 50_000])
    wire, per_fast, per_slow = mtu + 82, 8000 // fast, 8000 // slow
    rate, queue, cnps, marked, sent, done, finish = Rate(rule, fast * G), [], 0, 0, 0, 0, 0
    start, kept, until, after, back = None, 0, 0, 0, [0, 0]
    busy = serving = False
    agenda = Agenda()

    def due(now):
        rate.until(now)
        if start is None or (rule.retimed and rate.now == rate.line):
            return now
        if not rule.retimed:
            return max(kept, now)
        return min(start + -(-wire * BIT_PS // rate.now), rate.due["increase"])

    agenda.at(0, 5, "ask")
    for event, what in agenda:
        now = agenda.now
        if event == "free":
            busy = False
        elif event == "in":
            mark = len(queue) * wire + -(-max(0, until - now) // per_slow) > kmin
            marked += mark
            queue.append(mark)
        elif event == "out":
            serving = False
            agenda.at(now + latency + far, 2, "there", what)
        elif event == "there":
            done, finish = done + 1, now
            if what and now >= after:
                cnps, after = cnps + 1, now + rule.cnp_interval_ps
                back[0] = max(now, back[0]) + 98 * per_slow
                back[1] = max(back[0] + far, back[1]) + 98 * per_fast
                agenda.at(back[1] + latency + near, 2, "cnp")
        elif event == "cnp":
            rate.cnp(now)
        if queue and not serving:
            serving, until = True, now + wire * per_slow
            agenda.at(until, 1, "out", queue.pop(0))
        if sent < count and not busy and event in ("ask", "free", "cnp"):
            if (when := due(now)) > now:
                agenda.at(when, 5, "ask")
                continue
            sent, busy, start = sent + 1, True, now
            rate.send(now, wire)
            paced = wire * per_fast if rate.now == rate.line else -(-wire * BIT_PS // rate.now)
            kept = now + paced
            agenda.at(now + wire * per_fast, 1, "free")
            agenda.at(now + wire * per_fast + near, 2, "in")
    assert done == count
    transport = Transport(preset=name, mtu=mtu, ack_every=10**6, rto_ps=10**13)
    discipline = Discipline(ecn=Threshold(kmin, kmin, 1.0), headroom=100_000)
    way = (fast, slow), (near, far), latency, 2**30
    found, telemetry = moved(lab, engine, way, discipline, transport, count * mtu)
    flows = telemetry.flows
    assert (flows["marked"][0], flows["cnps"][0], found) == (marked, cnps, finish)
    assert cnps > 0


@pytest.mark.parametrize("seed", range(16))
def test_what_is_lost_is_sent_again_as_in_a_simulation_apart(lab, engine, seed):
    # Too little memory, no pauses: go-back-N by NAK and by a timer that may be too short.
    draw = random.Random(seed)
    fast, slow = draw.choice([100, 200, 400]), draw.choice([10, 25, 40])
    near, far = draw.randrange(1, 2_000_000), draw.randrange(1, 2_000_000)
    latency, mtu = draw.choice([0, 300_001]), draw.choice([1000, 4096])
    count, memory, alpha = draw.randint(10, 120), draw.choice([9_000, 20_000]), draw.choice([1, 4])
    every, window = draw.choice([(1, 0), (4, 0), (4, 32), (16, 32)])
    timeout = draw.choice([30, 100, 1000]) * 10**6 + draw.randrange(1000)
    wire, per_fast, per_slow = mtu + 82, 8000 // fast, 8000 // slow
    following = acked = highest = expected = resent = naks = timeouts = finish = used = 0
    asks = refused = False
    deadline = armed = done = None
    # Of data, of answers to the switch, of answers from there: what waits, bytes, time a byte, way.
    lines = {
        "data": [[], 0, wire * per_slow, latency + far],
        "answer": [[], 0, 86 * per_slow, far],
        "back": [[], 0, 86 * per_fast, latency + near],
    }
    busy = set()
    agenda = Agenda()
    agenda.at(0, 5, "ask")

    def store(name, what, size):
        nonlocal used
        if used + size > memory or lines[name][1] + size > alpha * (memory - used):
            return
        used += size
        lines[name][1] += size
        lines[name][0].append((what, size))

    for event, what in agenda:
        now = agenda.now
        if event == "free":
            busy.remove("send")
        elif event == "in":
            store(*what)
        elif event == "out":
            name, thing, size = what
            busy.remove(name)
            lines[name][1] -= size
            used -= size
            after = {"data": "there", "answer": "in", "back": "told"}[name]
            thing = ("back", thing, 66) if name == "answer" else thing
            agenda.at(now + lines[name][3], 2, after, thing)
        elif event == "there":
            number, asked = what
            gap = number > expected
            if number == expected:
                expected, refused = expected + 1, False
                finish = now if expected == count else finish
            if (gap and not refused) or (asked and not gap):
                naks += gap
                lines["answer"][0].append((("nak" if gap else "ack", expected), 0))
            refused = refused or gap
        elif event == "told":
            kind, number = what
            if number > acked:
                acked = number
                deadline = None if acked == highest else now + timeout
                following = max(following, acked)
            if kind == "nak" and number >= acked and highest > acked:
                following, deadline = acked, now + timeout
            if acked == count:
                done = now
                break
        elif event == "timer" and what == deadline and highest > acked:
            following, deadline, asks, timeouts = acked, now + timeout, True, timeouts + 1
        for name, (queue, _, takes, _) in lines.items():
            if queue and name not in busy:
                busy.add(name)
                agenda.at(now + takes, 1, "out", (name, *queue.pop(0)))
        held = window and following - acked >= window
        if following < count and "send" not in busy and not held:
            last = following == count - 1 or (following + 1) % every == 0
            agenda.at(
                now + wire * per_fast + near, 2, "in", ("data", (following, last or asks), mtu + 62)
            )
            agenda.at(now + wire * per_fast, 1, "free")
            busy.add("send")
            deadline = now + timeout if deadline is None else deadline
            resent += mtu * (following < highest)
            following, asks = following + 1, False
            highest = max(highest, following)
        if deadline not in (None, armed):
            armed = deadline
            agenda.at(deadline, 4, "timer", deadline)
    transport = Transport(control="none", mtu=mtu, ack_every=every, rto_ps=timeout, window=window)
    lossy = Discipline(pfc=False, ecn="off", egress_alpha=alpha)
    way = (fast, slow), (near, far), latency, memory
    found, telemetry = moved(lab, engine, way, lossy, transport, count * mtu)
    flows, told = telemetry.flows, telemetry.totals["naks"]
    columns = ("sender_done_ps", "timeouts", "resent_bytes")
    assert [found, told, *(flows[name][0] for name in columns)] == [
        finish, naks, done, timeouts, resent,
    ]  # fmt: skip
