"""A place for the drawing library's font cache where the usual one cannot be written to.

Matplotlib keeps its cache below the home directory. Where that is read-only, as in many containers
and for service accounts, it warns and looks for fonts anew at every start. Then, and only then, a
temporary directory of this process is named for it (``MPLCONFIGDIR``), and removed at the end.
"""

import atexit
import os
import shutil
import tempfile
from collections.abc import MutableMapping
from pathlib import Path
from typing import Final

_SPARE: Final = (None, "/dev/shm")  # noqa: S108 (mkdtemp makes a directory of our own)
"""The usual temporary directory, and shared memory, which a container without one still has."""


def spare_cache(environment: MutableMapping[str, str] = os.environ) -> Path | None:
    """Name a temporary directory for the cache if it needs one; None where it has none.

    A directory that the user has named is left alone. Processes begun later inherit it.
    """
    if environment.get("MPLCONFIGDIR"):
        return None
    home = environment.get("HOME") or "/"
    usual = (
        Path(environment.get("XDG_CONFIG_HOME") or Path(home, ".config"), "matplotlib"),
        Path(environment.get("XDG_CACHE_HOME") or Path(home, ".cache"), "matplotlib"),
    )
    if all(_writable(place) for place in usual):
        return None
    for place in _SPARE:
        try:
            spare = Path(tempfile.mkdtemp(prefix="kvfabric-fonts-", dir=place))
        except OSError:
            continue
        atexit.register(shutil.rmtree, spare, ignore_errors=True)
        environment["MPLCONFIGDIR"] = str(spare)
        return spare
    return None  # what draws nothing needs no cache


def _writable(place: Path) -> bool:
    """Could the directory be made, and written to? Looks only."""
    while not place.exists():
        if place == place.parent:
            return False
        place = place.parent
    return place.is_dir() and os.access(place, os.W_OK | os.X_OK)
