"""Jobs that flow through a control plane which is broken meanwhile."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from makeway.api.kinds import WORKLOADS
from makeway.client import ApiError, Unavailable
from tests.kube.cluster import Cluster, living, true_conditions
from tests.kube.etcd_history import EtcdHistory
from tests.kube.plane import Plane

Document = dict[str, Any]
LOOK_EVERY_S = 0.2


# etcd keeps all history, as JSON.
KEEPS_HISTORY = ("--storage-media-type=application/json", "--etcd-compaction-interval=0")


class FlowCluster(Cluster):
    """Whose pods run for a moment, and succeed."""

    kubelet_looks_every_s = LOOK_EVERY_S

    async def _attend(self, pod: Document) -> None:
        name, phase = pod["metadata"]["name"], pod["status"].get("phase")
        if phase == "Pending":
            await self._tell(name, "Running", "True")
        elif phase == "Running":
            await self._tell(name, "Succeeded", "False")


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
async def flow(plane: Plane, folder: Path, quota: int = 6) -> AsyncIterator[Flow]:
    async with living(FlowCluster(plane, folder)) as lab:
        etcd_history = EtcdHistory(plane.etcd, lab.namespace)
        for name in "ab":
            await lab.queue(name, cpu=quota)
        yield Flow(lab, etcd_history, quota)
