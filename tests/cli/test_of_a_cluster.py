"""Commands on a cluster of others, for somebody who may edit in one namespace of it.

Kubernetes asks for a right before it looks whether there is such a path: what only Makeway's own
server has, it forbids.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from makeway.client.kubeconfig import CLUSTER
from makeway.server import messages
from makeway.server.errors import ApiError
from makeway.server.messages import Request, Response
from tests.cli.conftest import QUEUES
from tests.harness.cli import Capsys, CliServer, said

# What the role `edit` and that of `makeway install` give in a namespace, and discovery.
OPEN = re.compile(
    r"/(api|apis)(/[^/]+){0,2}"
    r"|/(api|apis)(/[^/]+){1,2}/namespaces/default/[^/]+(/[^/]+(/(log|status))?)?"
)
TO_BE_READ = ("/workloads", "/localqueues")


class OfOthers(CliServer):
    async def _listen(self) -> None:
        await super()._listen()
        told = self.kubeconfig.read_text()
        self.kubeconfig.write_text(told.replace(f'"{CLUSTER}"', '"prod"'))

    async def answer(self, request: Request) -> Response:
        is_read = request.method == "GET" or not any(k in request.path for k in TO_BE_READ)
        if OPEN.fullmatch(request.path) and is_read:
            return await super().answer(request)
        why = f"you may not {request.method} {request.path}"
        return messages.problem(ApiError(403, "Forbidden", why))

    def ask(self, command: str, *arguments: str, code: int = 0) -> str:
        return self.run(command, "--kubeconfig", str(self.kubeconfig), *arguments, code=code)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> Iterator[OfOthers]:
    """It has the LocalQueue `team`; ada's job `train` runs there."""
    made = OfOthers(tmp_path / "data", monkeypatch, capsys)
    made.apply(QUEUES)
    made.ask("submit", "--image", "python:3", "--name", "train", "--", "train")
    made.enqueue("train", said("QuotaReserved", "False", "Pending", "no room"))
    yield made
    made.close()


def test_objects_tell_why_a_job_waits_where_nobody_may_ask_more(cluster: OfOthers) -> None:
    told = cluster.ask("explain", "last")

    assert told.startswith("train is pending: no room\n")


def test_what_a_job_prints_is_read_from_its_pods(cluster: OfOthers) -> None:
    cluster.start_pod("train", "train-0", "epoch 1\n", code=0)

    assert cluster.ask("logs", "train") == "epoch 1\n"


def test_a_class_is_taken_as_it_is_named(cluster: OfOthers) -> None:
    cluster.ask("submit", "--image", "python:3", "--priority", "urgent", "--name", "x", "--", "x")

    assert cluster.job("x")["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] == "urgent"


def test_who_may_not_hold_a_job_is_told_which_right_is_missing(cluster: OfOthers) -> None:
    refused = cluster.ask("hold", "train", code=1)

    assert re.search(r"may not PATCH \S+/workloads/job-train\n", refused)


def test_who_may_not_compare_queues_is_told_whom_to_ask(cluster: OfOthers, tmp_path: Path) -> None:
    queues = tmp_path / "queues.yaml"
    queues.write_text(QUEUES)

    assert "the controller could not be asked" in cluster.ask("diff", "-f", str(queues), code=2)
