"""What readers of the dashboard cost `makeway up`, and what a page costs its reader.

The page of ten thousand jobs first, as the browser tells: when it painted first, how long a frame
took while one scrolled through all of them, its memory before and after 20 000 changes. `--page`
measures nothing else.

Then Kueue's load, without and with open pages.
The load of `bench_load`, in real time, beside ten thousand workloads that wait in a queue without
quota; once without anybody who looks, and once with a hundred streams that are read by a process of
their own and one Chromium that shows all jobs. Figures are CPU time of the server, from before the
load begins until it is over. `--seconds 15` plays the load that arrives in the first 15 s, at the
same rate; `--quick` 10 s of one cohort, beside a thousand, for ten streams.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
from tests.dashboard.many import (
    JOBS,
    ManyJobs,
    change,
    first_paint_ms,
    opened,
    scrolled,
    used_bytes,
)
from tests.harness.browser import browsing

from benchmarks.bench_load import (
    COHORTS,
    Arrival,
    Class,
    arrivals,
    cpu_s,
    memory_mb,
    play,
    workload,
)
from makeway.api.kinds import LOCAL_QUEUES, QUEUES, WORKLOADS
from makeway.client import Client
from makeway.client.kubeconfig import kubeconfig_in, read_kubeconfig

WAITING, READERS, UPDATES = 10_000, 100, 20_000
GROWTH_MAX = 0.15
AT_ONCE = 100
STUCK = "stuck"


class Cost(NamedTuple):
    readers: int
    arrived: int
    cpu_s: float
    memory_mb: float


async def fill(folder: Path, count: int) -> None:
    """Workloads that wait and never get anything."""
    client = Client(read_kubeconfig(kubeconfig_in(folder)).transport())
    api = {"apiVersion": "kueue.x-k8s.io/v1beta2"}
    queue = {**api, "kind": "ClusterQueue", "metadata": {"name": STUCK}}
    await client.create(QUEUES, {**queue, "spec": {"namespaceSelector": {}, "stopPolicy": "Hold"}})
    local: dict[str, Any] = {**api, "kind": "LocalQueue", "spec": {"clusterQueue": STUCK}}
    await client.create(
        LOCAL_QUEUES, {**local, "metadata": {"name": STUCK, "namespace": "default"}}
    )
    kind = Class("small", count, 0.0, 0.0, 1, 0)
    made = [workload(Arrival(0.0, STUCK, kind, f"{STUCK}-{n}")) for n in range(count)]
    for start in range(0, count, AT_ONCE):
        some = made[start : start + AT_ONCE]
        await asyncio.gather(*(client.create(WORKLOADS, document) for document in some))
    await client.close()


async def read_streams(folder: Path, count: int) -> None:
    """So many pages, until somebody ends this process."""
    client = Client(read_kubeconfig(kubeconfig_in(folder)).transport())
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        # One reader with many pages: a hundred who sign in at once are held off as strangers are.
        invitation = await client.invitation()
        code, address = {"Makeway-Code": invitation["code"]}, invitation["address"]
        async with http.post(f"{address}/api/session", headers=code) as answer:
            headers = {"Makeway-Session": (await answer.json())["session"]}

        async def read() -> None:
            timeout = aiohttp.ClientTimeout(total=None)
            async with http.get(f"{address}/api/stream", headers=headers, timeout=timeout) as lines:
                lines.raise_for_status()
                is_told, end = False, b""
                async for piece in lines.content.iter_any():
                    if not is_told and b'"synced"' in (end := end[-10:] + piece):
                        is_told = True
                        print("synced", flush=True)

        await asyncio.gather(*(read() for _ in range(count)))


def show_jobs(folder: Path) -> None:
    """A page in a real browser, until somebody ends this process."""

    async def address() -> str:
        client = Client(read_kubeconfig(kubeconfig_in(folder)).transport())
        invitation = await client.invitation()
        await client.close()
        return f"{invitation['address']}/jobs#{invitation['code']}"

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with browsing(folder / "browser") as browser:
        page = browser.page()
        page.open(asyncio.run(address()))
        page.wait("document.documentElement.dataset.synced === 'yes'", 120)
        print("synced", flush=True)
        signal.pause()


def of_a_page(updates: int) -> str:
    """What a browser says of a page with all jobs."""
    with (
        tempfile.TemporaryDirectory(prefix="makeway-page-") as folder,
        ManyJobs() as many,
        browsing(Path(folder) / "browser") as browser,
    ):
        page = opened(browser, many)
        paint_ms = first_paint_ms(page)
        page.wait("document.documentElement.dataset.synced === 'yes'", 60)
        frames, before = scrolled(page), used_bytes(page)
        change(page, many, updates)
        after = used_bytes(page)
    return (
        f"a page of {JOBS} jobs: first paint after {paint_ms:.0f} ms; scrolled to the end, the "
        f"longest frame took {1000 * frames.longest_s:.0f} ms, each {1000 * frames.cpu_s:.1f} ms "
        f"CPU; heap {before / 1e6:.1f} MB, after {updates} updates {after / 1e6:.1f} MB"
    )


def measured(readers: int, waiting: int, cohorts: int, seconds: float) -> Cost:
    plan = [arrival for arrival in arrivals(cohorts) if arrival.at <= seconds]
    with tempfile.TemporaryDirectory(prefix="makeway-pages-") as name:
        folder = Path(name)
        command = [
            sys.executable,
            "-m",
            "makeway.cli.main",
            "up",
            "--port",
            "0",
            "--data-dir",
            name,
        ]
        server = subprocess.Popen(command, stdout=subprocess.PIPE)
        looking: list[subprocess.Popen[bytes]] = []
        try:
            assert server.stdout is not None
            server.stdout.readline()
            asyncio.run(fill(folder, waiting))
            if readers:
                looking = [_reading("--read", name, readers), _reading("--show", name, 1)]
            before_s = cpu_s(server.pid)
            asyncio.run(play(folder, plan, cohorts))
            spent_s = cpu_s(server.pid) - before_s
            return Cost(readers, len(plan), spent_s, memory_mb(server.pid))
        finally:
            for process in (*looking, server):
                process.send_signal(signal.SIGTERM)
                process.wait(timeout=30)


def _reading(how: str, folder: str, count: int) -> subprocess.Popen[bytes]:
    """So many pages, once all of them know everything."""
    command = [sys.executable, "-m", "benchmarks.bench_pages", how, folder, str(count)]
    reading = subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(os.environ))
    assert reading.stdout is not None
    for number in range(count):
        line = reading.stdout.readline()
        assert line == b"synced\n", f"{number} of {count} pages were told everything"
    return reading


def main(arguments: Sequence[str]) -> None:
    if arguments[:1] == ["--read"]:
        asyncio.run(read_streams(Path(arguments[1]), int(arguments[2])))
        return
    if arguments[:1] == ["--show"]:
        show_jobs(Path(arguments[1]))
        return
    is_quick = "--quick" in arguments
    waiting, readers, cohorts = (1_000, 10, 1) if is_quick else (WAITING, READERS, COHORTS)
    print(of_a_page(2_000 if is_quick else UPDATES), flush=True)
    if "--page" in arguments:
        return
    seconds = 10.0 if is_quick else float("inf")
    if "--seconds" in arguments:
        seconds = float(arguments[arguments.index("--seconds") + 1])
    alone, watched = (measured(n, waiting, cohorts, seconds) for n in (0, readers))
    print(f"{alone.arrived} workloads arrive beside {waiting} that wait")
    for cost in (alone, watched):
        pages = f"{cost.readers:4} streams and a browser" if cost.readers else "nobody looks"
        print(f"{pages:28}: {cost.cpu_s:6.1f} s CPU, {cost.memory_mb:4.0f} MB")
    growth = watched.cpu_s / alone.cpu_s - 1
    print(f"growth: {growth:.0%} CPU, {GROWTH_MAX:.0%} at most")


if __name__ == "__main__":
    main(sys.argv[1:])
