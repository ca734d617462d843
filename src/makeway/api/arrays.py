"""Arrays of jobs: one Job for each index, all alike but for that.

`1-100`, `1,3,7`, `0-30:2`, and after a `%` how many may run at once: `1-100%8`.
"""

from __future__ import annotations

import copy
import re
from typing import Any, NamedTuple

from makeway.api.labels import (
    AFTER,
    AFTER_ANY,
    AFTER_FAILED,
    ARRAY,
    ARRAY_INDEX,
    ARRAY_LIMIT,
    ID,
)

INDEXES_MAX = 10_000
INDEX_MAX = 9_999_999
SAME_INDEX = "{index}"  # in what a job of an array waits for: its own index
_SPAN = re.compile(r"([0-9]{1,7})(?:-([0-9]{1,7})(?::([0-9]{1,7}))?)?", re.ASCII)

Document = dict[str, Any]


class ArrayError(ValueError):
    """The text is for the user."""


class Indexes(NamedTuple):
    values: tuple[int, ...]  # ascending
    limit: int | None  # how many may run at once; None: as many as fit


def parse_indexes(text: str) -> Indexes:
    spans, percent, most = text.partition("%")
    values: set[int] = set()
    for span in spans.split(","):
        values |= set(_span(span.strip(), text))
        if len(values) > INDEXES_MAX:
            raise ArrayError(f"{text}: an array has at most {INDEXES_MAX} indexes")
    if percent and (not most.isdecimal() or not most.isascii() or not 0 < int(most) <= INDEX_MAX):
        raise ArrayError(f"{text}: after % write how many may run at once, one at least")
    return Indexes(tuple(sorted(values)), int(most) if percent else None)


def _span(span: str, text: str) -> range:
    found = _SPAN.fullmatch(span)
    if found is None:
        raise ArrayError(f"{text}: write indexes such as 1-100, 1,3,7, 0-30:2 or 1-100%8")
    first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
    if last < first or step < 1:
        raise ArrayError(f"{text}: {span} has no indexes; write the lower one first")
    if (last - first) // step >= INDEXES_MAX:
        raise ArrayError(f"{text}: an array has at most {INDEXES_MAX} indexes")
    return range(first, last + 1, step)


def expanded(job: Document, indexes: Indexes) -> list[Document]:
    """The Jobs of an array; `job` has its name and, as its id, its number."""
    return [_member(job, indexes, index) for index in indexes.values]


def _member(job: Document, indexes: Indexes, index: int) -> Document:
    member = copy.deepcopy(job)
    metadata = member["metadata"]
    labels = metadata.setdefault("labels", {})
    array = labels.get(ID) or metadata["name"]
    labels |= {ARRAY: array, ARRAY_INDEX: str(index)}
    if ID in labels:
        labels[ID] = f"{array}_{index}"
    metadata["name"] = f"{metadata['name']}-{index}"
    notes = metadata.get("annotations") or {}
    for rule in (AFTER, AFTER_ANY, AFTER_FAILED):
        if rule in notes:
            notes[rule] = notes[rule].replace(SAME_INDEX, str(index))
    if indexes.limit is not None:
        metadata.setdefault("annotations", {})[ARRAY_LIMIT] = str(indexes.limit)
    told = {
        "JOB_COMPLETION_INDEX": str(index),
        "MAKEWAY_ARRAY_ID": array,
        "MAKEWAY_ARRAY_INDEX": str(index),
        "MAKEWAY_ARRAY_COUNT": str(len(indexes.values)),
    } | ({"MAKEWAY_JOB_ID": labels[ID]} if ID in labels else {})
    for container in member["spec"]["template"]["spec"]["containers"]:
        kept = [variable for variable in container.get("env") or () if variable["name"] not in told]
        container["env"] = [*kept, *({"name": k, "value": v} for k, v in told.items())]
    return member
