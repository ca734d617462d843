"""A real cluster without anything of Makeway's, and what an administrator does there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import yaml

from makeway.api.kinds import JOBS, LOCAL_QUEUES, PODS, QUEUES, WORKLOADS, Resource
from makeway.api.labels import QUEUE_NAME
from makeway.cli.main import main
from makeway.client import Client, NotFound
from makeway.deploy.installation import NAME, Site, controller
from tests.harness import documents
from tests.harness.documents import requesting, template
from tests.harness.process import wait_until
from tests.kube.cluster import Process, running
from tests.kube.plane import Plane

Document = dict[str, Any]
T = TypeVar("T")
SITE = Site()
KINDS = {resource.kind: resource for resource in (JOBS, PODS, WORKLOADS, QUEUES, LOCAL_QUEUES)}


class Cluster:
    def __init__(self, plane: Plane) -> None:
        self.plane, self._access = plane, plane.access

    def do(self, work: Callable[[Client], Awaitable[T]], *, token: str = "") -> T:
        """Something with a client of the administrator, or of whoever has the token."""

        async def run() -> T:
            access = replace(self._access, token=token or self._access.token)
            client = Client(access.transport(), manager="test")
            try:
                return await work(client)
            finally:
                await client.close()

        return asyncio.run(run())

    def makeway(self, *words: str, code: int = 0) -> None:
        assert main([*words, "--kubeconfig", str(self.plane.kubeconfig)]) == code

    # Objects

    def create(self, document: Document, *, token: str = "", dry_run: bool = False) -> Document:
        async def work(client: Client) -> Document:
            resource = await client.resource(document["apiVersion"], document["kind"])
            own = document["metadata"].get("namespace", "default")
            where = own if resource.is_namespaced else ""
            return await client.create(resource, document, namespace=where, dry_run=dry_run)

        return self.do(work, token=token)

    def create_all(self, text: str) -> None:
        for document in yaml.safe_load_all(text):
            self.create(document)

    def get(self, kind: str, name: str) -> Document:
        return self.do(lambda client: client.get(KINDS[kind], name, "default"))

    def is_there(self, resource: Resource, name: str, namespace: str = "default") -> bool:
        try:
            self.do(lambda client: client.get(resource, name, namespace))
        except NotFound:
            return False
        return True

    def has(self, document: Document) -> bool:
        """Whether there is an object of this kind and name."""
        kind = document["apiVersion"], document["kind"]
        resource = self.do(lambda client: client.resource(*kind))
        metadata = document["metadata"]
        return self.is_there(resource, metadata["name"], metadata.get("namespace", ""))

    def list(self, resource: Resource, labels: str = "") -> list[Document]:
        found = self.do(lambda client: client.list(resource, "default", label_selector=labels))
        return found.items

    def patch(
        self, kind: str, name: str, patch: Document, *, subresource: str = "", token: str = ""
    ) -> Document:
        return self.do(
            lambda client: client.patch(
                KINDS[kind], name, "default", patch=patch, subresource=subresource
            ),
            token=token,
        )

    def delete(self, kind: str, name: str) -> None:
        self.do(lambda client: client.delete(KINDS[kind], name, "default"))

    # Waiting

    def until(self, what: str, is_so: Callable[[], bool]) -> None:
        wait_until(is_so, what)

    def until_condition(self, workload: str, condition: str, status: str = "True") -> None:
        def is_so() -> bool:
            return conditions_of(self.get("Workload", workload)).get(condition) == status

        self.until(f"{workload} is {condition}={status}", is_so)

    def workload_of(self, job: str) -> str:
        """The name of the Workload that a Job owns, when it has one."""
        found: list[str] = []

        def is_there() -> bool:
            for workload in self.list(WORKLOADS):
                for owner in workload["metadata"].get("ownerReferences") or ():
                    if owner["name"] == job:
                        found.append(workload["metadata"]["name"])
            return bool(found)

        self.until(f"{job} has a Workload", is_there)
        return found[0]

    def pods_of(self, job: str, count: int) -> Sequence[str]:
        """The names of its pods, when there are as many."""
        found: list[str] = []

        def are_there() -> bool:
            pods = self.list(PODS, f"batch.kubernetes.io/job-name={job}")
            found[:] = [pod["metadata"]["name"] for pod in pods]
            return len(found) == count

        self.until(f"{job} has {count} pods", are_there)
        return found

    def finish(self, job: str, count: int = 1) -> None:
        """Its pods end well, as a kubelet would tell."""
        for pod in self.pods_of(job, count):
            self.patch("Pod", pod, {"status": {"phase": "Succeeded"}}, subresource="status")

    # The controller

    def token(self) -> str:
        """What the controller's pods would be given to say who they are."""

        async def work(client: Client) -> Document:
            accounts = await client.resource("v1", "ServiceAccount")
            request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
            return await client.post(accounts, (SITE.namespace, NAME), "token", request)

        return str(self.do(work)["status"]["token"])

    @contextlib.contextmanager
    def controller(
        self, folder: Path, site: Site = SITE, configuration: Document | None = None
    ) -> Iterator[None]:
        """The command that the Deployment runs, under the account that it runs under."""
        kubeconfig = yaml.safe_load(self.plane.kubeconfig.read_text())
        kubeconfig["users"][0]["user"] = {"token": self.token()}
        path = folder / "controller.kubeconfig"
        path.write_text(yaml.safe_dump(kubeconfig))
        deployment = next(d for d in controller(site) if d["kind"] == "Deployment")
        container = deployment["spec"]["template"]["spec"]["containers"][0]
        # Others on this machine may have the ports that a pod has for itself.
        words = [w for w in container["args"] if "-address=" not in w and "-port=" not in w]
        words += ["--metrics-address=127.0.0.1:0", f"--kubeconfig={path}"]
        if configuration is not None:
            (folder / "configuration.yaml").write_text(yaml.safe_dump(configuration))
            words.append(f"--config={folder / 'configuration.yaml'}")
        with running(Process(folder, words)) as process:
            yield
            assert process.is_running, process.log()[-3000:]
            process.stop()


def conditions_of(document: Document) -> dict[str, str]:
    found = (document.get("status") or {}).get("conditions") or ()
    return {condition["type"]: condition["status"] for condition in found}


def job(name: str, *, queue: str = "team", cpu: int = 1, pods: int = 1, **more: Any) -> Document:
    made = template(containers=[requesting(cpu)])
    spec = {"parallelism": pods, "completions": pods, "template": made, **more}
    return documents.job(name, {"labels": {QUEUE_NAME: queue}} if queue else {}, **spec)
