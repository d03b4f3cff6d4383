"""Frames that a lossless class lost for want of memory: an error of the run, told before the rest.

Headroom is what still arrives after a switch, or a receiving NIC, has told its peer to stop. What
does not fit is dropped and sent again, so that such times are those of a fabric which was not set
up as lossless.
"""

from collections.abc import Mapping

from analysis.record import CellManifest
from analysis.wording import count


def frames(totals: Mapping[str, int]) -> int:
    """How many, of the totals of a run."""
    return totals.get("drops_lossless", 0)


def faulty(manifest: CellManifest) -> bool:
    """Whether a cell has faults, which may keep pause frames away."""
    return manifest.settings.get("faults", "none") != "none"


def told(lost: Mapping[str, int], chosen: str = "", *, faults: bool = False) -> list[str]:
    """How many frames, in which alternatives, and what to write instead; empty without any.

    ``lost`` has the frames by the name of an alternative, ``chosen`` is that of the choice.
    """
    where = {name: many for name, many in lost.items() if many}
    if not where:
        return []
    most = max(where, key=lambda name: where[name])
    told = count(sum(where.values()), "frame")
    several = len(where) > 1
    place = most + (", the choice" if most == chosen else "")
    if several:
        mine = ", the choice among them" if chosen in where and most != chosen else ""
        place = f"{len(where)} alternatives{mine}, most in {place}: {where[most]:,}"
    cause = "Headroom was too short" + ", unless a fault kept pause frames away" * faults
    return [
        f"Not lossless: {told} of a lossless class {'was' if told == '1 frame' else 'were'} "
        f"dropped for want of buffer in {place}. So {'their' if several else 'its'} times cannot "
        f"be trusted as those of a lossless fabric. {cause}: write a rule (sonic, mlx5) or a "
        "larger size as `network.discipline.headroom`, and in `network.overrides` where it stands "
        "there; where that is refused, a larger `fabric.switch.buffer` too."
    ]
