"""The first job on a machine where nobody has made a queue, and what becomes of that queue."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from makeway.api.kinds import LOCAL_QUEUES, QUEUES
from makeway.api.manifests import write_yaml
from tests.harness.documents import flavor, local_queue, queue
from tests.harness.process import Up, job, running_on, wait_until

BOX = {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "2"}


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("first")
    with running_on(BOX, folder) as started:
        yield started


def policy(up: Up) -> str:
    (found,) = [q for q in up.listed(QUEUES) if q["metadata"]["name"] == "default"]
    return str(found["spec"].get("stopPolicy", "None"))


def applied(up: Up, name: str, *documents: dict[str, Any]) -> None:
    path = up.folder.parent / f"{name}.yaml"
    path.write_text(write_yaml(*documents))
    up.makeway("apply", "-f", str(path))


def test_one_command_runs_the_first_job(up: Up) -> None:
    assert "hello" in up.makeway("submit", "--follow", "--", "echo", "hello")


def test_the_queue_owns_what_the_machine_has(up: Up) -> None:
    assert owned(up) == {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "2"}
    (found,) = up.listed(QUEUES)
    assert found["metadata"]["labels"] == {"makeway.dev/automatic": "true"}


def owned(up: Up) -> dict[str, str]:
    """What the queue has, by resource."""
    (found,) = up.listed(QUEUES)
    (group,) = found["spec"]["resourceGroups"]
    return {r["name"]: r["nominalQuota"] for r in group["flavors"][0]["resources"]}


def test_a_job_that_asks_for_nothing_counts_as_one_core_there(up: Up) -> None:
    made = json.loads(up.makeway("submit", "--dry-run", "server", "-o", "json", "--", "true"))

    (container,) = made["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "1"}


def test_gpus_that_are_out_of_service_are_waited_for(up: Up) -> None:
    up.makeway("gpu", "drain", "0", "1")
    wait_until(lambda: owned(up)["nvidia.com/gpu"] == "0")
    preview = up.makeway("submit", "--gpu", "2", "--preview", "--", "true")
    up.makeway("submit", "--gpu", "2", "--name", "patient", "--", "true")
    refused = up.makeway("submit", "--gpu", "3", "--", "true", code=1)

    assert preview.startswith("It would wait:")
    assert "never: 3 GPUs asked, 2 exist" in refused
    wait_until(lambda: "GPU 0 is drained" in up.makeway("status"))
    explained = up.makeway("explain", "patient")
    assert "It can start when enough of these are handed out again:\n- GPU 0 is" in explained
    assert "would help" not in explained
    wait_until(lambda: "unknown; GPU 0 is drained" in up.makeway("forecast", "patient"))
    up.makeway("gpu", "undrain", "0", "1")
    assert "succeeded" in up.makeway("wait", "patient", "--timeout", "60s")


def test_every_namespace_of_people_has_a_door_to_it(up: Up) -> None:
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "vision"}}
    applied(up, "space", space)

    def doors() -> bool:
        found = {q["metadata"]["namespace"] for q in up.listed(LOCAL_QUEUES)}
        return found == {"default", "vision"}

    wait_until(doors)


def test_queues_of_others_hold_it_and_it_is_back_when_they_are_gone(up: Up) -> None:
    up.makeway(
        "submit", "--name", "runs", "--", "sh", "-c", "until [ -e end ]; do sleep 0.05; done"
    )
    up.makeway("submit", "--name", "waits", "--cpu", "4", "--", "true")
    applied(up, "lab", flavor("lab"), queue("lab", "4", flavor="lab"), local_queue("team", "lab"))
    wait_until(lambda: policy(up) == "Hold")

    told = wait_until(lambda: events_of(up, "waits", "QueueHeld"))
    assert "belongs to ClusterQueues now (lab)" in told
    assert "default is held" in up.makeway("submit", "-q", "default", "--", "true", code=1)
    made = json.loads(up.makeway("submit", "--dry-run", "server", "-o", "json", "--", "true"))
    assert made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"
    wait_until(lambda: "running" in up.makeway("status"))

    up.makeway("delete", "clusterqueue", "lab")
    up.makeway("delete", "localqueue", "team")

    wait_until(lambda: policy(up) == "None")
    up.makeway("cancel", "runs", "-y")
    up.makeway("wait", "waits")


def events_of(up: Up, job: str, reason: str) -> str:
    found = json.loads(up.makeway("get", "events", "-o", "json"))["items"]
    told = [e for e in found if e["reason"] == reason and e["involvedObject"]["name"] == job]
    return str(told[0]["message"]) if told else ""


def test_a_job_without_a_queue_waits_in_it_like_everybody(up: Up) -> None:
    applied(up, "loose", job("loose", "echo loose"))

    labels = json.loads(up.makeway("get", "job", "loose", "-o", "json"))["metadata"]["labels"]

    assert labels["kueue.x-k8s.io/queue-name"] == "default"
    up.makeway("wait", "loose")


def test_who_changes_its_quota_has_made_it_his_own(up: Up) -> None:
    own = queue("default", "1", flavor="automatic"), local_queue("default", "default")
    applied(up, "own", *own)  # no conflict: what is automatic gives way

    wait_until(lambda: labels(up) == [{}])
    up.makeway("delete", "clusterqueue", "default")

    wait_until(lambda: labels(up) == [{"makeway.dev/automatic": "true"}])
    up.create(QUEUES, queue("default", "2", flavor="automatic"))  # as if it weren't there
    up.create(LOCAL_QUEUES, local_queue("default", "elsewhere", namespace="vision"))
    assert labels(up) == [{}]


def labels(up: Up) -> list[dict[str, str]]:
    return [found["metadata"].get("labels") or {} for found in up.listed(QUEUES)]
