"""Jobs as people know them, in what a server says of Workloads: `job 12 train`.

Sentences come in pieces, text and references to objects; a Workload becomes the job that it was
made for, also if that is deleted.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping

from makeway.api.batch import Job
from makeway.api.queueing import Workload
from makeway.cli.deleted_jobs import gone_jobs
from makeway.cli.job_table import Row, moment_text
from makeway.cli.user import user_name
from makeway.cli.views import fetch
from makeway.client import ApiError, Client
from makeway.client.client import Document
from makeway.controller.job_workload import name_of
from makeway.engine.model import WorkloadKey
from makeway.journal.past import job_name
from makeway.translate.job_rows import row_of
from makeway.translate.job_state import state_of
from makeway.translate.job_targets import JobTarget

JOBS_ASKED_MAX = 30  # names of so many jobs are looked up

Rows = Mapping[str, Row]  # of jobs, by key of their Workload
Piece = str | Document


async def spoken_of(client: Client, document: Document, about: str = "") -> Spoken:
    """Who can say what a document has in its pieces; it is about one Workload, or nobody."""
    return Spoken(await _rows_by_workload(client, document), about)


async def _rows_by_workload(client: Client, document: Document) -> Rows:
    """The jobs of the Workloads that a document speaks of."""
    keys = list(_workloads_in(document["pieces"]))
    try:
        rows = (await client.jobs("", {"ended": "true"}))["items"] if keys else []
    except ApiError as error:
        if not error.may_lack_path:
            raise
        rows = [row for key in keys[:JOBS_ASKED_MAX] for row in await _rows_of(client, key)]
    found = {_key_of(row): row for row in rows}
    missing = {key.partition("/")[0] for key in keys if _known(key, found) is None}
    for namespace in sorted(missing):
        found = {**await _gone_by_workload(client, namespace), **found}
    return {key: row for key in keys if (row := _known(key, found)) is not None}


def _key_of(row: Row) -> str:
    """That of its Workload; the number of somebody else's, whose Workload is not to be seen."""
    return f"{row['namespace']}/{row['workload'] or row['id']}"


def _known(key: str, rows: Rows) -> Row | None:
    """Where people share a server, the name of a Workload has the number of its job."""
    namespace = key.partition("/")[0]
    return rows.get(key) or rows.get(f"{namespace}/{job_name(WorkloadKey(key))}")


def _workloads_in(lines: Iterable[Iterable[Piece]]) -> dict[str, None]:
    pieces = (piece for line in lines for piece in line if isinstance(piece, dict))
    return dict.fromkeys(str(p["key"]) for p in pieces if p.get("kind") == "Workload")


async def _gone_by_workload(client: Client, namespace: str) -> dict[str, Row]:
    jobs, now = await gone_jobs(client, namespace), time.time()
    return {
        f"{job.metadata.namespace}/{name_of(job)}": row_of(state_of(JobTarget(job, None), now))
        for job in jobs
    }


async def _rows_of(client: Client, key: str) -> list[Row]:
    """Of a Workload, put together from its objects; none if there is no Job, or it is not shown."""
    namespace, _, name = key.partition("/")
    try:
        workload = await fetch(client, Workload, name, namespace)
        for owner in workload.metadata.owner_references:
            if owner.kind == "Job":
                job = await fetch(client, Job, owner.name, namespace)
                return [row_of(state_of(JobTarget(job, workload), time.time()))]
    except ApiError as error:
        if not error.may_lack_path:
            raise
    return []


class Spoken:
    """What was spoken of already: a job is named in full once, then by what a user types."""

    def __init__(self, rows: Rows, about: str = "") -> None:
        self._rows, self._about, self._named = rows, about, set[str]()

    def line(self, pieces: Iterable[Piece]) -> str:
        return "".join(map(self._text, pieces))

    def row(self, key: str) -> Row | None:
        return self._rows.get(key)

    def _text(self, piece: Piece) -> str:
        """`default/job-train-57820` becomes `job 12 train`, and the next time `job 12`."""
        if isinstance(piece, str):
            return piece
        key = str(piece["key"])
        match piece.get("kind"):
            case "LocalQueue":  # it is in the namespace of who waits in it
                return key.rpartition("/")[2]
            case "Workload" if key in self._rows:
                return self._job_text(key, self._rows[key])
            case "Workload" if (name := job_name(WorkloadKey(key))) != key.partition("/")[2]:
                return f"job {_typed(key, name)}"  # its number is gone, or not given yet
        return key

    def _job_text(self, key: str, row: Row) -> str:
        number = row["number"] or row["id"]
        short = f"job {number or _typed(key, row['name'])}"
        if key in self._named:
            return short
        self._named.add(key)
        name = f" {row['name']}" if number and row["name"] else ""
        return f"{short}{name}{''.join(self._more_of(row)) if key != self._about else ''}"

    def _more_of(self, row: Row) -> Iterator[str]:
        """Of another's job: whose it is, and until when it runs at most."""
        if row["submittedBy"] not in (None, "", user_name()):
            yield f" of {row['submittedBy']}"
        if row["until"]:
            yield f", until {moment_text(row['until'])} at most"


def _typed(key: str, name: str) -> str:
    """What a user types for a job without a number; where names are numbers, these are enough."""
    namespace = key.partition("/")[0]
    return name if namespace == "default" or name.isdecimal() else f"{namespace}/{name}"
