"""Times at which workloads have to be looked at, whatever happens before."""

from __future__ import annotations

from heapq import heappop, heappush

from makeway.engine.entry import Entry


class Clocks:
    def __init__(self) -> None:
        self._times: list[tuple[float, int, Entry]] = []  # heap; may hold times long overtaken

    def set(self, entry: Entry, at: float) -> None:
        heappush(self._times, (at, entry.serial, entry))

    def next_at(self) -> float | None:
        return self._times[0][0] if self._times else None

    def take_due(self, now: float) -> list[Entry]:
        """Entries one of whose times has come, each once; some may be gone by now."""
        due: dict[int, Entry] = {}
        while self._times and self._times[0][0] <= now:
            _, serial, entry = heappop(self._times)
            due[serial] = entry
        return list(due.values())
