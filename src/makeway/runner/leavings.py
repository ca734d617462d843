"""What pods leave on the disk, and how much of that is kept.

A pod that runs has an allowance for what each of its containers prints. What ended pods leave, that
is their folders and what they printed, goes when it is old, or when all of it together, with what
running pods have printed, is too much: then the oldest of whoever has the most goes first, so that
an account that prints much loses its own. What tells that a pod has run, and how it ended, stays as
long as the server has the pod.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from makeway.logs import Fields
from makeway.runner.folders import discard, empty, tree_bytes

log = logging.getLogger("makeway.runner")

DAY_S = 86_400.0
# Nothing goes by its age before: a machine may come up with a wrong clock, and be set right soon.
FIRST_BY_AGE_S = 3600.0
OUTPUT_MAX_BYTES = 64 * 1024 * 1024  # of one run of a container
OUTPUT_MIN_BYTES = 1024 * 1024
PARTS = 8  # one of so many of what is left goes to the next pod
RUNS_KEPT = 2  # of a container: this one, and the one before
CONTENTS = ("scratch", "volumes")  # of a pod's folder
REMOVED = "removed"  # beside what a pod printed: why that is gone
ACCOUNT = "account"  # idem: the uid of whose pod it was, where there are several
ONE_ACCOUNT = ""

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Limits:
    """Of what pods leave behind."""

    max_bytes: int
    max_age_s: float = 30 * DAY_S

    def allowance(self, granted_bytes: int, containers: int) -> int:
        """How much each container of one more pod may print, after so much was granted to others.

        All of them get a part of what is left, so that there is always some for the next pod.
        """
        left = (self.max_bytes - granted_bytes) // (PARTS * RUNS_KEPT * containers)
        return max(OUTPUT_MIN_BYTES, min(OUTPUT_MAX_BYTES, left))


@dataclass(slots=True)
class _Left:
    """What one ended pod has left."""

    ended_at: float  # by the clock of the day
    age_s: float  # when we first saw it
    seen: float  # by the clock that nobody sets
    size: int
    is_removed: bool
    account: str


class Leavings:
    def __init__(
        self,
        folder: Path,
        limits: Limits,
        wall: Clock = time.time,
        ticks: Clock = time.monotonic,
        homes: str = "pods",
    ) -> None:
        """`homes` is where below the folder pods have what is theirs."""
        self._homes, self._logs, self._trash = (folder / n for n in (homes, "logs", "trash"))
        self._trash.mkdir(exist_ok=True, mode=0o700)
        self._limits, self._wall, self._ticks = limits, wall, ticks
        self._began = ticks()
        self._left: dict[str, _Left] = {}

    def tidy(self, ended: Mapping[str, float], running: Collection[str]) -> None:
        """Remove what is old or too much; `ended` says when each pod did. May take long."""
        for uid in self._left.keys() - ended.keys():
            del self._left[uid]
        for uid in ended.keys() - self._left.keys():
            self._left[uid] = self._seen(uid, ended[uid])
        if self._ticks() - self._began >= FIRST_BY_AGE_S:
            for uid, left in self._left.items():
                if self._age_s(left) > self._limits.max_age_s:
                    self._remove(uid, f"it is older than {self._limits.max_age_s / DAY_S:g} days")
        in_use: Counter[str] = Counter()
        for uid in running:
            in_use[self._account(uid)] += tree_bytes(self._logs / uid)
        self._make_room(in_use)

    def of_gone(self, known: Collection[str]) -> dict[str, float]:
        """Of whom something is left though nobody knows them any more, and since when about."""
        found: dict[str, float] = {}
        for folder in self._logs.iterdir():
            if folder.name not in known:
                with contextlib.suppress(FileNotFoundError):
                    found[folder.name] = folder.stat().st_mtime
        return found

    def sweep(self, gone: Collection[str]) -> list[str]:
        """Of pods that the server has no more: those of which nothing is left, not even a word."""
        swept = []
        for uid in gone:
            folder = self._logs / uid
            if (folder / REMOVED).exists() or not folder.exists():
                discard(folder, self._trash)
                swept.append(uid)
        empty(self._trash)
        return swept

    def _make_room(self, in_use: Counter[str]) -> None:
        """`in_use` is what running pods of each account have printed."""
        sums, oldest_last = Counter(in_use), dict[str, list[str]]()
        for uid in sorted(self._left, key=lambda uid: -self._left[uid].ended_at):
            left = self._left[uid]
            sums[left.account] += left.size
            oldest_last.setdefault(left.account, []).append(uid)
        limit = f"{self._limits.max_bytes / 1024 / 1024:.0f} MiB"
        while sums.total() > self._limits.max_bytes and oldest_last:
            account = max(oldest_last, key=lambda one: sums[one])
            uid = oldest_last[account].pop()
            sums[account] -= self._left[uid].size
            self._remove(uid, f"all pods together have left more than {limit}")
            if not oldest_last[account]:
                del oldest_last[account]

    def _account(self, uid: str) -> str:
        """Whose pod it was, as whoever started it has noted."""
        try:
            return (self._logs / uid / ACCOUNT).read_text()
        except FileNotFoundError:
            return ONE_ACCOUNT

    def _seen(self, uid: str, ended_at: float) -> _Left:
        is_removed = (self._logs / uid / REMOVED).exists()
        folders = (self._logs / uid, *(self._homes / uid / name for name in CONTENTS))
        size = 0 if is_removed else sum(map(tree_bytes, folders))
        age_s = max(self._wall() - ended_at, 0.0)
        return _Left(ended_at, age_s, self._ticks(), size, is_removed, self._account(uid))

    def _age_s(self, left: _Left) -> float:
        """By both clocks: one that was set makes nothing old."""
        return min(left.age_s + self._ticks() - left.seen, self._wall() - left.ended_at)

    def _remove(self, uid: str, why: str) -> None:
        left = self._left[uid]
        if left.is_removed:
            return
        log.info(Fields(pod_uid=uid, leavings="removed", bytes=left.size, why=why))
        left.size, left.is_removed = 0, True
        for name in CONTENTS:
            discard(self._homes / uid / name, self._trash)
        empty(self._trash)
        # The pod may be removed meanwhile; what else goes wrong here concerns no other.
        with contextlib.suppress(OSError):
            for path in list((self._logs / uid).iterdir()):
                path.unlink()
            (self._logs / uid / REMOVED).write_text(why)
