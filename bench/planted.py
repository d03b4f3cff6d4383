"""The errors that mutation.py plants: one wrong decision each, of the kind that is easily made.

An edit is (file in emulate/engine, text that occurs once, text in its place), where PLANTED stands
for "this error is the chosen one".
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    """A wrong decision and where it is made; engines that repeat a decision are both edited."""

    name: str
    edits: tuple[tuple[str, str, str], ...]


def one(name: str, file: str, old: str, new: str) -> Mutation:
    """An error in one place."""
    return Mutation(name, ((file, old, new),))


BUFFER = (
    one("a group is stopped well inside its headroom", "buffer.hpp",
        "return group.headroom > 0 || group.shared() > threshold();",
        "return group.headroom > (PLANTED ? 2000 : 0) || "
        "(!PLANTED && group.shared() > threshold());"),
    one("released at the threshold, without the offset", "buffer.hpp",
        "group.shared() <= threshold() - setting_.xon_offset;",
        "group.shared() <= threshold() - (PLANTED ? 0 : setting_.xon_offset);"),
    one("released while headroom is in use", "buffer.hpp",
        "if (group.headroom > 0) return false;",
        "if (group.headroom > 0 && !PLANTED) return false;"),
    one("headroom drained last", "buffer.hpp",
        "const Bytes from_headroom = std::min(frame, group.headroom);",
        "const Bytes from_headroom = PLANTED && group.shared() >= frame ? 0 "
        ": std::min(frame, group.headroom);"),
    one("headroom filled before the shared pool", "buffer.hpp",
        "const bool fits = group.shared() + rest <= threshold()",
        "const bool fits = !(PLANTED && group.headroom + rest <= setting_.headroom[port]) && "
        "group.shared() + rest <= threshold()"),
    one("the threshold does not shrink with what is used", "buffer.hpp",
        "return (alpha_q16 * (pool_ - used_)) >> 16;",
        "return (alpha_q16 * (pool_ - (PLANTED ? 0 : used_))) >> 16;"),
    one("reserves are not kept out of the pool", "buffer.hpp",
        "pool_ -= headroom + setting.reserve;",
        "pool_ -= headroom + (PLANTED ? 0 : setting.reserve);"),
    one("a lossy queue has the alpha of lossless groups", "buffer.hpp",
        "queue + frame > limit(setting_.egress_q16)) return false;",
        "queue + frame > limit(PLANTED ? setting_.alpha_q16 : setting_.egress_q16)) return false;"),
    Mutation("memory is free when a frame begins to leave", (
        ("driver_port.cpp", "            departed(packet, port.came_by, port_id);",
         "            if (!PLANTED) departed(packet, port.came_by, port_id);"),
        ("driver_port.cpp", "    at(end, EventKind::sent, port_id, 0);",
         "    at(end, EventKind::sent, port_id, 0);\n"
         "    if (PLANTED && !port.at_host) departed(packet, port.came_by, port_id);"),
    )),
)  # fmt: skip

PAUSE = (
    one("XOFF is refreshed when it has run out", "pause.hpp",
        "refresh_(pause / 2)", "refresh_(PLANTED ? pause : pause / 2)"),
    one("a refreshed pause keeps its first end", "pause.hpp",
        "until_ = now + pause;", "until_ = (PLANTED ? since_ : now) + pause;"),
    one("a refreshed pause loses its beginning", "pause.hpp",
        "        if (!paused_) {\n            since_ = now;",
        "        if (!paused_ || PLANTED) {\n            since_ = now;"),
    Mutation("a pause lasts 255 quanta", (
        ("port.hpp", "(quanta * quantum_bytes)",
         "((PLANTED ? quanta / 257 : quanta) * quantum_bytes)"),
        ("core.cpp", "duration(most_quanta * quantum_bytes)",
         "duration((PLANTED ? 255 : most_quanta) * quantum_bytes)"),
    )),
    Mutation("a pause is obeyed without response time", (
        ("driver.cpp", "std::max<Time>(0, discipline_.response[p] - fabric_.latency[node]);",
         "PLANTED ? 0 : std::max<Time>(0, discipline_.response[p] - fabric_.latency[node]);"),
        ("core.cpp", "std::max<Time>(0, discipline_.response[peer] - fabric_.latency[far]);",
         "(PLANTED ? 0 : std::max<Time>(0, discipline_.response[peer] - fabric_.latency[far]));"),
    )),
    Mutation("a pause frame goes behind the frames that wait", (
        ("driver_port.cpp", "    if (port.notify != 0) {\n        start_pause(port_id);",
         "    if (port.notify != 0 && !(PLANTED && (port.backlog & ~port.paused) != 0)) {\n"
         "        start_pause(port_id);"),
        ("core_switch.cpp", "    if (port.notify != 0) {\n        start_pause(worker, port);",
         "    if (port.notify != 0 && !(PLANTED && (port.backlog & ~port.paused) != 0)) {\n"
         "        start_pause(worker, port);"),
    )),
    one("credits count whole blocks only", "credit.hpp",
        "return (frame + credit_block - 1) / credit_block;",
        "return (frame + (PLANTED ? 0 : credit_block - 1)) / credit_block;"),
)  # fmt: skip

MARK = (
    Mutation("the mark does not see the frame in service", (
        ("driver_switch.cpp", "queue += egress.serialiser.left(now_);",
         "queue += PLANTED ? 0 : egress.serialiser.left(now_);"),
        ("core_switch.cpp",
         "(own ? out.serialiser.left(worker.now) : 0)",
         "(own && !PLANTED ? out.serialiser.left(worker.now) : 0)"),
    )),
    one("certain marking begins at Kmax", "mark.hpp",
        "if (queue > kmax_) return true;", "if (queue > kmax_ - PLANTED) return true;"),
    one("the slope of marking ends at Kmax above 0", "mark.hpp",
        "static_cast<Wide>(kmax_ - kmin_);",
        "static_cast<Wide>(kmax_ - (PLANTED ? 0 : kmin_));"),
    one("a draw forgets the attempt", "hash.hpp",
        "h = join(h, attempt & 63);", "h = join(h, PLANTED ? 0 : attempt & 63);"),
    one("switches hash without their salt", "hash.hpp",
        "mix(tuple + (node << 20)) % count", "mix(tuple + (PLANTED ? 0 : node << 20)) % count"),
)  # fmt: skip

SCHEDULE = (
    one("an emptied class keeps its deficit", "schedule.hpp",
        "void emptied(int priority) { deficit_[",
        "void emptied(int priority) { if (!PLANTED) deficit_["),
    one("a served class loses its deficit", "schedule.hpp",
        "deficit_[turn] -= head;", "deficit_[turn] -= PLANTED ? deficit_[turn] : head;"),
    one("the lowest strict class goes first", "schedule.hpp",
        "return std::bit_width(first) - 1;",
        "return PLANTED ? std::countr_zero(first) : std::bit_width(first) - 1;"),
    one("a queue pair that has sent stays first", "nic.hpp",
        "        place.after = no_flow;\n",
        "        place.after = no_flow;\n"
        "        if (PLANTED && line.head != no_flow) {\n"
        "            place.after = line.head;\n"
        "            line.head = flow;\n"
        "            return;\n"
        "        }\n"),
    Mutation("the window has room for one packet more", (
        ("driver_host.cpp",
         "if (transport_.window > 0 && flow.sender.outstanding() >= transport_.window)",
         "if (transport_.window > 0 && "
         "flow.sender.outstanding() >= transport_.window + PLANTED)"),
        ("core_host.cpp",
         "if (transport_.window > 0 && sender.window.outstanding() >= transport_.window)",
         "if (transport_.window > 0 && "
         "sender.window.outstanding() >= transport_.window + PLANTED)"),
    )),
    one("pacing forgets the headers", "pace.hpp",
        "return (wire * bit_ps + rate_bps - 1) / rate_bps;",
        "return ((wire - (PLANTED ? 82 : 0)) * bit_ps + rate_bps - 1) / rate_bps;"),
)  # fmt: skip

RELIABILITY = (
    one("every packet beyond a gap is refused anew", "gobackn.hpp",
        "if (asked_) return Verdict::gap_again;",
        "if (asked_ && !PLANTED) return Verdict::gap_again;"),
    one("an old NAK is believed", "gobackn.hpp",
        "if (expected < acked_) return false;", "if (expected < acked_ && !PLANTED) return false;"),
    one("progress does not restart the timer", "gobackn.hpp",
        "deadline_ = acked_ == highest_ ? never : now + timeout;",
        "deadline_ = acked_ == highest_ ? never : PLANTED ? deadline_ : now + timeout;"),
    one("the first packet after a timeout asks for nothing", "gobackn.hpp",
        "asks_ = true;", "asks_ = !PLANTED;"),
)  # fmt: skip

RATE = (
    one("a cut takes all of alpha", "dcqcn.hpp",
        "alpha_ >> (20 + s.gd_shift)", "alpha_ >> (20 + (PLANTED ? 0 : s.gd_shift))"),
    one("alpha grows without a CNP", "dcqcn.hpp",
        "if (cnp_seen_) alpha_ +=", "if (cnp_seen_ || PLANTED) alpha_ +="),
    one("a pending cut goes before alpha's update", "dcqcn.hpp",
        "if (alpha_at_ == next) {",
        "if (alpha_at_ == next && !(PLANTED && pending_ && cut_at_ == next)) {"),
    one("a pending cut goes before an increase", "dcqcn.hpp",
        "} else if (increase_at_ == next) {",
        "} else if (increase_at_ == next && !(PLANTED && pending_ && cut_at_ == next)) {"),
    one("alpha counts the CNP that begins the grid again", "dcqcn.hpp",
        "cnp_seen_ = !(first && s.cut_grid);", "cnp_seen_ = PLANTED || !(first && s.cut_grid);"),
    one("the byte counter counts once a packet", "dcqcn.hpp",
        "sent_ -= s.increase_bytes;", "sent_ = PLANTED ? 0 : sent_ - s.increase_bytes;"),
    one("hyper increase begins a step early", "dcqcn.hpp",
        "if (low > s.recovery) {", "if (low > s.recovery - PLANTED) {"),
    one("a cut leaves the counters", "dcqcn.hpp",
        "        sent_ = 0;\n", "        if (!PLANTED) sent_ = 0;\n"),
    one("every cut moves the target", "dcqcn.hpp",
        "(s.clamp_after_timer && timer_stage_ > 0)",
        "(s.clamp_after_timer && timer_stage_ > -PLANTED)"),
)  # fmt: skip

CLOCK = (
    one("the fraction of a picosecond is dropped", "time.hpp",
        "rest_ = total & ((1 << fraction_bits) - 1);",
        "rest_ = PLANTED ? 0 : total & ((1 << fraction_bits) - 1);"),
    one("an idle port keeps its fraction", "time.hpp",
        "rest_ &= -std::int64_t{now == end_};", "rest_ &= -std::int64_t{now == end_ || PLANTED};"),
    one("the ideal counts one frame too many", "ideal.hpp",
        "first_arrival + each + slowest * (full_frames - 1);",
        "first_arrival + each + slowest * (full_frames - 1 + PLANTED);"),
    one("the ideal's frames do not wait for each other", "ideal.hpp",
        "cuts ? header : std::max(arrival, ports[h].end());",
        "cuts ? header : PLANTED ? arrival : std::max(arrival, ports[h].end());"),
    one("the last packet of a message is full", "segment.hpp",
        "return std::min(mtu_, ", "return PLANTED ? mtu_ : std::min(mtu_, "),
    one("the first descriptor costs nothing", "issue.hpp",
        "from_ + issue * (descriptor + 1) : never;",
        "from_ + issue * (descriptor + 1 - PLANTED) : never;"),
    Mutation("a CNP travels in the data's class", (
        ("driver_host.cpp", "FrameKind::cnp, cnp_wire, transport_.cnp_priority);",
         "FrameKind::cnp, cnp_wire, PLANTED ? flow.setting.priority : transport_.cnp_priority);"),
        ("core_host.cpp", "Shape::cnp, transport_.cnp_priority);",
         "Shape::cnp, PLANTED ? receiver.priority : transport_.cnp_priority);"),
    )),
)  # fmt: skip

MUTATIONS = BUFFER + PAUSE + MARK + SCHEDULE + RELIABILITY + RATE + CLOCK
