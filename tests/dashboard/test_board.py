"""Rows follow the picture: what changed is read once, whatever else there is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import orjson
import pytest

from makeway.api.codec import decode
from makeway.api.kinds import (
    COHORTS,
    JOBS,
    LOCAL_QUEUES,
    NODES,
    PODS,
    QUEUES,
    WORKLOADS,
    Resource,
)
from makeway.api.labels import QUEUE_NAME
from makeway.api.queueing import Workload
from makeway.dashboard.board import Board
from makeway.dashboard.units import seen
from makeway.plane import picture
from makeway.plane.picture import Picture
from makeway.plane.writes import Key
from tests.harness import documents
from tests.harness.documents import condition, requesting, template

NOW = 1_700_000_000.0


class Story:
    def __init__(self) -> None:
        self.picture = Picture()
        self.board = Board(self.picture, lambda: NOW)
        self._revision = 0

    def take(self, resource: Resource, document: dict[str, Any]) -> None:
        self._revision += 1
        metadata = {
            "uid": f"uid-{document['metadata']['name']}",
            "creationTimestamp": "2023-11-14T22:13:20Z",
            **document["metadata"],
            "resourceVersion": str(self._revision),
        }
        if resource.is_namespaced:
            metadata["namespace"] = "default"
        change = self.picture.take(resource, {**document, "metadata": metadata})
        assert change is not None
        self.board.changed(change)

    def lose(self, resource: Resource, name: str) -> None:
        self._revision += 1
        (key,) = [key for key in self.picture.keys(resource) if key.name == name]
        change = self.picture.lose(resource, key, self._revision)
        assert change is not None
        self.board.changed(change)

    def fresh(self, table: str) -> dict[str, Any]:
        """Rows that became different, by key; None: gone."""
        found = {row.key: row.body for row in self.board.refresh(1000) if row.table == table}
        return {key: orjson.loads(body) if body else None for key, body in found.items()}


def train(status: dict[str, Any] | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """A Job, and its Workload."""
    spec = template(containers=[requesting("2", command=["true"])])
    job = documents.job("train", {"labels": {QUEUE_NAME: "team"}}, template=spec, suspend=True)
    pod_sets = [{"name": "main", "count": 3, "template": spec}]
    workload = documents.workload("job-train", queueName="team", podSets=pod_sets)
    owner = {"metadata": {"uid": "uid-train", "name": "train"}, **_kind(job)}
    return job, {**documents.owned(workload, owner, controller=True), "status": status or {}}


def _kind(document: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": document["apiVersion"], "kind": document["kind"]}


def test_a_job_and_its_workload_are_one_row() -> None:
    story = Story()
    job, workload = train(
        {"conditions": [condition("QuotaReserved", "False", message="4 more needed")]}
    )
    story.take(LOCAL_QUEUES, documents.local_queue("team", "vision"))
    story.take(JOBS, job)
    story.take(WORKLOADS, workload)

    (row,) = story.fresh("jobs").values()

    assert row["key"] == "Job/default/train"
    assert (row["queue"], row["localQueue"]) == ("vision", "team")
    assert (row["status"], row["message"]) == ("pending", "4 more needed")
    assert row["asks"] == {"cpu": 6000}
    assert row["workload"] == "job-train"


def test_what_others_have_decoded_is_decoded_no_second_time_while_somebody_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However much changes at once: the picture by itself keeps 256 objects decoded."""
    story, decoded = Story(), list[str]()

    def noted(document: Any) -> Any:
        decoded.append(document["metadata"]["name"])
        return decode(document)

    monkeypatch.setattr(picture, "decode", noted)
    story.board.watch(lambda: None)
    names = [f"w{number}" for number in range(picture.WARM_MAX + 50)]
    story.take(LOCAL_QUEUES, documents.local_queue("team", "vision"))
    for name in names:
        story.take(WORKLOADS, documents.workload(name, queueName="team"))
        assert seen(story.picture, WORKLOADS, Key("default", name), Workload)  # the scheduler does
    rows = story.fresh("jobs")

    assert {row["queue"] for row in rows.values()} == {"vision"}
    assert len(rows) == len(names)
    assert [name for name in decoded if name != "team"] == names


def test_only_what_changed_is_told_again() -> None:
    story = Story()
    job, workload = train()
    story.take(JOBS, job)
    story.take(WORKLOADS, workload)
    story.take(QUEUES, documents.queue("vision", 4))
    assert len(story.board.refresh(1000)) == 2

    story.take(WORKLOADS, workload)  # written, and the same to a reader
    assert story.board.refresh(1000) == []

    _, admitted = train({"conditions": [condition("Admitted", "True")]})
    story.take(WORKLOADS, admitted)
    assert [row["status"] for row in story.fresh("jobs").values()] == ["admitted"]


def test_a_row_goes_with_its_last_object() -> None:
    story = Story()
    job, workload = train()
    story.take(JOBS, job)
    story.take(WORKLOADS, workload)
    story.fresh("jobs")

    story.lose(JOBS, "train")
    assert story.fresh("jobs") == {"Job/default/train": None}
    story.lose(WORKLOADS, "job-train")
    assert story.fresh("jobs") == {}
    assert story.board.rows() == []


def test_a_few_rows_are_read_at_a_time() -> None:
    story = Story()
    for number in range(10):
        story.take(WORKLOADS, documents.workload(f"w{number}", queueName="team", podSets=[]))

    assert len(story.board.refresh(4)) == 4
    assert story.board.backlog == 6
    assert len(story.board.refresh(100)) == 6
    assert len(story.board.rows()) == 10


def test_a_row_holds_on_to_no_more_than_it_says() -> None:
    """The encoder's own result would hold on to some 8 KB for each."""
    story, count = Story(), 3000
    for number in range(count):
        story.take(COHORTS, documents.queueing("Cohort", f"lab-{number}"))
    before = _resident_bytes()
    while story.board.backlog:
        story.board.refresh(50)

    assert len(story.board.rows()) == count
    assert _resident_bytes() - before < 4096 * count


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_node_tells_who_holds_what_of_it_until_the_pod_has_ended() -> None:
    story = Story()
    capacity = {"nvidia.com/gpu": "8", "cpu": "16"}
    story.take(NODES, {**documents.node("dgx"), "status": {"capacity": capacity}})
    held = {"annotations": {"makeway.dev/gpus": "nvidia.com/gpu=2,5"}}
    pod = documents.pod("train-0", held, containers=[requesting("2")], nodeName="dgx")
    story.take(PODS, pod)

    (row,) = story.fresh("nodes").values()
    assert row["allocatable"]["nvidia.com/gpu"] == 8
    (entry,) = row["pods"]
    assert (entry["pod"], entry["asks"]) == ("default/train-0", {"cpu": 2000})
    assert entry["devices"] == {"nvidia.com/gpu": [2, 5]}

    story.take(PODS, {**pod, "status": {"phase": "Succeeded"}})
    (row,) = story.fresh("nodes").values()
    assert row["pods"] == []


def test_what_cannot_be_read_is_left_out() -> None:
    story = Story()
    story.take(JOBS, {**_kind(train()[0]), "metadata": {"name": "odd"}, "spec": {"suspend": "no"}})

    assert story.fresh("jobs") == {}


def test_what_comes_and_goes_while_nobody_looks_leaves_nothing_behind() -> None:
    story = Story()
    for number in range(12_000):
        story.take(WORKLOADS, documents.workload(f"w{number}"))
        story.lose(WORKLOADS, f"w{number}")

    assert story.board.backlog <= 10_000
    assert story.board.refresh(20_000) == []
