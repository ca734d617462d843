"""A controller for a cluster, beside a server in the same process."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from makeway.api.kinds import (
    BUDGETS,
    FLAVORS,
    GANG_WORKLOADS,
    GANGS,
    JOBS,
    LEASES,
    LOCAL_QUEUES,
    NODES,
    POD_GROUPS,
    PODS,
    QUEUES,
    WORKLOADS,
    Resource,
)
from makeway.cli.main import main
from makeway.client.client import Client
from makeway.client.transport import Answer, Call, InProcessTransport, Unreachable
from makeway.cluster.controller import (
    CannotControl,
    Controller,
    Fenced,
    Settings,
    absent_kinds,
    parts_for,
)
from makeway.cluster.window import Window
from makeway.embedded.inside import client_in_process
from makeway.engine.decisions import Admit
from makeway.journal.file import Journal
from makeway.journal.records import Decided
from makeway.journal.replay import replay
from makeway.plane.picture import Picture
from makeway.plane.writes import Key
from tests.harness import documents
from tests.harness.documents import job
from tests.server.harness import Server, play, settled

LEASE = Key("default", "makeway-controller")


class Line:
    """To the server of a story, which may keep kinds back."""

    def __init__(self, server: Server, refusals: dict[str, int] | None = None) -> None:
        self._inner = client_in_process(server.app).transport
        self._refusals = refusals or {}

    @contextlib.asynccontextmanager
    async def send(self, call: Call) -> AsyncIterator[Answer]:
        code = self._refusals.get(call.path)
        if code is not None:

            async def pieces() -> AsyncIterator[bytes]:
                yield b'{"message": "not for you"}'

            yield Answer(code=code, headers={}, pieces=pieces())
            return
        async with self._inner.send(call) as answer:
            yield answer

    async def close(self) -> None:
        pass


@contextlib.asynccontextmanager
async def running(
    server: Server,
    identity: str = "a",
    *,
    lease: Key | None = LEASE,
    journal: Path | None = None,
) -> AsyncIterator[tuple[Controller, asyncio.Event]]:
    settings = Settings(lease=lease, identity=identity, journal=journal)
    controller, stop = (
        Controller(lambda: Line(server), settings, lambda: server.now),
        asyncio.Event(),
    )
    task = asyncio.create_task(controller.run(stop))
    try:
        yield controller, stop
    finally:
        stop.set()
        await task


async def create(server: Server, resource: Any, name: str, **parts: Any) -> None:
    metadata = {"name": name, "namespace": "default"} if resource.is_namespaced else {"name": name}
    head = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    await server.client.create(resource, head | parts)


async def set_up(server: Server, cpu: str = "4") -> None:
    flavors = [{"name": "plain", "resources": [{"name": "cpu", "nominalQuota": cpu}]}]
    groups = [{"coveredResources": ["cpu"], "flavors": flavors}]
    await create(server, FLAVORS, "plain", spec={})
    await create(server, QUEUES, "team", spec={"namespaceSelector": {}, "resourceGroups": groups})
    await create(server, LOCAL_QUEUES, "team", spec={"clusterQueue": "team"})


async def submit(server: Server, name: str) -> None:
    document = job(name, suspend=True)
    document["metadata"] |= {
        "namespace": "default",
        "labels": {"kueue.x-k8s.io/queue-name": "team"},
    }
    document["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    await server.client.create(JOBS, document)


async def is_released(server: Server, name: str) -> None:
    """Come back when the Job may run."""
    while (await server.client.get(JOBS, name, "default"))["spec"]["suspend"]:
        await asyncio.sleep(0.005)


def test_a_queued_job_is_released_and_its_pods_are_left_to_kubernetes(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await set_up(server)
        async with running(server, journal=tmp_path / "journal.db"):
            await submit(server, "train")
            await is_released(server, "train")
            await asyncio.sleep(0.05)
        for kind in (PODS, NODES):
            assert not (await server.client.list(kind)).items

    play(tmp_path, story)
    (admitted,) = decisions_in(tmp_path / "journal.db")
    assert admitted.workload.startswith("default/job-train-")


def decisions_in(path: Path) -> list[Admit]:
    """Who was admitted, by a journal that is replayed equal."""
    journal = Journal(path)
    records = [record for segment in journal.segments() for record in journal.records(segment)]
    journal.close()
    assert replay(records).differences == ()
    cycles = [record.decisions for record in records if isinstance(record, Decided)]
    return [decision for cycle in cycles for decision in cycle if isinstance(decision, Admit)]


def test_of_two_one_leads_and_hands_over_when_it_is_told_to_stop(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await set_up(server)
        async with running(server, "a") as (first, stop_first):
            await settled(lambda: "makeway_leader 1" in first.metrics())
            async with running(server, "b") as (second, _):
                await asyncio.sleep(0.05)
                assert (second.unready, second.visibility) == ("", None)
                assert "makeway_leader 0" in second.metrics()
                stop_first.set()
                while "makeway_leader 1" not in second.metrics():
                    await asyncio.sleep(0.01)
                await submit(server, "train")
                await is_released(server, "train")
        lease = await server.client.get(LEASES, LEASE.name, LEASE.namespace)
        assert lease["spec"].get("holderIdentity", "") == ""

    play(tmp_path, story)


def test_a_write_after_the_term_is_not_sent() -> None:
    async def handle(call: Call) -> tuple[int, dict[str, str], bytes]:
        raise AssertionError(call)

    async def story() -> None:
        client = Client(Fenced(InProcessTransport(handle), lambda: False))
        with pytest.raises(Exception, match="no longer leads"):
            await client.create(JOBS, job(), namespace="default")
        with pytest.raises(Unreachable):
            Fenced(InProcessTransport(handle), lambda: False).send(
                Call(method="DELETE", path="/api/v1/namespaces/default/pods/p")
            )

    asyncio.run(story())


# What a server lacks


def test_gangs_and_budgets_are_done_without_where_they_are_not_to_be_had(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        refusals = {GANG_WORKLOADS.path(): 404, POD_GROUPS.path(): 404, BUDGETS.path(): 403}
        client = Client(Line(server, refusals))
        assert await absent_kinds(client, Settings()) == {GANG_WORKLOADS, POD_GROUPS, BUDGETS}
        assert await absent_kinds(Client(Line(server)), Settings()) == frozenset()

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (404, "the server has no Workload of kueue.x-k8s.io/v1beta2; are the CRDs"),
        (403, "workloads can't be listed: not for you"),
    ],
)
def test_without_its_own_kinds_it_does_not_begin(tmp_path: Path, code: int, why: str) -> None:
    async def story(server: Server) -> None:
        client = Client(Line(server, {WORKLOADS.path(): code}))
        with pytest.raises(CannotControl, match=why):
            await absent_kinds(client, Settings())

    play(tmp_path, story)


# What it tells


def test_it_tells_over_http_who_waits_and_why(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await set_up(server, cpu="0")
        async with running(server, lease=None) as (controller, _), looking(controller) as ask:
            await settled(lambda: controller.visibility is not None and not controller.unready)
            await submit(server, "train")
            pending = "/apis/visibility.kueue.x-k8s.io/v1beta2/{}/pendingworkloads"
            while not (found := await ask(pending.format("clusterqueues/team")))[1]["items"]:
                await asyncio.sleep(0.01)
            (item,) = found[1]["items"]
            code, listed = await ask(pending.format("namespaces/default/localqueues/team"))
            assert (code, listed["items"]) == (200, [item])
            code, explanation = await ask(f"/explain/default/{item['metadata']['name']}")
            assert (code, explanation["kind"]) == (200, "Explanation")
            assert (await ask("/explain/default/nobody"))[0] == 404
            assert (await ask(pending.format("clusterqueues/none")))[0] == 404
            assert (await ask(pending.format("clusterqueues/team") + "?limit=-1"))[0] == 400

    play(tmp_path, story)


def test_it_tells_over_http_what_would_become_of_whom(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await set_up(server, cpu="2")
        journal = tmp_path / "journal.db"
        controlled = running(server, lease=None, journal=journal)
        async with controlled as (controller, _), looking(controller) as ask:
            await settled(lambda: controller.visibility is not None and not controller.unready)
            workload = documents.workload("mine")
            workload["metadata"]["namespace"] = "default"
            code, found = await ask("/preview", workload)
            assert (code, found["outcome"]) == (200, "Starts")
            assert (await ask("/preview", {"kind": "Pod"}))[0] == 400
            assert (await ask("/preview", []))[0] == 400
            queue = documents.queue("team", "4")
            code, found = await ask("/diff", {"items": [queue]})
            assert (code, [edited["name"] for edited in found["objects"]]) == (200, ["team"])
            assert (await ask("/diff", {"items": [{"kind": "ClusterQueue"}]}))[0] == 400
        assert decisions_in(journal) == []  # asking has decided nothing

    play(tmp_path, story)


def test_who_stands_by_is_ready_and_says_that_it_knows_nothing(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        controller = Controller(lambda: Line(server), Settings(lease=LEASE, identity="b"))
        async with looking(controller) as ask:
            for path in ("/healthz", "/readyz"):
                assert (await ask(path))[0] == 200
            assert (await ask("/explain/default/train"))[0] == 503
            code, text = await ask("/metrics")
            assert (code, "makeway_leader 0" in text) == (200, True)

    play(tmp_path, story)


def test_the_address_for_probes_tells_nothing_else(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        controller = Controller(lambda: Line(server), Settings(lease=LEASE, identity="b"))
        async with looking(controller, is_whole=False) as ask:
            found = {path: (await ask(path))[0] for path in ("/healthz", "/readyz", "/metrics")}
            assert found == {"/healthz": 200, "/readyz": 200, "/metrics": 404}
            assert (await ask("/explain/default/train"))[0] == 404

    play(tmp_path, story)


def test_who_only_queues_asks_for_no_nodes_budgets_or_gangs() -> None:
    def kinds(settings: Settings) -> set[Resource]:
        _, parts = parts_for(Picture(), settings, ())
        return {resource for part in parts for resource in part.resources}

    assert kinds(Settings()) - kinds(Settings(scheduler="")) == {
        *(NODES, BUDGETS, POD_GROUPS, GANGS, GANG_WORKLOADS)
    }


@contextlib.asynccontextmanager
async def looking(controller: Controller, *, is_whole: bool = True) -> AsyncIterator[Any]:
    """Ask by path; the code and what was answered."""
    window = Window(controller, "127.0.0.1", 0, is_whole=is_whole)
    port = await window.open()

    async def ask(path: str, body: Any = None) -> tuple[int, Any]:
        method = "GET" if body is None else "POST"
        async with session.request(method, f"http://127.0.0.1:{port}{path}", json=body) as answer:
            is_json = answer.content_type == "application/json"
            return answer.status, await (answer.json() if is_json else answer.text())

    try:
        async with aiohttp.ClientSession() as session:
            yield ask
    finally:
        await window.close()


# The command


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--metrics-address", "8080"), "--metrics-address 8080: write HOST:PORT"),
        (("--kubeconfig", "/nowhere"), "/nowhere can't be read"),
        (("--context", "prod"), "contexts: there is no context 'prod' in it"),
        (("--config", "/nowhere.yaml"), "/nowhere.yaml can't be read"),
        (("--metrics-address", "192.0.2.1:80"), "--metrics-address 192.0.2.1:80: "),
        (("--health-address", "192.0.2.1:80"), "--health-address 192.0.2.1:80: "),
    ],
)
def test_what_is_wrong_with_the_command_is_told_in_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    why: str,
) -> None:
    config = tmp_path / "config"
    config.write_text(
        "clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        "contexts: [{name: a, context: {cluster: a}}]\n"
        "current-context: a\n"
    )
    monkeypatch.setenv("KUBECONFIG", str(config))
    assert main(["controller", "--dashboard-port", "0", *arguments]) == 2  # others may have ours
    told = capsys.readouterr().err
    assert why in told
    assert told.count("\n") == 1
