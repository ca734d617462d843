"""A namespace of a real control plane, Makeway's controller in its own process, and a kubelet.

The kubelet only pretends: pods that have a node, or whose scheduler is not ours, run at once; they
end when the story says so, and go when they are told to.
"""

import asyncio
import contextlib
import itertools
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

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
from makeway.client import Client, Conflict, NotFound
from makeway.client.transport import Unreachable
from tests.kube.plane import Plane

Document = dict[str, Any]
PATIENCE_S = 60.0
LOOK_EVERY_S = 0.1
_NUMBERS = itertools.count(1)


class Process:
    """One `makeway controller`."""

    def __init__(self, plane: Plane, folder: Path, namespace: str, *more: str) -> None:
        self._log = folder / f"controller-{next(_NUMBERS)}.log"
        command = [sys.executable, "-m", "makeway.cli.main", "controller"]
        command += ["--kubeconfig", str(plane.kubeconfig), "--metrics-address", "127.0.0.1:0"]
        command += ["--lease-namespace", namespace, *more]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    @property
    def address(self) -> str:
        """Where it tells how it fares; empty before it has said so."""
        line = self.log().partition("\n")[0]
        return line.rpartition(" ")[2] if "metrics on" in line else ""

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def has_logged(self, text: str) -> bool:
        return text in self.log()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """Hold it up, as a machine does that is short of memory."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> int:
        """Ask it to end; its exit code."""
        self._process.terminate()
        return self._process.wait(20)

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


class Cluster:
    def __init__(self, plane: Plane, folder: Path) -> None:
        self._plane, self._folder = plane, folder
        self.client = Client(plane.access.transport())
        self.namespace = f"story-{next(_NUMBERS)}"
        self._ending: set[str] = set()  # Jobs whose pods are to succeed

    @contextlib.contextmanager
    def controller(self) -> Iterator[Process]:
        process = Process(self._plane, self._folder, self.namespace)
        try:
            yield process
        except BaseException:
            print(process.log())
            raise
        finally:
            process.end()

    # What there is

    async def set_up(self) -> None:
        await self._create(NAMESPACES, {"metadata": {"name": self.namespace}})
        spec = {
            "nodeLabels": {"story": self.namespace},
            "tolerations": [{"key": "reserved", "operator": "Exists"}],
        }
        await self._create(FLAVORS, {"metadata": {"name": self.namespace}, "spec": spec})

    async def queue(self, name: str, cpu: int, **spec: Any) -> None:
        """A ClusterQueue with quota for so many CPUs, and its door of the same name."""
        full = f"{self.namespace}-{name}"
        resources = [{"name": "cpu", "nominalQuota": str(cpu)}]
        flavors = [{"name": self.namespace, "resources": resources}]
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
        annotations: dict[str, str] | None = None,
        scheduler: str = "default-scheduler",
        is_suspended: bool = True,
    ) -> Document:
        """Create a Job; suspended, as the admission policy makes those that name a queue."""
        container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
        template = {
            "metadata": {"labels": {"app": name}},
            "spec": {
                "restartPolicy": "Never",
                "schedulerName": scheduler,
                "nodeSelector": {"kubernetes.io/os": "linux"} if scheduler != "makeway" else {},
                "containers": [container],
            },
        }
        metadata = {
            **self._metadata(name),
            "labels": {QUEUE_NAME: queue},
            "annotations": annotations or {},
        }
        spec = {
            "parallelism": pods,
            "completions": pods,
            "suspend": is_suspended,
            "template": template,
        }
        return await self._create(JOBS, {"metadata": metadata, "spec": spec})

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
            lease = await self.client.get(LEASES, "makeway-controller", self.namespace)
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
            for pod in (await self.client.list(PODS, self.namespace)).items:
                with contextlib.suppress(NotFound, Conflict, Unreachable):
                    await self._attend(pod)
            await asyncio.sleep(LOOK_EVERY_S)

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


def true_conditions(document: Document) -> set[str]:
    conditions = (document.get("status") or {}).get("conditions") or ()
    return {c["type"] for c in conditions if c["status"] == "True"}


@contextlib.asynccontextmanager
async def cluster(plane: Plane, folder: Path) -> AsyncIterator[Cluster]:
    made = Cluster(plane, folder)
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
