"""Jobs and their pods, and hands for whoever runs pods, for stories about the runner's Jobs."""

from __future__ import annotations

from typing import Any

from makeway.api.kinds import JOBS, PODS, Resource
from makeway.api.times import format_time
from makeway.client.client import Document, Unavailable
from makeway.plane.writes import ObjectWrite, key_of
from makeway.runner.jobs import JobPods
from tests.harness import documents
from tests.harness.plane import Plane

START = 1_700_000_000.0
ACTIVE = ("Pending", "Running")


class JobPodsPlane(Plane):
    """Jobs are put as any server may have stored them; pods are the server's own."""

    def __init__(self, *jobs: Document, backoff_s: float = 10.0) -> None:
        super().__init__(lambda picture: [JobPods(picture, backoff_s=backoff_s)], now=START)
        for document in jobs:
            self.put(JOBS, document)
        self.settle()

    def wanted(self) -> list[ObjectWrite]:
        return [write for _, write in self.ask()]

    def send(self, write: ObjectWrite, fate: str = "done") -> None:
        """It is done, lost on its way, or done and its answer is lost (unknown)."""
        self.refusals = [Unavailable("no answer")] if fate == "lost" else []
        self.fates_unknown = int(fate == "unknown")
        self.answer(self.parts[0], write)
        self.fates_unknown = 0

    def wait(self, seconds: float) -> None:
        self.settle(self.now + seconds)

    # What there is

    def job(self) -> Document:
        return self.get(JOBS, "train")

    @property
    def status(self) -> Document:
        found: Document = self.job()["status"]
        return found

    @property
    def conditions(self) -> dict[str, str]:
        """Type and reason of the conditions that are true."""
        return {
            condition["type"]: condition["reason"]
            for condition in self.status.get("conditions", ())
            if condition["status"] == "True"
        }

    def pods(self, *phases: str, index: int | None = None) -> list[Document]:
        """In the order of creation."""
        found = sorted(self.all(PODS), key=lambda pod: str(pod["metadata"]["uid"]))
        if phases:
            found = [pod for pod in found if pod["status"]["phase"] in phases]
        if index is not None:
            found = [pod for pod in found if index_of(pod) == index]
        return found

    def active(self, index: int | None = None) -> list[Document]:
        """Those that run or will, and were not told to end."""
        pods = self.pods(*ACTIVE, index=index)
        return [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]

    # Whoever runs pods, and users

    def start(self, *pods: Document) -> None:
        for pod in pods or self.active():
            self.bind(pod["metadata"]["name"], "node")
            self.report(pod, phase="Running", conditions=[{"type": "Ready", "status": "True"}])
        self.settle()

    def report(self, pod: Document, **status: Any) -> None:
        self.edit(PODS, key_of(pod), {"status": status}, "status")

    def end(self, *pods: Document, code: int = 0, condition: str = "") -> None:
        """Pods end with an exit code; those that were told to end are gone then."""
        for pod in pods:
            terminated = {"exitCode": code, "finishedAt": format_time(int(self.now))}
            self.report(
                pod,
                phase="Failed" if code else "Succeeded",
                containerStatuses=[{"name": "main", "state": {"terminated": terminated}}],
                conditions=[{"type": condition, "status": "True"}] if condition else [],
            )
            if self.get(PODS, key_of(pod))["metadata"].get("deletionTimestamp"):
                self.delete(PODS, key_of(pod), grace_s=0)
        self.settle()

    def remove(self, resource: Resource, document: Document) -> None:
        self.delete(resource, key_of(document))
        self.settle()

    def change(self, **spec: Any) -> None:
        self.put(JOBS, {**self.job(), "spec": {**self.job()["spec"], **spec}})
        self.settle()


def job(name: str = "train", **spec: Any) -> Document:
    restarts = {"restartPolicy": spec.pop("restartPolicy", "Never")}
    pods = documents.template(containers=[documents.container(command=["true"])], **restarts)
    pods["metadata"] = {"labels": {"app": "x"}}
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    return {**documents.job(name, {"namespace": "lab"}, template=pods, **spec), "status": {}}


def indexed(completions: int, **spec: Any) -> Document:
    spec.setdefault("parallelism", completions)
    return job(completions=completions, completionMode="Indexed", **spec)


def index_of(pod: Document) -> int:
    return int(pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"])
