"""`makeway dashboard` on a real cluster: forwarded by the API server, with its reader's rights."""

from __future__ import annotations

import contextlib
import json
import re
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import yaml

from makeway.api.kinds import JOBS, LOCAL_QUEUES, NAMESPACES, NODES, PODS, Resource
from makeway.api.labels import QUEUE_NAME
from makeway.deploy.installation import DASHBOARD_PORT
from tests.kube.cluster import Cluster, Process, container, running
from tests.kube.kubelet_port import KubeletPort
from tests.kube.plane import Plane
from tests.kube.test_controller import play

RBAC = "rbac.authorization.k8s.io"
ACCOUNTS = Resource("v1", "serviceaccounts", "ServiceAccount", is_namespaced=True)
ROLES = Resource(f"{RBAC}/v1", "roles", "Role", is_namespaced=True)
BINDINGS = Resource(f"{RBAC}/v1", "rolebindings", "RoleBinding", is_namespaced=True)


class Pages:
    """What a browser would ask, once it has the address."""

    def __init__(self, http: aiohttp.ClientSession, base: str, session: str) -> None:
        self._http, self._base, self._headers = http, base, {"Makeway-Session": session}

    async def rows(self) -> dict[str, dict[str, Any]]:
        """All that a page is told when it begins, by table and key."""
        tables: dict[str, dict[str, Any]] = {}
        async with self._http.get(f"{self._base}/api/stream", headers=self._headers) as answer:
            assert answer.status == 200, await answer.text()
            async for line in answer.content:
                message = json.loads(line)
                for row in message.get("items", ()):
                    tables.setdefault(message["table"], {})[row["key"]] = row
                assert not message.get("gone")
                if message["type"] == "synced":
                    return tables
        raise AssertionError("the stream ended")

    async def get(self, path: str, **query: str) -> tuple[int, dict[str, Any]]:
        asked = self._http.get(f"{self._base}{path}", params=query, headers=self._headers)
        async with asked as answer:
            return answer.status, await answer.json()

    async def post(self, path: str, body: dict[str, str]) -> tuple[int, dict[str, Any]]:
        asked = self._http.post(f"{self._base}{path}", json=body, headers=self._headers)
        async with asked as answer:
            return answer.status, await answer.json()


class House(NamedTuple):
    lab: Cluster
    other: str  # a namespace that ada may not look into
    folder: Path
    kubeconfig: Path

    @contextlib.asynccontextmanager
    async def pages(self, *options: str) -> AsyncIterator[Pages]:
        """As whoever runs the command with these options."""
        words = ["dashboard", "--print", "--kubeconfig", str(self.kubeconfig)]
        words += ["--controller-namespace", self.lab.own_namespace, *options]
        with running(Process(self.folder, words)) as process:

            async def is_told() -> bool:
                return "#" in process.log()

            await self.lab.until(is_told, "the address is printed")
            base, code = process.log().split()[0].split("/#")
            async with aiohttp.ClientSession() as http:
                sign_in = http.post(f"{base}/api/session", headers={"Makeway-Code": code})
                async with sign_in as answer:
                    session = (await answer.json())["session"]
                yield Pages(http, base, session)
            assert process.stop() == 0


@contextlib.asynccontextmanager
async def house(lab: Cluster, folder: Path, plane: Plane) -> AsyncIterator[House]:
    """theirs runs and takes all there is; mine, of the namespace that ada may see, waits."""
    other = f"{lab.namespace}-other"
    await lab.queue("team", cpu=1)
    await lab.create(NAMESPACES, {"metadata": {"name": other}})
    door = {"metadata": {"name": "team", "namespace": other}}
    await lab.create(LOCAL_QUEUES, {**door, "spec": {"clusterQueue": f"{lab.namespace}-team"}})
    await let_see(lab, "ada")
    with lab.controller() as controller:

        async def leads() -> bool:
            return controller.leads

        await lab.until(leads, "it leads")
        (port,) = re.findall(r"dashboard on 127\.0\.0\.1:(\d+);", controller.log())
        kubelet = KubeletPort(folder, int(port))
        async with kubelet.listening() as kubelet_port:
            await a_node(lab, kubelet_port)
            await submit(lab, "theirs", other)

            async def runs() -> bool:
                return not (await lab.client.get(JOBS, "theirs", other))["spec"]["suspend"]

            await lab.until(runs, "theirs runs")
            await submit(lab, "mine", lab.namespace)
            await lab.until_suspended("mine")
            yield House(lab, other, folder, plane.kubeconfig)
        assert set(kubelet.asked) == {(socket.gethostname(), str(DASHBOARD_PORT))}


async def let_see(lab: Cluster, name: str) -> None:
    """An account that may look into the story's namespace, and change nothing."""
    await lab.create(ACCOUNTS, {"metadata": {"name": name}})
    groups = ["", "batch", "kueue.x-k8s.io"]
    rules = [{"apiGroups": groups, "resources": ["*"], "verbs": ["get", "list", "watch"]}]
    await lab.create(ROLES, {"metadata": {"name": name}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": name, "namespace": lab.namespace}
    reference = {"apiGroup": RBAC, "kind": "Role", "name": name}
    binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
    await lab.create(BINDINGS, binding)


async def a_node(lab: Cluster, kubelet_port: int) -> None:
    """One whose kubelet is ours, with the pod that the controller would be."""
    name = f"{lab.namespace}-home"
    await lab.create(NODES, {"metadata": {"name": name}})
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet_port}},
    }
    await lab.client.patch(NODES, name, patch={"status": status}, subresource="status")
    metadata = {"name": socket.gethostname(), "namespace": lab.own_namespace}
    spec = {"nodeName": name, "containers": [container()]}
    await lab.create(PODS, {"metadata": metadata, "spec": spec})


async def submit(lab: Cluster, name: str, namespace: str) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [container()]}}
    metadata = {"name": name, "namespace": namespace, "labels": {QUEUE_NAME: "team"}}
    await lab.create(JOBS, {"metadata": metadata, "spec": {"suspend": True, "template": template}})


def test_pages_show_and_do_what_their_reader_may(plane: Plane, tmp_path: Path) -> None:
    async def story(lab: Cluster) -> None:
        async with house(lab, tmp_path, plane) as found:
            mine, theirs = f"Job/{lab.namespace}/mine", f"Job/{found.other}/theirs"
            async with found.pages() as pages:  # the administrator's own token
                tables = await pages.rows()
                assert {mine, theirs} <= tables["jobs"].keys()
                assert f"{lab.namespace}-team" in tables["queues"]
                workload = tables["jobs"][mine]["workload"]
                _, told = await pages.get("/api/job", key=mine, workload=workload)
                assert "theirs" in json.dumps(told["explanation"])

                async def is_forecast() -> bool:
                    _, told = await pages.get("/api/job", key=mine, workload=workload)
                    verdict: str = told["forecast"]["verdict"]
                    return verdict != "Coming"

                await lab.until(is_forecast, "it is forecast")

            account = f"{lab.namespace}/ada"
            async with found.pages("--service-account", account) as pages:
                assert {name: [*rows] for name, rows in (await pages.rows()).items()} == {
                    "jobs": [mine]
                }
                code, told = await pages.get("/api/job", key=mine, workload=workload)
                assert code == 200
                assert "theirs" not in json.dumps(told["explanation"])
                assert "another's workload" in json.dumps(told["explanation"])

                held = {"key": mine, "workload": workload, "action": "hold"}
                code, refusal = await pages.post("/api/action", held)
                assert (code, "cannot patch" in refusal["message"]) == (403, True)
                code, refusal = await pages.get("/api/job", key=theirs)
                assert code == 403

            async with found.pages() as pages:
                code, _ = await pages.post("/api/action", held)
                assert code == 200
            changed = await lab.workload("mine")
            managers = {entry["manager"] for entry in changed["metadata"]["managedFields"]}
            assert changed["spec"]["active"] is False
            assert "makeway-dashboard" in managers

    play(plane, tmp_path, story)


def test_what_is_missing_is_said(plane: Plane, tmp_path: Path) -> None:
    async def story(lab: Cluster) -> None:
        config = yaml.safe_load(plane.kubeconfig.read_text())
        config["users"][0]["user"] = {}
        nobody = tmp_path / "nobody.kubeconfig"
        nobody.write_text(yaml.safe_dump(config))
        for kubeconfig, why in (
            (plane.kubeconfig, f"no Makeway leads in namespace {lab.own_namespace}"),
            (nobody, "name a ServiceAccount whose rights they are to have"),
        ):
            words = ["dashboard", "--print", "--kubeconfig", str(kubeconfig)]
            words += ["--controller-namespace", lab.own_namespace]
            process = Process(tmp_path, words)

            async def has_ended(process: Process = process) -> bool:
                return not process.is_running

            await lab.until(has_ended, "it has ended")
            assert why in process.log()

    play(plane, tmp_path, story)
