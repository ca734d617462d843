"""A hundred thousand pending workloads: does `makeway up` still answer while it works?

A data folder is filled with them, most in one queue, and served. Then come the things that touch
many of them at once: the start, more of them created, lists, watches, scrapes, explanations, a
queue stopped and resumed. After each one the longest turn is printed that anybody had on the event
loop, in CPU time of its thread, which neighbours on the machine change little; and the longest that
a second process waited for `GET /healthz`, by the clock.

The aim: once it is ready, no turn of 200 ms. `--quick` does it with a tenth.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from benchmarks.bench_load import cpu_s, memory_mb
from makeway.api.kinds import FLAVORS, LOCAL_QUEUES, QUEUES, WORKLOADS, Resource
from makeway.cli.main import main as makeway
from makeway.client import Client
from makeway.client.folder import kubeconfig_in
from makeway.client.kubeconfig import read_kubeconfig
from makeway.client.transport import Call
from makeway.store import Key, Store

MANY, CREATED = 100_000, 2_000
IN_BIG = 0.6  # of all, in the queue that is stopped and resumed
SMALL_QUEUES = 9
NOTED_FROM_S = 0.02
SAMPLED_EVERY_S = 0.05
PING_EVERY_S = 0.02
API = "kueue.x-k8s.io/v1beta2"
Document = dict[str, Any]


def queue_of(number: int, count: int) -> str:
    return "big" if number < count * IN_BIG else f"small-{number % SMALL_QUEUES}"


def queue_objects() -> Iterator[tuple[Resource, Document]]:
    yield FLAVORS, {"apiVersion": API, "kind": "ResourceFlavor", "metadata": {"name": "all"}}
    for name in ("big", *(f"small-{number}" for number in range(SMALL_QUEUES))):
        quota = {"name": "all", "resources": [{"name": "cpu", "nominalQuota": "10"}]}
        spec = {
            "namespaceSelector": {},
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}],
        }
        metadata = {"name": name}
        yield (
            QUEUES,
            {"apiVersion": API, "kind": "ClusterQueue", "metadata": metadata, "spec": spec},
        )
        yield (
            LOCAL_QUEUES,
            {
                "apiVersion": API,
                "kind": "LocalQueue",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"clusterQueue": name},
            },
        )


def workload(name: str, queue: str, priority: int) -> Document:
    requests = {"cpu": "1", "memory": "1Gi"} if priority < 0 else {"cpu": "1"}
    container = {"name": "main", "image": "none", "resources": {"requests": requests}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    return {
        "apiVersion": API,
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "queueName": queue,
            "priority": priority,
            "podSets": [{"name": "main", "count": 1, "template": template}],
        },
    }


def fill(folder: Path, sample: Document, count: int) -> None:
    """Put workloads into the store that look like one that the server has written."""
    store = Store(folder / "makeway.db")
    for number in range(count):
        metadata = {**sample["metadata"], "name": f"w-{number:06}", "uid": str(uuid.uuid4())}
        spec = {**sample["spec"], "queueName": queue_of(number, count), "priority": number % 10}
        document = {**sample, "metadata": metadata, "spec": spec}
        document.pop("status", None)

        def body(revision: int, document: Document = document) -> bytes:
            document["metadata"]["resourceVersion"] = str(revision)
            return orjson.dumps(document)

        key = Key("workloads.kueue.x-k8s.io", "default", metadata["name"])
        store.submit(key, 0, body, lambda record, failure: None)
    store.flush()
    store.close()


# In the process that serves


class Turns:
    """Notes long turns on the event loop, and where they were spent."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._began_at: float | None = None
        self._where = ""

    def attach(self) -> None:
        run = asyncio.Handle._run
        turns = self

        def timed(handle: asyncio.Handle) -> None:
            began_s = time.thread_time()
            turns._began_at, turns._where = time.monotonic(), ""
            run(handle)
            turns._began_at = None
            spent_s = time.thread_time() - began_s
            if spent_s >= NOTED_FROM_S:
                turns._note(spent_s)

        asyncio.Handle._run = timed  # type: ignore[assignment,method-assign]
        threading.Thread(target=self._sample, args=(threading.get_ident(),), daemon=True).start()

    def _note(self, spent_s: float) -> None:
        with self._file.open("a") as file:
            file.write(json.dumps([time.time(), spent_s, self._where]) + "\n")

    def _sample(self, thread: int) -> None:
        while True:
            time.sleep(SAMPLED_EVERY_S)
            began_at = self._began_at
            if began_at is not None and time.monotonic() - began_at > SAMPLED_EVERY_S:
                self._where = _place(sys._current_frames()[thread])


def _place(frame: Any) -> str:
    names: list[str] = []
    while frame is not None:
        file = frame.f_code.co_filename
        if "makeway" in file and len(names) < 4:
            names.append(f"{Path(file).stem}.{frame.f_code.co_name}")
        frame = frame.f_back
    return " < ".join(names)


def serve(folder: str, file: str) -> None:
    Turns(Path(file)).attach()
    makeway(["up", "--port", "0", "--data-dir", folder])


# In a process that only asks whether somebody is there


async def ping(folder: str, file: str) -> None:
    transport = read_kubeconfig(kubeconfig_in(Path(folder))).transport()
    with Path(file).open("a") as notes:
        while True:
            began_at = time.monotonic()
            async with transport.send(Call(method="GET", path="/healthz")) as answer:
                await answer.body()
            notes.write(json.dumps([time.time(), time.monotonic() - began_at]) + "\n")
            notes.flush()
            await asyncio.sleep(PING_EVERY_S)


# In the process that makes the work


@dataclass
class Bench:
    folder: Path
    turns: Path
    pings: Path
    server: subprocess.Popen[bytes] | None = None

    @contextmanager
    def served(self) -> Iterator[subprocess.Popen[bytes]]:
        own = [sys.executable, "-m", "benchmarks.bench_many"]
        command = [*own, "--serve", str(self.folder), str(self.turns)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE)
        others: list[subprocess.Popen[bytes]] = []
        try:
            assert server.stdout is not None
            server.stdout.readline()
            command = [*own, "--ping", str(self.folder), str(self.pings)]
            others.append(subprocess.Popen(command))
            yield server
        finally:
            for process in (*others, server):
                process.send_signal(signal.SIGTERM)
                process.wait(timeout=60)

    def client(self) -> Client:
        return Client(read_kubeconfig(kubeconfig_in(self.folder)).transport())

    async def step(self, name: str, work: Awaitable[object], pause_s: float = 2.0) -> None:
        """Do something and wait for what follows; print the longest turns in that time."""
        self._clear()
        began_at = time.monotonic()
        await work
        took_s = time.monotonic() - began_at
        await asyncio.sleep(pause_s)
        turns, pings = _read(self.turns), _read(self.pings)
        longest_s, where = max(((spent, place) for _, spent, place in turns), default=(0.0, ""))
        waited_s = sorted(waited for _, waited in pings) or [0.0]
        print(
            f"  {name:42} {took_s:7.2f} s  longest turn {longest_s * 1000:5.0f} ms, "
            f"over 100 ms {sum(turn[1] > 0.1 for turn in turns):3}  "
            f"healthz p99 {waited_s[int(len(waited_s) * 0.99)] * 1000:4.0f} ms, "
            f"max {waited_s[-1] * 1000:5.0f} ms  {where if longest_s > 0.1 else ''}",
            flush=True,
        )

    def _clear(self) -> None:
        for file in (self.turns, self.pings):
            if file.exists():
                os.truncate(file, 0)


def _read(file: Path) -> list[list[Any]]:
    lines = file.read_text().splitlines() if file.exists() else []
    return [json.loads(line.strip("\0")) for line in lines if line.strip("\0").endswith("]")]


async def play(bench: Bench, count: int) -> None:
    transport = read_kubeconfig(kubeconfig_in(bench.folder)).transport()
    client = Client(transport)

    async def get(path: str) -> int:
        async with transport.send(Call(method="GET", path=path)) as answer:
            await answer.body()
            return answer.code

    async def until_ready() -> None:
        while await get("/readyz") != 200:
            await asyncio.sleep(0.05)

    async def create(number: int) -> None:
        await client.create(WORKLOADS, workload(f"new-{number:06}", "big", number % 10))

    async def create_all() -> None:
        for start in range(0, CREATED, 32):
            await asyncio.gather(*map(create, range(start, start + 32)))

    async def watch_all() -> None:
        seen = 0
        async for _ in client.watch(WORKLOADS, "default"):
            seen += 1
            if seen >= count:
                return

    def stop(resource: Resource, policy: str) -> Awaitable[object]:
        namespace = "default" if resource.is_namespaced else ""
        patch = {"spec": {"stopPolicy": policy}}
        return client.patch(resource, "big", namespace, patch=patch)

    async def finish() -> None:
        first = f"w-{9:06}"
        patch = {"spec": {"active": False}}
        await client.patch(WORKLOADS, first, "default", patch=patch)

    path = WORKLOADS.path("default")
    explanation = WORKLOADS.path("default", f"w-{count // 4:06}", "explanation")
    pending = "/apis/visibility.kueue.x-k8s.io/v1beta2/clusterqueues/big/pendingworkloads"
    steps: list[tuple[str, Callable[[], Awaitable[object]], float]] = [
        ("the first seconds after it is ready", lambda: asyncio.sleep(15), 0),
        (f"create {CREATED} more", create_all, 3),
        ("list in pages", lambda: client.list(WORKLOADS), 1),
        ("list in one piece", lambda: get(path), 1),
        ("list as a table", lambda: client.table(WORKLOADS), 1),
        ("watch from the beginning", watch_all, 1),
        ("scrape /metrics", lambda: get("/metrics"), 1),
        ("explain one of them", lambda: get(explanation), 1),
        ("who waits in the big queue", lambda: get(pending), 1),
        ("one admitted is deactivated", finish, 3),
        ("stop the ClusterQueue", lambda: stop(QUEUES, "Hold"), 10),
        ("resume it", lambda: stop(QUEUES, "None"), 10),
        ("stop the LocalQueue", lambda: stop(LOCAL_QUEUES, "Hold"), 10),
        ("resume it", lambda: stop(LOCAL_QUEUES, "None"), 10),
    ]
    try:
        await bench.step("start-up, until ready", until_ready(), 0)
        for name, work, pause_s in steps:
            await bench.step(name, work(), pause_s)
    finally:
        await client.close()


async def prepare(bench: Bench) -> Document:
    """Create the queues and one workload through the server, to see what it makes of it."""
    client = bench.client()
    try:
        for resource, document in queue_objects():
            await client.create(resource, document)
        sample = await client.create(WORKLOADS, workload("sample", "big", 0))
        await client.delete(WORKLOADS, "sample", "default")
        return sample
    finally:
        await client.close()


def main(arguments: Sequence[str]) -> None:
    if arguments[:1] == ["--serve"]:
        serve(*arguments[1:3])
    elif arguments[:1] == ["--ping"]:
        asyncio.run(ping(*arguments[1:3]))
    else:
        count = MANY // 10 if "--quick" in arguments else MANY
        with tempfile.TemporaryDirectory(prefix="makeway-many-") as name:
            measure(Bench(Path(name), Path(name) / "turns", Path(name) / "pings"), count)


def measure(bench: Bench, count: int) -> None:
    with bench.served():
        sample = asyncio.run(prepare(bench))
    fill(bench.folder, sample, count)
    print(f"{count} pending workloads, {int(count * IN_BIG)} of them in one queue", flush=True)
    with bench.served() as server:
        asyncio.run(play(bench, count))
        print(f"CPU of makeway up {cpu_s(server.pid):.1f} s", end=", ")
        print(f"memory at most {memory_mb(server.pid):.0f} MB")


if __name__ == "__main__":
    main(sys.argv[1:])
