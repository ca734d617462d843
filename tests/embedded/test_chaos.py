"""What a machine may do to a running `makeway up`, in rounds by a seed; the same judge after each.

`python -m tests.embedded.test_chaos ROUNDS SEED` plays longer ones (`make test-chaos`). After each
round: everything that was acknowledged is there, nothing has run twice, quota was kept, a new job
runs within seconds, `/readyz` says ok, and memory and log are bounded. What needs root (a disk of
its own to fill) is left out without it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import resource
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson

from makeway.api.kinds import FLAVORS, JOBS, LOCAL_QUEUES, QUEUES
from makeway.client import ApiError, Client
from makeway.client.client import Unavailable
from tests.embedded.test_crashes import NODE, QUOTA, at_once, has, read, script
from tests.harness.documents import flavor, local_queue, queue
from tests.harness.process import Up, job

JOBS_PER_ROUND = 6
PATIENCE_S = 60.0
RSS_MAX_KIB = 700 * 1024
LOG_MAX_BYTES = 2 * 1024 * 1024
DISK_BYTES = 64 * 1024 * 1024


class Lab:
    """A running Makeway, what it has acknowledged, and what its jobs have written."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.chance = folder, random.Random(seed)
        self.record = folder / "record"
        self.record.touch()
        (folder / "nodes.yaml").write_text(NODE)
        self.disk = folder / "disk"
        self.disk.mkdir()
        self.has_disk = os.geteuid() == 0 and _mounted(self.disk)
        self.up = Up(self.disk / "data", "--nodes", str(folder / "nodes.yaml"))
        self.acknowledged: list[str] = []
        self.numbers = iter(range(10_000))

    def begin(self) -> None:
        self.up.start()
        asyncio.run(self._set_up(self.up.client()))

    async def _set_up(self, client: Client) -> None:
        await client.create(FLAVORS, flavor("default"))
        for name in ("a", "b"):
            await client.create(QUEUES, queue(name, str(QUOTA)))
            await client.create(LOCAL_QUEUES, local_queue(name, name))
        await client.close()

    def submit(self, count: int) -> None:
        """Submit jobs; only those that were acknowledged count."""
        asyncio.run(self._submit(self.up.client(), count))

    async def _submit(self, client: Client, count: int) -> None:
        for _ in range(count):
            number = next(self.numbers)
            name = f"job-{number}"
            wanted = job(name, script(name, self.record), queue="ab"[number % 2])
            with contextlib.suppress(ApiError, Unavailable):
                await client.create(JOBS, wanted)
                self.acknowledged.append(name)
        await client.close()

    def supervisors(self) -> list[int]:
        found = []
        for path in (self.up.folder / "pods").glob("*/state.json"):
            with contextlib.suppress(OSError, ValueError, KeyError):
                found.append(orjson.loads(path.read_bytes())["supervisor"]["pid"])
        return [pid for pid in found if pid and Path(f"/proc/{pid}").exists()]

    def close(self) -> None:
        self.up.stop()
        if self.has_disk:
            subprocess.run(["umount", "-l", str(self.disk)], check=True)


def _mounted(folder: Path) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)]
    return subprocess.run(command, capture_output=True).returncode == 0


# What is done to it


def killed(lab: Lab) -> None:
    lab.up.kill()
    lab.up.start()


def stopped(lab: Lab) -> None:
    """For longer than any of its patience; clients wait meanwhile."""
    os.kill(lab.up.pid, signal.SIGSTOP)
    time.sleep(2.0)
    os.kill(lab.up.pid, signal.SIGCONT)


def supervisors_stopped(lab: Lab) -> None:
    found = lab.supervisors()
    for number, pause_s in ((signal.SIGSTOP, 1.0), (signal.SIGCONT, 0.0)):
        for pid in found:
            with contextlib.suppress(ProcessLookupError):  # it ends as it should
                os.kill(pid, number)
        time.sleep(pause_s)


def disk_full(lab: Lab) -> None:
    if not lab.has_disk:
        return
    rubbish = lab.disk / "rubbish"
    with contextlib.suppress(OSError), rubbish.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 65536)
    lab.submit(2)  # refused, or not: who was told yes counts
    time.sleep(1.0)
    rubbish.unlink()


def no_descriptors(lab: Lab) -> None:
    """None for a while, whatever it had reserved."""
    soft, hard = resource.prlimit(lab.up.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(lab.up.pid, resource.RLIMIT_NOFILE, (10, hard))
    time.sleep(2.0)
    resource.prlimit(lab.up.pid, resource.RLIMIT_NOFILE, (soft, hard))


def half_requests(lab: Lab) -> None:
    """Of strangers, silent and half-open ones; more than one user may have."""
    with strangers(lab, 100):
        lab.submit(2)


@contextmanager
def strangers(lab: Lab, count: int) -> Iterator[None]:
    opened = []
    try:
        for number in range(count):
            raw = socket.create_connection(_address(lab), timeout=5)
            opened.append(raw)
            if number % 2:
                raw.send(b"\x16\x03\x01\x02")  # the beginning of a handshake
        yield
    finally:
        for raw in opened:
            raw.close()


def hostile_bodies(lab: Lab) -> None:
    token = (lab.up.folder / "pki" / "token").read_text().strip()
    env = [{"name": f"V{n}", "value": "x"} for n in range(20_000)]
    bodies = [
        b'{"a":' * 50_000,
        b"a: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b]\n",
        orjson.dumps({"metadata": {"name": "x", "annotations": {"k": "x" * 2_900_000}}}),
        orjson.dumps({"metadata": {"name": "x"}, "spec": {"template": {"spec": {"env": env}}}}),
    ]
    for body in bodies:
        for content_type in ("application/json", "application/yaml"):
            path = "/apis/batch/v1/namespaces/default/jobs"
            headers = {"Authorization": f"Bearer {token}", "Content-Type": content_type}
            request = urllib.request.Request(lab.up.address + path, data=body, headers=headers)
            with contextlib.suppress(urllib.error.HTTPError):
                urllib.request.urlopen(request, timeout=40, context=_tls())


def damaged(lab: Lab) -> None:
    """A stray file, and the leavings of a pod that nobody knows, while it is down."""
    lab.up.kill()
    (lab.up.folder / "pods" / "stray").write_text("hello")
    unknown = lab.up.folder / "pods" / "0-unknown"
    unknown.mkdir(exist_ok=True)
    (unknown / "order.json").write_text("{")
    lab.up.start()


BLOWS: list[Callable[[Lab], None]] = [
    *(killed, stopped, supervisors_stopped, disk_full, no_descriptors),
    *(half_requests, hostile_bodies, damaged),
]


# The judge


def judge(lab: Lab, after: str) -> None:
    lab.submit(1)
    asyncio.run(everything_ends(lab, after))
    # A pod that was just ended may still write its last line.
    lines = read(lab.record)
    counts = Counter((line.job, line.what) for line in lines)
    twice = {what: count for what, count in counts.items() if count > 1}
    assert not twice, (after, twice)
    for name in lab.acknowledged:
        assert counts[(name, "end")] == 1, (after, name)
    for number in (0, 1):
        assert max(at_once(lines, number), default=0) <= QUOTA, after
    with urllib.request.urlopen(f"{lab.up.address}/readyz", timeout=20, context=_tls()) as answer:
        assert answer.read() == b"ok", after
    assert rss_kib(lab.up.pid) < RSS_MAX_KIB, after
    assert lab.up.folder.with_suffix(".log").stat().st_size < LOG_MAX_BYTES, after


async def everything_ends(lab: Lab, after: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    client = lab.up.client()
    while True:
        found = {one["metadata"]["name"]: one for one in (await client.list(JOBS)).items}
        lost = set(lab.acknowledged) - found.keys()
        assert not lost, (after, lost)
        open_ = [name for name in lab.acknowledged if not has(found[name], "Complete")]
        if not open_:
            break
        assert time.monotonic() < deadline, (after, open_)
        await asyncio.sleep(0.2)
    await client.close()


def rss_kib(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith("VmRSS")))


def _tls() -> ssl.SSLContext:
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    return tls


def _address(lab: Lab) -> tuple[str, int]:
    return "127.0.0.1", int(lab.up.address.rpartition(":")[2])


def play(folder: Path, rounds: int, seed: int) -> None:
    lab = Lab(folder, seed)
    try:
        lab.begin()
        blows = [BLOWS[n % len(BLOWS)] for n in range(rounds)]
        lab.chance.shuffle(blows)
        for number, blow in enumerate(blows):
            lab.submit(JOBS_PER_ROUND)
            time.sleep(lab.chance.uniform(0.0, 0.5))
            blow(lab)
            judge(lab, f"round {number}: {blow.__name__}, seed {seed}")
            print(f"round {number}: {blow.__name__}", flush=True)
    finally:
        lab.close()


def test_a_cut_of_the_chaos(tmp_path: Path) -> None:
    play(tmp_path, rounds=2, seed=3)


if __name__ == "__main__":
    rounds, seed = (int(argument) for argument in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as name:
        play(Path(name), rounds, seed)
    print(f"{rounds} rounds, seed {seed}: nothing lost, nothing twice, quota kept")
