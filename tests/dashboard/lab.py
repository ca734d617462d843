"""Two teams share eight GPUs on one declared node: what the stories about pages happen on."""

from __future__ import annotations

from itertools import count
from math import pi, sin
from pathlib import Path
from random import Random
from typing import Any

from makeway.engine.model import Phase
from tests.harness.engine import ANY, queue
from tests.harness.process import Up
from tests.journal.stories import RecordedScenario

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


# --- the day before ---

DAY_S, STEP_S = 24 * 3600.0, 600.0
GPU = "nvidia.com/gpu"


def live_through_a_day(folder: Path, until: float) -> None:
    """Write down in a journal what two teams did in the 24 hours before: in the morning and in the
    afternoon both want more than there is, and vision takes back what it owns."""
    folder.mkdir(exist_ok=True)
    owns: dict[str, Any] = {GPU: 4, "cpu": 16_000, "memory": 128 << 30}
    lab = RecordedScenario(
        folder,
        queue("vision", reclaim=ANY, **owns),
        queue("speech", reclaim=ANY, **owns),
        cohort="lab",
        now=until - DAY_S,
    )
    random, ends, lengths = Random(7), dict[str, float](), dict[str, float]()
    numbers = count(101)
    while lab.now < until - STEP_S:
        for name in [name for name, at in ends.items() if at <= lab.now]:
            lab.finish(name)
            lab.remove(name)
            del ends[name], lengths[name]
        share = 0.5 + 0.5 * sin(4 * pi * (until - lab.now) / DAY_S)
        for team, often in (("speech", 0.5), ("vision", 0.35 * share)):
            if random.random() < often:
                name, gpus = f"{team}-{next(numbers)}", random.choice((1, 1, 2, 4))
                asks: dict[str, Any] = {GPU: gpus, "cpu": 2_000 * gpus, "memory": (8 * gpus) << 30}
                lab.pending(name, on=team, **asks)
                lengths[name] = random.uniform(1, 9) * STEP_S
        _settle(lab, ends, lengths)
        lab.later(STEP_S)
    lab.journal().close()


def _settle(lab: RecordedScenario, ends: dict[str, float], lengths: dict[str, float]) -> None:
    """Who has to make way does so, and who gets a place begins."""
    lab.cycles()
    leaving = [name for name in lengths if lab.entry(name).phase is Phase.EVICTING]
    for name in leaving:
        del ends[name]
        lab.let_go(name)
    lab.cycles()
    for name in lengths:
        if name not in ends and lab.entry(name).phase is Phase.ADMITTED:
            lab.pods_ready(name)
            ends[name] = lab.now + lengths[name]
