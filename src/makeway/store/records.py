"""What the store keeps and hands out."""

from collections.abc import Callable
from typing import NamedTuple


class Key(NamedTuple):
    kind: str  # any text that tells kinds apart; the store does not look into it
    namespace: str  # empty for documents outside namespaces
    name: str


class Record(NamedTuple):
    key: Key
    revision: int  # the revision of the write; unique over all kinds, rising
    body: bytes


class Event(NamedTuple):
    record: Record  # the state after the write; of a deletion, the last state
    previous: Record | None  # the state before the write; None for a creation
    is_deletion: bool

    @property
    def revision(self) -> int:
        return self.record.revision


class WriteFailed(Exception):
    """The file took none of the writes (disk full, I/O error); nothing of them is there."""


class Conflict(Exception):
    """The document is not at the revision that the write expects."""

    def __init__(self, key: Key, expected: int, found: int) -> None:
        super().__init__(f"{key}: expected revision {expected}, found {found}")
        self.key, self.expected, self.found = key, expected, found


class Compacted(Exception):
    """Events as old as that are no longer kept."""

    def __init__(self, revision: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {revision} ({oldest})")
        self.revision, self.oldest = revision, oldest


Done = Callable[[Record, WriteFailed | None], None]


class Change(NamedTuple):
    """A write on its way to the file."""

    record: Record
    is_deletion: bool
    done: Done  # called once, when the write is durable or has failed
    joins: bool = False  # written together with the one before it in line, or not at all
