"""Why is my job not running? Asked by `makeway explain` of every kind of waiting job."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from makeway.api.kinds import (
    CHECKS,
    FLAVORS,
    JOBS,
    LOCAL_QUEUES,
    NAMESPACES,
    QUEUES,
    WORKLOAD_CLASSES,
    WORKLOADS,
)
from makeway.client import Client
from tests.harness.documents import flavor, local_queue, queue
from tests.harness.process import API, Up, end_pods, job, running_on, wait_until

BOX = {"cpu": "8", "memory": "16Gi"}
LONG = "sleep 600"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("explain")
    with running_on(BOX, folder) as started:
        asyncio.run(fill(started.client()))
        yield started
    end_pods(started.folder)


async def fill(client: Client) -> None:
    """One queue for every kind of waiting, and a job in each."""
    tainted = {**flavor("tainted"), "spec": {"nodeTaints": [taint()]}}
    for document in (flavor("default"), tainted):
        await client.create(FLAVORS, document)
    for name, value in (("high", 1000), ("low", 1)):
        klass = {"apiVersion": API, "kind": "WorkloadPriorityClass", "metadata": {"name": name}}
        await client.create(WORKLOAD_CLASSES, {**klass, "value": value})
    check = {"apiVersion": API, "kind": "AdmissionCheck", "metadata": {"name": "budget"}}
    await client.create(CHECKS, {**check, "spec": {"controllerName": "example.com/budget"}})
    active = {"type": "Active", "status": "True", "reason": "Active", "message": "ready"}
    active["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    patch = {"status": {"conditions": [active]}}
    await client.patch(CHECKS, "budget", patch=patch, subresource="status")
    await client.create(NAMESPACES, {"metadata": {"name": "outside"}})
    for name, spec in SPECS.items():
        await client.create(QUEUES, queue(name, "2", **spec))
        await client.create(LOCAL_QUEUES, local_queue(name, name))
    outside = {**local_queue("picky", "picky")}
    outside["metadata"] = {"name": "picky", "namespace": "outside"}
    await client.create(LOCAL_QUEUES, outside)
    for document in jobs():
        await client.create(JOBS, document)
    await client.close()


def taint() -> dict[str, str]:
    return {"key": "reserved", "value": "others", "effect": "NoSchedule"}


def tainted_group() -> list[dict[str, Any]]:
    quota = {"name": "cpu", "nominalQuota": "2"}
    flavors = [{"name": "tainted", "resources": [quota]}]
    return [{"coveredResources": ["cpu"], "flavors": flavors}]


SPECS: dict[str, dict[str, Any]] = {
    "full": {},
    "small": {},
    "guarded": {"resourceGroups": tainted_group()},
    "stopped": {"stopPolicy": "Hold"},
    "checked": {"admissionChecksStrategy": {"admissionChecks": [{"name": "budget"}]}},
    "strict": {"queueingStrategy": "StrictFIFO"},
    "picky": {"namespaceSelector": {"matchLabels": {"team": "vision"}}},
    "held": {},
    "wide": {
        "resourceGroups": [
            {
                "coveredResources": ["cpu"],
                "flavors": [
                    {"name": "default", "resources": [{"name": "cpu", "nominalQuota": "100"}]}
                ],
            }
        ]
    },
    "missing-flavor": {
        "resourceGroups": [
            {
                "coveredResources": ["cpu"],
                "flavors": [{"name": "gone", "resources": [{"name": "cpu", "nominalQuota": "2"}]}],
            }
        ]
    },
}


def jobs() -> Iterator[dict[str, Any]]:
    yield job("holder", LONG, queue="full", cpu="2")
    yield job("no-quota", LONG, queue="full", cpu="1")
    yield job("too-big", LONG, queue="small", cpu="5")
    yield job("huge", LONG, queue="small", cpu="1e30")
    yield job("no-toleration", LONG, queue="guarded")
    yield job("in-stopped-queue", LONG, queue="stopped")
    yield job("nowhere", LONG, queue="nowhere")
    yield job("unchecked", LONG, queue="checked")
    yield ranked("strict-head", "high", queue="strict", cpu="5")
    yield job("behind-head", LONG, queue="strict", cpu="1")
    yield with_memory(job("not-covered", LONG, queue="small"))
    yield job("no-node", LONG, queue="wide", cpu="20")
    yield job("lost-flavor", LONG, queue="missing-flavor")
    yield job("put-off", LONG, queue="held")
    foreign = job("foreign", LONG, queue="picky")
    foreign["metadata"]["namespace"] = "outside"
    yield foreign
    yield job("unqueued", LONG)


def with_memory(document: dict[str, Any]) -> dict[str, Any]:
    container = document["spec"]["template"]["spec"]["containers"][0]
    container["resources"]["requests"]["memory"] = "1Gi"
    return document


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "no-quota",
            ("1 more needed", "- job holder (ClusterQueue ", "- the end of job holder\n"),
        ),
        ("huge", ("> maximum capacity (2)",)),
        ("too-big", ("maximum capacity (2)", "a request for at most 2 cpu", "3 cpu more quota")),
        ("no-toleration", ("untolerated taint", "- a toleration of reserved=others")),
        ("in-stopped-queue", ("inactive: Stopped", "resume clusterqueue stopped")),
        ("nowhere", ("LocalQueue nowhere doesn't exist", "there are: default/")),
        ("unchecked", ("holds quota", "Admission checks are open: budget is Pending")),
        ("behind-head", ("position in queue: 1", "Nobody passes the head of a StrictFIFO queue")),
        ("not-covered", ("resource memory unavailable", "covers: cpu")),
        ("no-node", ("is admitted", "no node", "The largest node has 8 cpu: box; ")),
        ("lost-flavor", ("missing-flavor is inactive: FlavorNotFound (gone)",)),
        ("unqueued", ("is in no queue",)),
    ],
)
def test_what_is_missing_who_holds_it_and_what_would_help(
    up: Up, name: str, said: tuple[str, ...]
) -> None:
    def answers() -> str | None:
        text = up.makeway("explain", name)
        return text if all(part in text for part in said) else None

    assert wait_until(answers)


def test_a_namespace_that_the_queue_does_not_take(up: Up) -> None:
    def answers() -> str | None:
        text = up.makeway("explain", "foreign", "--namespace", "outside")
        return text if "namespace (outside) doesn't match ClusterQueue selector" in text else None

    assert wait_until(answers)


def test_a_job_that_was_put_on_hold(up: Up) -> None:
    up.makeway("hold", "put-off")

    assert wait_until(lambda: "is not active" in up.makeway("explain", "put-off"))
    assert "`makeway resume put-off` lets it try again" in up.makeway("explain", "put-off")


def test_a_check_that_says_no_is_quoted(up: Up) -> None:
    asyncio.run(reject(up.client(), "refused"))

    rejected = 'AdmissionCheck in Rejected state: "budget" (no money left)'
    assert wait_until(lambda: said(up, "explain", "refused", rejected))
    assert wait_until(lambda: said(up, "status", "-o", "wide", "no money left"))


async def reject(client: Client, name: str) -> None:
    await client.create(JOBS, job(name, LONG, queue="checked", cpu="1"))
    while not (found := [w for w in (await client.list(WORKLOADS)).items if is_checked(w, name)]):
        await asyncio.sleep(0.05)
    check = {"name": "budget", "state": "Rejected", "message": "no money left"}
    patch = {
        "status": {"admissionChecks": [check | {"lastTransitionTime": "2026-01-01T00:00:00Z"}]}
    }
    workload = found[0]["metadata"]["name"]
    await client.patch(WORKLOADS, workload, "default", patch=patch, subresource="status")
    await client.close()


def is_checked(workload: dict[str, Any], job: str) -> bool:
    checks = (workload.get("status") or {}).get("admissionChecks")
    return job in workload["metadata"]["name"] and bool(checks)


def test_who_took_my_place(up: Up, tmp_path: Path) -> None:
    asyncio.run(preempt(up.client()))

    rule = "due to prioritization in the ClusterQueue"
    text = wait_until(lambda: said(up, "explain", "meek", rule))

    assert "job-bold" in text


async def preempt(client: Client) -> None:
    policy = {"withinClusterQueue": "LowerPriority"}
    await client.create(QUEUES, queue("ranked", "1", preemption=policy))
    await client.create(LOCAL_QUEUES, local_queue("ranked", "ranked"))
    await client.create(JOBS, ranked("meek", "low"))
    while not any(
        c["type"] == "Admitted" and c["status"] == "True"
        for w in (await client.list(WORKLOADS)).items
        if "meek" in w["metadata"]["name"]
        for c in (w.get("status") or {}).get("conditions") or ()
    ):
        await asyncio.sleep(0.05)
    await client.create(JOBS, ranked("bold", "high"))
    await client.close()


def ranked(name: str, klass: str, *, queue: str = "ranked", cpu: str = "1") -> dict[str, Any]:
    document = job(name, LONG, queue=queue, cpu=cpu)
    document["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = klass
    return document


def said(up: Up, *command: str) -> str | None:
    *words, part = command
    text = up.makeway(*words)
    return text if part in text else None
