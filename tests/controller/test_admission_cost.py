"""How much Admission and its neighbours do for a change: counts, not seconds."""

from __future__ import annotations

import pytest

from makeway.api.codec import decode
from makeway.api.kinds import LOCAL_QUEUES, QUEUES, WORKLOADS
from makeway.client.client import Document
from makeway.controller.telling import ON_THEIR_WAY_MAX
from makeway.engine import events as ev
from makeway.engine.decisions import Cycle
from makeway.engine.model import Changes
from makeway.plane.writes import Key
from tests.harness.placing import PlacingPlane
from tests.harness.queues import QueuePlane


class Ear:
    """Hears what the engine is told."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def heard(self, event: ev.Event, changes: Changes) -> None:
        self.events.append(type(event).__name__)

    def begins(self, now: float) -> None: ...

    def ended(self, cycle: Cycle, now: float) -> None: ...


def test_what_a_queue_says_of_itself_is_no_news_to_the_engine() -> None:
    plane = QueuePlane()
    plane.settle()
    ear = Ear()
    plane.admission.observers.append(ear)
    plane.edit(QUEUES, Key("", "a"), {"status": {"pendingWorkloads": 7}}, "status")
    plane.edit(LOCAL_QUEUES, Key("lab", "a"), {"status": {"pendingWorkloads": 7}}, "status")
    assert ear.events == []
    plane.edit(LOCAL_QUEUES, Key("lab", "a"), {"spec": {"stopPolicy": "Hold"}})
    assert ear.events == ["LocalQueueChanged"]


def test_of_many_writes_only_so_many_are_on_their_way() -> None:
    plane = QueuePlane(stopPolicy="Hold")
    for number in range(ON_THEIR_WAY_MAX + 100):
        plane.submit(f"w-{number}", 1)
    planned = 0
    for _ in range(50):
        plane.now += 1
        planned += len(plane.admission.act(plane.now).writes)
    assert planned == ON_THEIR_WAY_MAX


def test_placing_reads_only_workloads_that_may_run(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counted(document: Document) -> object:
        read.append(document["metadata"]["name"])
        return decode(document)

    monkeypatch.setattr("makeway.plane.picture.decode", counted)
    plane = PlacingPlane()
    for name, types in (("waits", ()), ("runs", ("Admitted",)), ("ran", ("Admitted", "Finished"))):
        conditions = [{"type": type, "status": "True"} for type in types]
        document = {"metadata": {"name": name, "namespace": "lab"}, "spec": {"podSets": []}}
        plane.put(WORKLOADS, {**document, "status": {"conditions": conditions}})
    assert read == ["runs"]
