"""Stories of the five documents that define Makeway, told on a real control plane.

A story has a namespace, flavors and queues of its own; the control plane is shared by all, and so
is the controller while the stories want the same configuration. The kubelet pretends, as in
`cluster.py`, but a story may hold its hand: machines out of stock, pods that are slow to go.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from makeway.api.kinds import (
    BUDGETS,
    CHECKS,
    FLAVORS,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    WORKLOAD_CLASSES,
    WORKLOADS,
)
from makeway.api.labels import PRIORITY_CLASS
from makeway.client import ApiError, NotFound
from tests.kube.cluster import (
    Cluster,
    Document,
    Process,
    container,
    controller_words,
    living,
    true_conditions,
)
from tests.kube.plane import Plane, require_assets

FLAVOR = "flavor"  # label of nodes: the ResourceFlavor, as the story names it
STORY = "story"  # label of nodes: the namespace
CLASSES = {"low": 10, "middle": 50, "high": 100}
JOB_NAME = "batch.kubernetes.io/job-name"
DEFAULT_SCHEDULER = "default-scheduler"
CONFIGURATION = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"


# In 1.37 they are there, but off.
SERVES_POD_GROUPS = (
    "--feature-gates=GenericWorkload=true",
    "--runtime-config=scheduling.k8s.io/v1beta1=true",
)


class Lab(Cluster):
    """The world of one story. Flavors, nodes and queues go by the story's own short names."""

    def __init__(self, plane: Plane, folder: Path) -> None:
        super().__init__(plane, folder)
        self.dry: set[str] = set()  # flavors and Jobs whose pods find no machine to start on
        self.slow: set[str] = set()  # Jobs and pods that don't go yet when they are told to
        self.restart: Callable[[], None] = lambda: None  # kill -9 the controller, begin anew
        self._flavors: set[str] = set()

    async def set_up(self) -> None:
        await super().set_up()
        for name, value in CLASSES.items():
            for resource in (WORKLOAD_CLASSES, PRIORITY_CLASSES):
                with contextlib.suppress(ApiError):  # an earlier story has made it
                    await self._create(resource, {"metadata": {"name": name}, "value": value})

    def full(self, name: str) -> str:
        """What has no namespace of its own has the story's in its name."""
        return f"{self.namespace}-{name}"

    # What there is

    async def queue_with(self, name: str, quotas: Mapping[str, int], **spec: Any) -> None:
        """A ClusterQueue with so many CPUs of each flavor, and its door of the same name."""
        for flavor in quotas:
            await self._flavor(flavor)
        if "cohortName" in spec:
            spec["cohortName"] = self.full(spec["cohortName"])
        await self._queue(name, {self.full(flavor): cpu for flavor, cpu in quotas.items()}, spec)

    async def edit_queue(self, name: str, **spec: Any) -> None:
        await self.client.patch(QUEUES, self.full(name), patch={"spec": spec})

    async def write_status(self, workload: str, status: Document) -> Document:
        """Somebody else writes the status of a Workload."""
        return await self.client.patch(
            WORKLOADS, workload, self.namespace, patch={"status": status}, subresource="status"
        )

    async def _flavor(self, name: str) -> None:
        if name not in self._flavors:
            self._flavors.add(name)
            labels = {FLAVOR: name, STORY: self.namespace}
            spec = {"nodeLabels": labels}
            await self._create(FLAVORS, {"metadata": {"name": self.full(name)}, "spec": spec})

    def fallback(self, *rules: Document, policy: str = "DeactivateWorkload") -> Document:
        """The part of a queue's spec that says when a flavor has failed."""
        named = [
            rule if rule["name"] == "*" else {**rule, "name": self.full(rule["name"])}
            for rule in rules
        ]
        strategy = {"failurePolicy": policy, "rules": named}
        return {"flavorFungibility": {"fallbackStrategy": strategy}}

    async def check(self, name: str) -> None:
        """An AdmissionCheck whose controller is the story."""
        spec = {"controllerName": "example.com/story"}
        made = await self._create(CHECKS, {"metadata": {"name": self.full(name)}, "spec": spec})
        active = {"type": "Active", "status": "True", "reason": "Ready", "message": "ready"}
        active["lastTransitionTime"] = made["metadata"]["creationTimestamp"]
        patch = {"status": {"conditions": [active]}}
        await self.client.patch(CHECKS, self.full(name), patch=patch, subresource="status")

    async def answer(self, job: str, check: str, state: str) -> None:
        """Say yes or no, as soon as the check is asked."""

        async def claim() -> bool:
            workload = await self.workload(job)
            checks = (workload.get("status") or {}).get("admissionChecks") or []
            mine = [c for c in checks if c["name"] == self.full(check)]
            if not mine or mine[0]["state"] != "Pending":
                return False
            mine[0]["state"] = state
            metadata = {"resourceVersion": workload["metadata"]["resourceVersion"]}
            patch = {"metadata": metadata, "status": {"admissionChecks": checks}}
            name = workload["metadata"]["name"]
            with contextlib.suppress(ApiError):  # somebody else wrote; look again
                await self.client.patch(
                    WORKLOADS, name, self.namespace, patch=patch, subresource="status"
                )
                return True
            return False

        await self.until(claim, f"{check} is asked about {job}")

    async def work(
        self,
        name: str,
        *,
        queue: str = "team",
        pods: int = 1,
        priority: str = "",
        annotations: Mapping[str, str] | None = None,
        scheduler: str = DEFAULT_SCHEDULER,
        node: str = "",
        pods_priority: str = "",
    ) -> Document:
        """A Job of pods with one CPU each; with `node` its pods are there from the start."""
        spec: Document = {"nodeName": self.full(node)} if node else {}
        if pods_priority:
            spec["priorityClassName"] = pods_priority
        return await self.submit(
            name,
            queue=queue,
            pods=pods,
            annotations=annotations,
            scheduler=scheduler,
            labels={PRIORITY_CLASS: priority} if priority else {},
            nodeSelector={},
            **spec,
        )

    async def pod(
        self, name: str, *, priority: str = "low", cpu: int = 1, group: str = "", app: str = ""
    ) -> None:
        """A pod that Makeway places on a node of this story."""
        spec: Document = {
            "restartPolicy": "Never",
            "schedulerName": "makeway",
            "nodeSelector": {STORY: self.namespace},
            "priorityClassName": priority,
            "containers": [container(cpu)],
        }
        if group:
            spec["schedulingGroup"] = {"podGroupName": group}
        labels = {"app": app or name}
        await self._create(
            PODS, {"metadata": {**self._metadata(name), "labels": labels}, "spec": spec}
        )

    async def gang(
        self,
        name: str,
        *,
        pods: int,
        priority: str = "low",
        mode: str = "all",
        annotations: Mapping[str, str] | None = None,
        pods_priority: str = "",
    ) -> list[str]:
        """A PodGroup and its pods, none of which is of use without the others; the pods' names."""
        metadata = {**self._metadata(name), "annotations": annotations or {}}
        spec = {
            "schedulingPolicy": {"gang": {"minCount": pods}},
            "disruptionMode": {mode: {}},
            "priorityClassName": priority,
        }
        await self._create(POD_GROUPS, {"metadata": metadata, "spec": spec})
        names = [f"{name}-{index}" for index in range(pods)]
        for pod in names:
            await self.pod(pod, group=name, priority=pods_priority or priority, app=name)
        return names

    async def budget(self, app: str, least: int) -> None:
        """So many pods of the app must stay; known to whoever asks when this returns."""
        spec = {"minAvailable": least, "selector": {"matchLabels": {"app": app}}}
        await self._create(BUDGETS, {"metadata": self._metadata(app), "spec": spec})

        async def claim() -> bool:
            found = await self.client.get(BUDGETS, app, self.namespace)
            status = found.get("status") or {}
            return bool(status.get("currentHealthy", 0) >= least)

        await self.until(claim, f"the budget of {app} is counted")

    # What becomes of it

    async def flavor_of(self, job: str) -> str:
        """That its admission names; empty if it has none."""
        status = (await self.workload(job)).get("status") or {}
        for assigned in (status.get("admission") or {}).get("podSetAssignments") or ():
            return str(assigned["flavors"]["cpu"]).removeprefix(self.full(""))
        return ""

    async def until_runs_on(self, job: str, flavor: str, pods: int = 1) -> None:
        """Admission, template and running pods agree on the flavor."""

        async def claim() -> bool:
            found = await self.pods(job)
            told = {pod["spec"].get("nodeSelector", {}).get(FLAVOR) for pod in found}
            phases = [pod["status"].get("phase") for pod in found]
            template = (await self.job(job))["spec"]["template"]["spec"]
            is_told = told == {template.get("nodeSelector", {}).get(FLAVOR)} == {flavor}
            is_running = phases == ["Running"] * pods
            return is_told and is_running and await self.flavor_of(job) == flavor

        await self.until(claim, f"{job} runs {pods} pods on {flavor}")

    async def until_assigned(self, job: str, flavor: str) -> None:
        async def claim() -> bool:
            return await self.flavor_of(job) == flavor

        await self.until(claim, f"{job} gets {flavor or 'no flavor'}")

    async def until_waits(self, job: str) -> None:
        """It was looked at and has to wait: a condition says why."""

        async def claim() -> bool:
            told = condition_of(await self.workload(job), "QuotaReserved")
            return bool(told["status"] == "False")

        await self.until(claim, f"{job} waits")

    async def until_told(self, job: str, condition: str, reason: str) -> str:
        """Until its Workload is so for that reason; the message."""
        found: Document = {}

        async def claim() -> bool:
            found.update(condition_of(await self.workload(job), condition))
            return (found["status"], found["reason"]) == ("True", reason)

        await self.until(claim, f"the Workload of {job} is {condition} because of {reason}")
        return str(found["message"])

    async def until_evicted(self, workload: str, reason: str) -> Document:
        """Of a Workload without a Job; the condition."""
        found: Document = {}

        async def claim() -> bool:
            document = await self.client.get(WORKLOADS, workload, self.namespace)
            found.update(condition_of(document, "Evicted"))
            return (found["status"], found["reason"]) == ("True", reason)

        await self.until(claim, f"Workload {workload} is evicted because of {reason}")
        return found

    async def until_requeued(self, job: str) -> None:
        """Its back-off is over: it waits like everybody."""
        await self.until_told(job, "Requeued", "BackoffFinished")

    async def until_finished(self, *jobs: str) -> None:
        for job in jobs:
            self.finish(job)
        for job in jobs:
            await self.until_true(job, "Finished")
            assert "Complete" in true_conditions(await self.job(job))

    async def histories(self, job: str) -> dict[str, Document]:
        """What its Workload remembers of each flavor."""
        history = (await self.workload(job))["status"].get("flavorAssignmentHistory") or ()
        return {entry["resourceFlavor"].removeprefix(self.full("")): entry for entry in history}

    async def exhausted(self, job: str) -> list[str]:
        found = await self.histories(job)
        return sorted(flavor for flavor, entry in found.items() if entry.get("exhaustedTime"))

    async def uids(self, job: str) -> set[str]:
        return {pod["metadata"]["uid"] for pod in await self.pods(job)}

    async def named(self, pods: Iterable[str]) -> list[Document]:
        return [await self.client.get(PODS, pod, self.namespace) for pod in pods]

    async def nodes(self, pods: Iterable[str]) -> list[str]:
        """Of each pod; empty for one that has none."""
        found = await self.named(pods)
        return [(p["spec"].get("nodeName") or "").removeprefix(self.full("")) for p in found]

    async def until_placed(self, pods: Iterable[str], *nodes: str) -> None:
        """All of them run on these nodes, as many on each as it is named."""
        names = list(pods)

        async def claim() -> bool:
            phases = {pod["status"].get("phase") for pod in await self.named(names)}
            return phases == {"Running"} and sorted(await self.nodes(names)) == sorted(nodes)

        await self.until(claim, f"{', '.join(names)} run on {', '.join(nodes)}")

    async def until_nominated(self, pods: Iterable[str], *nodes: str) -> None:
        names = list(pods)

        async def claim() -> bool:
            found = [pod["status"].get("nominatedNodeName") for pod in await self.named(names)]
            told = [(node or "").removeprefix(self.full("")) for node in found]
            return sorted(told) == sorted(nodes)

        await self.until(claim, f"{', '.join(names)} are to get {', '.join(nodes)}")

    async def until_unschedulable(self, pods: Iterable[str]) -> None:
        names = list(pods)

        async def claim() -> bool:
            found = [condition_of(pod, "PodScheduled") for pod in await self.named(names)]
            return all(told.get("reason") == "Unschedulable" for told in found)

        await self.until(claim, f"{', '.join(names)} say why they wait")

    async def until_gone(self, *pods: str) -> None:
        async def claim() -> bool:
            found = await self.client.list(PODS, self.namespace)
            return not {pod["metadata"]["name"] for pod in found.items} & set(pods)

        await self.until(claim, f"{', '.join(pods)} are gone")

    async def stay_for(self, seconds: float) -> None:
        """Let time pass in which nothing is to happen; only a claim about that may need it."""
        await asyncio.sleep(seconds)

    async def is_there(self, pod: str) -> bool:
        found = await self.client.list(PODS, self.namespace)
        return pod in {document["metadata"]["name"] for document in found.items}

    async def is_leaving(self, pod: str) -> bool:
        found = await self.client.get(PODS, pod, self.namespace)
        return bool(found["metadata"].get("deletionTimestamp"))

    # The kubelet

    async def _attend(self, pod: Document) -> None:
        metadata, spec = pod["metadata"], pod["spec"]
        owner = (metadata.get("labels") or {}).get(JOB_NAME, metadata["name"])
        if metadata.get("deletionTimestamp") and owner in self.slow:
            return
        if self.dry & {owner, (spec.get("nodeSelector") or {}).get(FLAVOR)}:
            return
        await super()._attend(pod)


Tell = Callable[[Lab], Awaitable[None]]


class Stage:
    """The control plane of all stories, and a controller with the configuration of the present."""

    def __init__(self, plane: Plane, folder: Path) -> None:
        self._plane, self._folder = plane, folder
        self._file = folder / "configuration.yaml"
        self._controller: Process | None = None
        self._configuration: str | None = None

    def play(self, tell: Tell, configuration: str) -> None:
        if configuration != self._configuration:
            self._change(configuration)
        assert self._controller is not None
        begun, first = len(self._controller.log()), self._controller
        try:
            asyncio.run(self._play(tell))
        except BaseException:
            print(first.log()[begun:])
            if self._controller is not first:
                print(self._controller.log())
            raise

    def _change(self, configuration: str) -> None:
        self._configuration = configuration
        self._file.write_text(CONFIGURATION + configuration)
        self._restart()

    def _restart(self) -> None:
        self.close()
        options = ("--no-leader-election", "--config", str(self._file))
        words = controller_words(self._plane.kubeconfig, "default", *options)
        self._controller = Process(self._folder, words)

    async def _play(self, tell: Tell) -> None:
        async with living(Lab(self._plane, self._folder)) as lab:
            lab.restart = self._restart
            await tell(lab)

    def close(self) -> None:
        if self._controller is not None:
            self._controller.end()


_STAGE = pytest.StashKey[Stage]()
Test = Callable[[pytest.FixtureRequest, pytest.TempPathFactory], None]


def story(configuration: Document | None = None) -> Callable[[Tell], Test]:
    """Make a test of a story; the controller runs with this configuration."""
    text = yaml.safe_dump(configuration) if configuration else ""

    def decorate(tell: Tell) -> Test:
        def test(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
            _stage(request.config, tmp_path_factory).play(tell, text)

        test.__name__ = getattr(tell, "__name__", "story")
        return pytest.mark.kube(test)

    return decorate


def _stage(config: pytest.Config, folders: pytest.TempPathFactory) -> Stage:
    """The one stage of this run; it is set up for the first story and lasts to the end."""
    require_assets()
    if _STAGE not in config.stash:
        plane = Plane(folders.mktemp("seeds"), flags=SERVES_POD_GROUPS)
        config.stash[_STAGE] = Stage(plane, folders.mktemp("controller"))
        config.add_cleanup(plane.stop)
        config.add_cleanup(config.stash[_STAGE].close)
    return config.stash[_STAGE]


def condition_of(document: Document, type: str) -> Document:
    """NotFound if there is none, so that `until` looks again."""
    for condition in (document.get("status") or {}).get("conditions") or ():
        if condition["type"] == type:
            return dict(condition)
    raise NotFound(404, "NotFound", f"no condition {type}")
