"""One machine as its users see it: jobs, queues, nodes, metrics, all for real."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from makeway.api.manifests import write_yaml
from tests.harness.documents import flavor, local_queue, queue
from tests.harness.process import Up, job, running_on, wait_until

BOX = {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "2"}


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("machine")
    objects = flavor("default"), queue("main", "4"), local_queue("main", "main")
    with running_on(BOX, folder, *objects) as started:
        yield started


def test_submit_waits_for_the_end_and_exits_as_the_job_did(up: Up) -> None:
    assert "hello" in up.makeway("submit", "-q", "main", "--follow", "--", "echo", "hello")

    up.makeway("submit", "-q", "main", "--wait", "--", "sh", "-c", "exit 7", code=7)


def test_a_job_in_no_queue_runs_at_once(up: Up) -> None:
    up.makeway("apply", "-f", str(written(up, "loose", job("loose", "echo loose"))))

    wait_until(lambda: "Complete" in get(up, "job", "loose"))
    assert up.makeway("logs", "loose").strip() == "loose"


def written(up: Up, name: str, document: dict[str, Any]) -> Path:
    path = up.folder.parent / f"{name}.yaml"
    path.write_text(write_yaml(document))
    return path


def get(up: Up, kind: str, name: str) -> str:
    return up.makeway("get", kind, name, "-o", "json")


def test_gpus_are_handed_out_by_index(up: Up) -> None:
    for name, other in (("one", "two"), ("two", "one")):
        here, there = up.folder.parent / f"{name}-runs", up.folder.parent / f"{other}-runs"
        meet = f"touch {here}; while [ ! -e {there} ]; do sleep 0.05; done"
        asking = job(name, f'echo "gpu $CUDA_VISIBLE_DEVICES"; {meet}')
        container = asking["spec"]["template"]["spec"]["containers"][0]
        container["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
        up.makeway("apply", "-f", str(written(up, name, asking)))

    wait_until(lambda: all("Complete" in get(up, "job", name) for name in ("one", "two")))
    said = {up.makeway("logs", name).strip() for name in ("one", "two")}
    assert said == {"gpu 0", "gpu 1"}


def test_a_container_without_a_command_is_refused_with_the_reason(up: Up) -> None:
    empty = job("empty", "")
    del empty["spec"]["template"]["spec"]["containers"][0]["command"]
    up.makeway("apply", "-f", str(written(up, "empty", empty)))

    wait_until(lambda: "BackoffLimitExceeded" in get(up, "job", "empty"))
    wait_until(lambda: "no command" in up.makeway("get", "events", "-o", "json"))


def test_a_node_that_comes_later_runs_pods_too(up: Up) -> None:
    late = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "late", "labels": {"pool": "late"}},
        "status": {"capacity": {"cpu": "1"}, "allocatable": {"cpu": "1"}},
    }
    there = job("there", "echo there")
    there["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "late"}
    up.makeway("apply", "-f", str(written(up, "there", there)))
    up.makeway("apply", "-f", str(written(up, "late", late)))

    wait_until(lambda: "Complete" in get(up, "job", "there"))


def test_a_queue_on_hold_starts_nothing_until_it_is_resumed(up: Up) -> None:
    up.makeway("hold", "queue", "main")
    up.makeway("submit", "-q", "main", "--name", "patient", "--", "true")
    wait_until(lambda: "Stopped" in up.makeway("explain", "patient"))

    up.makeway("resume", "queue", "main")

    up.makeway("wait", "patient")


def test_the_status_tells_who_waits_and_why(up: Up) -> None:
    up.makeway("submit", "--force", "-q", "main", "--name", "greedy", "--cpu", "99", "--", "true")

    line = wait_until(lambda: line_of(up, "greedy", "insufficient quota"))

    assert "pending" in line.lower()
    up.makeway("cancel", "greedy", "--yes")


def line_of(up: Up, name: str, part: str) -> str | None:
    lines = [line for line in up.makeway("status", "-o", "wide").splitlines() if name in line]
    return lines[0] if lines and part in lines[0] else None


def test_metrics_and_health_are_served(up: Up) -> None:
    raw = up.kubectl("get", "--raw", "/metrics")

    assert 'kueue_admitted_workloads_total{cluster_queue="main"' in raw
    assert up.kubectl("get", "--raw", "/readyz") == "ok"


def test_who_is_pending_is_listed_with_positions(up: Up) -> None:
    for name in ("first", "second"):
        up.makeway("submit", "--force", "-q", "main", "--name", name, "--cpu", "50", "--", "true")
    path = "/apis/visibility.kueue.x-k8s.io/v1beta2/clusterqueues/main/pendingworkloads"

    def positions() -> list[int] | None:
        items = json.loads(up.kubectl("get", "--raw", path))["items"]
        found = [item["positionInClusterQueue"] for item in items]
        return found if len(found) == 2 else None

    assert wait_until(positions) == [0, 1]
    up.makeway("cancel", "first", "second", "--yes")


def test_it_goes_to_the_background_and_comes_down_again(tmp_path: Path) -> None:
    def makeway(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "makeway.cli.main", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    folder = str(tmp_path / "data")
    begun = makeway("up", "--detach", "--port", "0", "--data-dir", folder)
    assert "makeway is ready" in begun.stdout, begun.stderr
    again = makeway("up", "--detach", "--port", "0", "--data-dir", folder)
    assert (again.returncode, "is running on" in again.stderr) == (2, True)

    assert makeway("down", "--data-dir", folder).returncode == 0
    assert makeway("down", "--data-dir", folder).returncode == 1
