"""The errors that mutation.py plants in the fast core alone: its shortcuts, orders and instants.

The core lets most frames leave without an event and catches up when somebody looks. None of these
errors is in a class that the reference shares, so that only what runs on the core can find them.
"""

from planted import one

SWITCH = (
    one("a frame that leaves at this instant still fills memory", "core_switch.cpp",
        "        catch_up(worker, node, node.ports[i], worker.key);",
        "        catch_up(worker, node, node.ports[i],\n"
        "                 PLANTED ? worker.key & ~flag_mask : worker.key);"),
    one("what waits starts when somebody looks, not when the port is free", "core_switch.cpp",
        "        worker.now = port.serialiser.end();",
        "        if (!PLANTED) worker.now = port.serialiser.end();"),
    one("a full switch forgets what has left its other ports", "core_switch.cpp",
        "        catch_up_all(worker, node);\n    }\n    return node.buffer->admit",
        "        if (!PLANTED) catch_up_all(worker, node);\n    }\n    return node.buffer->admit"),
    one("a group goes on by what its own port has let leave", "core_switch.cpp",
        "    catch_up_all(worker, node);\n    if (buffer.under(ingress",
        "    if (!PLANTED) catch_up_all(worker, node);\n    if (buffer.under(ingress"),
    one("a stopped group's frames leave unseen", "core_stop.cpp",
        "        if (held > 0) holders |= holder_bit(port);",
        "        if (held > 0 && !PLANTED) holders |= holder_bit(port);"),
    one("frames that follow into a stopped group leave unseen", "core_switch.cpp",
        "        if ((holders & holder_bit(out)) == 0) watch_ends(",
        "        if ((holders & holder_bit(out)) == 0 && !PLANTED) watch_ends("),
    one("an idle port sends at once though its class is stopped", "core_switch.cpp",
        "((out.paused >> priority & 1) | out.notify |",
        "((PLANTED ? 0 : out.paused >> priority & 1) | out.notify |"),
    one("the quick look before a mark leaves out the frame in service", "core_switch.cpp",
        "if (out.waiting + out.serving_wire <= out.unmarked ||",
        "if (out.waiting + (PLANTED ? 0 : out.serving_wire) <= out.unmarked ||"),
    one("a mark counts what is served of another class", "core_switch.cpp",
        "const bool own = out.serving == priority;",
        "const bool own = PLANTED || out.serving == priority;"),
    one("of equal causes of a stop the last is named", "core_stop.cpp",
        "        if (held > most) {", "        if (held > most - (PLANTED && held > 0)) {"),
)  # fmt: skip

PORT = (
    one("a pause is on its way when its frame starts", "core_port.cpp",
        "static_cast<std::uint64_t>(end + rest.pause_flight - epoch_)",
        "static_cast<std::uint64_t>((PLANTED ? worker.now : end) + rest.pause_flight - epoch_)"),
    one("that a class may go on is never told", "core_port.cpp",
        "std::uint64_t{port.notify} << 8 | port.stopping",
        "std::uint64_t(PLANTED ? port.notify & port.stopping : port.notify) << 8 | port.stopping"),
    one("a pause that has run out is not over", "core_port.cpp",
        "    if (receiver.expire(worker.now)) {",
        "    if (receiver.expire(worker.now) && !PLANTED) {"),
    one("a stop is told once and never again", "core_port.cpp",
        "    if (!sender.expire(worker.now)) return false;",
        "    if (!sender.expire(worker.now) || PLANTED) return false;"),
    one("a pause frame is in when its last bit has left", "core.cpp",
        "    rest.pause_flight =\n        fabric_.delay[p] +",
        "    rest.pause_flight =\n        (PLANTED ? 0 : fabric_.delay[p]) +"),
)  # fmt: skip

HOST = (
    one("a NIC looks at a release before the other events of its instant", "core_host.cpp",
        "    at(node, worker.now, EventKind::send, port, 0);",
        "    if (PLANTED) pull(worker, node, ports_[port]);\n"
        "    else at(node, worker.now, EventKind::send, port, 0);"),
    one("an ACK leaves though its class is stopped", "core_host.cpp",
        "port.notify | port.backlog | (port.paused & bit(priority));",
        "port.notify | port.backlog | (PLANTED ? 0 : port.paused & bit(priority));"),
    one("a CNP may follow only after its interval is over", "core_host.cpp",
        "worker.now >= receiver.cnp_after",
        "worker.now >= receiver.cnp_after + PLANTED * 50000000"),
    one("a NIC with more to send is not told that its frame has left", "core_host.cpp",
        "    port.heeded = true;\n    start<false>(worker, port, frame, priority, wire, 0);",
        "    port.heeded = !PLANTED;\n    start<false>(worker, port, frame, priority, wire, 0);"),
)  # fmt: skip

SPAN = (
    one("a span is twice as long as what causes nothing", "core_span.cpp",
        "    const auto& [from_even, from_odd] = lookahead_;",
        "    auto lookahead = lookahead_;\n"
        "    for (auto& from : lookahead) {\n"
        "        for (auto& to : from.to) to = PLANTED && to != idle_key ? 2 * to : to;\n"
        "    }\n"
        "    const auto& [from_even, from_odd] = lookahead;"),
    one("switches know of no last frame that may come out of them", "core_span.cpp",
        "outlook.ending > 0 ? first_odd", "outlook.ending > 0 && !PLANTED ? first_odd"),
    one("nobody foresees that a flow may complete", "core_link.hpp",
        "if (last && port.peer_at_host) [[unlikely]] {",
        "if (last && port.peer_at_host && !PLANTED) {"),
    one("nodes that are behind do not catch up when somebody asks", "core_span.cpp",
        "    run_until(now_ + 1);", "    if (!PLANTED) run_until(now_ + 1);"),
    one("a new flow goes before what its host has to do up to now", "core_span.cpp",
        "if (behind_) bring", "if (behind_ && !PLANTED) bring"),
    one("what is in flight keeps the old epoch", "core_span.cpp",
        "        port.in.each(move_entry);", "        if (!PLANTED) port.in.each(move_entry);"),
)  # fmt: skip

CORE = SWITCH + PORT + HOST + SPAN
