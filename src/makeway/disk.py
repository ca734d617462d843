"""How much room the disk has left, and from when on that is too little."""

from __future__ import annotations

import os
from pathlib import Path

SHORT_MAX_BYTES = 256 * 1024 * 1024
SHORT_SHARE = 50  # a fiftieth of a small disk is enough
RESERVE_MAX_BYTES = 8 * 1024 * 1024
RESERVE_SHARE = 20
LEAVINGS_MAX_BYTES = 20 * 1024 * 1024 * 1024
LEAVINGS_SHARE = 10


class Disk:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def shortage(self) -> str:
        """Why nothing new should be begun; empty if there is room."""
        found = os.statvfs(self._folder)
        free = found.f_bavail * found.f_frsize
        limit = min(SHORT_MAX_BYTES, found.f_blocks * found.f_frsize // SHORT_SHARE)
        if free >= limit:
            return ""
        return f"the disk of {self._folder} has {_mib(free)} left, and {_mib(limit)} are kept free"

    @property
    def reserve_bytes(self) -> int:
        """What the database should hold back for the writes that make room again."""
        found = os.statvfs(self._folder)
        return min(RESERVE_MAX_BYTES, found.f_blocks * found.f_frsize // RESERVE_SHARE)

    @property
    def leavings_bytes(self) -> int:
        """What pods may leave behind, if nobody says otherwise."""
        found = os.statvfs(self._folder)
        return min(LEAVINGS_MAX_BYTES, found.f_blocks * found.f_frsize // LEAVINGS_SHARE)


def _mib(size: int) -> str:
    return f"{size / 1024 / 1024:.1f} MiB"
