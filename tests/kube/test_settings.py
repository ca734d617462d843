"""What the configuration, a namespace and classes say of Jobs, on a real API server."""

import contextlib
from typing import Any

from makeway.api.kinds import (
    JOBS,
    LIMIT_RANGES,
    PODS,
    RUNTIME_CLASSES,
    WORKLOAD_CLASSES,
    WORKLOADS,
)
from makeway.api.labels import PRIORITY_CLASS
from makeway.client import NotFound
from tests.kube.seeds import Lab, condition_of, story

ONE_BY_ONE = {"waitForPodsReady": {"timeout": "1m", "blockAdmission": True}}
KEPT_SHORTLY = {
    "objectRetentionPolicies": {
        "workloads": {"afterFinished": "1s", "afterDeactivatedByKueue": "1s"}
    },
    "waitForPodsReady": {"timeout": "1s", "requeuingStrategy": {"backoffLimitCount": 0}},
}
ALL_MANAGED = {"manageJobsWithoutQueueName": True}


async def asked(lab: Lab, job: str) -> str:
    """How much cpu its admission counts; empty: it has none."""
    status = (await lab.workload(job)).get("status") or {}
    for assigned in (status.get("admission") or {}).get("podSetAssignments") or ():
        return str(assigned["resourceUsage"]["cpu"])
    return ""


async def plain(lab: Lab, name: str, *, pods: int = 1, **spec: Any) -> None:
    """A Job whose container asks for nothing."""
    containers = [{"name": "main", "image": "none"}]
    await lab.submit(name, queue="team", pods=pods, containers=containers, nodeSelector={}, **spec)


async def alone(lab: Lab) -> None:
    """Without what the stories before have left behind: pods that will never be ready."""
    for resource in (JOBS, PODS):
        for found in (await lab.client.list(resource)).items:
            name, namespace = found["metadata"]["name"], found["metadata"]["namespace"]
            with contextlib.suppress(NotFound):
                await lab.client.delete(resource, name, namespace, grace_s=0)

    async def claim() -> bool:
        left = (await lab.client.list(WORKLOADS)).items
        return not any((workload.get("status") or {}).get("admission") for workload in left)

    await lab.until(claim, "nobody else holds quota")


@story()
async def test_what_a_limit_range_gives_to_pods_is_counted(lab: Lab) -> None:
    await lab.queue_with("team", {"cpu": 4})
    item = {"type": "Container", "defaultRequest": {"cpu": "3"}}
    await lab.create(LIMIT_RANGES, {"metadata": {"name": "usual"}, "spec": {"limits": [item]}})
    await plain(lab, "large", pods=3)  # 9 cpu
    await lab.until_waits("large")
    await plain(lab, "small")
    await lab.until_running("small", 1)

    assert await asked(lab, "small") == "3"
    [pod] = await lab.pods("small")
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "3"}
    assert await asked(lab, "large") == ""


@story()
async def test_the_overhead_of_a_runtime_class_is_counted(lab: Lab) -> None:
    await lab.queue_with("team", {"cpu": 4})
    name = lab.full("kata")
    overhead = {"handler": "kata", "overhead": {"podFixed": {"cpu": "1"}}}
    await lab.create(RUNTIME_CLASSES, {"metadata": {"name": name}, **overhead})
    await lab.submit("train", queue="team", pods=1, nodeSelector={}, runtimeClassName=name)
    await lab.until_running("train", 1)

    assert await asked(lab, "train") == "2"


@story()
async def test_another_value_of_a_class_reaches_who_runs(lab: Lab) -> None:
    name = lab.full("urgent")
    await lab.create(WORKLOAD_CLASSES, {"metadata": {"name": name}, "value": 100})
    await lab.queue_with("team", {"cpu": 1})
    await lab.submit("train", queue="team", pods=1, nodeSelector={}, labels={PRIORITY_CLASS: name})
    await lab.until_running("train", 1)

    await lab.client.patch(WORKLOAD_CLASSES, name, patch={"value": 7})

    async def claim() -> bool:
        return bool((await lab.workload("train"))["spec"]["priority"] == 7)

    await lab.until(claim, "train has the priority of its class")


@story(ONE_BY_ONE)
async def test_one_job_after_the_other_each_when_the_last_has_its_pods(lab: Lab) -> None:
    await alone(lab)
    await lab.queue_with("team", {"cpu": 2})
    lab.dry.add("first")
    await lab.work("first")
    await lab.until_assigned("first", "cpu")
    await lab.work("second")
    await lab.until_waits("second")
    waits = condition_of(await lab.workload("second"), "QuotaReserved")
    assert waits["reason"] == "WaitingForPodsReady"

    lab.dry.clear()

    await lab.until_running("first", 1)
    await lab.until_running("second", 1)


@story(ALL_MANAGED)
async def test_a_job_without_a_queue_waits_for_one_where_all_are_managed(lab: Lab) -> None:
    await lab.queue_with("team", {"cpu": 1})
    await lab.submit("lost", queue="", pods=1, nodeSelector={}, is_suspended=False)
    await lab.until_suspended("lost")
    await lab.until_waits("lost")

    patch = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "team"}}}
    await lab.client.patch(JOBS, "lost", lab.namespace, patch=patch)

    await lab.until_running("lost", 1)


@story(KEPT_SHORTLY)
async def test_what_is_over_goes_after_its_time(lab: Lab) -> None:
    await lab.queue_with("team", {"cpu": 2})
    lab.dry.add("hopeless")
    await lab.work("done")
    await lab.until_running("done", 1)
    lab.finish("done")
    await lab.work("hopeless")  # never ready, and tried once only

    async def claim() -> bool:
        jobs = {
            job["metadata"]["name"] for job in (await lab.client.list(JOBS, lab.namespace)).items
        }
        workloads = (await lab.client.list(WORKLOADS, lab.namespace)).items
        return jobs == {"done"} and not workloads

    await lab.until(claim, "the Workload of done is gone, and hopeless as a whole")
