"""What else there is, for what the server fills in and refuses by it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from makeway.api.configuration import Configuration
from makeway.api.kinds import LOCAL_QUEUES, NAMESPACES, PRIORITY_CLASSES, WORKLOAD_CLASSES, Resource
from makeway.api.labels import DEFAULT
from makeway.server.messages import decode
from makeway.server.worker import Worker
from makeway.store import Key, Store

Document = dict[str, Any]


class Surroundings:
    def __init__(self, store: Store, worker: Worker, configuration: Configuration) -> None:
        self._store, self._worker, self._configuration = store, worker, configuration
        self._managed = configuration.managed_namespaces

    def priority_classes(self) -> list[Document]:
        found = self._worker.ask(lambda: self._store.scan(PRIORITY_CLASSES.full_name))
        return [decode(record.body) for record in found]

    def manages(self, namespace: str) -> bool:
        """Whether queues have to do with Jobs and pods of a namespace."""
        labels = self._labels(namespace)
        return labels is not None and self._managed.matches(labels)

    def holds_all_back(self, namespace: str) -> bool:
        """Whether Jobs and pods of a namespace wait though they name no queue."""
        return self._configuration.manage_jobs_without_queue_name and self.manages(namespace)

    def has_default_queue(self, namespace: str) -> bool:
        return self._has(LOCAL_QUEUES, namespace) and self.manages(namespace)

    def has_default_class(self) -> bool:
        is_on = self._configuration.gate("WorkloadPriorityClassDefaulting")
        return is_on and self._has(WORKLOAD_CLASSES, "")

    def _has(self, resource: Resource, namespace: str) -> bool:
        key = Key(resource.full_name, namespace, DEFAULT)
        return self._worker.ask(lambda: self._store.get(key)) is not None

    def _labels(self, namespace: str) -> Mapping[str, str] | None:
        key = Key(NAMESPACES.full_name, "", namespace)
        found = self._worker.ask(lambda: self._store.get(key))
        return None if found is None else decode(found.body)["metadata"].get("labels") or {}
