"""The guard's verdict on a run of the kernel dataplane.

The kernel's queues do not tell how late each frame left, so the train before the run does
(`emulate.mininet.train`). During it count what the loop saw too late, what was lost outside the
fabric's own queues, and how the processors were.
"""

import numpy as np

from emulate.mininet.guard import Check, Limits, Standing, Verdict
from emulate.mininet.kernel import Kept
from emulate.mininet.train import Train

_ORDER: tuple[Standing, ...] = ("valid", "warn", "invalid")


def kernel_verdict(kept: Kept, before: Train, limits: Limits | None = None) -> Verdict:
    """Judge a run by what it kept and the train that went before it."""
    limits = limits or Limits()
    late = float(np.quantile(before.late, 0.99, method="higher"))
    seen = float(np.quantile(kept.error, 0.99, method="higher")) if kept.error else 0.0
    waited = kept.waited_ns / max(kept.elapsed_ns, 1)
    checks = [
        _check(
            "lateness P99",
            late,
            limits.late_p99,
            "invalid",
            f"1 in 100 frames of a train was {late:.2g} frame times off or more, above "
            f"{limits.late_p99:g}; write a larger dilation",
        ),
        *(
            _check(
                one.what,
                one.off,
                limits.control,
                "invalid",
                f"{one.what} is {100 * one.off:.3g} % off what it must be, more than "
                f"{100 * limits.control:g} %; write a larger dilation",
            )
            for one in before.controls()
        ),
        _check(
            "looks at flows P99",
            seen,
            limits.control,
            "invalid",
            f"1 in 100 flows was let go or seen to end {100 * seen:.2g} % of its time late; "
            "write a larger dilation",
        ),
        *(
            _check(what, count, 0, "invalid", f"{count} {told}")
            for what, count, told in (
                ("softnet drops", kept.softnet_drops, "frame(s) were lost by the kernel's backlog"),
                (
                    "drops outside",
                    kept.outside_drops,
                    "frame(s) were lost in queues of hosts or wires, which the fabric has not",
                ),
                ("late submissions", kept.late, "flow(s) had no connection at their release"),
                ("overrun", int(kept.overran), "run took far longer than it must"),
                ("late notices", kept.notices, "completion(s) came too late for the serving loop"),
            )
        ),
        _check(
            "run-queue wait",
            waited,
            limits.waited,
            "warn",
            f"the process waited {100 * waited:.2g} % of the time for a processor",
        ),
        _check(
            "steal",
            kept.stolen,
            limits.stolen,
            "warn",
            f"the hypervisor took {100 * kept.stolen:.2g} % of the processors' time",
        ),
    ]
    worst = max(_ORDER.index(check.standing) for check in checks)
    return Verdict(_ORDER[worst], checks, limits)


def _check(what: str, value: float, limit: float, worse: Standing, told: str) -> Check:
    good = value <= limit
    return Check(what, value, limit, "valid" if good else worse, "" if good else told)
