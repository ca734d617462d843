"""Deliberate differences from the recordings, as predicates on a scenario."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("differences.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliberateDifference:
    name: str
    reason: str
    when: Mapping[str, str]
    ignore: frozenset[str]

    def cycles_to_compare(self, scenario: Mapping[str, Any]) -> int | None:
        """How many cycles still have to agree: all (-1), or None if this does not apply."""
        if "holder" in self.when:
            return -1 if any(map(self._is_such_holder(scenario), scenario["workloads"])) else None
        queues = {
            queue["metadata"]["name"]
            for queue in scenario["clusterQueues"]
            for group in queue["spec"].get("resourceGroups") or ()
            if self.when["quota_on"] in group["coveredResources"]
        }
        for number, cycle in enumerate(scenario["expect"]["cycles"]):
            for head in cycle.get("order") or ():
                if head["clusterQueue"] in queues and head["mode"] == self.when["head_mode"]:
                    return number
        return None

    def _is_such_holder(self, scenario: Mapping[str, Any]) -> Any:
        local_queues = {
            (queue["metadata"]["namespace"], queue["metadata"]["name"])
            for queue in scenario["localQueues"]
        }

        def is_such(workload: Mapping[str, Any]) -> bool:
            status = workload.get("status") or {}
            if not status.get("admission"):
                return False
            if self.when["holder"] == "marked as evicted":
                return any(
                    condition["type"] == "Evicted" and condition["status"] == "True"
                    for condition in status.get("conditions") or ()
                )
            name = workload["spec"].get("queueName")
            return (workload["metadata"]["namespace"], name) not in local_queues

        return is_such


def read_differences() -> tuple[DeliberateDifference, ...]:
    table = tomllib.loads(FILE.read_text())
    return tuple(
        DeliberateDifference(
            name=row["name"],
            reason=" ".join(row["reason"].split()),
            when=row["when"],
            ignore=frozenset(row.get("ignore", ())),
        )
        for row in table["difference"]
    )
