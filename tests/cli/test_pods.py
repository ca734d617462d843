"""Commands about what stands in queues without a Job: pods, groups of pods, Workloads."""

from __future__ import annotations

import json

import pytest

from makeway.api.kinds import PODS, WORKLOADS
from tests.cli.test_jobs import SHORT
from tests.harness.cli import CliServer, rows_of, said

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: {name}
{labels}spec:
  restartPolicy: Never
  containers: [{{name: main, image: none, resources: {{requests: {{cpu: 1}}}}}}]
"""
OF_A_PAIR = """\
  labels: {kueue.x-k8s.io/queue-name: team, kueue.x-k8s.io/pod-group-name: pair}
  annotations: {kueue.x-k8s.io/pod-group-total-count: "2"}
"""
OF_ITSELF = """\
  labels: {kueue.x-k8s.io/queue-name: team}
"""
WAITS = said("QuotaReserved", "False", "WaitingForQuota", SHORT)
MAY_RUN = (said("QuotaReserved"), said("Admitted"))


@pytest.fixture
def solo(cli: CliServer) -> CliServer:
    cli.apply(POD.format(name="solo", labels=OF_ITSELF))
    return cli


@pytest.fixture
def pair(cli: CliServer) -> CliServer:
    """Two pods of a group."""
    for name in ("leader", "worker"):
        cli.apply(POD.format(name=name, labels=OF_A_PAIR))
    return cli


def test_a_pod_is_listed_with_what_it_waits_for(solo: CliServer) -> None:
    solo.enqueue_pod("solo", WAITS)

    row = solo.run("status")

    shown = rows_of(row)["solo"]
    assert [shown[t] for t in ("ID", "QUEUE", "STATUS")] == ["-", "team", "pending"]
    (item,) = json.loads(solo.run("status", "-o", "json"))["items"]
    assert (item["kind"], item["workload"], item["message"]) == ("Pod", "pod-solo", SHORT)
    assert solo.run("status", "-o", "name") == "pod/solo\n"


def test_a_group_is_one_line_from_its_first_pod_on(pair: CliServer) -> None:
    assert "2 of 2 pods of its group are there" in pair.run("status")

    pair.enqueue_group("pair", "leader", *MAY_RUN)
    pair.pod_status("leader", phase="Running", conditions=[said("Ready")])

    assert list(rows_of(pair.run("status"))) == ["pair"]
    assert rows_of(pair.run("status"))["pair"]["STATUS"] == "running"


def test_a_workload_for_itself_is_listed_too(solo: CliServer) -> None:
    solo.enqueue_group("bare", "solo", WAITS)
    solo.run("cancel", "solo", "-y")

    shown = rows_of(solo.run("status"))["bare"]
    assert (shown["QUEUE"], shown["STATUS"]) == ("team", "pending")


def test_a_pod_that_has_ended_is_history(solo: CliServer) -> None:
    solo.enqueue_pod("solo", *MAY_RUN, said("Finished", reason="Failed", message="Pod failed"))
    ended = {"exitCode": 3, "finishedAt": "2026-01-01T00:00:00Z"}
    state = {"name": "main", "state": {"terminated": ended}, "restartCount": 0}
    solo.pod_status("solo", phase="Failed", containerStatuses=[state])

    assert "there is no job" in solo.run("status")
    shown = rows_of(solo.run("history"))["solo"]
    assert (shown["STATUS"], shown["EXIT"]) == ("failed", "3")


@pytest.mark.parametrize("word", ["solo", "pod/solo", "pod-solo", "default/solo"])
def test_a_pod_is_explained_by_its_name_or_its_workloads(solo: CliServer, word: str) -> None:
    solo.enqueue_pod("solo", WAITS)

    assert f"solo is pending: {SHORT}" in solo.run("explain", word)


@pytest.mark.parametrize("word", ["pair", "leader", "pod/worker"])
def test_a_group_is_explained_by_its_name_or_a_pods(pair: CliServer, word: str) -> None:
    assert "group pair shall go to LocalQueue team; 2 of 2 pods" in pair.run("explain", word)

    pair.enqueue_group("pair", "leader", WAITS)

    assert f"pair is pending: {SHORT}" in pair.run("explain", word)


def test_a_pod_in_no_queue_is_nobodys_job(cli: CliServer) -> None:
    cli.apply(POD.format(name="other", labels=""))

    assert "pod other is in no queue" in cli.run("cancel", "other", code=1)
    assert cli.has(PODS, "other")


def test_a_pod_is_cancelled_and_its_workload_goes_with_it(solo: CliServer) -> None:
    solo.enqueue_pod("solo", WAITS)

    assert "pod solo cancelled" in solo.run("cancel", "solo")

    assert not solo.has(PODS, "solo")


def test_a_group_is_cancelled_as_a_whole(pair: CliServer) -> None:
    pair.enqueue_group("pair", "leader", WAITS)

    assert "belongs to group pair; cancel that" in pair.run("cancel", "leader", code=1)
    assert pair.has(PODS, "leader")
    assert "group pair cancelled" in pair.run("cancel", "pair")

    assert not any(pair.has(PODS, name) for name in ("leader", "worker"))
    assert not pair.has(WORKLOADS, "pair")


def test_cancelling_all_takes_pods_along(pair: CliServer) -> None:
    pair.run("submit", "--name", "train", "--", "true")

    told = pair.run("cancel", "--all", "-y")

    assert "(train) cancelled" in told
    assert "group pair cancelled" in told


def test_what_the_pods_of_a_group_have_printed_begins_with_their_names(pair: CliServer) -> None:
    pair.enqueue_group("pair", "leader", WAITS)
    waits = pair.run("logs", "pair", code=1)
    assert f"group pair has printed nothing, it is pending: {SHORT}" in waits

    for name in ("leader", "worker"):
        pair.release(name)
        pair.printed(name, f"hello from {name}\n")

    assert pair.run("logs", "pair") == ("[leader] hello from leader\n[worker] hello from worker\n")
    assert pair.run("logs", "pair", "--pod", "worker") == "hello from worker\n"
