"""A process of a run without frames: it keeps the protocol, and every flow takes a fixed time.

Started as ``python mininet_process.py agent PLAN HOW``; ``HOW`` is ``well``, or how it misbehaves.
"""

import json
import socket
import struct
import sys
import time
from pathlib import Path

import numpy as np

from emulate.mininet.driver import COUNTERS
from emulate.mininet.plan import LANDED, MOST_ROWS, READY, read_plan
from traffic.emulator import FLOW

TAKES_PS = 5_000_000


def main(process: str, file: str, how: str) -> None:
    plan = read_plan(Path(file))
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as channel:
        channel.connect(str(plan.socket(process)))
        if how == "silent":
            sys.exit("no interface kv-none")
        channel.send(READY)
        (start,) = struct.unpack("=q", channel.recv(8))
        rows = []
        if process == "agent":
            while message := channel.recv(MOST_ROWS * FLOW.itemsize):
                flows = np.frombuffer(message, FLOW)
                for flow in flows:
                    finish = int(flow["release_ps"]) + TAKES_PS
                    due = start + finish * plan.dilation // 1000
                    left = due - time.clock_gettime_ns(time.CLOCK_MONOTONIC)
                    time.sleep(max(left, 0) / 1e9 + (0.05 if how == "slow" else 0))
                    row = (int(flow["flow"]), int(flow["handoff"]), finish, finish + 1, finish)
                    rows.append(row)
                    channel.send(np.array([row], LANDED).tobytes())
                    if how == "dies":
                        sys.exit("killed by the test")
        else:
            while channel.recv(8):
                pass
    landed = np.array(rows, LANDED)
    ones = np.ones(len(landed), np.int64)
    first = 0 if process == "agent" else len(plan.ports) - 1
    arrays = {f"counters.{name}": np.array(0) for name in COUNTERS}
    arrays |= {"counters.realtime": np.array(1), "counters.ran_ns": np.array(1)}
    arrays["counters.waited_ns"] = np.array(0)
    arrays["counters.bytes_sent"] = np.array(7)
    for name in ("rate_bps", "from_ns", "to_ns", "frames"):
        arrays[f"late.{name}"] = np.ones(1, np.int64)
    for name in ("port", "priority", "paused_ps", "pauses", "longest_ps"):
        arrays[f"pauses.{name}"] = np.zeros(0, np.int64)
    # Two stops of the switch process, the later one first, of which the other has not ended.
    stops = [(7, 3, 5, -1, 8), (6, 3, 4, 9, 8)] if process == "switch" else []
    columns = ("port", "priority", "from_ps", "until_ps", "cause_port")
    table = np.array(stops, np.int64).reshape(-1, len(columns))
    arrays |= {f"stops.{name}": table[:, i] for i, name in enumerate(columns)}
    for name in ("from_ns", "until_ns", "ran_ns"):
        arrays[f"stalls.{name}"] = np.zeros(0, np.int64)
    for name in json.loads(Path(file).with_name("columns.json").read_text()):
        arrays[f"ports.{name}"] = np.full(1, 11, np.int64)
    arrays["ports.port"] = np.array([first])
    for name in ("packets", "marked", "resent_bytes", "timeouts"):
        arrays[f"flows.{name}"] = 3 * ones
    arrays["flows.flow"] = landed["flow"]
    arrays["flows.sender_done_ps"] = landed["sender_done_ps"]
    np.savez(plan.tables(process), **arrays)


if __name__ == "__main__":
    main(*sys.argv[1:])
