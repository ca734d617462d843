"""A desk on which one Workload waits, with hands for the queues that decide about it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from makeway.client.client import Document
from makeway.client.resources import WORKLOADS
from makeway.controller.conditions import with_condition
from makeway.plane.writes import Key
from tests.controller.desk import Desk


class QueuedDesk(Desk):
    @property
    def workload(self) -> Document:
        [document] = self.picture.all(WORKLOADS)
        return deepcopy(document)

    @property
    def has_workload(self) -> bool:
        return bool(list(self.picture.keys(WORKLOADS)))

    @property
    def workload_key(self) -> Key:
        return Key("lab", self.workload["metadata"]["name"])

    def condition(self, type: str) -> tuple[str, str]:
        found = [(c["status"], c["reason"]) for c in self._conditions if c["type"] == type]
        return found[0] if found else ("", "")

    @property
    def _conditions(self) -> list[Document]:
        return list((self.workload.get("status") or {}).get("conditions") or ())

    @property
    def holds_quota(self) -> bool:
        return self.condition("QuotaReserved")[0] == "True"

    def say(self, type: str, status: str, reason: str, message: str = "", **fields: Any) -> None:
        """The queues set a condition, and what goes with it."""
        new = with_condition(self._conditions, type, status, reason, message, self.now)
        self.edit(WORKLOADS, self.workload_key, {"status": {"conditions": new, **fields}}, "status")

    def reserve(self, count: int | None = None, **fields: Any) -> None:
        """Each pod set gets what it asks for, or `count` pods."""
        assigned = [
            {
                "name": pod_set["name"],
                "count": pod_set["count"] if count is None else count,
                "flavors": {"cpu": "spot"},
            }
            for pod_set in self.workload["spec"]["podSets"]
        ]
        if self.condition("Evicted")[0] == "True":
            self.say("Evicted", "False", "QuotaReserved")
        admission = {"clusterQueue": "big", "podSetAssignments": assigned}
        self.say("QuotaReserved", "True", "QuotaReserved", admission=admission, **fields)

    def admit(self, count: int | None = None, **fields: Any) -> None:
        self.reserve(count, **fields)
        self.say("Admitted", "True", "Admitted")
        self.settle()

    def evict(self) -> None:
        self.say("Evicted", "True", "Preempted", "Preempted to accommodate a workload (lab/eval)")
        self.settle()
