"""Those who answer for an admission check: after a while, and not always with yes."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

from makeway.api.kinds import WORKLOADS
from makeway.client.client import ApiError, Client, Unavailable
from tests.simulation.checkers import has
from tests.simulation.observer import WORKLOADS as WORKLOAD_KIND
from tests.simulation.observer import Document, Truth

LOOK_EVERY_S = 2.0
NOES_MAX = 3  # for one workload; then it is let pass


class CheckController:
    def __init__(self, client: Client, truth: Truth, chance: Random) -> None:
        self._client, self._truth, self._chance = client, truth, chance
        self._noes: Counter[str] = Counter()  # by uid

    async def work(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            for workload in list(self._truth.all(WORKLOAD_KIND)):
                if _waits_for_us(workload) and self._chance.random() < 0.4:
                    await self._answer(workload)

    async def _answer(self, workload: Document) -> None:
        metadata, status = workload["metadata"], workload["status"]
        state = self._chance.choice(["Ready", "Ready", "Ready", "Retry", "Rejected"])
        if self._noes[metadata["uid"]] >= NOES_MAX:
            state = "Ready"
        self._noes[metadata["uid"]] += state != "Ready"
        answer: Document = {"state": state, "message": f"{state}, says the controller"}
        if state == "Retry":
            answer["requeueAfterSeconds"] = self._chance.choice([1, 20])
        patch = {
            "metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
            "status": {"admissionChecks": [c | answer for c in status["admissionChecks"]]},
        }
        name, namespace = metadata["name"], metadata["namespace"]
        try:
            await self._client.patch(WORKLOADS, name, namespace, patch=patch, subresource="status")
        except (ApiError, Unavailable):
            return  # it is somewhat different by now; the next look will tell


def _waits_for_us(workload: Document) -> bool:
    checks = (workload.get("status") or {}).get("admissionChecks") or ()
    is_open = has(workload, "QuotaReserved") and not has(workload, "Evicted")
    return is_open and any(check["state"] == "Pending" for check in checks)
