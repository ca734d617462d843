"""Pods without a Job on one machine: Kueue's own samples, as real processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from makeway.api.kinds import PODS, WORKLOADS
from tests.harness.documents import flavor, local_queue, queue
from tests.harness.process import Up, running_on, wait_until
from tests.prerequisites import program, shared_path

EXAMPLES = Path(__file__).parents[2] / "examples"
BOX = {"cpu": "64", "memory": "64Gi"}


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    program("kubectl")
    folder = tmp_path_factory.mktemp("pods")
    with running_on(BOX, folder) as up:
        for document in (flavor("default"), queue("team", "6"), local_queue("user-queue", "team")):
            up.kubectl("apply", "-f", "-", given=json.dumps(document))
        yield up


@pytest.fixture
def up(machine: Up) -> Iterator[Up]:
    """The machine of all these stories; each leaves it without pods."""
    yield machine
    machine.kubectl("delete", "pods", "--all", "--grace-period=1", "--timeout=20s")
    wait_until(lambda: not machine.listed(WORKLOADS))


def sample(name: str) -> str:
    return shared_path(f"samples/kueue/{name}.yaml").read_text()


def phases(up: Up) -> list[str]:
    return sorted(pod["status"]["phase"] for pod in up.listed(PODS))


def finished(up: Up) -> list[str]:
    return [
        workload["metadata"]["name"]
        for workload in up.listed(WORKLOADS)
        for condition in (workload.get("status") or {}).get("conditions") or ()
        if (condition["type"], condition["status"]) == ("Finished", "True")
    ]


def test_pods_run_two_at_a_time_where_quota_is_for_two(up: Up, tmp_path: Path) -> None:
    script = f"while [ ! -e {tmp_path}/over ]; do sleep 0.05; done"
    pod = (
        sample("kueue-pod").replace("- sleep", "- sh").replace("- 3s", f"- -c\n        - {script}")
    )
    for _ in range(3):
        up.kubectl("create", "-f", "-", given=pod)

    wait_until(lambda: phases(up) == ["Pending", "Running", "Running"])
    [waiting] = [pod for pod in up.listed(PODS) if pod["status"]["phase"] == "Pending"]
    assert waiting["spec"]["schedulingGates"]
    wait_until(lambda: "SchedulingGated" in str(up.listed(PODS)))
    (tmp_path / "over").touch()
    wait_until(lambda: phases(up) == ["Succeeded"] * 3)
    wait_until(lambda: len(finished(up)) == 3)


def test_a_group_starts_together_and_finishes_as_one(up: Up) -> None:
    leader, worker = sample("kueue-pod-group").strip("-\n").split("\n---\n")
    up.kubectl("create", "-f", "-", given=leader)
    assert not up.listed(WORKLOADS)

    up.kubectl("create", "-f", "-", given=worker)

    wait_until(lambda: phases(up) == ["Running", "Running"])
    wait_until(lambda: finished(up) == ["sample-group"])
    wait_until(lambda: all("finalizers" not in pod["metadata"] for pod in up.listed(PODS)))


def test_a_gang_starts_when_the_last_of_its_pods_is_there(up: Up) -> None:
    gang, first, second = (EXAMPLES / "21-gang.yaml").read_text().split("\n---\n")
    up.kubectl("create", "-f", "-", given=f"{gang}\n---\n{first}")

    def reason() -> str:
        conditions = up.listed(PODS)[0]["status"].get("conditions") or ()
        return next((c["message"] for c in conditions if c["type"] == "PodScheduled"), "")

    wait_until(lambda: "2 pods of the gang default/ring have to be placed" in reason())
    up.kubectl("create", "-f", "-", given=second)

    wait_until(lambda: phases(up) == ["Succeeded", "Succeeded"])
    assert up.kubectl("logs", "ring-1") == "ring-1 is done\n"
    wait_until(lambda: up.kubectl("get", "gangs").split()[-4:-1] == ["ring", "2", "True"])


def test_a_running_group_that_is_deleted_frees_its_quota(up: Up) -> None:
    up.kubectl("create", "-f", "-", given=sample("kueue-pod-group"))
    wait_until(lambda: phases(up) == ["Running", "Running"])
    up.kubectl("create", "-f", "-", given=sample("kueue-pod"))

    group = "kueue.x-k8s.io/pod-group-name=sample-group"
    up.kubectl("delete", "pods", "-l", group, "--grace-period=1", "--timeout=20s")

    wait_until(lambda: phases(up) == ["Running"])
    wait_until(lambda: "sample-group" not in str(up.listed(WORKLOADS)))


def named(name: str, script: str, **labels: str) -> str:
    container = {
        "name": "main",
        "image": "none",
        "command": ["sh", "-c", script],
        "resources": {"requests": {"cpu": "4"}},
    }
    labels = {f"kueue.x-k8s.io/{key.replace('_', '-')}": value for key, value in labels.items()}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        }
    )


def test_a_pod_makes_way_for_a_more_important_one(up: Up) -> None:
    urgent = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "value": 9}
    urgent["metadata"] = {"name": "urgent"}
    polite = queue("team", "6", preemption={"withinClusterQueue": "LowerPriority"})
    for document in (urgent, polite):
        up.kubectl("apply", "-f", "-", given=json.dumps(document))
    up.kubectl("apply", "-f", "-", given=named("slow", "sleep 60", queue_name="user-queue"))
    wait_until(lambda: phases(up) == ["Running"])

    fast = named("fast", "true", queue_name="user-queue", priority_class="urgent")
    up.kubectl("apply", "-f", "-", given=fast)

    wait_until(lambda: phases(up) == ["Succeeded"])
    wait_until(lambda: len(up.listed(WORKLOADS)) == 1)


@pytest.mark.parametrize("way", [(), ("--server-side",)], ids=["client", "server"])
def test_what_the_queue_has_set_survives_another_apply(up: Up, way: tuple[str, ...]) -> None:
    waits = named("waits", "true", queue_name="nowhere")
    runs = named("runs", "sleep 60", queue_name="user-queue")
    for given in (waits, runs):
        up.kubectl("apply", *way, "-f", "-", given=given)
    wait_until(lambda: phases(up) == ["Pending", "Running"])

    for given in (waits, runs):
        up.kubectl("apply", *way, "-f", "-", given=given)

    running_pod, waiting_pod = up.listed(PODS)
    assert waiting_pod["spec"]["schedulingGates"] == [{"name": "kueue.x-k8s.io/admission"}]
    assert "schedulingGates" not in running_pod["spec"]
    for pod in (running_pod, waiting_pod):
        assert pod["metadata"]["labels"]["kueue.x-k8s.io/managed"] == "true"
        assert pod["metadata"]["finalizers"] == ["kueue.x-k8s.io/managed"]


def test_pods_outlive_kill_9(up: Up) -> None:
    up.kubectl("create", "-f", "-", given=sample("kueue-pod-group"))
    wait_until(lambda: "Running" in phases(up))
    up.kill()
    up.start()

    wait_until(lambda: finished(up) == ["sample-group"])
    assert phases(up) == ["Succeeded", "Succeeded"]
