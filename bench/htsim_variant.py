"""Builds a variant of htsim (Broadcom/csg-htsim) in which single rules can be switched to ours.

    python bench/htsim_variant.py .../csg-htsim DIRECTORY      # prints the path of the program

Always: a flow starts when the connection matrix says; the way of its data and of its ACKs is
printed, and its end to the picosecond; with APART_PS in the environment every cable is longer by
a length of its own (workload.py has the same). Each of these where its name is in the environment:

    ORDER    of one instant first pauses, then frames that have left, then those that arrive
    SIZES    an ACK has 86 B; a switch stores a frame without preamble and gap; thresholds of
             STOP_BYTES and GO_BYTES
    PAUSES   a pause frame takes 84 B of the way back, after the frame in service

The sources are only read; an edit whose place is not found, or found twice, is an error.
"""

import argparse
import re
import shutil
import subprocess
from pathlib import Path

Edit = tuple[str, str, str]

INPUTS: tuple[Edit, ...] = (
    ("roce.cpp", r"//(eventlist\(\).sourceIsPending\(\*this,starttime\);)\s*startflow\(\);", r"\1"),
    ("roce.cpp", r"/\*(if \(!_flow_started\)\{[^}]*\})\*/", r"\1"),
    ("roce.cpp", r'(" finished at " <<) timeAsUs\((eventlist\(\).now\(\))\)',
     r'\1 \2 << "e-6"'),
    ("datacenter/fat_tree_switch.cpp", r"\A", "#include <set>\n#include <tuple>\n"),
    ("datacenter/fat_tree_switch.cpp", r"(= getNextHop\(pkt,NULL\);)", r"""\1
        static std::set<std::tuple<flowid_t, int, void*>> seen;
        if (seen.insert(std::make_tuple(pkt.flow_id(), int(pkt.type()), (void*)this)).second)
            cout << "Way " << pkt.flow_id() << (pkt.type() == ROCE ? " data " : " ack ")
                 << static_cast<BaseQueue*>(nh->at(0))->nodename() << endl;"""),
    ("datacenter/fat_tree_topology.cpp", r"(\n\w+\* FatTreeTopology::alloc_src_queue)", r"""
static simtime_picosec apart(uint32_t tier, uint32_t low, uint32_t up) {
    static const char* span = getenv("APART_PS");
    const uint32_t hash = (tier * 65536 + low * 256 + up) * 2654435761u;
    return span ? uint64_t(hash) * strtoull(span, nullptr, 10) >> 32 : 0;
}
\1"""),
    *(
        ("datacenter/fat_tree_topology.cpp", rf"(_link_latencies\[{name}\] : _hop_latency);",
         rf"\1 + apart({tier}, {ends});")
        for tier, (name, ends) in enumerate(
            (("TOR_TIER", "srv, 0"), ("AGG_TIER", "tor, agg"), ("CORE_TIER", "agg, core"))
        )
    ),
    # A resumption within one frame must not start the frame in service anew.
    ("queue.cpp", r"(FPQ .{,40} GO .*?)if\(queuesize\(\)>0\)",
     r"\1if (queuesize() > 0 && !_sending)"),
)  # fmt: skip

ORDER: tuple[Edit, ...] = (
    ("eventlist.cpp", r"\A", """#include "callback_pipe.h"
#include "queue.h"
static int turn(EventSource* source) {
    static const bool on = getenv("ORDER");
    if (!on || dynamic_cast<CallbackPipe*>(source)) return 0;
    if (dynamic_cast<Queue*>(source)) return 1;
    return dynamic_cast<Pipe*>(source) ? 2 : 3;
}
"""),
    ("eventlist.cpp", r"(nexteventtime = _pendingsources.begin\(\)->first);", r"\1 >> 2;"),
    ("eventlist.cpp", r"\n        _pendingsources.insert\(make_pair\(when,&src\)\);",
     r"_pendingsources.insert(make_pair(when << 2 | turn(&src), &src));"),
)  # fmt: skip

SIZES: tuple[Edit, ...] = (
    ("rocepacket.h", r"(class RoceAck .*?set_route\(flow,route,)RocePacket::ACKSIZE",
     r'\1getenv("SIZES") ? 86 : RocePacket::ACKSIZE'),
    ("queue_lossless_input.cpp", r"(_queuesize \+= pkt.size\(\))", r"\1 - less_stored"),
    ("queue_lossless_input.cpp", r"(_queuesize -= pkt.size\(\))", r"\1 - less_stored"),
    ("queue_lossless_input.cpp", r"\A", """#include "queue_lossless_output.h"
static const int less_stored = getenv("SIZES") ? 20 : 0;
"""),
    ("datacenter/main_roce.cpp", r"(eventlist.setEndtime\()", r"""if (getenv("SIZES")) {
        LosslessInputQueue::_high_threshold = atoi(getenv("STOP_BYTES"));
        LosslessInputQueue::_low_threshold = atoi(getenv("GO_BYTES")) + 1;
    }
    \1"""),
)  # fmt: skip

PAUSES: tuple[Edit, ...] = (
    ("queue_lossless_input.h", r"(static uint64_t _low)",
     r"class LosslessOutputQueue* _back = nullptr;"
     "\n    Packet* word();\n    PacketSink* wire() { return _wire; }\n"
     r"    \1"),
    ("queue_lossless_input.cpp", r"\n(void LosslessInputQueue::sendPause[^{]*\{)", r"""
Packet* LosslessInputQueue::word() {
    return EthPausePacket::newpkt(_state_recv == PAUSED ? 1000 : 0, _switch->getID());
}

\1
    static const bool on = getenv("PAUSES");
    if (on) return _back->tell(this);"""),
    ("queue_lossless_output.h", r"(private:\s*list<VirtualQueue\*> _vq;)", r"""
    void tell(class LosslessInputQueue* of);

\1
    void begin_telling();
    LosslessInputQueue* _owed = nullptr;
    LosslessInputQueue* _telling = nullptr;
    Packet* _word = nullptr;"""),
    ("queue_lossless_output.cpp", r"(queueWasEmpty && _state_send == READY)", r"\1 && !_sending"),
    ("queue_lossless_output.cpp", r"\n(void LosslessOutputQueue::completeService\(\)\{)", r"""
void LosslessOutputQueue::tell(LosslessInputQueue* of) {
    _owed = of;
    if (!_sending) begin_telling();
}

void LosslessOutputQueue::begin_telling() {
    _sending = 1;
    _telling = _owed;
    _owed = nullptr;
    _word = _telling->word();
    eventlist().sourceIsPendingRel(*this, 84 * _ps_per_byte);
}

\1
    if (_telling) {
        PacketSink* wire = _telling->wire();
        _telling = nullptr;
        _sending = 0;
        wire->receivePacket(*_word);
        if (_state_send == PAUSE_RECEIVED) _state_send = PAUSED;
        if (_owed) begin_telling();
        else if (!_enqueued.empty() && _state_send == READY) beginService();
        return;
    }"""),
    ("queue_lossless_output.cpp",
     r"(_state_send = PAUSED;\s*)(if \(!_enqueued.empty\(\)\) \{\s*if)",
     r"\1if (_owed) begin_telling();\n    else \2"),
    ("datacenter/fat_tree_topology.cpp",
     r"new LosslessInputQueue\(\*_eventlist, queues_(\w+?)_(\w+?)\[(\w+)\]\[(\w+)\]\[b\], ?"
     r"([^;]*?), ?_hop_latency\);",
     r"(new LosslessInputQueue(*_eventlist, queues_\1_\2[\3][\4][b], \5, hop_latency))->_back ="
     r" static_cast<LosslessOutputQueue*>(queues_\2_\1[\4][\3][b]);"),
)  # fmt: skip

_TIMES = {"new LosslessInputQueue": 5}
"""How often an edit applies, by how its pattern begins, where not once."""


def build(source: Path, to: Path) -> Path:
    """Copies, edits and compiles; returns the program. Raises `RuntimeError` when it cannot."""
    shutil.copytree(source / "sim", to / "sim", ignore=shutil.ignore_patterns("*.o", "*.a"))
    for name, pattern, new in (*INPUTS, *ORDER, *SIZES, *PAUSES):
        path = to / "sim" / name
        text, count = re.subn(pattern, new, path.read_text(), flags=re.DOTALL)
        times = next((n for begin, n in _TIMES.items() if pattern.startswith(begin)), 1)
        if count != times:
            raise RuntimeError(f"{name}: {pattern!r} found {count} times, not {times}")
        path.write_text(text)
    for command in (["make", "-C", str(to / "sim"), "libhtsim.a"],
                    ["make", "-C", str(to / "sim" / "datacenter"), "htsim_roce"]):  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr[-2000:]}")
    return to / "sim" / "datacenter" / "htsim_roce"


def main() -> None:
    """Builds it and prints where it is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path, help="a checkout of csg-htsim")
    parser.add_argument("to", type=Path, help="a directory that does not exist yet")
    asked = parser.parse_args()
    print(build(asked.source, asked.to))


if __name__ == "__main__":
    main()
