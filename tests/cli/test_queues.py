"""`makeway queues` draws who owns, uses, borrows and waits."""

from __future__ import annotations

import json

from makeway.api.meta import ObjectMeta
from makeway.api.queueing import Cohort, CohortSpec
from makeway.cli.queues import forest_of
from tests.harness.cli import CliServer, said

SPEECH = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: speech}
spec:
  cohortName: lab
  namespaceSelector: {}
  stopPolicy: Hold
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors:
    - name: a100
      resources: [{name: nvidia.com/gpu, nominalQuota: 4, lendingLimit: 2}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Cohort
metadata: {name: lab}
spec: {parentName: campus}
"""


def used(total: int, borrowed: int) -> list[dict[str, object]]:
    gpus = {"name": "nvidia.com/gpu", "total": str(total), "borrowed": str(borrowed)}
    return [{"name": "a100", "resources": [gpus]}]


def test_a_bar_shows_used_borrowed_and_free(cli: CliServer) -> None:
    cli.apply(SPEECH)
    cli.queue_status(
        "vision",
        flavorsReservation=used(10, 2),
        pendingWorkloads=3,
        admittedWorkloads=2,
        reservingWorkloads=2,
        conditions=[said("Active")],
    )
    cli.queue_status("speech", flavorsReservation=used(1, 0))

    assert cli.run("queues").splitlines() == [
        "cohort campus",
        "│  a100 nvidia.com/gpu: 11 of 12 used, 2 of it lent",
        "└─ cohort lab",
        "   │  a100 nvidia.com/gpu: 11 of 12 used, 2 of it lent",
        "   ├─ speech  0 pending, 0 admitted  held",
        "   │     a100 nvidia.com/gpu  █████···············  1 of 4",
        "   └─ vision  3 pending, 2 admitted",
        "         a100 nvidia.com/gpu  ████████████████████▒▒▒▒▒  10 of 8, 2 borrowed",
        "         queue default/team  0 pending, 0 admitted",
    ]


def test_wide_has_limits_and_policies(cli: CliServer) -> None:
    cli.apply(SPEECH)

    printed = cli.run("queues", "speech", "-o", "wide")

    assert "0 of 4 (lends at most 2)" in printed
    assert "BestEffortFIFO; preempts within: Never" in printed
    assert "vision" not in printed


def test_an_inactive_queue_says_why(cli: CliServer) -> None:
    inactive = said("Active", "False", "FlavorNotFound", "flavor a100 is missing")
    cli.queue_status("vision", conditions=[inactive])

    assert "inactive: flavor a100 is missing" in cli.run("queues")


def test_a_queue_that_cannot_be_read_hides_no_other(cli: CliServer) -> None:
    cli.apply(SPEECH)
    cli.queue_status("speech", conditions=[said("Active") | {"lastTransitionTime": "noon"}])

    printed = cli.run("queues")

    assert "vision  0 pending, 0 admitted" in printed
    assert "makeway: can't read ClusterQueue speech of the server: status.conditions" in printed


def test_forms_for_programs(cli: CliServer) -> None:
    assert cli.run("queues", "-o", "name") == "clusterqueue.kueue.x-k8s.io/vision\n"
    items = json.loads(cli.run("queues", "-o", "json"))["items"]
    assert [item["kind"] for item in items] == ["ClusterQueue", "LocalQueue"]
    assert "there is no ClusterQueue nope" in cli.run("queues", "nope", code=1)


def test_a_queue_that_is_not_there_is_one_line(cli: CliServer) -> None:
    assert cli.run("queues", "nope", code=1) == "makeway: there is no ClusterQueue nope\n"
    nothing = cli.run("delete", "jobs", "-l", "team=nope")
    assert nothing == "there are no jobs to delete\n"


def test_without_queues_it_says_how_to_make_some(bare: CliServer) -> None:
    assert "`makeway apply -f FILE` makes some" in bare.run("queues")


def test_cohorts_in_a_circle_are_drawn_all_the_same() -> None:
    cohorts = [
        Cohort(metadata=ObjectMeta(name=name), spec=CohortSpec(parent_name=parent))
        for name, parent in (("a", "b"), ("b", "a"))
    ]

    assert [branch.name for branch in forest_of([], cohorts)] == ["a", "b"]
