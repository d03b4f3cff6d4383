"""Writing that survives a crash: what is named is on the disk before its name is."""

import os
from pathlib import Path


def write_synced(path: Path, content: bytes) -> None:
    """Write a file and wait until its content is on the disk; raises `OSError`."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_directory(path: Path) -> None:
    """Wait until the names in a directory are on the disk; raises `OSError`."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
