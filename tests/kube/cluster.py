"""A namespace of a real control plane, Makeway's controller in its own process, and a kubelet.

The kubelet only pretends: pods that have a node, or whose scheduler is not ours, run at once; they
end when the story says so, and go when they are told to.
"""

import asyncio
import contextlib
import itertools
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from makeway.api.kinds import (
    FLAVORS,
    JOBS,
    LEASES,
    LOCAL_QUEUES,
    NAMESPACES,
    NODES,
    PODS,
    QUEUES,
    WORKLOADS,
    Resource,
)
from makeway.api.labels import QUEUE_NAME
from makeway.api.times import format_time
from makeway.client import ApiError, Client, Conflict, NotFound, Unavailable
from tests.kube.plane import Plane

Document = dict[str, Any]
PATIENCE_S = 60.0
LOOK_EVERY_S = 0.1
C = TypeVar("C", bound="Cluster")
_NUMBERS = itertools.count(1)


class Process:
    """One `makeway` with these words; its watches may be silent for so long."""

    def __init__(
        self, folder: Path, words: Sequence[str], silence_max_s: float | None = None
    ) -> None:
        self._log = folder / f"controller-{next(_NUMBERS)}.log"
        program = "import sys\nfrom makeway.client import client\n"
        if silence_max_s is not None:
            program += f"client.WATCH_SILENCE_MAX_S = {silence_max_s}\n"
        program += "from makeway.cli.main import main\nraise SystemExit(main(sys.argv[1:]))"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", program, *words], stdout=log, stderr=subprocess.STDOUT
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def address(self) -> str:
        """Where it tells how it fares; empty before it has said so."""
        found = re.search(r"metrics on (\S+)\n", self.log())
        return "" if found is None else found[1]

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def has_logged(self, text: str) -> bool:
        return text in self.log()

    @property
    def leads(self) -> bool:
        """As its log has it; it may be wrong for as long as it is held up."""
        return self.log().count("term=begins") > self.log().count("term=ends")

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def stop(self) -> int:
        """Ask it to end; its exit code."""
        self._process.terminate()
        return self._process.wait(20)

    def end(self) -> None:
        if self.is_running:
            self._process.kill()
            self._process.wait()


@contextlib.contextmanager
def running(process: Process) -> Iterator[Process]:
    try:
        yield process
    except BaseException:
        print(process.log()[-20000:])
        raise
    finally:
        process.end()


def controller_words(kubeconfig: Path, namespace: str, *more: str) -> list[str]:
    words = ["controller", "--kubeconfig", str(kubeconfig), "--metrics-address", "127.0.0.1:0"]
    return [*words, "--lease-namespace", namespace, *more]


class Cluster:
    kubelet_looks_every_s = LOOK_EVERY_S

    def __init__(self, plane: Plane, folder: Path) -> None:
        self._plane, self._folder = plane, folder
        self.client = Client(plane.access.transport())
        self.namespace = f"story-{next(_NUMBERS)}"
        self.own_namespace = f"{self.namespace}-makeway"  # in the controller's nothing is queued
        self._ending: set[str] = set()  # Jobs whose pods are to succeed

    def controller(
        self,
        *options: str,
        kubeconfig: Path | None = None,
        silence_max_s: float | None = None,
    ) -> contextlib.AbstractContextManager[Process]:
        """One that runs, with the plane's own kubeconfig or another."""
        words = controller_words(kubeconfig or self._plane.kubeconfig, self.own_namespace, *options)
        return running(Process(self._folder, words, silence_max_s))

    # What there is

    async def set_up(self) -> None:
        for name in (self.namespace, self.own_namespace):
            await self._create(NAMESPACES, {"metadata": {"name": name}})
        spec = {
            "nodeLabels": {"story": self.namespace},
            "tolerations": [{"key": "reserved", "operator": "Exists"}],
        }
        await self._create(FLAVORS, {"metadata": {"name": self.namespace}, "spec": spec})

    async def queue(self, name: str, cpu: int, **spec: Any) -> None:
        """A ClusterQueue with quota for so many CPUs, and its door of the same name."""
        await self._queue(name, {self.namespace: cpu}, spec)

    async def _queue(self, name: str, quotas: Mapping[str, int], spec: Document) -> None:
        """`quotas`: CPUs by flavor."""
        full = f"{self.namespace}-{name}"
        flavors = [
            {"name": flavor, "resources": [{"name": "cpu", "nominalQuota": str(cpu)}]}
            for flavor, cpu in quotas.items()
        ]
        groups = [{"coveredResources": ["cpu"], "flavors": flavors}]
        spec = {"namespaceSelector": {}, "resourceGroups": groups, **spec}
        await self._create(QUEUES, {"metadata": {"name": full}, "spec": spec})
        door = {"metadata": self._metadata(name), "spec": {"clusterQueue": full}}
        await self._create(LOCAL_QUEUES, door)

    async def node(self, name: str, cpu: int) -> None:
        full = f"{self.namespace}-{name}"
        await self._create(NODES, {"metadata": {"name": full, "labels": {"story": self.namespace}}})
        amounts = {"cpu": str(cpu), "pods": "10"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}
        status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
        await self.client.patch(NODES, full, patch={"status": status}, subresource="status")
        # Every node begins as not ready; nobody here takes that back but us.
        await self.client.patch(NODES, full, patch={"spec": {"taints": None}})

    async def submit(
        self,
        name: str,
        *,
        queue: str,
        pods: int,
        annotations: Mapping[str, str] | None = None,
        scheduler: str = "default-scheduler",
        is_suspended: bool = True,
        labels: Mapping[str, str] | None = None,
        **pod_spec: Any,
    ) -> Document:
        """Create a Job; suspended, as the admission policy makes those that name a queue."""
        spec = {
            "restartPolicy": "Never",
            "schedulerName": scheduler,
            "nodeSelector": {"kubernetes.io/os": "linux"} if scheduler != "makeway" else {},
            "containers": [container()],
            **pod_spec,
        }
        metadata = {
            **self._metadata(name),
            "labels": {QUEUE_NAME: queue, **(labels or {})},
            "annotations": annotations or {},
        }
        template = {"metadata": {"labels": {"app": name}}, "spec": spec}
        job = {"parallelism": pods, "completions": pods, "suspend": is_suspended}
        return await self._create(
            JOBS, {"metadata": metadata, "spec": {**job, "template": template}}
        )

    def finish(self, job: str) -> None:
        self._ending.add(job)

    async def job(self, name: str) -> Document:
        return await self.client.get(JOBS, name, self.namespace)

    async def pods(self, job: str) -> list[Document]:
        selector = f"batch.kubernetes.io/job-name={job}"
        found = await self.client.list(PODS, self.namespace, label_selector=selector)
        return found.items

    async def nodes_of(self, job: str) -> list[str]:
        """Of each of its pods; empty for one that has none."""
        return [pod["spec"].get("nodeName") or "" for pod in await self.pods(job)]

    async def workload(self, job: str) -> Document:
        for workload in (await self.client.list(WORKLOADS, self.namespace)).items:
            if any(o["name"] == job for o in workload["metadata"].get("ownerReferences") or ()):
                return workload
        raise NotFound(404, "NotFound", f"{job} has no Workload")

    async def leader(self) -> str:
        """Who holds the Lease; empty if nobody does."""
        try:
            lease = await self.client.get(LEASES, "makeway-controller", self.own_namespace)
        except NotFound:
            return ""
        return str(lease["spec"].get("holderIdentity") or "")

    # What becomes of it

    async def until(self, claim: Callable[[], Awaitable[bool]], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            with contextlib.suppress(NotFound):
                if await claim():
                    return
            await asyncio.sleep(LOOK_EVERY_S)
        raise AssertionError(f"in {PATIENCE_S:.0f} s it did not come to this: {what}")

    async def until_running(self, job: str, pods: int) -> None:
        async def claim() -> bool:
            phases = [pod["status"].get("phase") for pod in await self.pods(job)]
            return phases.count("Running") == pods == len(phases)

        await self.until(claim, f"{job} runs {pods} pods")

    async def until_suspended(self, job: str) -> None:
        async def claim() -> bool:
            return bool((await self.job(job))["spec"]["suspend"]) and not await self.pods(job)

        await self.until(claim, f"{job} is suspended and has no pods")

    async def until_true(self, job: str, condition: str) -> None:
        async def claim() -> bool:
            return condition in true_conditions(await self.workload(job))

        await self.until(claim, f"the Workload of {job} is {condition}")

    async def play_kubelet(self) -> None:
        while True:
            with contextlib.suppress(ApiError, Unavailable):
                for pod in (await self.client.list(PODS, self.namespace)).items:
                    with contextlib.suppress(NotFound, Conflict):
                        await self._attend(pod)
            await asyncio.sleep(self.kubelet_looks_every_s)

    async def _attend(self, pod: Document) -> None:
        metadata, phase = pod["metadata"], pod["status"].get("phase")
        name = metadata["name"]
        if metadata.get("deletionTimestamp"):
            if pod["spec"].get("nodeName"):
                await self.client.delete(PODS, name, self.namespace, grace_s=0)
            return
        is_placed = pod["spec"].get("nodeName") or pod["spec"]["schedulerName"] != "makeway"
        job = metadata["labels"].get("batch.kubernetes.io/job-name")
        if phase == "Pending" and is_placed:
            await self._tell(name, "Running", "True")
        elif phase == "Running" and job in self._ending:
            await self._tell(name, "Succeeded", "False")

    async def _tell(self, pod: str, phase: str, ready: str) -> None:
        now = format_time(int(time.time()))
        conditions = [{"type": "Ready", "status": ready, "lastTransitionTime": now}]
        status = {"phase": phase, "conditions": conditions, "startTime": now}
        await self.client.patch(
            PODS, pod, self.namespace, patch={"status": status}, subresource="status"
        )

    def _metadata(self, name: str) -> Document:
        return {"name": name, "namespace": self.namespace}

    async def create(self, resource: Resource, document: Document) -> Document:
        """An object of this story, in its namespace if it has one."""
        if resource.is_namespaced:
            metadata = {"namespace": self.namespace, **document["metadata"]}
            document = {**document, "metadata": metadata}
        return await self._create(resource, document)

    async def _create(self, resource: Resource, document: Document) -> Document:
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        return await self.client.create(resource, head | document)


def container(cpu: int = 1) -> Document:
    return {"name": "main", "image": "none", "resources": {"requests": {"cpu": str(cpu)}}}


def true_conditions(document: Document) -> set[str]:
    conditions = (document.get("status") or {}).get("conditions") or ()
    return {c["type"] for c in conditions if c["status"] == "True"}


@contextlib.asynccontextmanager
async def living(made: C) -> AsyncIterator[C]:
    """Set up, with a kubelet."""
    try:
        await made.set_up()
        kubelet = asyncio.create_task(made.play_kubelet())
        try:
            yield made
        finally:
            kubelet.cancel()
            await asyncio.gather(kubelet, return_exceptions=True)
    finally:
        await made.client.close()
