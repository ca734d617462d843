"""Disruption budgets: how many pods may go, by number and by share."""

from __future__ import annotations

from typing import Any

import pytest

from makeway.client.resources import BUDGETS, JOBS, PODS
from makeway.controller.budgets import BudgetStatuses
from tests.controller.placing_lab import Lab

WEB = {"app": "web"}


def lab_with(*, ready: int, job: int = 0, **spec: Any) -> Lab:
    lab = Lab(BudgetStatuses)
    if job:
        template = {"spec": {"containers": [{"name": "main"}]}}
        metadata = {"name": "job", "namespace": "lab", "uid": "job"}
        lab.put(JOBS, {"metadata": metadata, "spec": {"parallelism": job, "template": template}})
    for index in range(ready):
        lab.pod(f"web-{index}", on="n1", labels=WEB, owner="job" if job else "")
    lab.budget("b", spec=spec, app="web")
    return lab


def numbers(lab: Lab) -> tuple[int, int, int, int]:
    status = lab.get(BUDGETS, "b")["status"]
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
    lab = lab_with(ready=ready, job=job, **spec)
    lab.run()
    assert numbers(lab) == wanted
    condition = lab.condition(BUDGETS, "b", "DisruptionAllowed")
    assert condition["status"] == ("True" if wanted[3] else "False")
    assert lab.get(BUDGETS, "b")["status"]["observedGeneration"] == 1
    writes = len(lab.written)
    lab.run()
    assert len(lab.written) == writes


def test_pods_that_are_not_ready_or_leave_are_not_healthy() -> None:
    lab = lab_with(ready=3, minAvailable=1)
    lab.pod("starting", on="n1", labels=WEB, ready=False)
    gone = lab.get(PODS, "web-0")
    marked = {**gone["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    lab.put(PODS, {**gone, "metadata": marked})
    lab.run()
    assert numbers(lab) == (4, 1, 2, 1)


def test_a_granted_eviction_is_charged_until_the_pod_leaves_or_stays_after_all() -> None:
    lab = lab_with(ready=3, minAvailable=1)
    lab.run()
    budget = lab.get(BUDGETS, "b")
    granted = {"web-0": "1970-01-01T00:16:40Z", "unknown": "1970-01-01T00:16:40Z"}  # second 1000
    lab.put(BUDGETS, {**budget, "status": {**budget["status"], "disruptedPods": granted}})
    lab.run()
    assert numbers(lab) == (3, 1, 2, 1)
    assert list(lab.get(BUDGETS, "b")["status"]["disruptedPods"]) == ["web-0"]
    lab.run(130)
    assert numbers(lab) == (3, 1, 3, 2)
    assert not lab.get(BUDGETS, "b")["status"]["disruptedPods"]


def test_a_pod_of_other_labels_is_no_matter() -> None:
    lab = lab_with(ready=2, minAvailable=1)
    lab.run()
    writes = len(lab.written)
    lab.pod("other", on="n1", labels={"app": "db"})
    lab.run()
    assert len(lab.written) == writes
