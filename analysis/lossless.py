"""Frames that a lossless class lost for want of memory: an error of the run, told before the rest.

Headroom is what still arrives after a switch, or a receiving NIC, has told its peer to stop. What
does not fit is dropped and sent again, so that such times are those of a fabric which was not set
up as lossless.
"""

from collections.abc import Sequence

from analysis.record import Study
from analysis.summary import Summary
from analysis.wording import count


def told(study: Study, rows: Sequence[Summary], chosen: Summary | None) -> list[str]:
    """How many frames, in which alternatives, and what to write instead; empty without any."""
    lost = [row for row in rows if row.lossless]
    if not lost:
        return []
    most = max(lost, key=lambda row: row.lossless)
    frames = count(sum(row.lossless for row in lost), "frame")
    several = len(lost) > 1
    where = f"{most.fabric} with {most.policy}" + (", the choice" if most is chosen else "")
    if several:
        mine = ", the choice among them" if chosen in lost and most is not chosen else ""
        where = f"{len(lost)} alternatives{mine}, most in {where}: {most.lossless:,}"
    cause = "Headroom was too short"
    if any(cell.manifest.settings.get("faults", "none") != "none" for cell in study.cells):
        cause += ", unless a fault kept pause frames away"
    return [
        f"Not lossless: {frames} of a lossless class {'was' if frames == '1 frame' else 'were'} "
        f"dropped for want of buffer in {where}. So {'their' if several else 'its'} times cannot "
        f"be trusted as those of a lossless fabric. {cause}: write a rule (sonic, mlx5) or a "
        "larger size as `network.discipline.headroom`, and in `network.overrides` where it stands "
        "there; where that is refused, a larger `fabric.switch.buffer` too."
    ]
