"""A control plane that can be broken, replicas that can be held up, and jobs that flow through."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

from makeway.api.kinds import PODS, WORKLOADS
from makeway.api.times import format_time
from makeway.client import ApiError, Client, Unavailable
from tests.kube.cluster import Cluster, true_conditions
from tests.kube.etcd_history import EtcdHistory
from tests.kube.plane import Plane, Program

Document = dict[str, Any]
LOOK_EVERY_S = 0.2


class BreakablePlane(Plane):
    """Its programs can be killed and started again. etcd keeps all history, as JSON."""

    @property
    def etcd(self) -> str:
        return f"http://127.0.0.1:{self._ports[0]}"

    def _apiserver(self) -> list[str]:
        readable = ["--storage-media-type=application/json", "--etcd-compaction-interval=0"]
        return [*super()._apiserver(), *readable]

    def kill(self, name: str) -> None:
        self._find(name).kill()

    def start_again(self, name: str) -> None:
        """On the same port, with the same data."""
        arguments = {"etcd": self._etcd, "kube-apiserver": self._apiserver}[name]()
        dead = self._find(name)
        self._programs[self._programs.index(dead)] = Program(name, arguments, self._folder)
        self._wait("the API server", lambda: self.fetch("/readyz") == b"ok")

    def _find(self, name: str) -> Program:
        return next(program for program in self._programs if program.name == name)


class Replica:
    """One `makeway controller`."""

    def __init__(
        self, kubeconfig: Path, log: Path, options: Sequence[str], silence_max_s: float | None
    ) -> None:
        program = "import sys\nfrom makeway.client import client\n"
        if silence_max_s is not None:
            program += f"client.WATCH_SILENCE_MAX_S = {silence_max_s}\n"
        program += "from makeway.cli.main import main\nraise SystemExit(main(sys.argv[1:]))"
        command = [sys.executable, "-c", program, "controller", "--kubeconfig", str(kubeconfig)]
        command += ["--metrics-address", "127.0.0.1:0", *options]
        self._log = log
        with log.open("wb") as file:
            self._process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)

    @property
    def pid(self) -> int:
        return self._process.pid

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def leads(self) -> bool:
        """As its log has it; it may be wrong for as long as it is held up."""
        return self.log().count("term=begins") > self.log().count("term=ends")

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


@contextlib.contextmanager
def replica(
    lab: Cluster,
    folder: Path,
    kubeconfig: Path,
    *options: str,
    silence_max_s: float | None = None,
) -> Iterator[Replica]:
    number = len(list(folder.glob("replica-*.log"))) + 1
    options = ("--lease-namespace", lab.namespace, *options)
    made = Replica(kubeconfig, folder / f"replica-{number}.log", options, silence_max_s)
    try:
        yield made
    except BaseException:
        print(f"replica {number}:\n{made.log()[-20000:]}")
        raise
    finally:
        made.end()


class Flow:
    """Jobs of one pod each, which runs for a moment, alternately in two queues."""

    def __init__(self, lab: Cluster, etcd_history: EtcdHistory, quota: int) -> None:
        self.lab, self.etcd_history, self.quota = lab, etcd_history, quota
        self._jobs = 0

    async def submit(self, count: int) -> None:
        for _ in range(count):
            queue = "ab"[self._jobs % 2]
            await self.lab.submit(f"job-{self._jobs}", queue=queue, pods=1)
            self._jobs += 1

    async def until_finished(self, count: int, within_s: float) -> None:
        """Until so many Workloads are finished, or everything there is."""
        finished: list[Document] = []
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            with contextlib.suppress(ApiError, Unavailable):
                found = (await self.lab.client.list(WORKLOADS, self.lab.namespace)).items
                finished = [one for one in found if "Finished" in true_conditions(one)]
                if len(finished) >= count:
                    return
            await asyncio.sleep(LOOK_EVERY_S)
        raise AssertionError(f"{len(finished)} of {count} were finished after {within_s:.0f} s")

    async def until_all_finished(self, within_s: float) -> None:
        await self.until_finished(self._jobs, within_s)

    def check(self) -> None:
        """Each job was admitted once and ran once, and never more at a time than quota allows."""
        account = self.etcd_history.account()
        jobs = {f"job-{number}" for number in range(self._jobs)}
        assert account.pods_of == dict.fromkeys(jobs, 1)
        assert len(account.alive) == self._jobs
        assert set(account.admissions) == account.finished
        assert len(account.finished) == self._jobs
        assert set(account.admissions.values()) == {1}, account.admissions.most_common(3)
        assert not account.evictions
        assert max(account.reserved_max.values()) <= self.quota, account.reserved_max
        assert max(account.pods_max.values()) <= self.quota, account.pods_max


@contextlib.asynccontextmanager
async def flow(plane: BreakablePlane, folder: Path, quota: int = 6) -> AsyncIterator[Flow]:
    lab = Cluster(plane, folder)
    try:
        await lab.set_up()
        etcd_history = EtcdHistory(plane.etcd, lab.namespace)
        for name in "ab":
            await lab.queue(name, cpu=quota)
        kubelet = asyncio.create_task(run_pods(lab.client, lab.namespace))
        try:
            yield Flow(lab, etcd_history, quota)
        finally:
            kubelet.cancel()
            await asyncio.gather(kubelet, return_exceptions=True)
    finally:
        await lab.client.close()


async def run_pods(client: Client, namespace: str) -> None:
    """A kubelet that only pretends: what is Pending runs, what was seen running succeeds."""
    while True:
        with contextlib.suppress(ApiError, Unavailable):
            for pod in (await client.list(PODS, namespace)).items:
                phase = pod["status"].get("phase")
                if phase in ("Pending", "Running"):
                    after = "Running" if phase == "Pending" else "Succeeded"
                    await tell(client, pod, after)
        await asyncio.sleep(LOOK_EVERY_S)


async def tell(client: Client, pod: Document, phase: str) -> None:
    now = format_time(int(time.time()))
    ready = {"type": "Ready", "status": str(phase == "Running"), "lastTransitionTime": now}
    status = {"phase": phase, "conditions": [ready], "startTime": now}
    metadata = pod["metadata"]
    await client.patch(
        PODS,
        metadata["name"],
        metadata["namespace"],
        patch={"status": status},
        subresource="status",
    )
