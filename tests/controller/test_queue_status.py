"""What queues say of themselves."""

from typing import Any

from makeway.api.configuration import Configuration, FairSharingConfiguration
from makeway.api.kinds import COHORTS, LOCAL_QUEUES, QUEUES
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

    policy = {"mode": "All"}
    told = conditions(plane, concurrentAdmissionPolicy=policy)
    assert "concurrentAdmissionPolicy" in told["UnsupportedField"]

    assert set(conditions(plane, concurrentAdmissionPolicy=None)) == {"Active"}


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


def test_shares_stand_in_the_status_of_queues_and_cohorts_where_they_count() -> None:
    fair = Configuration(fair_sharing=FairSharingConfiguration())
    plane = QueuePlane(QueueStatus, configuration=fair)
    plane.create(COHORTS, {"metadata": {"name": "lab"}, "spec": {}})
    plane.create(COHORTS, {"metadata": {"name": "idle"}, "spec": {}})
    plane.submit("borrower", 6)  # 2 of the 8 in the tree
    plane.settle(plane.now + EVERY_S)

    def share(queue: str) -> int:
        return int(plane.get(QUEUES, Key("", queue))["status"]["fairSharing"]["weightedShare"])

    assert (share("a"), share("b")) == (250, 0)
    for cohort in ("lab", "idle"):
        status = plane.get(COHORTS, Key("", cohort))["status"]
        assert status == {"fairSharing": {"weightedShare": 0}}


def test_a_queue_of_no_weight_has_the_largest_share_there_is_when_it_borrows() -> None:
    fair = Configuration(fair_sharing=FairSharingConfiguration())
    plane = QueuePlane(QueueStatus, configuration=fair, fairSharing={"weight": "0"})
    plane.submit("borrower", 6)
    plane.settle(plane.now + EVERY_S)

    sharing = plane.get(QUEUES, A)["status"]["fairSharing"]
    assert sharing == {"weightedShare": 2**63 - 1}


def test_without_fair_sharing_no_share_is_told() -> None:
    plane = QueuePlane(QueueStatus)
    plane.submit("borrower", 6)
    plane.settle(plane.now + EVERY_S)

    assert "fairSharing" not in plane.get(QUEUES, A)["status"]


def test_a_queue_tells_of_which_spec_it_speaks() -> None:
    plane = QueuePlane(QueueStatus)
    conditions(plane, stopPolicy="Hold")

    found = plane.get(QUEUES, A)
    [active] = found["status"]["conditions"]
    assert (active["status"], active["observedGeneration"]) == ("False", 2)
    assert found["metadata"]["generation"] == 2
