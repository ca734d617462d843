"""What queues say of themselves."""

from typing import Any

from makeway.api.kinds import LOCAL_QUEUES, QUEUES
from makeway.controller.queue_status import EVERY_S, QueueStatus
from makeway.plane.writes import Key
from tests.harness.queues import QueuePlane

A = Key("", "a")


def conditions(plane: QueuePlane, **spec: Any) -> dict[str, str]:
    """Messages by type, of a queue that is edited."""
    plane.edit(QUEUES, A, {"spec": spec})
    plane.settle(plane.now + EVERY_S)
    return {c["type"]: c["message"] for c in plane.get(QUEUES, A)["status"]["conditions"]}


def test_what_is_not_supported_is_told_for_as_long_as_the_spec_has_it() -> None:
    plane = QueuePlane(QueueStatus)
    assert set(conditions(plane)) == {"Active"}

    scope = {"admissionMode": "UsageBasedAdmissionFairSharing"}
    assert "admissionScope" in conditions(plane, admissionScope=scope)["UnsupportedField"]

    assert set(conditions(plane, admissionScope=None)) == {"Active"}


def test_a_queue_that_lacks_something_names_it() -> None:
    plane = QueuePlane(QueueStatus)
    checks = {"admissionChecks": [{"name": "budget"}, {"name": "audit"}]}
    told = conditions(plane, admissionChecksStrategy=checks)
    assert "a missing AdmissionCheck (budget, audit)" in told["Active"]

    flavor = {"name": "gone", "resources": [{"name": "cpu", "nominalQuota": "1"}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [flavor]}]
    told = conditions(plane, resourceGroups=groups, admissionChecksStrategy=None)
    assert "a missing ResourceFlavor (gone)" in told["Active"]


def test_a_queue_and_its_door_say_what_is_reserved_and_what_is_used() -> None:
    plane = QueuePlane(QueueStatus)
    plane.submit("train", 3)
    plane.settle()
    plane.settle(plane.now + EVERY_S)

    for kind, key in ((QUEUES, A), (LOCAL_QUEUES, Key("lab", "a"))):
        status = plane.get(kind, key)["status"]
        for name in ("flavorsReservation", "flavorsUsage"):
            [usage] = status[name]
            assert (usage["name"], usage["resources"][0]["total"]) == ("any", "3")
