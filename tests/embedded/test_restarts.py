"""`kill -9` in the middle of a preemption: it goes on as if nothing had happened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from makeway.api.kinds import JOBS, WORKLOADS
from makeway.api.manifests import write_yaml
from tests.harness.documents import cluster_queue, flavor, group, local_queue, queueing
from tests.harness.process import Up, job, running, wait_until

NODE = """\
apiVersion: v1
kind: Node
metadata: {name: box}
status: {capacity: {cpu: "8", memory: 16Gi}}
"""
PRIORITIES = {"low": 0, "high": 5, "urgent": 9}


def test_a_preemption_goes_on_as_it_was_after_kill_9(tmp_path: Path) -> None:
    """`big` clears its place on spot; then reserved, where it would look first, changes hands."""
    (tmp_path / "nodes.yaml").write_text(NODE)
    (tmp_path / "queues.yaml").write_text(write_yaml(*objects()))
    with running(tmp_path / "data", "--nodes", str(tmp_path / "nodes.yaml")) as up:
        up.makeway("apply", "-f", str(tmp_path / "queues.yaml"))
        submit(up, "urgent", until(tmp_path / "urgent"), "urgent")
        wait_until(lambda: flavor_of(up, "urgent") == "reserved")
        deaf = f"trap '' TERM; touch {tmp_path}/deaf; "
        submit(up, "stubborn", deaf + until(tmp_path / "stubborn"), "low")
        wait_until(lambda: flavor_of(up, "stubborn") == "spot")
        wait_until((tmp_path / "deaf").exists)
        submit(up, "big", "true", "high")
        wait_until(lambda: condition(up, "stubborn", "Evicted"))
        (tmp_path / "urgent").touch()
        submit(up, "quick", until(tmp_path / "quick"), "low")
        wait_until(lambda: flavor_of(up, "quick") == "reserved")
        wait_until(lambda: "claim" in status(up, "big").get("preemption", {}))

        up.kill()
        up.start()
        (tmp_path / "stubborn").touch()
        wait_until(lambda: condition(up, "big", "Finished"))

        assert flavor_of(up, "big") == "spot"
        assert "evictions" not in status(up, "quick").get("schedulingStats", {})
        (tmp_path / "quick").touch()


def objects() -> list[dict[str, Any]]:
    groups = group("cpu", flavor="reserved", nominalQuota="2")
    groups["flavors"] += group("cpu", flavor="spot", nominalQuota="2")["flavors"]
    queue = cluster_queue(
        "main",
        resourceGroups=[groups],
        preemption={"withinClusterQueue": "LowerPriority"},
        flavorFungibility={"whenCanPreempt": "MayStopSearch"},
    )
    classes = [queueing("WorkloadPriorityClass", name, value=n) for name, n in PRIORITIES.items()]
    return [flavor("reserved"), flavor("spot"), queue, local_queue("main", "main"), *classes]


def until(file: Path) -> str:
    """A script that runs until there is such a file."""
    return f"while [ ! -e {file} ]; do sleep 0.1; done"


def submit(up: Up, name: str, script: str, priority: str) -> None:
    made = job(name, script, queue="main", cpu="2")
    made["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = priority
    made["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 60
    up.create(JOBS, made)


def status(up: Up, name: str) -> dict[str, Any]:
    """Of the workload of a job; empty while there is none."""
    mine = [w for w in up.listed(WORKLOADS) if w["metadata"]["name"].startswith(f"job-{name}-")]
    return mine[0].get("status") or {} if mine else {}


def condition(up: Up, name: str, type: str) -> bool:
    told = status(up, name).get("conditions") or ()
    return any(c["type"] == type and c["status"] == "True" for c in told)


def flavor_of(up: Up, name: str) -> str:
    admission = status(up, name).get("admission")
    return str(admission["podSetAssignments"][0]["flavors"]["cpu"]) if admission else ""
