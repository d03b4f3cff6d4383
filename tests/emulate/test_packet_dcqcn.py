"""DCQCN's reaction point against step tables computed by hand from the papers' rules."""

import random

import pytest

from emulate import _engine
from emulate.transport import PRESETS, Transport, TransportError

US = 10**6
G = 10**9


def setting(**changes):
    """Round numbers: alpha kept 7/8 each 10 us, cuts 40 us apart, increases each 100 us, F = 2."""
    values = {
        "alpha_period_ps": 10 * US,
        "cut_period_ps": 40 * US,
        "increase_period_ps": 100 * US,
        "increase_bytes": 0,
        "keep_q10": 896,
        "initial_q10": 1024,
        "gd_shift": 1,
        "least_percent": 0,
        "recovery": 2,
        "clamp": True,
        "clamp_after_timer": False,
        "least_bps": G,
        "additive_bps": 2 * G,
        "hyper_bps": 10 * G,
    }
    return _engine.dcqcn_setting(**(values | changes))


def test_nothing_happens_before_the_first_cnp():
    flow = _engine.Dcqcn(100 * G)
    flow.advance(setting(), 10**12)
    flow.sent(setting(increase_bytes=1), 10**12, 10**6)
    assert (flow.rate_bps, flow.alpha_q20) == (100 * G, 0)


def test_the_first_cnp_halves_the_rate_and_alpha_then_decays():
    flow, s = _engine.Dcqcn(100 * G), setting()
    flow.cnp(s, 5 * US)
    assert (flow.rate_bps, flow.target_bps, flow.alpha_q20) == (50 * G, 100 * G, 1 << 20)
    # The CNP itself counts for the first period: 7/8 * 1 + 1/8 = 1; then 7/8 each.
    for now, alpha in [(14, 1), (15, 1), (25, 7 / 8), (35, 49 / 64), (45, 343 / 512)]:
        flow.advance(s, now * US)
        assert flow.alpha_q20 == int(alpha * 2**20), now


def test_a_cnp_too_soon_after_a_cut_cuts_when_the_period_is_over():
    flow, s = _engine.Dcqcn(100 * G), setting()
    flow.cnp(s, 0)
    flow.cnp(s, 15 * US)
    assert flow.rate_bps == 50 * G
    flow.advance(s, 39 * US)
    assert flow.rate_bps == 50 * G
    # Alpha at 40 us, updated before the cut of that instant: 1 (10), 1 (20: a CNP), 7/8, 49/64.
    flow.advance(s, 40 * US)
    assert flow.alpha_q20 == 49 * 2**14
    assert flow.rate_bps == 50 * G - 50 * G * 49 // 128
    assert flow.target_bps == 50 * G


def test_a_cnp_after_the_period_cuts_at_once():
    flow, s = _engine.Dcqcn(100 * G), setting()
    flow.cnp(s, 0)
    flow.cnp(s, 40 * US)
    assert flow.alpha_q20 == int((7 / 8) ** 3 * 2**20)
    assert flow.rate_bps == 50 * G - (50 * G * int((7 / 8) ** 3 * 2**20) >> 21)


def test_timers_recover_then_add_then_go_hyper():
    flow, s = _engine.Dcqcn(100 * G), setting(clamp=False)
    flow.cnp(s, 0)
    table = [
        (100, 100.0, 75.0),  # fast recovery: half-way to the target
        (200, 100.0, 87.5),  # F = 2: the last of them
        (300, 100.0, 93.75),  # the target is at the line already and may not grow
    ]
    for now, target, rate in table:
        flow.advance(s, now * US)
        assert (flow.target_bps, flow.rate_bps) == (target * G, rate * G), now


def test_the_target_grows_by_the_steps():
    flow, s = _engine.Dcqcn(100 * G), setting()
    flow.cnp(s, 0)
    flow.cnp(s, 40 * US)  # clamp: the target is 50 now
    start = flow.rate_bps
    rate, target = start, 50 * G
    # (step of the target) at each expiry: two recoveries, one additive, then hyper.
    for number, step in enumerate([0, 0, 2, 10, 10], start=1):
        flow.advance(s, (40 + 100 * number) * US)
        target += step * G
        rate = (rate + target + 1) // 2
        assert (flow.target_bps, flow.rate_bps) == (target, rate), number


def test_the_byte_counter_increases_like_the_timer():
    flow, s = _engine.Dcqcn(100 * G), setting(increase_bytes=1000, recovery=1, clamp=False)
    flow.cnp(s, 0)
    flow.sent(s, 1 * US, 999)
    assert flow.rate_bps == 50 * G
    flow.sent(s, 2 * US, 1)
    assert flow.rate_bps == 75 * G
    flow.sent(s, 3 * US, 2000)
    assert flow.rate_bps == (87.5 + 100) / 2 * G


def test_a_cut_restarts_the_counters():
    flow, s = _engine.Dcqcn(100 * G), setting(increase_bytes=1000)
    flow.cnp(s, 0)
    flow.sent(s, 1 * US, 999)
    flow.cnp(s, 60 * US)
    low = flow.rate_bps
    flow.sent(s, 61 * US, 999)
    flow.advance(s, 159 * US)
    assert flow.rate_bps == low
    flow.advance(s, 160 * US)
    assert flow.rate_bps == (low + 50 * G + 1) // 2


def test_without_clamp_the_target_moves_only_after_an_increase_by_timer():
    s = setting(clamp=False, clamp_after_timer=True)
    flow = _engine.Dcqcn(100 * G)
    flow.cnp(s, 0)
    flow.cnp(s, 50 * US)
    assert flow.target_bps == 100 * G
    flow.advance(s, 150 * US)
    raised = flow.rate_bps
    flow.cnp(s, 151 * US)
    assert flow.target_bps == raised


def test_a_cut_respects_the_floor_and_the_least_percentage():
    flow, s = _engine.Dcqcn(100 * G), setting(least_bps=60 * G)
    flow.cnp(s, 0)
    assert flow.rate_bps == 60 * G
    flow, s = _engine.Dcqcn(100 * G), setting(least_percent=80)
    flow.cnp(s, 0)
    assert flow.rate_bps == 80 * G


def test_late_calls_replay_what_early_calls_would_have_done():
    s = setting(increase_bytes=5000)
    late, early = _engine.Dcqcn(100 * G), _engine.Dcqcn(100 * G)
    for now in range(0, 1500):
        early.advance(s, now * US)
        if now in (3, 20, 300, 310):
            early.cnp(s, now * US)
            late.cnp(s, now * US)
        if now == 700:
            early.sent(s, now * US, 12_000)
            late.sent(s, now * US, 12_000)
    late.advance(s, 1499 * US)
    assert (late.rate_bps, late.target_bps) == (early.rate_bps, early.target_bps)
    assert late.alpha_q20 == early.alpha_q20


def test_a_quiet_flow_keeps_the_phase_of_its_timers():
    # After a long silence the state is the line rate and alpha 0: replay skips, phases stay.
    s = setting()
    late, early = _engine.Dcqcn(100 * G), _engine.Dcqcn(100 * G)
    for flow in (late, early):
        flow.cnp(s, 7 * US)
    for now in range(8, 40_000, 13):
        early.advance(s, now * US)
    for flow in (late, early):
        flow.cnp(s, 40_003 * US)
        flow.advance(s, 40_222 * US)
    assert (late.rate_bps, late.alpha_q20) == (early.rate_bps, early.alpha_q20)


def test_on_a_grid_cuts_lie_whole_periods_after_the_first_cnp():
    flow, s = _engine.Dcqcn(100 * G), setting(cut_grid=True)
    flow.cnp(s, 0)
    flow.advance(s, 39 * US)
    assert flow.rate_bps == 100 * G
    # Alpha at 40 us, updated before the cut of that instant: 7/8 at 10, 20, 30 and 40, since the
    # CNP that began the grid is in alpha's first value and not counted again.
    flow.advance(s, 40 * US)
    assert flow.rate_bps == 100 * G - (100 * G * 2401 // 8192)
    low = flow.rate_bps
    # A CNP two periods later, between ticks, waits for the next: 160 us, not 130 or 170.
    flow.cnp(s, 130 * US)
    flow.advance(s, 159 * US)
    raised = (low + 100 * G + 1) // 2  # by the timer, at 140 us
    assert flow.rate_bps == raised
    flow.advance(s, 160 * US)
    assert flow.rate_bps < raised


def numbers(preset, line):
    """The engine's, at a line rate."""
    fields = {f: getattr(preset, f) for f in preset.__dataclass_fields__}
    for other in ("name", "source", "rate_bps", "cnp_interval_ps"):
        fields.pop(other)
    return fields | {"additive_bps": preset.additive(line), "hyper_bps": preset.hyper(line)}


def by_the_simulator(cnps, until, line):
    """Rate and alpha as the HPCC simulator has them, tick by tick of 1 us after the first CNP.

    CNPs lie between ticks. At one tick alpha goes first; then the increase, which was put in 300 us
    ago, where the look for a cut was put in 4 us ago.
    """
    first, *rest = cnps
    alpha, rate, target, stage, increase = 1.0, float(line), float(line), 0, None
    cut, fed = True, False  # a CNP since the last look for a cut, since alpha's last update
    for tick in range(1, (until - first) // US + 1):
        came = sum(first + (tick - 1) * US < at < first + tick * US for at in rest)
        cut, fed = cut or came > 0, fed or came > 0
        alpha, fed = alpha * 255 / 256 + fed / 256, False
        if tick == increase:
            target = min(line, target + (0, 20e6, 200e6)[min(stage, 2)])
            rate, stage, increase = (rate + target) / 2, stage + 1, tick + 300
        if tick % 4 == 0 and cut:
            target = rate if stage else target
            rate, stage, increase, cut = max(G, rate * (1 - alpha / 2)), 0, tick + 300, False
    return rate, alpha


@pytest.mark.parametrize("seed", range(10))
def test_the_preset_of_the_simulator_cuts_and_grows_as_the_simulator_does(seed):
    draw, first = random.Random(seed), 7 * US
    cnps = [first, *(first + draw.randrange(3_000) * US + US // 2 for _ in range(2 * seed))]
    cnps.sort()
    # The last lies in the period before an increase: both fall on one tick, 300 us after a cut.
    cut = -(-(cnps[-1] - first) // (4 * US)) * 4 * US if seed else 4 * US
    cnps.append(first + cut + 298 * US + US // 2)
    s = _engine.dcqcn_setting(**numbers(PRESETS["hpcc"], 100 * G))
    flow, fed = _engine.Dcqcn(100 * G), 0
    for now in range(first + 3 * US // 4, cnps[-1] + 1_000 * US, 53 * US):
        while fed < len(cnps) and cnps[fed] < now:
            flow.cnp(s, cnps[fed])
            fed += 1
        flow.advance(s, now)
        rate, alpha = by_the_simulator(cnps[:fed], now, 100 * G)
        # Ours keeps alpha to 2^-20, rounded down.
        assert flow.rate_bps == pytest.approx(rate, rel=1e-3), now
        assert flow.alpha_q20 / 2**20 == pytest.approx(alpha, abs=3e-4), now


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_halves_at_the_first_cnp_and_names_its_source(name):
    preset = PRESETS[name]
    assert preset.source
    s = _engine.dcqcn_setting(**numbers(preset, 400 * G))
    flow = _engine.Dcqcn(400 * G)
    flow.cnp(s, 0)
    if preset.cut_grid:
        # The first cut comes a period after the first CNP, when alpha has lost 1/256 four times.
        assert flow.rate_bps == 400 * G
        flow.advance(s, preset.cut_period_ps)
        assert flow.rate_bps == pytest.approx(400 * G * (1 - (255 / 256) ** 4 / 2), rel=1e-5)
        return
    # alpha starts at 1, in ConnectX at 1023/1024.
    assert flow.rate_bps == pytest.approx(200 * G, rel=1e-3)


def test_the_steps_of_the_simulator_grow_with_the_rate():
    assert PRESETS["hpcc"].additive(100 * G) == 20 * 10**6
    assert PRESETS["hpcc"].hyper(100 * G) == 200 * 10**6
    assert PRESETS["connectx"].additive(100 * G) == 5 * 10**6


def test_the_simulator_answers_every_marked_packet():
    assert Transport(preset="hpcc").cnp_gap_ps == 0
    assert Transport(preset="connectx").cnp_gap_ps == 4 * US


@pytest.mark.parametrize(
    "bad",
    [
        {"kind": "tcp"},
        {"control": "timely"},
        {"preset": "cx9"},
        {"mtu": 100},
        {"mtu": 65_536},
        {"ack_every": 0},
        {"window": 4, "ack_every": 16},
        {"rto_ps": 0},
        {"issue_ps": -1},
        {"cnp_priority": 8},
        {"ack_priority": 8},
        {"cnp_interval_ps": -1},
    ],
)
def test_an_impossible_transport_is_refused_in_one_line(bad):
    with pytest.raises(TransportError) as refusal:
        Transport(**bad)
    assert "\n" not in str(refusal.value)
