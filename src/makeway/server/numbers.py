"""Short numbers for jobs, given by the server where people can't be asked to count for all."""

from __future__ import annotations

from makeway.api.kinds import JOBS, PODS
from makeway.api.labels import ID
from makeway.server.messages import decode, encode
from makeway.store import Key, Store

_LAST = Key("counters.makeway.dev", "", "jobs")  # served by no path of objects


class Numbers:
    def __init__(self, store: Store) -> None:
        self._store = store

    def take(self) -> int:
        """The next number. It is written with the next batch, which the job's own write joins."""
        found = self._store.latest(_LAST)
        last = self._highest() if found is None else int(decode(found.body)["last"])
        revision = 0 if found is None else found.revision
        body = encode({"last": last + 1})
        self._store.submit(_LAST, revision, lambda _: body, lambda *_: None)
        return last + 1

    def _highest(self) -> int:
        """Of the jobs that were there before anybody counted."""
        kinds = (JOBS.full_name, PODS.full_name)
        records = (record for kind in kinds for record in self._store.scan(kind))
        labels = (decode(record.body)["metadata"].get("labels") or {} for record in records)
        numbers = (str(found.get(ID, "")) for found in labels)
        return max((int(number) for number in numbers if number.isdecimal()), default=0)
