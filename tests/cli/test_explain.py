"""Who is asked why a job waits, where the API server itself does not know."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web

from makeway.api.meta import ObjectMeta
from makeway.api.queueing import Workload
from makeway.cli.command import RequestRefused
from makeway.cli.explain import explanation_of
from makeway.cli.leader import ask_leader, told_by_leader
from makeway.client import Client
from makeway.client.credentials import Credential, Fixed
from makeway.client.http import HttpTransport, Trust
from makeway.client.transport import Answer, Call
from makeway.translate.job_targets import JobTarget
from tests.kube.kubelet_port import KubeletPort

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

WORKLOAD = Workload(metadata=ObjectMeta(name="job-train", namespace="lab", uid="1"))
LEASE = "/apis/coordination.k8s.io/v1/namespaces/makeway-system/leases/makeway-controller"
LEADER = {"spec": {"holderIdentity": "makeway-controller-7f-x_0b1c"}}
PROXY = (
    "/api/v1/namespaces/makeway-system/pods/makeway-controller-7f-x:8080"
    "/proxy/explain/lab/job-train"
)
PORT_FORWARD = "/api/v1/namespaces/{namespace}/pods/{pod}/portforward"
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


def test_who_may_not_ask_it_is_told_which_rights_that_takes() -> None:
    forbidden = 403, {"kind": "Status", "reason": "Forbidden", "code": 403}
    for cluster in (Cluster(lease=forbidden), Cluster(lease=(200, LEADER), proxy=forbidden)):
        own, hint = explained(cluster)

        assert own == "job-train is pending: not looked at yet"
        assert "`create` on pods/portforward in namespace makeway-system" in hint


@pytest.mark.parametrize(
    ("code", "told"),
    [(422, "the Job is in no queue"), (403, "you need"), (502, "you need")],
)
def test_what_the_controller_refuses_is_no_lack_of_rights(code: int, told: str) -> None:
    status = {"kind": "Status", "message": "the Job is in no queue", "code": code}
    client = Client(Cluster(lease=(200, LEADER), proxy=(code, status)), attempts=1)

    with pytest.raises(RequestRefused) as refused:
        asyncio.run(told_by_leader(client, "explain/lab/job-train", {}))

    assert told in str(refused.value)
    assert ("you need" in str(refused.value)) is (told == "you need")


def test_a_port_of_its_pod_is_forwarded_since_it_answers_there_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[str] = []

    async def lead(request: web.Request) -> web.Response:
        return web.json_response(LEADER)

    async def explain(request: web.Request) -> web.Response:
        asked.append(request.headers.get("Authorization", "no token"))
        return web.json_response(EXPLANATION)

    async def story() -> Any:
        async with listening({"/explain/lab/job-train": explain}) as pod:
            kubelet = KubeletPort(tmp_path, pod)
            paths = {LEASE: lead, PORT_FORWARD: kubelet.forward}
            async with listening(paths) as server:
                source = Fixed(Credential(token="secret"))
                address = f"http://127.0.0.1:{server}"
                client = Client(HttpTransport(address, source=source, trust=Trust()), attempts=1)
                try:
                    return await ask_leader(client, "explain/lab/job-train"), kubelet.asked
                finally:
                    await client.close()

    answer, forwarded = asyncio.run(story())

    assert answer == EXPLANATION
    assert forwarded == [("makeway-controller-7f-x", "8080")]
    assert asked == ["no token"]
    assert not caplog.records  # of asyncio, about connections that ended with the question


@contextlib.asynccontextmanager
async def listening(paths: Mapping[str, Handler]) -> AsyncIterator[int]:
    """A server on loopback that answers these; its port."""
    app = web.Application()
    for path, handler in paths.items():
        app.router.add_get(path, handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


def test_without_a_controller_the_objects_tell_what_they_can() -> None:
    assert explained(Cluster()) == ["job-train is pending: not looked at yet"]
