// The decision classes as Python classes, so that literal tables can hold them to account.
#include "bindings_decision.hpp"

#include <nanobind/stl/array.h>
#include <nanobind/stl/vector.h>

#include "buffer.hpp"
#include "credit.hpp"
#include "dcqcn.hpp"
#include "gobackn.hpp"
#include "hash.hpp"
#include "mark.hpp"
#include "nic.hpp"
#include "observe.hpp"
#include "pause.hpp"
#include "schedule.hpp"
#include "watchdog.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace kvfabric {

namespace {

// A NIC whose queue pairs may send from given instants on.
struct NicBench {
    Nic nic;
    std::vector<Place> places;
    std::vector<Time> from;

    explicit NicBench(const std::vector<std::uint8_t>& priorities) {
        for (const std::uint8_t priority : priorities) {
            places.push_back({never, no_flow, priority, Place::State::blocked});
        }
        from.assign(places.size(), never);
    }
    Place& place(std::uint32_t flow) { return places.at(flow); }
    Time ask(std::uint32_t flow, Time) { return from.at(flow); }
    void placed(std::uint32_t, Time) {}
    void allow(std::uint32_t flow, Time when, Time now) {
        nic.advance(*this, now);
        from.at(flow) = when;
        nic.review(*this, flow, now);
    }
    void defer(std::uint32_t flow, Time when, Time now) {
        nic.advance(*this, now);
        from.at(flow) = when;
    }
};

}  // namespace

void bind_decisions(nb::module_& m) {
    nb::class_<NicBench>(m, "Nic")
        .def(nb::init<const std::vector<std::uint8_t>&>(), "priorities"_a)
        .def("allow", &NicBench::allow, "pair"_a, "when_ps"_a, "now_ps"_a)
        .def("defer", &NicBench::defer, "pair"_a, "when_ps"_a, "now_ps"_a)
        .def("ready", [](NicBench& b, std::uint8_t of,
                         Time now) { return b.nic.ready(b, of, now); }, "of"_a, "now_ps"_a)
        .def("take", [](NicBench& b, int priority) { return b.nic.take(b, priority); },
             "priority"_a)
        .def("sent",
             [](NicBench& b, int priority, Time when, Time now) {
                 b.from.at(b.nic.head(priority)) = when;
                 b.nic.sent(b, priority, now);
             },
             "priority"_a, "when_ps"_a, "now_ps"_a)
        .def("next", [](NicBench& b) { return b.nic.next(b); });

    nb::class_<Dcqcn>(m, "Dcqcn")
        .def(nb::init<std::int64_t>(), "line_bps"_a)
        .def("advance", &Dcqcn::advance, "setting"_a, "now_ps"_a)
        .def("cnp", &Dcqcn::cnp, "setting"_a, "now_ps"_a)
        .def("sent", &Dcqcn::sent, "setting"_a, "now_ps"_a, "wire_bytes"_a)
        .def_prop_ro("rate_bps", &Dcqcn::rate)
        .def_prop_ro("target_bps", &Dcqcn::target)
        .def_prop_ro("alpha_q20", &Dcqcn::alpha_q20);

    nb::class_<Watchdog> watchdog(m, "Watchdog");
    nb::enum_<Watchdog::Verdict>(watchdog, "Verdict")
        .value("none", Watchdog::Verdict::none)
        .value("drop", Watchdog::Verdict::drop)
        .value("restore", Watchdog::Verdict::restore);
    watchdog.def(nb::init<Time, Time>(), "detect_ps"_a, "restore_ps"_a)
        .def("stopped", &Watchdog::stopped, "now_ps"_a)
        .def("watch", &Watchdog::watch, "now_ps"_a, "stuck"_a)
        .def("expire", &Watchdog::expire, "now_ps"_a)
        .def_prop_ro("dropping", &Watchdog::dropping)
        .def_prop_ro("next_ps", &Watchdog::next);

    nb::class_<CreditSender>(m, "CreditSender")
        .def(nb::init<std::int64_t>(), "blocks"_a)
        .def("may", &CreditSender::may, "now_ps"_a, "frame"_a)
        .def("take", &CreditSender::take, "frame"_a)
        .def("give", &CreditSender::give, "now_ps"_a, "blocks"_a)
        .def("spent", &CreditSender::spent, "now_ps"_a)
        .def_prop_ro("blocks", &CreditSender::blocks)
        .def_prop_ro("stalled", &CreditSender::stalled)
        .def_prop_ro("stalls", &CreditSender::stalls);

    nb::class_<SharedBuffer>(m, "SharedBuffer")
        .def(
            "__init__",
            [](SharedBuffer* self, Bytes total, Bytes reserve, Bytes xon_offset,
               std::int64_t alpha_q16, std::int64_t egress_q16, std::uint8_t lossless,
               const std::vector<Bytes>& headroom) {
                new (self) SharedBuffer(BufferSetting{total, reserve, xon_offset, alpha_q16,
                                                      egress_q16, lossless, headroom});
            },
            nb::kw_only(), "total"_a, "reserve"_a, "xon_offset"_a, "alpha_q16"_a, "egress_q16"_a,
            "lossless"_a, "headroom"_a)
        .def("admit", &SharedBuffer::admit, "port"_a, "priority"_a, "egress"_a, "frame"_a)
        .def("admit_surely", &SharedBuffer::admit_surely, "port"_a, "priority"_a, "egress"_a,
             "frame"_a)
        .def("release", &SharedBuffer::release, "port"_a, "priority"_a, "egress"_a, "frame"_a)
        .def("over", &SharedBuffer::over, "port"_a, "priority"_a)
        .def("under", &SharedBuffer::under, "port"_a, "priority"_a)
        .def("surely_full", &SharedBuffer::surely_full, "port"_a, "priority"_a, "frame"_a)
        .def("perhaps_under", &SharedBuffer::perhaps_under, "port"_a, "priority"_a)
        .def("holder", &SharedBuffer::holder, "port"_a, "priority"_a)
        .def("occupied", &SharedBuffer::occupied, "port"_a, "priority"_a)
        .def("headroom_used", &SharedBuffer::headroom_used, "port"_a, "priority"_a)
        .def("queued", &SharedBuffer::queued, "egress"_a, "priority"_a)
        .def_prop_ro("threshold", &SharedBuffer::threshold)
        .def_prop_ro("pool", &SharedBuffer::pool)
        .def_prop_ro("used", &SharedBuffer::used);

    nb::class_<Marker>(m, "Marker")
        .def(nb::init<Bytes, Bytes, std::uint64_t>(), "kmin"_a, "kmax"_a, "pmax_q32"_a)
        .def("mark", &Marker::mark, "queue"_a, "hash"_a);

    nb::class_<PauseSender>(m, "PauseSender")
        .def(nb::init<Time>(), "pause_ps"_a)
        .def("stop", &PauseSender::stop, "now_ps"_a)
        .def("resume", &PauseSender::resume)
        .def("expire", &PauseSender::expire, "now_ps"_a)
        .def_prop_ro("stopped", &PauseSender::stopped)
        .def_prop_ro("next_ps", &PauseSender::next);

    nb::class_<PauseReceiver>(m, "PauseReceiver")
        .def(nb::init<>())
        .def("stop", &PauseReceiver::stop, "now_ps"_a, "pause_ps"_a)
        .def("resume", &PauseReceiver::resume, "now_ps"_a)
        .def("expire", &PauseReceiver::expire, "now_ps"_a)
        .def("spent", &PauseReceiver::spent, "now_ps"_a)
        .def("longest", &PauseReceiver::longest, "now_ps"_a)
        .def_prop_ro("times", &PauseReceiver::times)
        .def_prop_ro("paused", &PauseReceiver::paused)
        .def_prop_ro("until_ps", &PauseReceiver::until);

    nb::class_<PauseLog>(m, "PauseLog")
        .def(nb::init<std::size_t, std::size_t>(), "ports"_a, "most"_a)
        .def("begin", &PauseLog::begin, "port"_a, "priority"_a, "cause"_a, "now_ps"_a)
        .def("end", &PauseLog::end, "port"_a, "priority"_a, "now_ps"_a)
        .def("spans",
             [](const PauseLog& log) {
                 std::vector<std::array<std::int64_t, 5>> rows;
                 for (const PauseSpan& s : log.spans()) {
                     rows.push_back({s.port, s.priority, s.from, s.until, s.cause});
                 }
                 return rows;
             })
        .def_prop_ro("count", &PauseLog::count);

    nb::class_<Scheduler>(m, "Scheduler")
        .def(nb::init<std::uint8_t, const std::array<std::uint8_t, 8>&>(), "strict"_a, "weight"_a)
        .def(
            "pick",
            [](Scheduler& self, std::uint8_t eligible, const std::array<Bytes, 8>& head) {
                return self.pick(eligible, [&](int p) { return head[static_cast<std::size_t>(p)]; });
            },
            "eligible"_a, "head_bytes"_a)
        .def("emptied", &Scheduler::emptied, "priority"_a);

    nb::class_<GoBackNSender>(m, "GoBackNSender")
        .def(nb::init<Sequence>(), "packets"_a)
        .def("take", &GoBackNSender::take, "now_ps"_a, "timeout_ps"_a)
        .def("acknowledge", &GoBackNSender::acknowledge, "expected"_a, "now_ps"_a, "timeout_ps"_a)
        .def("reject", &GoBackNSender::reject, "expected"_a, "now_ps"_a, "timeout_ps"_a)
        .def("expire", &GoBackNSender::expire, "now_ps"_a, "timeout_ps"_a)
        .def_prop_ro("next", &GoBackNSender::next)
        .def_prop_ro("acked", &GoBackNSender::acked)
        .def_prop_ro("done", &GoBackNSender::done)
        .def_prop_ro("asks", &GoBackNSender::asks)
        .def_prop_ro("attempt", &GoBackNSender::attempt)
        .def_prop_ro("deadline_ps", &GoBackNSender::deadline);

    nb::enum_<GoBackNReceiver::Verdict>(m, "Verdict")
        .value("accepted", GoBackNReceiver::Verdict::accepted)
        .value("duplicate", GoBackNReceiver::Verdict::duplicate)
        .value("gap", GoBackNReceiver::Verdict::gap)
        .value("gap_again", GoBackNReceiver::Verdict::gap_again);
    nb::class_<GoBackNReceiver>(m, "GoBackNReceiver")
        .def(nb::init<>())
        .def("receive", &GoBackNReceiver::receive, "sequence"_a)
        .def_prop_ro("expected", &GoBackNReceiver::expected);

    m.def(
        "mark_draw",
        [](std::uint64_t seed, std::uint64_t flow, std::uint64_t sequence, std::uint64_t attempt,
           std::uint64_t port) {
            return draw(seed, Purpose::mark, flow, sequence, attempt, port);
        },
        nb::kw_only(), "seed"_a, "flow"_a, "sequence"_a, "attempt"_a, "port"_a);
}

}  // namespace kvfabric
