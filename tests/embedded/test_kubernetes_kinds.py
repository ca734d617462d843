"""Kinds of Kubernetes' own on a real `makeway up`, by kubectl: values, cron jobs, services."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from makeway.api.kinds import ENDPOINT_SLICES, EVENTS, JOBS, PODS
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


def test_a_part_of_a_volume_is_a_file_or_a_new_folder(up: Up) -> None:
    up.kubectl("create", "configmap", "parts", "--from-literal=one=1", "--from-literal=two=2")
    mounts = [
        {"name": "parts", "mountPath": "/etc/one", "subPath": "one"},
        {"name": "work", "mountPath": "/work", "subPath": "a/b"},
    ]
    run(
        up,
        "parts",
        "cat etc/one; ls etc; touch work/x; ls $MAKEWAY_VOLUME_WORK/a/b",
        {"parts": {"configMap": {"name": "parts"}}, "work": {"emptyDir": {}}},
        volumeMounts=mounts,
    )
    assert printed(up, "parts") == "1one\nx\n"


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
    assert 'configmap "late" not found' in up.makeway("status", "-A")

    up.kubectl("create", "configmap", "late", "--from-literal=other=1")
    message = "couldn't find key mode in ConfigMap default/late"
    wait_until(lambda: waiting(up, "hopeful").get("message") == message)
    up.kubectl("patch", "configmap", "late", "--patch", '{"data": {"mode": "fast"}}')

    assert printed(up, "hopeful") == "fast\n"
    assert "message" not in pod(up, "hopeful")["status"]
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


def ended_jobs(up: Up) -> dict[str, str]:
    """The owner of each Job that has succeeded."""
    return {
        job["metadata"]["name"]: job["metadata"]["ownerReferences"][0]["name"]
        for job in up.listed(JOBS)
        if (job.get("status") or {}).get("succeeded")
    }


def test_a_cron_job_runs_through_a_queue_and_takes_its_jobs_along(up: Up) -> None:
    words = ("--image=any", "--schedule=@every 1s", "--", "echo", "tick")
    up.kubectl("create", "cronjob", "tick", *words)
    up.kubectl("create", "job", "by-hand", "--from=cronjob/tick")
    wait_until(lambda: len(ended_jobs(up)) == 2)

    assert set(ended_jobs(up).values()) == {"tick"}
    name = next(name for name in ended_jobs(up) if name != "by-hand")
    assert up.kubectl("logs", f"job/{name}") == "tick\n"
    queue = next(j for j in up.listed(JOBS) if j["metadata"]["name"] == name)["metadata"]["labels"]
    assert queue["kueue.x-k8s.io/queue-name"] == "default"
    assert "@every 1s" in up.kubectl("get", "cronjobs")

    up.kubectl("delete", "cronjob", "tick")
    wait_until(lambda: not ended_jobs(up))


def test_a_service_leads_to_the_port_at_which_a_pod_listens(up: Up) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "my-web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]},
    }
    said = up.kubectl(
        "create", "-f", "-", "--dry-run=server", "-o", "yaml", given=json.dumps(service)
    )
    assert "clusterIP: 127.0.0.1" in said
    up.kubectl("create", "-f", "-", given=json.dumps(service))
    server = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "any",
                    "command": ["sleep", "600"],
                    "ports": [{"name": "http", "containerPort": 18080}],
                }
            ]
        },
    }
    up.kubectl("create", "-f", "-", given=json.dumps(server))

    def endpoints() -> list[tuple[Any, Any]]:
        return [
            (one["targetRef"]["name"], one["conditions"]["ready"])
            for found in up.listed(ENDPOINT_SLICES)
            for one in found.get("endpoints") or ()
        ]

    wait_until(lambda: endpoints() == [("web", True)])
    run(up, "client", "echo $MY_WEB_SERVICE_HOST:$MY_WEB_SERVICE_PORT")
    assert printed(up, "client") == "127.0.0.1:18080\n"
    assert "127.0.0.1:18080" in up.kubectl("describe", "service", "my-web")

    up.kubectl("delete", "pod", "web", "--grace-period=1")
    wait_until(lambda: endpoints() == [])
    up.kubectl("delete", "service", "my-web")
    wait_until(lambda: not up.listed(ENDPOINT_SLICES))
