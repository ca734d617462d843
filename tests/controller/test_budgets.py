"""Disruption budgets: how many pods may go, by number and by share."""

from __future__ import annotations

from typing import Any

import pytest

from makeway.api.kinds import BUDGETS, JOBS, PODS
from makeway.controller.budgets import BudgetStatuses
from tests.harness.placing import PlacingPlane

WEB = {"app": "web"}


def lab_with(*, ready: int, job: int = 0, **spec: Any) -> PlacingPlane:
    plane = PlacingPlane(BudgetStatuses)
    if job:
        template = {"spec": {"containers": [{"name": "main"}]}}
        metadata = {"name": "job", "namespace": "lab", "uid": "job"}
        plane.put(JOBS, {"metadata": metadata, "spec": {"parallelism": job, "template": template}})
    for index in range(ready):
        plane.pod(f"web-{index}", on="n1", labels=WEB, owner="job" if job else "")
    plane.budget("b", spec=spec, app="web")
    return plane


def numbers(plane: PlacingPlane) -> tuple[int, int, int, int]:
    status = plane.get(BUDGETS, "b")["status"]
    names = ("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed")
    expected, desired, healthy, allowed = (status[name] for name in names)
    return expected, desired, healthy, allowed


@pytest.mark.parametrize(
    ("ready", "job", "spec", "wanted"),
    [
        pytest.param(3, 0, {"minAvailable": 2}, (3, 2, 3, 1), id="at least 2 of 3"),
        pytest.param(3, 0, {"minAvailable": "50%"}, (3, 2, 3, 1), id="at least half of 3"),
        pytest.param(3, 4, {"minAvailable": "50%"}, (4, 2, 3, 1), id="at least half of a job of 4"),
        pytest.param(3, 4, {"maxUnavailable": 1}, (4, 3, 3, 0), id="one lost already"),
        pytest.param(4, 4, {"maxUnavailable": "30%"}, (4, 2, 4, 2), id="shares round up"),
        pytest.param(0, 0, {"minAvailable": 0}, (0, 0, 0, 0), id="nobody there"),
    ],
)
def test_numbers_of_a_budget(
    ready: int, job: int, spec: dict[str, Any], wanted: tuple[int, int, int, int]
) -> None:
    plane = lab_with(ready=ready, job=job, **spec)
    plane.run()
    assert numbers(plane) == wanted
    condition = plane.condition(BUDGETS, "b", "DisruptionAllowed")
    assert condition["status"] == ("True" if wanted[3] else "False")
    assert plane.get(BUDGETS, "b")["status"]["observedGeneration"] == 1
    writes = len(plane.sent)
    plane.run()
    assert len(plane.sent) == writes


def test_pods_that_are_not_ready_or_leave_are_not_healthy() -> None:
    plane = lab_with(ready=3, minAvailable=1)
    plane.pod("starting", on="n1", labels=WEB, ready=False)
    gone = plane.get(PODS, "web-0")
    marked = {**gone["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    plane.put(PODS, {**gone, "metadata": marked})
    plane.run()
    assert numbers(plane) == (4, 1, 2, 1)


def test_a_granted_eviction_is_charged_until_the_pod_leaves_or_stays_after_all() -> None:
    plane = lab_with(ready=3, minAvailable=1)
    plane.run()
    budget = plane.get(BUDGETS, "b")
    granted = {"web-0": "1970-01-01T00:16:40Z", "unknown": "1970-01-01T00:16:40Z"}  # second 1000
    plane.put(BUDGETS, {**budget, "status": {**budget["status"], "disruptedPods": granted}})
    plane.run()
    assert numbers(plane) == (3, 1, 2, 1)
    assert list(plane.get(BUDGETS, "b")["status"]["disruptedPods"]) == ["web-0"]
    plane.run(130)
    assert numbers(plane) == (3, 1, 3, 2)
    assert not plane.get(BUDGETS, "b")["status"]["disruptedPods"]


def test_a_pod_of_other_labels_is_no_matter() -> None:
    plane = lab_with(ready=2, minAvailable=1)
    plane.run()
    writes = len(plane.sent)
    plane.pod("other", on="n1", labels={"app": "db"})
    plane.run()
    assert len(plane.sent) == writes
