"""A server that keeps objects and does nothing by itself, and the command as a user types it.

Whoever admits, starts and ends jobs is played by the test, through the API, so that every story
goes as it is told.
"""

from __future__ import annotations

import io
import re
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from makeway.api.kinds import JOBS, LOCAL_QUEUES, PODS, QUEUES, WORKLOADS, Resource
from makeway.api.labels import QUEUE_NAME
from makeway.api.manifests import read_manifests
from makeway.api.times import format_time
from makeway.cli.main import main
from makeway.client import NotFound
from tests.harness import documents
from tests.harness.process import wait_until
from tests.harness.served import Served

Document = dict[str, Any]


class CliServer(Served):
    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
        super().__init__(folder, has_tls=False)
        self._monkeypatch, self._capsys = monkeypatch, capsys
        monkeypatch.setenv("MAKEWAY_DATA_DIR", str(folder))
        monkeypatch.delenv("KUBECONFIG", raising=False)
        monkeypatch.delenv("COLUMNS", raising=False)  # as in a file: nothing is cut
        monkeypatch.setattr("getpass.getuser", lambda: "ada")

    # What a user does

    def run(self, *arguments: str, text: str = "", code: int = 0) -> str:
        """What the command prints, both streams; its exit code must be `code`."""
        self._monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        found = main(arguments)
        printed = self._capsys.readouterr()
        assert found == code, printed
        return printed.out + printed.err

    # What the rest of the system does

    def move(self) -> None:
        """Go away for a moment, and come back at another port."""
        self._in_loop(self._hang_up())
        time.sleep(0.5)
        self._in_loop(self._listen())

    def apply(self, text: str) -> None:
        for manifest in read_manifests(text).manifests:
            document = dict(manifest.document)
            self._in_loop(self._create(document))

    async def _create(self, document: Document) -> Document:
        resource = await self.client.resource(document["apiVersion"], document["kind"])
        return await self.client.create(resource, document, namespace="default")

    def job(self, name: str) -> Document:
        return self._in_loop(self.client.get(JOBS, name, "default"))

    def workload(self, name: str) -> Document:
        return self._in_loop(self.client.get(WORKLOADS, name, "default"))

    def get(self, kind: str, name: str) -> Document:
        resource = {"LocalQueue": LOCAL_QUEUES, "ClusterQueue": QUEUES, "Pod": PODS}[kind]
        return self._in_loop(self.client.get(resource, name, "default"))

    def has(self, resource: Resource, name: str) -> bool:
        """Whether it is there, and stays."""
        found = self._in_loop(self.client.list(resource, "default")).items
        return any(
            item["metadata"]["name"] == name and "deletionTimestamp" not in item["metadata"]
            for item in found
        )

    def delete(self, job: str) -> None:
        self._in_loop(self.client.delete(JOBS, job, "default"))

    def enqueue(self, job: str, *conditions: Document, priority: int = 0) -> str:
        """Make the Workload of a Job, as the controller does; returns its name."""
        owner = self.job(job)
        template = {"spec": owner["spec"]["template"]["spec"]}
        return self._enqueue(f"job-{job}", owner, template, conditions, priority=priority)

    def enqueue_pod(self, pod: str, *conditions: Document) -> str:
        """Make the Workload of a pod that has no Job; returns its name."""
        owner = self.get("Pod", pod)
        return self._enqueue(f"pod-{pod}", owner, _containers(owner), conditions)

    def enqueue_group(self, group: str, pod: str, *conditions: Document) -> None:
        """Make the Workload of a group of pods, of which `pod` is one."""
        member = self.get("Pod", pod)
        self._enqueue(group, member, _containers(member), conditions, is_group=True)

    def _enqueue(
        self,
        name: str,
        owner: Document,
        template: Document,
        conditions: Sequence[Document],
        *,
        is_group: bool = False,
        **spec: Any,
    ) -> str:
        pod_sets = [{"name": "main", "count": 1, "template": template}]
        queue = owner["metadata"]["labels"][QUEUE_NAME]
        workload = documents.workload(name, queueName=queue, podSets=pod_sets, **spec)
        if is_group:
            workload["metadata"]["annotations"] = {"kueue.x-k8s.io/is-group-workload": "true"}
        else:
            workload = documents.owned(workload, owner, controller=True)
        self._in_loop(self._create(workload))
        self.stands(name, *conditions)
        return name

    def pod_status(self, pod: str, **status: Any) -> None:
        self._patch_status(PODS, pod, {"status": status})

    def release(self, pod: str) -> None:
        """Take its gate away, as its queue does."""
        patch = {"spec": {"schedulingGates": None}}
        self._in_loop(self.client.patch(PODS, pod, "default", patch=patch))

    def printed(self, pod: str, text: str) -> None:
        """What a pod has printed so far."""
        folder = self.folder / "logs" / self.get("Pod", pod)["metadata"]["uid"]
        folder.mkdir(parents=True)
        (folder / "main.log").write_text(text)

    def stands(self, workload: str, *conditions: Document, **status: Any) -> None:
        """Write a Workload's status."""
        patch = {"status": {"conditions": list(conditions), **status}}
        self._patch_status(WORKLOADS, workload, patch)

    def job_status(self, job: str, *conditions: Document, **status: Any) -> None:
        self._patch_status(JOBS, job, {"status": {"conditions": list(conditions), **status}})

    def queue_status(self, queue: str, **status: Any) -> None:
        self._patch_status(QUEUES, queue, {"status": status})

    def _patch_status(self, resource: Any, name: str, patch: Document) -> None:
        where = "default" if resource.is_namespaced else ""
        call = self.client.patch(resource, name, where, patch=patch, subresource="status")
        self._in_loop(call)

    def start_pod(
        self, job: str, name: str, printed: str, *, code: int | None = None, message: str = ""
    ) -> None:
        """A pod of a job, with what it has printed; `code` and why, if it has ended."""
        owner = self.job(job)
        labels = {"batch.kubernetes.io/job-name": job}
        pod = documents.pod(name, {"labels": labels}, **owner["spec"]["template"]["spec"])
        pod = documents.owned(pod, owner)
        made = self._in_loop(self._create(pod))
        self.printed(name, printed)
        if code is not None:
            (self.folder / "logs" / made["metadata"]["uid"] / "main.ended").touch()
            ended: Document = {"exitCode": code, "finishedAt": format_time(int(time.time()))}
            ended |= {"message": message} if message else {}
            state = {"name": "main", "state": {"terminated": ended}, "ready": False}
            state |= {"restartCount": 0, "image": "x", "imageID": ""}
            phase = "Failed" if code else "Succeeded"
            patch = {"status": {"phase": phase, "containerStatuses": [state]}}
            self._patch_status(PODS, name, patch)

    def later(self, *steps: Callable[[], None]) -> threading.Thread:
        """Take these steps while the command runs, each when what it is about is there."""

        def is_taken(step: Callable[[], None]) -> bool:
            try:
                step()
            except NotFound:  # the command has not come so far yet
                return False
            return True

        def take() -> None:
            for step in steps:
                time.sleep(0.2)
                wait_until(lambda step=step: is_taken(step))

        thread = threading.Thread(target=take)
        thread.start()
        return thread


Capsys = pytest.CaptureFixture[str]


def _containers(pod: Document) -> Document:
    return {"spec": {"containers": pod["spec"]["containers"]}}


def said(type_: str, status: str = "True", reason: str = "Because", message: str = "") -> Document:
    then = format_time(int(time.time()))
    told = {"reason": reason, "message": message, "lastTransitionTime": then}
    return documents.condition(type_, status, **told)


def succeeded() -> Document:
    return said("Complete")


def failed(reason: str = "BackoffLimitExceeded") -> Document:
    return said("Failed", reason=reason, message="Job has reached the specified backoff limit")


def rows_of(text: str) -> dict[str, dict[str, str]]:
    """The cells of a table of jobs, by name of the job and title of the column."""
    head, *lines = [line for line in text.splitlines() if not line.startswith("makeway: ")]
    found = list(re.finditer(r"\S+(?: \S+)*", head))  # some titles have spaces, some are the same
    titles, starts = [one[0] for one in found], [one.start() for one in found]
    ends = [*starts[1:], None]
    rows = [
        {t: line[a:b].strip() for t, a, b in zip(titles, starts, ends, strict=True)}
        for line in lines
    ]
    return {row["NAME"]: row for row in rows}
