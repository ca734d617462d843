"""What a machine may do to a running `makeway up`, in rounds by a seed; the same judge after each.

`python -m tests.embedded.test_chaos ROUNDS SEED` plays longer ones (`make test-chaos`). After each
round: everything that was acknowledged is there and has come to its end, nothing has run twice,
quota was kept, a new job runs within seconds, `/readyz` says ok, and memory, disk and log are
bounded. What needs root (a disk of its own to fill) or libfaketime (a clock to set) is left out
without it, and that is said.
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
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from makeway.api.kinds import FLAVORS, JOBS, LOCAL_QUEUES, QUEUES
from makeway.client import ApiError, Client
from makeway.client.client import Unavailable
from tests.embedded.test_crashes import NODE, QUOTA, at_once, has, read, script
from tests.harness import faked_time
from tests.harness.documents import flavor, local_queue, queue
from tests.harness.faked_time import FakedUp
from tests.harness.process import Up, job, wait_until

JOBS_PER_ROUND = 6
PATIENCE_S = 60.0
MIB = 1024 * 1024
RSS_MAX_KIB = 350 * 1024
LOG_MAX_BYTES = 2 * MIB
DISK_BYTES = 64 * MIB
DATA_MAX_BYTES = 32 * MIB
DAY_S = 86_400


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
        nodes = ("--nodes", str(folder / "nodes.yaml"))
        self.up = Up(self.disk / "data", *nodes)
        if faked_time.library() is not None:
            self.up = FakedUp(self.disk / "data", *nodes)
        self.acknowledged: list[str] = []
        self.cut_short: set[str] = set()  # jobs that lost their supervisor: they may fail
        self.numbers = iter(range(10_000))

    @property
    def is_faked(self) -> bool:
        return isinstance(self.up, FakedUp)

    def begin(self) -> None:
        self.up.start()
        asyncio.run(self._set_up(self.up.client()))

    async def _set_up(self, client: Client) -> None:
        await client.create(FLAVORS, flavor("default"))
        for name in ("a", "b"):
            await client.create(QUEUES, queue(name, str(QUOTA)))
            await client.create(LOCAL_QUEUES, local_queue(name, name))
        await client.close()

    def submit(self, count: int, sleep_s: float = 0.2) -> None:
        """Submit jobs; only those that were acknowledged count."""
        asyncio.run(self._submit(self.up.client(), count, sleep_s))

    async def _submit(self, client: Client, count: int, sleep_s: float) -> None:
        for _ in range(count):
            number = next(self.numbers)
            name = f"job-{number}"
            wanted = job(name, script(name, self.record, sleep_s), queue="ab"[number % 2])
            with contextlib.suppress(ApiError, Unavailable):
                await client.create(JOBS, wanted)
                self.acknowledged.append(name)
        await client.close()

    def pods(self) -> dict[str, tuple[int, int]]:
        """Of each job that runs, the processes of its supervisor and of its container."""
        found = {}
        for folder in (self.up.folder / "pods").iterdir():
            # Some end at this moment, and some are damaged by us.
            with contextlib.suppress(OSError, ValueError, KeyError, StopIteration):
                state = orjson.loads((folder / "state.json").read_bytes())
                order = orjson.loads((folder / "order.json").read_bytes())
                words = order["containers"][0]["argv"][-1].split()
                name = next(word for word in words if word.startswith("job-"))
                pids = state["supervisor"]["pid"], state["containers"]["main"]["pid"]
                if all(Path(f"/proc/{pid}").exists() for pid in pids):
                    found[name] = pids
        return found

    def some_run(self) -> dict[str, tuple[int, int]]:
        """Jobs that run for a while, at the least one of them."""
        self.submit(2, sleep_s=2.0)
        return wait_until(self.pods) or {}

    def request(self, path: str, **more: Any) -> urllib.request.Request:
        """As the account that it is."""
        token = (self.up.folder / "pki" / "token").read_text().strip()
        request = urllib.request.Request(self.up.address + path, **more)
        request.add_header("Authorization", f"Bearer {token}")
        return request

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
    _pause(pids[0] for pids in lab.some_run().values())


def containers_stopped(lab: Lab) -> None:
    _pause(pids[1] for pids in lab.some_run().values())


def _pause(pids: Iterable[int]) -> None:
    found = list(pids)
    for number, pause_s in ((signal.SIGSTOP, 1.0), (signal.SIGCONT, 0.0)):
        for pid in found:
            with contextlib.suppress(ProcessLookupError):  # it ends as it should
                os.kill(pid, number)
        time.sleep(pause_s)


def supervisors_stopped_for_good(lab: Lab) -> None:
    """Nobody wakes them up but Makeway."""
    for supervisor, _ in lab.some_run().values():
        with contextlib.suppress(ProcessLookupError):
            os.kill(supervisor, signal.SIGSTOP)


def supervisors_killed(lab: Lab) -> None:
    for name, (supervisor, _) in lab.some_run().items():
        lab.cut_short.add(name)
        with contextlib.suppress(ProcessLookupError):
            os.kill(supervisor, signal.SIGKILL)


def containers_killed(lab: Lab) -> None:
    for name, (_, container) in lab.some_run().items():
        lab.cut_short.add(name)
        with contextlib.suppress(ProcessLookupError):
            os.kill(container, signal.SIGKILL)


def all_killed(lab: Lab) -> None:
    """Makeway and the supervisors together, as when somebody ends all of a session."""
    found = lab.some_run()
    os.kill(lab.up.pid, signal.SIGSTOP)
    for name, (supervisor, _) in found.items():
        lab.cut_short.add(name)
        with contextlib.suppress(ProcessLookupError):
            os.kill(supervisor, signal.SIGKILL)
    lab.up.kill()
    lab.up.start()


def no_memory(lab: Lab) -> None:
    """A few megabytes more than it has, while clients want much.

    CPython 3.11 dies where not even a MemoryError can be had (it calls itself until the stack is
    full). Then whoever keeps the service starts it again, and nothing may be lost by that.
    """
    text = Path(f"/proc/{lab.up.pid}/status").read_text()
    used = next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmSize"))
    soft, hard = resource.prlimit(lab.up.pid, resource.RLIMIT_AS)
    limit = used * 1024 + lab.chance.choice((1, 2, 4)) * MIB
    resource.prlimit(lab.up.pid, resource.RLIMIT_AS, (limit, hard))
    try:
        hostile_bodies(lab)
        lab.submit(2)
    finally:
        assert lab.up.process is not None
        try:
            assert lab.up.process.wait(timeout=1.0) == -signal.SIGSEGV
            print("without memory Python has died", flush=True)
            lab.up.start()
        except subprocess.TimeoutExpired:  # it lives
            resource.prlimit(lab.up.pid, resource.RLIMIT_AS, (soft, hard))


def clock_forward(lab: Lab) -> None:
    _set_clock(lab, 3 * DAY_S)


def clock_back(lab: Lab) -> None:
    _set_clock(lab, -3 * DAY_S)


def _set_clock(lab: Lab, step_s: int) -> None:
    """And it stays so until the next one sets it."""
    if isinstance(lab.up, FakedUp):
        lab.up.set_clock(step_s)
        time.sleep(1.1)
        lab.submit(2)


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


def slow_clients(lab: Lab) -> None:
    """With a token; one says a byte at a time, one reads a byte at a time."""
    token = (lab.up.folder / "pki" / "token").read_text().strip()
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    head = f"Host: x\r\nAuthorization: Bearer {token}\r\n"
    with connection(lab) as speaks, connection(lab) as reads:
        reads.sendall(f"GET {jobs} HTTP/1.1\r\n{head}\r\n".encode())
        speaks.sendall(f"POST {jobs} HTTP/1.1\r\n{head}Content-Length: 1000\r\n\r\n".encode())
        for _ in range(20):
            speaks.sendall(b" ")
            reads.recv(1)
            time.sleep(0.05)
        lab.submit(2)


def deaf_clients(lab: Lab) -> None:
    """Watches that nobody reads, while there is much to tell."""
    token = (lab.up.folder / "pki" / "token").read_text().strip()
    path = "/api/v1/namespaces?watch=1"
    asked = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(connection(lab)).sendall(asked.encode())
        for number in range(40):
            body = {"metadata": {"annotations": {"k": f"{number}{'x' * 100_000}"}}}
            more = {"method": "PATCH", "data": orjson.dumps(body)}
            request = lab.request("/api/v1/namespaces/default", **more)
            request.add_header("Content-Type", "application/merge-patch+json")
            urllib.request.urlopen(request, timeout=40, context=lab.up.tls()).close()
        lab.submit(2)


@contextmanager
def connection(lab: Lab) -> Iterator[ssl.SSLSocket]:
    with (
        socket.create_connection(_address(lab), timeout=20) as raw,
        lab.up.tls().wrap_socket(raw) as tls,
    ):
        yield tls


def hostile_bodies(lab: Lab) -> None:
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
            request = lab.request(path, data=body, headers={"Content-Type": content_type})
            # Refused, or cut off where there is no memory to answer with.
            with contextlib.suppress(OSError):
                urllib.request.urlopen(request, timeout=40, context=lab.up.tls()).close()


def damaged(lab: Lab) -> None:
    """A stray file, and the leavings of a pod that nobody knows, while it is down."""
    lab.up.kill()
    (lab.up.folder / "pods" / "stray").write_text("hello")
    unknown = lab.up.folder / "pods" / "0-unknown"
    unknown.mkdir(exist_ok=True)
    (unknown / "order.json").write_text("{")
    lab.up.start()


BLOWS: list[Callable[[Lab], None]] = [
    *(killed, stopped, all_killed),
    *(supervisors_stopped, supervisors_stopped_for_good, supervisors_killed),
    *(containers_stopped, containers_killed),
    *(disk_full, no_descriptors, no_memory, clock_forward, clock_back),
    *(half_requests, slow_clients, deaf_clients, hostile_bodies, damaged),
]


# The judge


def judge(lab: Lab, after: str) -> Figures:
    lab.submit(1)
    asyncio.run(everything_ends(lab, after))
    # A pod that was just ended may still write its last line.
    lines = read(lab.record)
    counts = Counter((line.job, line.what) for line in lines)
    twice = {what: count for what, count in counts.items() if count > 1}
    assert not twice, (after, twice)
    whole = [line for line in lines if line.job not in lab.cut_short]
    for name in set(lab.acknowledged) - lab.cut_short:
        assert counts[(name, "end")] == 1, (after, name)
    for number in (0, 1):
        assert max(at_once(whole, number), default=0) <= QUOTA, after
    path = f"{lab.up.address}/readyz"
    with urllib.request.urlopen(path, timeout=20, context=lab.up.tls()) as answer:
        assert answer.read() == b"ok", after
    figures = Figures.of(lab)
    assert figures.rss_kib < RSS_MAX_KIB, (after, figures)
    assert figures.data_bytes < DATA_MAX_BYTES, (after, figures)
    assert figures.log_bytes < LOG_MAX_BYTES, (after, figures)
    return figures


class Figures(NamedTuple):
    rss_kib: int
    data_bytes: int  # on the disk
    log_bytes: int

    @staticmethod
    def of(lab: Lab) -> Figures:
        log = lab.up.folder.with_suffix(".log")
        return Figures(rss_kib(lab.up.pid), _size(lab.up.folder), log.stat().st_size)

    def __str__(self) -> str:
        data, log = self.data_bytes / MIB, self.log_bytes / MIB
        return f"{self.rss_kib / 1024:.0f} MiB of memory, {data:.1f} of disk, {log:.1f} of log"


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):  # removed meanwhile
            total += path.lstat().st_blocks * 512
    return total


async def everything_ends(lab: Lab, after: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    client = lab.up.client()
    while True:
        found = {one["metadata"]["name"]: one for one in (await client.list(JOBS)).items}
        lost = set(lab.acknowledged) - found.keys()
        assert not lost, (after, lost)
        open_ = [name for name in lab.acknowledged if not _is_over(lab, found[name])]
        if not open_:
            break
        assert time.monotonic() < deadline, (after, open_)
        await asyncio.sleep(0.2)
    await client.close()


def _is_over(lab: Lab, job: dict[str, Any]) -> bool:
    is_cut_short = job["metadata"]["name"] in lab.cut_short
    return has(job, "Complete") or (is_cut_short and has(job, "Failed"))


def rss_kib(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith("VmRSS")))


def _address(lab: Lab) -> tuple[str, int]:
    return "127.0.0.1", int(lab.up.address.rpartition(":")[2])


def shuffled(chance: random.Random) -> Iterator[Callable[[Lab], None]]:
    """Each of them once, then each once more, and so on."""
    while True:
        yield from chance.sample(BLOWS, len(BLOWS))


def play(folder: Path, rounds: int, seed: int) -> None:
    lab = Lab(folder, seed)
    try:
        lab.begin()
        for is_there, what in ((lab.has_disk, "a disk to fill"), (lab.is_faked, "a clock to set")):
            if not is_there:
                print(f"without {what}", flush=True)
        for number, blow in enumerate(islice(shuffled(lab.chance), rounds)):
            lab.submit(JOBS_PER_ROUND)
            time.sleep(lab.chance.uniform(0.0, 0.5))
            blow(lab)
            figures = judge(lab, f"round {number}: {blow.__name__}, seed {seed}")
            print(f"round {number}: {blow.__name__}; {figures}", flush=True)
    finally:
        lab.close()


def test_a_cut_of_the_chaos(tmp_path: Path) -> None:
    play(tmp_path, rounds=2, seed=4)


if __name__ == "__main__":
    rounds, seed = (int(argument) for argument in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as name:
        play(Path(name), rounds, seed)
    print(f"{rounds} rounds, seed {seed}: nothing lost, nothing twice, quota kept")
