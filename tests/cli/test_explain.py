"""Who is asked why a job waits, where the API server itself does not know."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import orjson

from makeway.api.meta import ObjectMeta
from makeway.api.queueing import Workload
from makeway.cli.explain import explanation_of
from makeway.client import Client
from makeway.client.transport import Answer, Call
from makeway.translate.job_targets import JobTarget

WORKLOAD = Workload(metadata=ObjectMeta(name="job-train", namespace="lab", uid="1"))
LEASE = "/apis/coordination.k8s.io/v1/namespaces/makeway-system/leases/makeway-controller"
LEADER = {"spec": {"holderIdentity": "makeway-controller-7f-x_0b1c"}}
PROXY = (
    "/api/v1/namespaces/makeway-system/pods/makeway-controller-7f-x:8080"
    "/proxy/explain/lab/job-train"
)
EXPLANATION = {"kind": "Explanation", "lines": ["it waits"], "pieces": [["it waits"]]}


class Cluster:
    """An API server that knows a few paths, and has no events."""

    def __init__(self, **answers: tuple[int, Any]) -> None:
        self._answers = answers
        self.asked: list[str] = []

    @contextlib.asynccontextmanager
    async def send(self, call: Call) -> AsyncIterator[Answer]:
        self.asked.append(call.path)
        name = {LEASE: "lease", PROXY: "proxy"}.get(call.path, "")
        code, body = self._answers.get(name, (404, {}))
        if call.path.endswith("/events"):
            code, body = 200, {"items": [], "metadata": {"resourceVersion": "1"}}

        async def pieces() -> AsyncIterator[bytes]:
            yield orjson.dumps(body)

        yield Answer(code=code, headers={}, pieces=pieces())

    async def close(self) -> None:
        pass


def explained(cluster: Cluster) -> list[str]:
    target = JobTarget(None, WORKLOAD)
    document = asyncio.run(explanation_of(Client(cluster, attempts=1), target))
    assert ["".join(pieces) for pieces in document["pieces"]] == document["lines"]
    return list(document["lines"])


def test_the_leading_controller_is_asked_through_the_api_server() -> None:
    cluster = Cluster(lease=(200, LEADER), proxy=(200, EXPLANATION))

    assert explained(cluster) == ["it waits"]
    assert cluster.asked[-1] == PROXY


def test_who_may_not_ask_it_is_told_where_it_answers() -> None:
    forbidden = 403, {"kind": "Status", "reason": "Forbidden", "code": 403}
    own, hint = explained(Cluster(lease=forbidden))

    assert own == "job-train is pending: not looked at yet"
    assert "-n makeway-system port-forward deployment/makeway-controller 8080`" in hint
    assert hint.endswith("http://127.0.0.1:8080/explain/lab/job-train")
    _, hint = explained(Cluster(lease=(200, LEADER), proxy=forbidden))
    assert "port-forward pod/" in hint  # the one that leads


def test_without_a_controller_the_objects_tell_what_they_can() -> None:
    assert explained(Cluster()) == ["job-train is pending: not looked at yet"]
