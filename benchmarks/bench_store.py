"""The API server on its file: durable writes, watches, lists, memory, start-up.

The server runs in a process of its own, as `makeway up` does, over HTTPS on loopback with all its
rules (schemas, defaults, validation). The clients run here, on the same machine, so both share its
cores; a figure is the best of `RUNS` short runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from makeway.api.kinds import Resource
from makeway.client import Client
from makeway.client.kubeconfig import read_kubeconfig
from makeway.client.transport import Call
from makeway.store import Key, Store

CONCURRENCIES = (1, 16, 64)
RUNS = 2
WORKLOADS = Resource("kueue.x-k8s.io/v1beta2", "workloads", "Workload", True)


def workload(name: str) -> dict[str, Any]:
    """About 1.9 kB once stored, as a queued Job's Workload is."""
    container = {
        "name": "main",
        "image": "registry.example.com/team/train:2026-11-15",
        "command": ["python", "-m", "train", "--epochs", "90", "--data", "/data/imagenet"],
        "env": [{"name": "SEED", "value": "42"}, {"name": "RANK", "value": "0"}],
        "resources": {"requests": {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}},
    }
    template = {
        "metadata": {"labels": {"app": "train", "team": "vision"}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [container],
            "nodeSelector": {"cloud.example.com/accelerator": "a100"},
            "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
        },
    }
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": name,
            "namespace": "default",
            # Of the length of a job's uid, but none: the Workload of a Job that is gone is deleted.
            "labels": {"example.com/experiment": "0f8fad5b-d9cb-469f-a165-70867728950e"},
        },
        "spec": {
            "queueName": "user-queue",
            "priority": 1000,
            "podSets": [{"name": "main", "count": 3, "template": template}],
        },
    }


def status(number: int) -> dict[str, Any]:
    message = f"couldn't assign flavors to pod set main: insufficient unused quota, {number}"
    conditions = [
        {
            "type": kind,
            "status": "False",
            "reason": "Pending",
            "message": message,
            "lastTransitionTime": "2026-11-15T10:00:00Z",
        }
        for kind in ("QuotaReserved", "Admitted")
    ]
    return {"status": {"conditions": conditions}}


@contextlib.contextmanager
def running(folder: Path) -> Iterator[tuple[subprocess.Popen[str], float]]:
    """A server on a folder, and how long it took to be ready."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "makeway.cli.main", "up", "--data-dir", str(folder), "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "ready" in line, line
    try:
        yield process, time.perf_counter() - began
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


def client_of(folder: Path) -> Client:
    return Client(read_kubeconfig(folder / "kubeconfig").transport(), manager="bench")


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(int(len(values) * share), len(values) - 1)] * 1000


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _writes(
    folder: Path, pid: int, what: str, concurrency: int, count: int, run: int
) -> list[float]:
    """Return the rate, p50 and p99 of an answer in ms, p50 of an event, the server's CPU in us."""
    client = client_of(folder)
    sent: dict[str, float] = {}
    arrived: list[float] = []
    took: list[float] = []
    revision = (await client.list(WORKLOADS, "default")).resource_version

    async def watch() -> None:
        async for event in client.watch(WORKLOADS, "default", resource_version=revision):
            now, name = time.perf_counter(), event.object["metadata"].get("name", "")
            if name in sent:
                arrived.append(now - sent.pop(name))

    watching = asyncio.create_task(watch())
    numbers = iter(range(count))

    async def write() -> None:
        for number in numbers:
            name = f"w-{concurrency}-{run}-{number}"
            sent[name] = began = time.perf_counter()
            if what == "create":
                await client.create(WORKLOADS, workload(name))
            else:
                await client.patch(
                    WORKLOADS, name, "default", patch=status(number), subresource="status"
                )
            took.append(time.perf_counter() - began)

    # Clients keep their connections; shaking hands is not what is measured.
    namespaces = Resource("v1", "namespaces", "Namespace", False)
    for _ in range(2):
        await asyncio.gather(*(client.get(namespaces, "default") for _ in range(concurrency)))
    began, cpu_s = time.perf_counter(), _cpu_s(pid)
    await asyncio.gather(*(write() for _ in range(concurrency)))
    rate = count / (time.perf_counter() - began)
    cpu_us = (_cpu_s(pid) - cpu_s) / count * 1e6
    await asyncio.sleep(0.2)
    watching.cancel()
    await client.close()
    return [rate, percentile(took, 0.5), percentile(took, 0.99), percentile(arrived, 0.5), cpu_us]


def bench_writes(scale: float) -> None:
    head = ("per s", "p50 ms", "p99 ms", "event ms", "CPU us")
    print(f"{'durable writes, over HTTPS':<34}" + "".join(f"{word:>10}" for word in head))
    with tempfile.TemporaryDirectory() as name, running(Path(name)) as (process, _):
        for concurrency in CONCURRENCIES:
            count = max(int((600 if concurrency == 1 else 3000) * scale), 50)
            for what in ("create", "patch status"):
                best: list[float] = []
                for run in range(RUNS):
                    figures = asyncio.run(
                        _writes(Path(name), process.pid, what, concurrency, count, run)
                    )
                    best = max(best, figures)
                row = "".join(f"{figure:>10.{int(0 < n < 4)}f}" for n, figure in enumerate(best))
                print(f"  {what + f', {concurrency} at once':<32}{row}")


def _fill(folder: Path, count: int) -> None:
    """Write objects straight into the file, as the server would have stored them."""
    store = Store(folder / "makeway.db")
    document = workload("x")
    document["spec"]["active"] = True
    document["status"] = status(0)["status"]
    for number in range(count):
        name = f"w-{number:06}"

        def encode(revision: int, name: str = name, number: int = number) -> bytes:
            document["metadata"] |= {
                "name": name,
                "uid": f"{number:08}-d9cb-469f-a165-70867728950e",
                "creationTimestamp": "2026-11-15T10:00:00Z",
                "generation": 1,
                "resourceVersion": str(revision),
            }
            return orjson.dumps(document)

        key = Key("workloads.kueue.x-k8s.io", "default", name)
        store.submit(key, 0, encode, lambda record, failure: None)
        if number % 256 == 255:
            store.flush()
    store.flush()
    store.close()


def _memory_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def _list(folder: Path, limit: int) -> tuple[float, float]:
    """Seconds to get a list, and its size in MB; as bytes, which is what the server does."""
    transport = read_kubeconfig(folder / "kubeconfig").transport()
    query = {"limit": str(limit)}
    call = Call(method="GET", path=WORKLOADS.path("default"), query=query)
    async with transport.send(call) as answer:
        await answer.body()
    began = time.perf_counter()
    async with transport.send(call) as answer:
        size = len(await answer.body())
    took = time.perf_counter() - began
    await transport.close()
    return took, size / 1e6


def bench_size(scale: float) -> None:
    count = max(int(100_000 * scale), 1000)
    folder = Path(tempfile.mkdtemp())
    try:
        with running(folder) as (process, _):
            empty_mb = _memory_mb(process.pid)
        _fill(folder, count)
        with running(folder) as (process, ready_s):
            size_mb = (folder / "makeway.db").stat().st_size / 1e6
            print(f"with {count} workloads in a file of {size_mb:.0f} MB")
            print(f"  ready after{'':<23}{ready_s:>8.1f} s")
            memory_mb = _memory_mb(process.pid)
            print(f"  memory{'':<28}{memory_mb:>8.0f} MB, {empty_mb:.0f} MB without them")
            for limit in sorted({min(10_000, count), count}):
                took, listed_mb = asyncio.run(_list(folder, limit))
                what = f"list of {limit}"
                print(f"  {what:<34}{took:>8.2f} s, {listed_mb:.0f} MB")
    finally:
        shutil.rmtree(folder)


def main(arguments: list[str]) -> None:
    scale = 0.1 if "--quick" in arguments else 1.0
    bench_writes(scale)
    bench_size(scale)


if __name__ == "__main__":
    main(sys.argv[1:])
