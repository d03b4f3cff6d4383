"""The shared memory of a switch against a model with every count apart: reserve, pool, headroom."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from emulate import _engine

PORTS = 3
FRAME = st.tuples(
    st.integers(0, PORTS - 1),
    st.sampled_from([0, 3, 4]),
    st.integers(0, PORTS - 1),
    st.sampled_from([64, 500, 4158, 9278]),
)
SETTING = st.fixed_dictionaries(
    {
        "total": st.sampled_from([60_000, 200_000]),
        "reserve": st.sampled_from([0, 700, 4096]),
        "xon_offset": st.sampled_from([0, 3072]),
        "alpha_q16": st.sampled_from([2**12, 2**13, 21_845, 2**16, 2**18]),
        "egress_q16": st.sampled_from([2**13, 2**16]),
        "lossless": st.sampled_from([0, 1 << 3, 3 << 3]),
        "headroom": st.lists(st.sampled_from([0, 3000, 5000]), min_size=PORTS, max_size=PORTS),
    }
)


class Memory:
    """Counts by group and part, by queue, and the frames themselves."""

    def __init__(self, setting):
        self.setting = setting
        classes = setting["lossless"].bit_count()
        kept = sum(setting["headroom"]) + PORTS * setting["reserve"]
        self.pool = setting["total"] - classes * kept
        self.reserve, self.shared, self.headroom = Counter(), Counter(), Counter()
        self.queue, self.frames = Counter(), []

    def lossless(self, priority):
        return self.setting["lossless"] >> priority & 1

    def threshold(self, alpha):
        return self.setting[alpha] * (self.pool - self.shared.total()) >> 16

    def admit(self, port, priority, egress, size):
        group, free = (port, priority), self.pool - self.shared.total()
        kept = 0
        if self.lossless(priority):
            kept = min(size, self.setting["reserve"] - self.reserve[group])
            rest = size - kept
            fits = rest <= free and self.shared[group] + rest <= self.threshold("alpha_q16")
            if rest and not fits:
                if self.headroom[group] + rest > self.setting["headroom"][port]:
                    return False
                self.headroom[group] += rest
                rest = 0
        else:
            rest = size
            full = self.queue[egress, priority] + size > self.threshold("egress_q16")
            if full or size > free:
                return False
        self.reserve[group] += kept
        self.shared[group] += rest
        self.queue[egress, priority] += size
        self.frames.append((port, priority, egress, size))
        return True

    def release(self, number):
        port, priority, egress, size = self.frames.pop(number)
        self.queue[egress, priority] -= size
        for part in (self.headroom, self.shared, self.reserve):
            gone = min(size, part[port, priority])
            part[port, priority] -= gone
            size -= gone

    def over(self, group):
        return bool(self.headroom[group]) or self.shared[group] > self.threshold("alpha_q16")

    def under(self, group):
        low = self.threshold("alpha_q16") - self.setting["xon_offset"]
        return not self.headroom[group] and (not self.shared[group] or self.shared[group] <= low)

    def holder(self, group):
        held = Counter(dict.fromkeys(range(PORTS), 0))
        for port, priority, egress, size in self.frames:
            held[egress] += size * ((port, priority) == group)
        return min(held, key=lambda egress: (-held[egress], egress))


@settings(max_examples=150, deadline=None)
@given(
    setting=SETTING,
    steps=st.lists(st.one_of(FRAME, FRAME, st.integers(0, 99)), min_size=40, max_size=120),
)
def test_memory_is_that_of_a_model_with_every_count_apart(setting, steps):
    shared, memory = _engine.SharedBuffer(**setting), Memory(setting)
    assert shared.pool == memory.pool
    for step in steps:
        if isinstance(step, tuple):
            assert shared.admit(*step) == memory.admit(*step)
        elif memory.frames:
            frame = memory.frames[step % len(memory.frames)]
            shared.release(*frame)
            memory.release(step % len(memory.frames))
        assert shared.used == memory.shared.total()
        assert shared.threshold == memory.threshold("alpha_q16")
        for group in [(port, priority) for port in range(PORTS) for priority in (3, 4)]:
            parts = (memory.reserve, memory.shared, memory.headroom)
            assert shared.occupied(*group) == sum(part[group] for part in parts)
            assert shared.headroom_used(*group) == memory.headroom[group]
            assert shared.queued(*group) == memory.queue[group]
            if memory.lossless(group[1]):
                assert shared.over(*group) == memory.over(group)
                assert shared.under(*group) == memory.under(group)
                assert shared.holder(*group) == memory.holder(group)
