"""A journal that can be given away: the same decisions, and nobody's names.

Every text that somebody has chosen (names, keys and values of labels, uids, sentences) is replaced
by a code, the same everywhere in the bundle; which code stands for what is known to nobody when it
is written. Numbers and times stay as they are. The engine breaks ties by the order of names, so
codes have the order of what they replace: a bundle is replayed as the journal is.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from makeway.engine import events as ev
from makeway.journal.coding import Encoder
from makeway.journal.file import Journal, JournalFile, Segment
from makeway.journal.records import Heard, Record, Scribe, new_header

TOGETHER = 2_000  # records in one chunk
# Names that mean something by themselves, each with how codes of names behind it begin.
_BEHIND = {
    "": "a",
    "cpu": "d",
    "ephemeral-storage": "f",
    "memory": "n",
    "nvidia.com/gpu": "o",
    "pods": "q",
}
# Words of Kubernetes in fields that are texts to us, and numbers, which are compared as such.
_WORDS = re.compile(
    r"\*|In|NotIn|Exists|DoesNotExist|Gt|Lt|Equal|NoSchedule|NoExecute|PreferNoSchedule|[0-9]{1,15}"
)
_TAINT = re.compile(r"(.*)=(.*):(NoSchedule|NoExecute)", re.DOTALL)  # as a reason names it


class Contents(NamedTuple):
    """What a bundle will hold."""

    since: float
    until: float
    segments: int
    events: int
    cycles: int
    workloads: int
    queues: int
    codes: Mapping[str, str]  # by what they stand for
    kept: tuple[str, ...]  # texts that stay as they are


class _Names(Encoder):
    """Finds out which texts there are."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def name(self, value: str) -> int:
        taint = _TAINT.fullmatch(value)
        self.found.update(taint.groups() if taint is not None else (value,))
        return super().name(value)


class _Redacting(Encoder):
    def __init__(self, codes: Mapping[str, str]) -> None:
        super().__init__()
        self._codes = codes

    def name(self, value: str) -> int:
        taint = _TAINT.fullmatch(value)
        if taint is None:
            return super().name(self._codes.get(value, value))
        key, text, effect = taint.groups()
        return super().name(f"{self._codes.get(key, key)}={self._codes.get(text, text)}:{effect}")


def codes_of(names: Iterable[str]) -> dict[str, str]:
    """A code for each, in the same order among themselves and beside the names that stay."""
    known = list(_BEHIND)
    found = [n for n in sorted(names) if n not in _BEHIND and not _WORDS.fullmatch(n)]
    width = len(str(len(found)))
    return {
        name: f"{_BEHIND[known[bisect_right(known, name) - 1]]}{number:0{width}}"
        for number, name in enumerate(found)
    }


def look_into(journal: Journal, segments: Iterable[Segment]) -> Contents:
    segments = list(segments)
    names, workloads, queues = _Names(), set[str](), set[str]()
    events = cycles = 0
    for segment in segments:
        for record in journal.records(segment):
            if isinstance(record, Heard):
                events += 1
                names.event(record.event)
                if isinstance(record.event, ev.WorkloadSeen):
                    workloads.add(record.event.workload.key)
                elif isinstance(record.event, ev.QueueChanged):
                    queues.add(record.event.queue.name)
            else:
                cycles += 1
                names.decisions(record.decisions)
            names.take_new()
    codes = codes_of(names.found)
    return Contents(
        min((segment.header.began_at for segment in segments), default=0.0),
        max((segment.last_at for segment in segments), default=0.0),
        len(segments),
        events,
        cycles,
        len(workloads),
        len(queues),
        codes,
        tuple(sorted(names.found - codes.keys() - {""})),
    )


def write(
    journal: Journal, segments: Iterable[Segment], codes: Mapping[str, str], path: Path
) -> None:
    """A journal of its own, which `replay` reads as any other."""
    file = JournalFile(path)
    try:
        for segment in segments:
            _copy(journal, segment, codes, file)
    finally:
        file.close()


def _copy(journal: Journal, segment: Segment, codes: Mapping[str, str], file: JournalFile) -> None:
    old = segment.header
    number = file.begin(new_header(old.began_at, old.version, old.beginning))
    scribe = Scribe(old.began_at, _Redacting(codes))
    records = journal.records(segment)
    while some := list[Record](islice(records, TOGETHER)):
        file.add(number, some[0].at, some[-1].at, scribe.chunk(some))
