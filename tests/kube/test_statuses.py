"""What stands in the status of a Workload, on a real API server, beside others who write there."""

import hashlib
from typing import Any

import pytest

from makeway.api.kinds import COHORTS, EVENTS, QUEUES, WORKLOADS
from makeway.api.labels import MAX_EXEC_TIME
from makeway.client import ApiError
from tests.kube.cluster import Document, container
from tests.kube.seeds import Lab, condition_of, story

GPU = "example.com/gpu"


async def with_gpus(lab: Lab, count: str) -> None:
    """A queue of 4 CPUs and so many GPUs, of the flavor `gpu`."""
    await lab.queue_with("team", {"gpu": 4})
    resources = [{"name": "cpu", "nominalQuota": "4"}, {"name": GPU, "nominalQuota": count}]
    flavor = {"name": lab.full("gpu"), "resources": resources}
    group = {"coveredResources": ["cpu", GPU], "flavors": [flavor]}
    await lab.edit_queue("team", resourceGroups=[group])


async def admitted_elsewhere(lab: Lab, name: str, **assigned: Any) -> Document:
    """A Workload that another controller runs, and has admitted in its own spelling."""
    owner = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": name, "uid": f"job-{name}"}
    pods = {"spec": {"containers": [container()], "restartPolicy": "Never"}}
    spec = {"queueName": "none", "podSets": [{"name": "main", "count": 1, "template": pods}]}
    metadata = {"name": name, "ownerReferences": [{**owner, "controller": True}]}
    await lab.create(WORKLOADS, {"metadata": metadata, "spec": spec})
    now = "2026-01-01T00:00:00Z"
    conditions = [
        {"type": type, "status": "True", "reason": type, "message": "", "lastTransitionTime": now}
        for type in ("QuotaReserved", "Admitted")
    ]
    assignments = [{"name": "main", **assigned}]
    admission = {"clusterQueue": lab.full("team"), "podSetAssignments": assignments}
    return await lab.write_status(name, {"conditions": conditions, "admission": admission})


@story()
async def test_what_another_admitted_can_be_written_anew_and_switched_off(lab: Lab) -> None:
    await with_gpus(lab, "1000")
    flavors = {"cpu": lab.full("gpu"), GPU: lab.full("gpu")}
    usage = {"cpu": "1", GPU: "1000"}
    for name, assigned in (
        ("bare", {"count": 1}),
        ("empty", {"count": 1, "flavors": {}, "resourceUsage": {}}),
        ("thousand", {"count": 1, "flavors": flavors, "resourceUsage": usage}),
    ):
        found = await admitted_elsewhere(lab, name, **assigned)
        main = found["status"]["admission"]["podSetAssignments"][0]
        if name == "empty":
            del main["flavors"], main["resourceUsage"]  # as a client in Go writes it back
        if name == "thousand":
            main["resourceUsage"][GPU] = "1k"
        await lab.client.replace(WORKLOADS, found, subresource="status")

        await lab.client.patch(WORKLOADS, name, lab.namespace, patch={"spec": {"active": False}})
        await lab.until_evicted(name, "Deactivated")


@story()
async def test_an_admission_stays_what_it_means(lab: Lab) -> None:
    await with_gpus(lab, "1000")
    flavors = {GPU: lab.full("gpu")}
    found = await admitted_elsewhere(
        lab, "thousand", count=1, flavors=flavors, resourceUsage={GPU: "1000"}
    )
    main = found["status"]["admission"]["podSetAssignments"][0]

    for field, value in (
        ("resourceUsage", {GPU: "2k"}),
        ("resourceUsage", {}),
        ("flavors", {GPU: "other"}),
        ("count", 2),
    ):
        before, main[field] = main[field], value
        with pytest.raises(ApiError, match="cannot be changed once set"):
            await lab.client.replace(WORKLOADS, found, subresource="status")
        main[field] = before


def asking(lab: Lab, *checks: str) -> Document:
    asked = [{"name": lab.full(check)} for check in checks]
    return {"admissionChecksStrategy": {"admissionChecks": asked}}


@story()
async def test_a_check_that_is_added_is_asked_of_a_job_that_has_reserved(lab: Lab) -> None:
    for check in ("budget", "licence"):
        await lab.check(check)
    await lab.queue_with("team", {"cpu": 1}, **asking(lab, "budget"))
    await lab.work("train")
    await lab.until_assigned("train", "cpu")

    await lab.edit_queue("team", **asking(lab, "budget", "licence"))
    await lab.answer("train", "licence", "Ready")
    await lab.answer("train", "budget", "Retry")

    async def is_asked_again() -> bool:
        found = (await lab.workload("train"))["status"]["admissionChecks"]
        told = [(c["state"], c.get("retryCount")) for c in found]
        return told == [("Pending", 1), ("Pending", None)]

    await lab.until(is_asked_again, "both are asked again, and the retry is counted")
    await lab.edit_queue("team", **asking(lab, "licence"))
    await lab.answer("train", "licence", "Ready")
    await lab.until_running("train", 1)


@story()
async def test_whose_time_is_up_is_told_so_in_conditions_and_events(lab: Lab) -> None:
    await lab.queue_with("team", {"cpu": 1})
    await lab.submit("long", queue="team", pods=1, labels={MAX_EXEC_TIME: "2"}, nodeSelector={})
    await lab.until_running("long", 1)

    evicted = "DeactivatedDueToMaximumExecutionTimeExceeded"
    message = await lab.until_told("long", "Evicted", evicted)
    why = "The workload is deactivated due to exceeding the maximum execution time"
    assert message == why
    await lab.until_suspended("long")

    async def is_counted() -> bool:
        status = (await lab.workload("long"))["status"]
        waits, requeued = (
            condition_of({"status": status}, t) for t in ("QuotaReserved", "Requeued")
        )
        assert status["schedulingStats"]["evictions"] == [
            {
                "reason": "Deactivated",
                "underlyingCause": "MaximumExecutionTimeExceeded",
                "count": 1,
            }
        ]
        is_back = (waits["status"], waits["reason"]) == ("False", "Deactivated")
        return is_back and (requeued["status"], requeued["reason"]) == ("False", evicted)

    await lab.until(is_counted, "it has given its quota back, and is not in line")
    told = await reasons_of_events(lab)
    assert {"MaximumExecutionTimeExceeded", f"EvictedDueTo{evicted}", "Stopped"} <= told


async def reasons_of_events(lab: Lab) -> set[str]:
    return {event["reason"] for event in (await lab.client.list(EVENTS, lab.namespace)).items}


@story()
async def test_a_victim_is_told_in_words_that_tools_know(lab: Lab) -> None:
    preemption = {"withinClusterQueue": "LowerPriority"}
    await lab.queue_with("team", {"cpu": 1}, preemption=preemption, cohortName="house")
    await lab.work("low", priority="low")
    await lab.until_running("low", 1)
    urgent = await lab.work("urgent", priority="high")
    await lab.until_running("urgent", 1)

    found, victim = await lab.workload("urgent"), await lab.workload("low")
    path = f"/{lab.full('house')}/{lab.full('team')}"
    uids = f"UID: {found['metadata']['uid']}, JobUID: {urgent['metadata']['uid']}"
    assert condition_of(victim, "Preempted")["message"].startswith(
        f"Preempted to accommodate a workload ({uids}) due to prioritization in the ClusterQueue; "
        f"preemptor path: {path}; preemptee path: {path}"
    )
    assert condition_of(victim, "Requeued")["status"] == "True"
    assert condition_of(found, "Admitted")["message"].startswith("The workload is admitted")
    told = "\n".join(("Job", "batch", "urgent", urgent["metadata"]["uid"]))
    digest = hashlib.sha1(told.encode(), usedforsecurity=False).hexdigest()[:5]
    assert found["metadata"]["name"] == f"job-urgent-{digest}"


@story({"fairSharing": {}})
async def test_shares_stand_in_the_status_of_queues_and_cohorts(lab: Lab) -> None:
    for name in ("vision", "speech"):
        await lab.queue_with(name, {"cpu": 4}, cohortName="house")
    await lab.create(COHORTS, {"metadata": {"name": lab.full("house")}, "spec": {}})
    await lab.work("wide", queue="vision", pods=6)
    await lab.until_running("wide", 6)

    async def are_told() -> bool:
        names = lab.full("vision"), lab.full("speech")
        queues = [await lab.client.get(QUEUES, name) for name in names]
        house = await lab.client.get(COHORTS, lab.full("house"))
        found = [((o.get("status") or {}).get("fairSharing") or {}) for o in (*queues, house)]
        return [sharing.get("weightedShare") for sharing in found] == [250, 0, 0]

    await lab.until(are_told, "vision has 2 of 8 too many, which is a share of 250")
