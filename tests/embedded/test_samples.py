"""Kueue's published samples run on one machine through kubectl; their containers get a command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from makeway.api.kinds import QUEUES, WORKLOADS
from makeway.api.manifests import read_manifests, write_yaml
from tests.harness.process import Up, running, wait_until
from tests.prerequisites import program, shared_path

NODES = """\
apiVersion: v1
kind: Node
metadata: {name: on-demand, labels: {node-type: on-demand}}
status: {capacity: {cpu: "16", memory: 64Gi}}
---
apiVersion: v1
kind: Node
metadata: {name: spot, labels: {node-type: spot}}
status: {capacity: {cpu: "16", memory: 64Gi}}
"""
CREDITS = """\
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
resources:
  transformations:
  - {input: cpu, strategy: Retain, outputs: {cpu_credits: 1}}
"""


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with on_two_nodes(tmp_path_factory.mktemp("samples")) as started:
        yield started


@contextmanager
def on_two_nodes(folder: Path, *options: str) -> Iterator[Up]:
    program("kubectl")
    (folder / "nodes.yaml").write_text(NODES)
    with running(folder / "data", "--nodes", str(folder / "nodes.yaml"), *options) as started:
        yield started


def apply(up: Up, name: str) -> None:
    up.kubectl("apply", "-f", str(shared_path(f"samples/kueue/{name}")))


def create(up: Up, name: str, script: str, count: int = 1) -> list[str]:
    """Create a sample whose containers run a script, so many times; the names they got."""
    [manifest] = read_manifests(shared_path(f"samples/kueue/{name}").read_text()).manifests
    document: dict[str, Any] = json.loads(json.dumps(manifest.document))
    for container in document["spec"]["template"]["spec"]["containers"]:
        container["command"], container["args"] = ["sh", "-c"], [script]
    given = write_yaml(*[document] * count)
    return up.kubectl("create", "-f", "-", "-o", "name", given=given).split()


def complete(up: Up, jobs: list[str]) -> None:
    up.kubectl("wait", "--for=condition=complete", *jobs, "--timeout=60s")


def workload_of(up: Up, job: str) -> dict[str, Any]:
    """Empty while there is none."""
    name, found = job.removeprefix("job.batch/"), up.listed(WORKLOADS)
    return next((w for w in found if w["metadata"]["ownerReferences"][0]["name"] == name), {})


def test_the_quick_start_runs_to_its_end(up: Up) -> None:
    apply(up, "quick-start-setup.yaml")
    [job] = create(up, "quick-start-job.yaml", "echo done")

    complete(up, [job])

    assert up.kubectl("logs", job).strip() == "done"
    wait_until(lambda: has(up, job, "Finished"))


def test_ten_sample_jobs_share_a_queue_three_at_a_time(up: Up) -> None:
    apply(up, "single-clusterqueue-setup.yaml")
    jobs = create(up, "sample-job.yaml", "sleep 0.2", count=10)

    complete(up, jobs)

    wait_until(lambda: is_idle(up, "cluster-queue"))


def is_idle(up: Up, name: str) -> bool:
    [queue] = [one for one in up.listed(QUEUES) if one["metadata"]["name"] == name]
    return bool(queue["status"].get("admittedWorkloads") == 0)


def test_a_job_is_admitted_in_part(up: Up) -> None:
    apply(up, "single-clusterqueue-setup.yaml")
    [job] = create(up, "sample-job-partial-admission.yaml", "sleep 0.1")

    def assigned() -> Any:
        status = workload_of(up, job).get("status") or {}
        return status.get("admission")

    admission = wait_until(assigned)
    assert admission["podSetAssignments"][0]["count"] == 9  # of the 20 that it would like
    complete(up, [job])


def test_credits_bound_two_flavors_together(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(CREDITS)
    with on_two_nodes(tmp_path, "--config", str(tmp_path / "config.yaml")) as up:
        apply(up, "shared-quota-setup.yaml")
        script = f"while [ ! -e {tmp_path}/over ]; do sleep 0.1; done"
        jobs = create(up, "shared-quota-sample-job.yaml", script, count=6)

        # 4 times 3 of 14 credits; both flavors together would give 18.
        wait_until(lambda: len([job for job in jobs if has(up, job, "Admitted")]) == 4)
        (tmp_path / "over").touch()
        complete(up, jobs)


def has(up: Up, job: str, condition: str) -> bool:
    conditions = (workload_of(up, job).get("status") or {}).get("conditions") or ()
    return any(c["type"] == condition and c["status"] == "True" for c in conditions)
