"""What queues say of themselves."""

from typing import Any

from makeway.api.configuration import Configuration
from makeway.client import Resource
from makeway.client.resources import QUEUES
from makeway.controller.admission import Admission
from makeway.controller.queue_status import QueueStatus
from makeway.plane.parts import Done
from makeway.plane.picture import Picture
from makeway.plane.writes import Patch

Document = dict[str, Any]


class Desk:
    """Queue objects, and what is written into their status."""

    def __init__(self) -> None:
        self._picture, self._revision = Picture(), 0
        self._admission = Admission(self._picture, Configuration())
        self._part = QueueStatus(self._picture, self._admission.engine)

    def show(self, resource: Resource, generation: int, spec: Document) -> None:
        self._revision += 1
        metadata = {"name": "team", "uid": "1", "generation": generation}
        metadata = {**metadata, "resourceVersion": str(self._revision)}
        kind = {"apiVersion": resource.api_version, "kind": resource.kind}
        change = self._picture.take(resource, {**kind, "metadata": metadata, "spec": spec})
        assert change is not None
        self._admission.changed(change)
        self._part.changed(change)

    def conditions(self, now: float) -> dict[str, str]:
        """Of the one queue there is, as they are written now."""
        (write,) = self._part.act(now).writes
        assert isinstance(write, Patch)
        self._part.settled(write, Done(None), now)
        return {c["type"]: c["message"] for c in write.patch["status"]["conditions"]}


def test_what_is_not_supported_is_told_for_as_long_as_the_spec_has_it() -> None:
    desk = Desk()
    desk.show(QUEUES, 1, {})
    assert set(desk.conditions(now=10.0)) == {"Active"}

    desk.show(QUEUES, 2, {"admissionScope": {}})
    assert "admissionScope" in desk.conditions(now=20.0)["UnsupportedField"]

    desk.show(QUEUES, 3, {})
    assert set(desk.conditions(now=30.0)) == {"Active"}


def test_a_queue_that_lacks_something_names_it() -> None:
    desk = Desk()
    checks = [{"name": "budget"}, {"name": "audit"}]
    desk.show(QUEUES, 1, {"admissionChecksStrategy": {"admissionChecks": checks}})
    assert "a missing AdmissionCheck (budget, audit)" in desk.conditions(now=10.0)["Active"]

    flavor = {"name": "gone", "resources": [{"name": "cpu", "nominalQuota": "1"}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [flavor]}]
    desk.show(QUEUES, 2, {"resourceGroups": groups})
    assert "a missing ResourceFlavor (gone)" in desk.conditions(now=20.0)["Active"]
