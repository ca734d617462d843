"""ConfigMaps and Secrets on a real `makeway up`, by kubectl: pods read them, nobody else does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from makeway.api.kinds import EVENTS, PODS
from tests.harness.process import Document, Up, running, wait_until
from tests.prerequisites import program

TOP_SECRET = "corridor-seven"  # in no other test


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    program("kubectl")
    with running(tmp_path_factory.mktemp("values") / "data") as up:
        yield up


def run(up: Up, name: str, script: str, volumes: Document | None = None, **more: Any) -> None:
    """Start a pod; `volumes` are mounted at `/in/<name>`."""
    named = [{"name": each, **source} for each, source in (volumes or {}).items()]
    mounts = [{"name": each, "mountPath": f"/in/{each}"} for each in volumes or {}]
    container = {"name": "main", "image": "any", "command": ["sh", "-c", script]}
    spec = {
        "restartPolicy": "Never",
        "containers": [{**container, "volumeMounts": mounts, **more}],
        "volumes": named,
    }
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    up.kubectl("create", "-f", "-", given=json.dumps(document))


def pod(up: Up, name: str) -> Document:
    return next(pod for pod in up.listed(PODS) if pod["metadata"]["name"] == name)


def printed(up: Up, name: str) -> str:
    wait_until(lambda: pod(up, name)["status"]["phase"] in ("Succeeded", "Failed"))
    return up.kubectl("logs", name)


def waiting(up: Up, name: str) -> Document:
    """Why its container waits."""
    for status in pod(up, name)["status"].get("containerStatuses") or ():
        found: Document = status["state"].get("waiting") or {}
        return found
    return {}


def said(up: Up, name: str) -> list[tuple[str, str]]:
    events = up.listed(EVENTS)
    return [(e["reason"], e["message"]) for e in events if e["involvedObject"]["name"] == name]


def test_a_pod_reads_values_as_variables_and_files(up: Up, tmp_path: Path) -> None:
    (tmp_path / "app.ini").write_text("[server]\nport = 1\n")
    up.kubectl("create", "configmap", "app", f"--from-file={tmp_path}/app.ini")
    up.kubectl("create", "secret", "generic", "login", "--from-literal=user=ada")
    run(
        up,
        "reader",
        "echo $IN_user; cat in/conf/app.ini; cat in/login/name; stat -L -c %a in/login/name",
        {
            "conf": {"configMap": {"name": "app"}},
            "login": {
                "secret": {
                    "secretName": "login",
                    "items": [{"key": "user", "path": "name", "mode": 0o400}],
                }
            },
        },
        envFrom=[{"prefix": "IN_", "secretRef": {"name": "login"}}],
    )
    assert printed(up, "reader") == "ada\n[server]\nport = 1\nada400\n"


def test_a_pod_waits_for_a_variable_and_starts_when_it_is_there(up: Up) -> None:
    key = {"configMapKeyRef": {"name": "late", "key": "mode"}}
    run(up, "hopeful", "echo $MODE", env=[{"name": "MODE", "valueFrom": key}])
    wait_until(lambda: waiting(up, "hopeful").get("reason") == "CreateContainerConfigError")
    assert waiting(up, "hopeful")["message"] == 'configmap "late" not found'
    assert "CreateContainerConfigError" in up.kubectl("get", "pod", "hopeful")

    up.kubectl("create", "configmap", "late", "--from-literal=other=1")
    message = "couldn't find key mode in ConfigMap default/late"
    wait_until(lambda: waiting(up, "hopeful").get("message") == message)
    up.kubectl("patch", "configmap", "late", "--patch", '{"data": {"mode": "fast"}}')

    assert printed(up, "hopeful") == "fast\n"
    assert ("Failed", 'Error: configmap "late" not found') in said(up, "hopeful")


def test_a_pod_waits_for_a_volume_across_a_restart_of_makeway(up: Up) -> None:
    run(up, "patient", "cat in/v/a", {"v": {"secret": {"secretName": "later"}}})
    why = 'MountVolume.SetUp failed for volume "v" : secret "later" not found'
    wait_until(lambda: ("FailedMount", why) in said(up, "patient"))
    assert waiting(up, "patient") == {"reason": "ContainerCreating"}

    up.kill()
    up.start()
    up.kubectl("create", "secret", "generic", "later", "--from-literal=a=1")

    assert printed(up, "patient") == "1"


def test_a_secret_is_where_it_belongs_and_nowhere_else(up: Up) -> None:
    up.kubectl("create", "secret", "generic", "s", f"--from-literal=word={TOP_SECRET}")
    run(
        up,
        "keeper",
        "test -s in/s/word && test -n $word",
        {"s": {"secret": {"secretName": "s"}}},
        envFrom=[{"secretRef": {"name": "s"}}],
    )
    key = {"secretKeyRef": {"name": "s", "key": "none"}}
    run(up, "stuck", "true", env=[{"name": "A", "valueFrom": key}])
    wait_until(lambda: waiting(up, "stuck"))
    assert printed(up, "keeper") == ""

    told = [up.makeway("explain", "pod/keeper"), up.makeway("describe", "pod/keeper")]
    told += [
        up.makeway("describe", "secret/s"),
        up.kubectl("get", "events,pods,workloads", "-o", "yaml"),
    ]
    told += [up.kubectl("get", "secrets"), up.kubectl("describe", "secret", "s")]
    coded = up.kubectl("get", "secret", "s", "-o", "jsonpath={.data.word}")
    for text in told:
        assert TOP_SECRET not in text
        assert coded not in text
    uid = pod(up, "keeper")["metadata"]["uid"]
    assert not (up.folder / "pods" / uid / "volumes" / "s").exists()
    for file in sorted(up.folder.rglob("*")):
        if file.is_file() and (
            TOP_SECRET in (text := file.read_text(errors="replace")) or coded in text
        ):
            # The database, and the order to run the pod: nobody but us gets there.
            assert file.name in ("makeway.db", "makeway.db-wal", "order.json"), file
    log = up.folder.with_suffix(".log").read_text()
    assert TOP_SECRET not in log
    assert coded not in log
