"""What else there is, for what the server fills in and refuses by it."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from makeway.api.batch import LimitRange
from makeway.api.codec import decode_as
from makeway.api.configuration import Configuration
from makeway.api.kinds import (
    LIMIT_RANGES,
    LOCAL_QUEUES,
    NAMESPACES,
    PRIORITY_CLASSES,
    RUNTIME_CLASSES,
    WORKLOAD_CLASSES,
    Resource,
)
from makeway.api.labels import AUTOMATIC, DEFAULT, SHARE_ORDER
from makeway.api.pod_rules import PodRules, rules_of
from makeway.server.messages import decode
from makeway.server.worker import Worker
from makeway.store import Key, Store

Document = dict[str, Any]


class Surroundings:
    def __init__(self, store: Store, worker: Worker, configuration: Configuration) -> None:
        self._store, self._worker, self._configuration = store, worker, configuration
        self._managed = configuration.managed_namespaces
        self.per_gpu: Mapping[str, Fraction] = {}  # what a container gets with each of its GPUs
        self.unlimited = ""  # what whoever runs pods can't limit, and why; empty: it can

    def priority_classes(self) -> list[Document]:
        found = self._worker.ask(lambda: self._store.scan(PRIORITY_CLASSES.full_name))
        return [decode(record.body) for record in found]

    def pod_rules(self, namespace: str) -> PodRules:
        """What holds for new pods of a namespace; overheads are asked for one by one."""
        kind = LIMIT_RANGES.full_name
        found = self._worker.ask(lambda: self._store.scan(kind, namespace))
        views = (decode_as(LimitRange, decode(record.body)).object for record in found)
        return rules_of((view for view in views if view is not None), {})

    def overhead_of(self, runtime_class: str) -> Document | None:
        """As it is written; None: there is no such class."""
        key = Key(RUNTIME_CLASSES.full_name, "", runtime_class)
        found = self._worker.ask(lambda: self._store.get(key))
        if found is None:
            return None
        return dict((decode(found.body).get("overhead") or {}).get("podFixed") or {})

    def manages(self, namespace: str) -> bool:
        """Whether queues have to do with Jobs and pods of a namespace."""
        labels = self._labels(namespace)
        return labels is not None and self._managed.matches(labels)

    def holds_all_back(self, namespace: str) -> bool:
        """Whether Jobs and pods of a namespace wait though they name no queue."""
        return self._configuration.manage_jobs_without_queue_name and self.manages(namespace)

    def default_queue(self, namespace: str) -> str:
        """The LocalQueue of who names none: `default`, or that of his first share; empty: none."""
        if not self.manages(namespace):
            return ""
        found = self._default(LOCAL_QUEUES, namespace)
        is_open = found is not None and not _is_passed_over(found)
        return DEFAULT if is_open else self._first_share(namespace)

    def _first_share(self, namespace: str) -> str:
        records = self._worker.ask(lambda: self._store.scan(LOCAL_QUEUES.full_name, namespace))
        found = []
        for record in records:
            document = decode(record.body)
            order = (document["metadata"].get("annotations") or {}).get(SHARE_ORDER, "")
            is_open = (document.get("spec") or {}).get("stopPolicy", "None") == "None"
            if order.isdecimal() and is_open:
                found.append((int(order), record.key.name))
        return min(found)[1] if found else ""

    def has_default_class(self) -> bool:
        is_on = self._configuration.gate("WorkloadPriorityClassDefaulting")
        return is_on and self._default(WORKLOAD_CLASSES, "") is not None

    def _default(self, resource: Resource, namespace: str) -> Document | None:
        key = Key(resource.full_name, namespace, DEFAULT)
        found = self._worker.ask(lambda: self._store.get(key))
        return None if found is None else decode(found.body)

    def _labels(self, namespace: str) -> Mapping[str, str] | None:
        key = Key(NAMESPACES.full_name, "", namespace)
        found = self._worker.ask(lambda: self._store.get(key))
        return None if found is None else decode(found.body)["metadata"].get("labels") or {}


def _is_passed_over(queue: Document) -> bool:
    """Of the automatic queue, once others own what it had: who names no queue is as without it."""
    is_held = (queue.get("spec") or {}).get("stopPolicy", "None") != "None"
    return is_held and AUTOMATIC in (queue["metadata"].get("labels") or {})
