"""What a call of the command costs in CPU: twenty calls each, beside a `makeway up` with jobs.

`python -m benchmarks.bench_cli` prints one line for each; run it on a quiet machine. `version` is
what Python and the parsing of arguments cost by themselves.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import median

CALLS = 20
JOBS = 10
QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: local}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: local, resources: [{name: cpu, nominalQuota: 2}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: team}
spec: {clusterQueue: team}
"""
SUBMIT = ("submit", "-q", "team", "--cpu", "1", "--no-env")
MEASURED = {
    "version": ("version",),
    "status": ("status",),
    "status, over TLS": ("status",),
    "logs": ("logs", "first"),
    "submit": (*SUBMIT, "--", "true"),
}


def makeway(folder: Path, words: Sequence[str]) -> None:
    environment = {**os.environ, "MAKEWAY_DATA_DIR": str(folder), "KUBECONFIG": ""}
    command = [sys.executable, "-m", "makeway.cli.main", *words]
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)


def cpu_s(folder: Path, words: Sequence[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    makeway(folder, words)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@contextmanager
def hidden(path: Path) -> Iterator[None]:
    """Without the socket, the command takes the way that every other client takes."""
    away = path.with_suffix(".away")
    path.rename(away)
    try:
        yield
    finally:
        away.rename(path)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="makeway-bench-") as name:
        folder = Path(name)
        (folder / "queues.yaml").write_text(QUEUES)
        makeway(folder, ("up", "--detach", "--port", "0"))
        try:
            makeway(folder, ("apply", "-f", str(folder / "queues.yaml")))
            makeway(folder, (*SUBMIT, "--name", "first", "--wait", "--", "echo", "hello"))
            for _ in range(JOBS):
                makeway(folder, (*SUBMIT, "--", "sleep", "60"))
            print(f"{'CPU of a call, ms':<30} {'median':>7} {'least':>7}")
            for what, words in MEASURED.items():
                with hidden(folder / "api.sock") if "TLS" in what else nullcontext():
                    found = [1000 * cpu_s(folder, words) for _ in range(CALLS)]
                print(f"{what:<30} {median(found):7.0f} {min(found):7.0f}", flush=True)
        finally:
            makeway(folder, ("cancel", "--all", "-y"))
            makeway(folder, ("down",))


if __name__ == "__main__":
    main()
