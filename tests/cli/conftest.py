from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.cli import Capsys, CliServer

QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: a100}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: vision}
spec:
  cohortName: lab
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors: [{name: a100, resources: [{name: nvidia.com/gpu, nominalQuota: 8}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: team}
spec: {clusterQueue: vision}
"""


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> Iterator[CliServer]:
    """A server without any queue."""
    cli = CliServer(tmp_path / "data", monkeypatch, capsys)
    yield cli
    cli.close()


@pytest.fixture
def cli(bare: CliServer) -> CliServer:
    """A server with the LocalQueue `team` on the ClusterQueue `vision`."""
    bare.apply(QUEUES)
    return bare
