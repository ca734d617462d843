"""Documents with revisions in one SQLite file: create, get, list, update, delete, watch."""

from makeway.store.database import Corrupt, FileInUse, StoreError, WrongFile
from makeway.store.records import Compacted, Conflict, Event, Key, Record, WriteFailed
from makeway.store.store import Batch, Store

__all__ = [
    "Batch",
    "Compacted",
    "Conflict",
    "Corrupt",
    "Event",
    "FileInUse",
    "Key",
    "Record",
    "Store",
    "StoreError",
    "WriteFailed",
    "WrongFile",
]
