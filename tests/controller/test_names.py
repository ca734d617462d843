"""Workloads are named as Kueue names them, so that tools which compute a name find it."""

from __future__ import annotations

import pytest

from makeway.api.batch import Job, Pod
from makeway.api.codec import decode_as
from makeway.client.client import Document
from makeway.controller.job_workload import name_of

UID = "11111111-2222-3333-4444-555555555555"
LONG = "a" * 60


# The last signs are the first of `printf 'KIND\\nGROUP\\nNAME\\nUID' | sha1sum`.
@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [
        (Job, "train", "job-train-a24cf"),
        (Pod, "lone", "pod-lone-23503"),
        (Job, LONG, f"job-{LONG[:53]}-40952"),
        (Job, "a" * 52 + ".b", f"job-{'a' * 52}-420f8"),
    ],
    ids=["Job", "Pod", "long", "cut off after a point"],
)
def test_a_name_is_told_by_kind_group_name_and_uid(
    kind: type[Job | Pod], name: str, expected: str
) -> None:
    template: Document = {"spec": {"containers": []}}
    spec: Document = {"template": template} if kind is Job else {"containers": []}
    made = decode_as(kind, {"metadata": {"name": name, "uid": UID}, "spec": spec}).object
    assert made is not None

    assert name_of(made) == expected
    assert len(expected) <= 63
