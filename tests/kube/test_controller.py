"""`makeway controller` on a real API server, beside Kubernetes' own Job controller."""

import asyncio
import signal
import time
import urllib.request
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from makeway.api.kinds import GANGS, POD_GROUPS, PODS, PRIORITY_CLASSES, WORKLOADS
from makeway.client.client import Document, NotFound
from tests.kube.cluster import Cluster, living, true_conditions
from tests.kube.plane import Plane

RECLAIM = {"reclaimWithinCohort": "Any"}
TAKEOVER_MAX_S = 25.0  # the lease is 15 s; the rest is for a machine that is busy
HANDOVER_MAX_S = 10.0  # far less than the lease: the leader says that it goes


def play(plane: Plane, folder: Path, story: Callable[[Cluster], Awaitable[None]]) -> None:
    async def run() -> None:
        async with living(Cluster(plane, folder)) as lab:
            await story(lab)

    asyncio.run(run())


def test_jobs_run_one_after_the_other_where_the_quota_is_for_one(
    plane: Plane, tmp_path: Path
) -> None:
    async def story(lab: Cluster) -> None:
        await lab.queue("team", cpu=4)
        with lab.controller():
            await lab.submit("first", queue="team", pods=3)
            await lab.until_running("first", 3)
            await lab.submit("second", queue="team", pods=3)
            await lab.until_suspended("second")
            selector = (await lab.pods("first"))[0]["spec"]["nodeSelector"]
            assert selector == {"kubernetes.io/os": "linux", "story": lab.namespace}

            lab.finish("first")
            await lab.until_true("first", "Finished")
            await lab.until_running("second", 3)
        assert "Complete" in true_conditions(await lab.job("first"))

    play(plane, tmp_path, story)


def test_a_job_that_ran_before_anybody_looked_is_held_back_first(
    plane: Plane, tmp_path: Path
) -> None:
    async def story(lab: Cluster) -> None:
        await lab.queue("team", cpu=2)
        await lab.submit("early", queue="team", pods=2, is_suspended=False)
        await lab.until_running("early", 2)
        before = {pod["metadata"]["uid"] for pod in await lab.pods("early")}
        with lab.controller():

            async def are_gone() -> bool:
                pods = await lab.pods("early")
                return not before & {pod["metadata"]["uid"] for pod in pods}

            await lab.until(are_gone, "the pods that nobody admitted are gone")
            await lab.until_running("early", 2)
            selector = (await lab.pods("early"))[0]["spec"]["nodeSelector"]
            assert selector["story"] == lab.namespace

    play(plane, tmp_path, story)


def test_a_job_that_waits_for_others_in_vain_fails(plane: Plane, tmp_path: Path) -> None:
    async def story(lab: Cluster) -> None:
        await lab.queue("team", cpu=1)
        with lab.controller():
            after_nobody = {"makeway.dev/after": "nobody"}
            await lab.submit("vain", queue="team", pods=1, annotations=after_nobody)
            after_that = {"makeway.dev/after-failed": "vain"}
            await lab.submit("next", queue="team", pods=1, annotations=after_that)

            await lab.until_running("next", 1)
        assert "Failed" in true_conditions(await lab.job("vain"))

    play(plane, tmp_path, story)


def test_an_owner_gets_back_what_was_borrowed_and_the_borrower_is_as_it_was(
    plane: Plane, tmp_path: Path
) -> None:
    async def story(lab: Cluster) -> None:
        for name in ("vision", "speech"):
            cohort = f"{lab.namespace}-lab"
            await lab.queue(name, cpu=2, cohortName=cohort, preemption=RECLAIM)
        with lab.controller():
            written = await lab.submit("borrower", queue="speech", pods=4)
            await lab.until_running("borrower", 4)
            await lab.submit("owner", queue="vision", pods=2)
            await lab.until_running("owner", 2)

            await lab.until_suspended("borrower")
            assert "Evicted" in true_conditions(await lab.workload("borrower"))

            async def is_restored() -> bool:
                return bool(
                    (await lab.job("borrower"))["spec"]["template"] == written["spec"]["template"]
                )

            await lab.until(is_restored, "the template is as its user wrote it")
            lab.finish("owner")
            await lab.until_running("borrower", 4)

    play(plane, tmp_path, story)


def test_a_job_runs_with_fewer_pods_where_it_may(plane: Plane, tmp_path: Path) -> None:
    async def story(lab: Cluster) -> None:
        await lab.queue("team", cpu=2)
        with lab.controller():
            least = {"kueue.x-k8s.io/job-min-parallelism": "1"}
            await lab.submit("train", queue="team", pods=4, annotations=least)
            await lab.until_running("train", 2)
            assert (await lab.job("train"))["spec"]["parallelism"] == 2

            name = (await lab.workload("train"))["metadata"]["name"]
            await lab.client.patch(
                WORKLOADS, name, lab.namespace, patch={"spec": {"active": False}}
            )
            await lab.until_suspended("train")

            async def is_restored() -> bool:
                return bool((await lab.job("train"))["spec"]["parallelism"] == 4)

            await lab.until(is_restored, "it asks for 4 pods again")

    play(plane, tmp_path, story)


def test_a_gang_gets_its_nodes_as_a_whole(plane: Plane, tmp_path: Path) -> None:
    async def story(lab: Cluster) -> None:
        await lab.queue("team", cpu=3)
        await lab.node("one", cpu=2)
        with lab.controller():
            await lab.submit("ring", queue="team", pods=3, scheduler="makeway")

            async def are_told() -> bool:
                told = [
                    condition["reason"]
                    for pod in await lab.pods("ring")
                    for condition in pod["status"].get("conditions") or ()
                    if condition["type"] == "PodScheduled"
                ]
                return told == ["Unschedulable"] * 3

            await lab.until(are_told, "three pods say why they wait")
            assert await lab.nodes_of("ring") == ["", "", ""]

            await lab.node("two", cpu=1)
            await lab.until_running("ring", 3)
            one, two = f"{lab.namespace}-one", f"{lab.namespace}-two"
            assert sorted(await lab.nodes_of("ring")) == [one, one, two]

    play(plane, tmp_path, story)


def test_where_there_are_no_pod_groups_gangs_of_our_own_kind_make_way_as_a_whole(
    plane: Plane, tmp_path: Path
) -> None:
    async def story(lab: Cluster) -> None:
        with pytest.raises(NotFound):
            await lab.client.peek(POD_GROUPS)
        important = {"metadata": {"name": "important"}, "value": 100}
        await lab.create(PRIORITY_CLASSES, important)
        await lab.node("one", cpu=2)
        spec = {"schedulingPolicy": {"gang": {"minCount": 3}}, "disruptionMode": {"all": {}}}
        await lab.create(GANGS, {"metadata": {"name": "ring"}, "spec": spec})
        with lab.controller():
            ring = ("ring-0", "ring-1", "ring-2")
            for name in ring:
                await lab.create(PODS, loose_pod(lab, name, {"makeway.dev/gang": "ring"}))
            await lab.until(lambda: are_told_to_wait(lab, *ring), "three pods say why they wait")

            await lab.node("two", cpu=1)
            one, two = f"{lab.namespace}-one", f"{lab.namespace}-two"
            await lab.until(lambda: are_on(lab, ring, [one, one, two]), "the ring has its nodes")

            async def is_scheduled() -> bool:
                gang = await lab.client.get(GANGS, "ring", lab.namespace)
                return "PodGroupInitiallyScheduled" in true_conditions(gang)

            await lab.until(is_scheduled, "the gang says so")
            major = loose_pod(lab, "major", {"app": "major"}, priorityClassName="important")
            await lab.create(PODS, major)
            await lab.until(lambda: are_alone(lab, "major"), "one pod, and nobody of the ring")

    play(plane, tmp_path, story)


def loose_pod(lab: Cluster, name: str, labels: dict[str, str], **spec: object) -> Document:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    spec = {
        "schedulerName": "makeway",
        "nodeSelector": {"story": lab.namespace},
        "containers": [container],
        **spec,
    }
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}


async def are_told_to_wait(lab: Cluster, *names: str) -> bool:
    told = []
    for name in names:
        pod = await lab.client.get(PODS, name, lab.namespace)
        conditions = pod["status"].get("conditions") or ()
        told += [c["reason"] for c in conditions if c["type"] == "PodScheduled"]
    return told == ["Unschedulable"] * len(names)


async def nodes_of(lab: Cluster, *names: str) -> list[str]:
    pods = [await lab.client.get(PODS, name, lab.namespace) for name in names]
    return sorted(filter(None, (pod["spec"].get("nodeName") for pod in pods)))


async def are_on(lab: Cluster, names: Sequence[str], nodes: list[str]) -> bool:
    return await nodes_of(lab, *names) == nodes


async def are_alone(lab: Cluster, *names: str) -> bool:
    """Whether these pods have nodes, and no others are there."""
    found = (await lab.client.list(PODS, lab.namespace)).items
    there = {pod["metadata"]["name"] for pod in found}
    return there == set(names) and len(await nodes_of(lab, *names)) == len(names)


def test_when_the_leader_vanishes_the_other_takes_over(plane: Plane, tmp_path: Path) -> None:
    async def story(lab: Cluster) -> None:
        await lab.queue("team", cpu=4)
        with lab.controller() as leader, lab.controller() as other:
            await lab.submit("before", queue="team", pods=2)
            await lab.until_running("before", 2)
            if other.has_logged("term=begins"):
                leader, other = other, leader
            assert not other.has_logged("term=begins")
            held_by = await lab.leader()

            leader.end()
            began = time.monotonic()
            await lab.submit("after", queue="team", pods=2)
            await lab.until_running("after", 2)
            assert time.monotonic() - began < TAKEOVER_MAX_S
            assert await lab.leader() not in ("", held_by)
        assert len(await lab.pods("before")) == 2

    play(plane, tmp_path, story)


def test_a_leader_that_is_told_to_stop_hands_over_at_once(plane: Plane, tmp_path: Path) -> None:
    async def story(lab: Cluster) -> None:
        async def is_led() -> bool:
            return bool(await lab.leader())

        with lab.controller() as leader:
            await lab.until(is_led, "somebody leads")
            with lab.controller() as other:

                async def stands_by() -> bool:
                    return bool(other.address) and ask(other.address, "/readyz") == "ok"

                await lab.until(stands_by, "the other is ready, though it stands by")
                assert "makeway_leader 0" in ask(other.address, "/metrics")

                assert leader.stop() == 0
                began = time.monotonic()

                async def leads() -> bool:
                    return "makeway_leader 1" in ask(other.address, "/metrics")

                await lab.until(leads, "the other leads")
                assert time.monotonic() - began < HANDOVER_MAX_S

    play(plane, tmp_path, story)


def test_a_leader_that_was_held_up_stands_by_when_it_is_back(plane: Plane, tmp_path: Path) -> None:
    async def story(lab: Cluster) -> None:
        await lab.queue("team", cpu=4)
        with lab.controller() as leader:

            async def leads() -> bool:
                return leader.has_logged("term=begins")

            await lab.until(leads, "the first one leads")
            with lab.controller() as other:
                leader.signal(signal.SIGSTOP)
                await lab.submit("train", queue="team", pods=2)
                await lab.until_running("train", 2)
                held_by = await lab.leader()
                leader.signal(signal.SIGCONT)

                async def stands_by() -> bool:
                    return "makeway_leader 0" in ask(leader.address, "/metrics")

                await lab.until(stands_by, "the first one stands by")
                assert ask(leader.address, "/readyz") == "ok"
                assert "makeway_leader 1" in ask(other.address, "/metrics")
                assert await lab.leader() == held_by

    play(plane, tmp_path, story)


def ask(address: str, path: str) -> str:
    with urllib.request.urlopen(f"http://{address}{path}", timeout=5) as answer:
        return str(answer.read().decode())
