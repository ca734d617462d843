"""Two teams share eight GPUs on one declared node: what the stories about pages happen on."""

from __future__ import annotations

from pathlib import Path

from tests.harness.process import Up

NODES = """
apiVersion: v1
kind: Node
metadata: {name: dgx-1}
status:
  allocatable: {cpu: "32", memory: 256Gi, nvidia.com/gpu: "8", pods: "200"}
"""
QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: a100}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: urgent}
value: 1000
description: goes before the rest of its queue
""" + "".join(
    f"""---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: {name}}}
spec:
  cohortName: lab
  namespaceSelector: {{}}
  preemption: {{reclaimWithinCohort: Any, withinClusterQueue: LowerPriority}}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu, cpu, memory]
    flavors:
    - name: a100
      resources:
      - {{name: nvidia.com/gpu, nominalQuota: {gpus}}}
      - {{name: cpu, nominalQuota: 16}}
      - {{name: memory, nominalQuota: 128Gi}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: {name}, namespace: default}}
spec: {{clusterQueue: {name}}}
"""
    for name, gpus in (("vision", 4), ("speech", 4))
)


def options(folder: Path, port: int = 0) -> tuple[str, ...]:
    """How to start it; the file with the node is written to the folder."""
    folder.mkdir(exist_ok=True)
    nodes = folder / "nodes.yaml"
    nodes.write_text(NODES)
    return "--nodes", str(nodes), "--dashboard-port", str(port)


def set_up(up: Up, folder: Path) -> None:
    queues = folder / "queues.yaml"
    queues.write_text(QUEUES)
    up.makeway("apply", "-f", str(queues))


def submit(
    up: Up, name: str, queue: str, gpus: int, script: str = "sleep 600", *options: str
) -> None:
    asked = ("--gpu", str(gpus), "--cpu", "2", "--memory", "8Gi", *options)
    up.makeway("submit", "-q", queue, "--name", name, *asked, "--", "sh", "-c", script)
