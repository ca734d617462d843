"""Admission checks of a queue, and what stands about them in the status of Workloads."""

from __future__ import annotations

from makeway.api.kinds import CHECKS, QUEUES
from makeway.client.client import Document
from makeway.plane.writes import Key
from tests.harness.documents import condition
from tests.harness.queues import QueuePlane


def checking(*names: str) -> Document:
    return {"admissionChecksStrategy": {"admissionChecks": [{"name": name} for name in names]}}


def plane_with(*checks: str) -> QueuePlane:
    """Both queues ask the first of these checks; somebody answers for each of them."""
    plane = QueuePlane(**checking(checks[0]))
    for name in checks:
        plane.create(CHECKS, {"metadata": {"name": name}, "spec": {"controllerName": "x"}})
        active = {"status": {"conditions": [condition("Active")]}}
        plane.edit(CHECKS, Key("", name), active, "status")
    return plane


def ask(plane: QueuePlane, *names: str) -> None:
    """The administrator has queue a ask these checks from now on."""
    plane.edit(QUEUES, Key("", "a"), {"spec": checking(*names)})
    plane.settle()


def states(plane: QueuePlane, name: str = "train") -> dict[str, str]:
    found = plane.status(name).get("admissionChecks") or ()
    return {check["name"]: check["state"] for check in found}


def entry(plane: QueuePlane, check: str) -> Document:
    found = plane.status("train")["admissionChecks"]
    return dict(next(state for state in found if state["name"] == check))


def answer(plane: QueuePlane, check: str, state: str, **more: object) -> None:
    """The controller of a check changes its entry, if there is one."""
    found = plane.status("train")["admissionChecks"]
    said = {"state": state, "message": "says the story", **more}
    changed = [{**there, **said} if there["name"] == check else there for there in found]
    plane.tell("train", admissionChecks=changed)
    plane.settle()


def test_a_check_that_is_added_is_asked_of_those_who_have_reserved() -> None:
    plane = plane_with("budget", "licence")
    plane.submit("train", 2)
    plane.settle()
    assert states(plane) == {"budget": "Pending"}

    ask(plane, "budget", "licence")
    assert states(plane) == {"budget": "Pending", "licence": "Pending"}

    answer(plane, "budget", "Ready")
    assert plane.admitted() == set()
    answer(plane, "licence", "Ready")
    assert plane.admitted() == {"train"}


def test_a_check_that_is_replaced_is_asked_no_more() -> None:
    plane = plane_with("budget", "licence")
    plane.submit("train", 2)
    plane.settle()
    answer(plane, "budget", "Pending")  # it has begun

    ask(plane, "licence")

    assert states(plane) == {"licence": "Pending"}
    answer(plane, "licence", "Ready")
    assert plane.admitted() == {"train"}


def test_who_runs_goes_on_though_a_check_is_added_until_it_says_no() -> None:
    plane = plane_with("budget", "licence")
    plane.submit("train", 2, owned=True)
    plane.settle()
    answer(plane, "budget", "Ready")

    ask(plane, "budget", "licence")
    assert states(plane) == {"budget": "Ready", "licence": "Pending"}
    assert plane.admitted() == {"train"}

    answer(plane, "licence", "Retry")
    assert plane.condition_of("train", "Evicted") == ("True", "AdmissionCheck")


def test_a_check_that_was_added_while_nobody_looked_is_asked() -> None:
    plane = plane_with("budget", "licence")
    plane.submit("train", 2)
    plane.settle()
    plane.is_late = True
    plane.edit(QUEUES, Key("", "a"), {"spec": checking("budget", "licence")})

    plane.restart()
    plane.is_late = False
    plane.settle()

    assert states(plane) == {"budget": "Pending", "licence": "Pending"}


def test_after_a_retry_the_checks_stand_as_pending_with_the_number_of_retries() -> None:
    plane = plane_with("budget", "licence")
    ask(plane, "budget", "licence")
    plane.submit("train", 2, owned=True)
    plane.settle()
    answer(plane, "licence", "Ready")

    answer(plane, "budget", "Retry", requeueAfterSeconds=60)

    assert states(plane) == {"budget": "Pending", "licence": "Pending"}
    assert entry(plane, "budget")["retryCount"] == 1
    assert entry(plane, "budget")["requeueAfterSeconds"] == 60
    assert entry(plane, "budget")["message"].endswith("Previously: Retry")
    assert "retryCount" not in entry(plane, "licence")


def test_every_retry_counts() -> None:
    plane = plane_with("budget")
    plane.submit("train", 2, owned=True)
    plane.settle()
    for times in (1, 2, 3):
        answer(plane, "budget", "Retry", requeueAfterSeconds=1)
        plane.let_go("train")
        plane.settle(plane.now + 2)

        assert plane.condition_of("train", "QuotaReserved")[0] == "True"
        assert entry(plane, "budget")["state"] == "Pending"
        assert entry(plane, "budget")["retryCount"] == times

    answer(plane, "budget", "Ready")
    assert plane.admitted() == {"train"}
    assert entry(plane, "budget")["retryCount"] == 3


def test_an_answer_to_an_earlier_stay_does_not_count_for_the_next() -> None:
    plane = plane_with("budget")
    plane.submit("train", 2, owned=True)
    plane.settle()
    answer(plane, "budget", "Ready")
    plane.add_condition("train", "Evicted", "True", "Preempted")  # by somebody else
    plane.settle()

    plane.let_go("train")
    plane.settle()

    assert plane.condition_of("train", "QuotaReserved")[0] == "True"
    assert states(plane) == {"budget": "Pending"}
    assert plane.admitted() == set()
