"""What users call a job: by its number, or else by its name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Protocol

from makeway.api.labels import ARRAY, ARRAY_INDEX, ID

NUMBER = re.compile(r"[0-9]{1,18}(?:_[0-9]{1,7})?", re.ASCII)  # of a job, or one of an array


class Named(Protocol):
    """What of an object's metadata says how it is called."""

    @property
    def name(self) -> str: ...
    @property
    def labels(self) -> Mapping[str, str]: ...


def id_of(job: Named) -> int | None:
    """The short number of a job, or of its array; None: not submitted by `makeway submit`."""
    text = number_of(job).partition("_")[0]
    return int(text) if text else None


def array_of(job: Named) -> dict[str, Any] | None:
    """Which one of which array it is, for programs; None: it is a job for itself."""
    index = job.labels.get(ARRAY_INDEX, "")
    return {"id": job.labels.get(ARRAY), "index": int(index)} if index.isdecimal() else None


def number_of(job: Named) -> str:
    """`12`, or `12_4` for one of an array; empty for a job not submitted by `makeway submit`."""
    text = job.labels.get(ID, "")
    return text if NUMBER.fullmatch(text) else ""


def job_text(job: Named) -> str:
    """`job 12 (train-x7k2p)`, or `job train` where there is no number."""
    number = number_of(job)
    return f"job {number} ({job.name})" if number else f"job {job.name}"


def short_text(job: Named) -> str:
    """What a user types for a job."""
    return number_of(job) or job.name
