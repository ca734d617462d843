"""What only the engine knows, for whoever asks: why a workload waits, and who is before it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from makeway.api.meta import controller_of
from makeway.api.quantity import QuantityError, amount, format_amount
from makeway.client.client import Document
from makeway.client.resources import NODES, PODS, WORKLOADS
from makeway.controller.conditions import conditions_of
from makeway.engine.engine import Engine
from makeway.engine.model import LocalQueueKey, QueueName, WorkloadKey
from makeway.plane.picture import Object, Picture
from makeway.plane.writes import Key
from makeway.translate.explanation import explanation_lines

PENDING_MAX = 1000  # in one answer, unless more are asked for
PODS_SHOWN = 5  # of a node
NUMBER_MAX = 2**63 - 1  # that JSON is written with here; what is more is written as text
# As the words of schedulers have it, ours and Kubernetes' own.
_INSUFFICIENT = re.compile(r"Insufficient ([A-Za-z0-9](?:[A-Za-z0-9./_-]*[A-Za-z0-9])?)")


class Visibility:
    def __init__(self, engine: Engine, picture: Picture, clock: Callable[[], float]) -> None:
        self._engine, self._picture, self._clock = engine, picture, clock
        self._pods_of = picture.index(PODS, _by_controller)

    def explain(self, namespace: str, name: str) -> Document | None:
        """Why a workload does not run, as data and as lines; None if it isn't known."""
        key = WorkloadKey(f"{namespace}/{name}")
        if self._engine.view.workload(key) is None:
            return None
        now = self._clock()
        explanation = self._engine.explain(key)
        pods = self._pods_without_node(Key(namespace, name))
        return {
            "apiVersion": "makeway.dev/v1",
            "kind": "Explanation",
            "metadata": {"name": name, "namespace": namespace},
            **{
                _json_name(field.name): as_json(getattr(explanation, field.name))
                for field in fields(explanation)
            },
            "podsWithoutNode": [{"count": count, "message": text} for text, count in pods.items()],
            "lines": [
                *explanation_lines(explanation, now),
                *map(_pods_line, pods.items()),
                *self._largest_nodes(pods),
            ],
        }

    def _pods_without_node(self, key: Key) -> Counter[str]:
        """Why pods of a workload have no node, and how many of them."""
        workload = self._picture.get(WORKLOADS, key)
        owner = None if workload is None else controller_of(workload)
        pods = [] if owner is None else self._pods_of.keys(owner.uid)
        return Counter(
            condition.get("message") or "nobody has looked at it yet"
            for pod in pods
            for condition in conditions_of(self._picture.get(PODS, pod) or {})
            if (condition.get("type"), condition.get("status")) == ("PodScheduled", "False")
        )

    def _largest_nodes(self, pods: Iterable[str]) -> Iterator[str]:
        """Of what nodes have too little: the most that one node has, and who is there."""
        short = dict.fromkeys(name for text in pods for name in _INSUFFICIENT.findall(text))
        for resource in short:
            sizes = [
                (_allocatable(node, resource), node["metadata"]["name"])
                for node in self._picture.all(NODES)
            ]
            if sizes:
                size, name = max(sizes)
                most = format_amount(resource, size)
                yield f"The largest node has {most} {resource}: {name}{self._pods_there(name)}"

    def _pods_there(self, node: str) -> str:
        there = sorted(
            f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"
            for pod in self._picture.all(PODS)
            if (pod.get("spec") or {}).get("nodeName") == node
            and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
        )
        more = f" and {len(there) - PODS_SHOWN} more" if len(there) > PODS_SHOWN else ""
        return f"; pods there: {', '.join(there[:PODS_SHOWN])}{more}" if there else "; it is empty"

    def pending_in_queue(self, name: str, offset: int, limit: int) -> Document | None:
        """Kueue's list of who waits in a ClusterQueue, first come first; None: no such queue."""
        if self._engine.view.spec(QueueName(name)) is None:
            return None
        return self._summary(QueueName(name), None, offset, limit)

    def pending_in_local_queue(
        self, namespace: str, name: str, offset: int, limit: int
    ) -> Document | None:
        key = LocalQueueKey(f"{namespace}/{name}")
        local_queue = self._engine.view.local_queue(key)
        if local_queue is None or self._engine.view.spec(local_queue.queue) is None:
            return None
        return self._summary(local_queue.queue, key, offset, limit)

    def _summary(
        self, queue: QueueName, door: LocalQueueKey | None, offset: int, limit: int
    ) -> Document:
        """Everybody who came through `door`; None: all."""
        items: list[Document] = []
        seen: dict[LocalQueueKey, int] = {}
        needed = offset + limit if door is None else None
        for position, key in enumerate(self._engine.waiting_in(queue, needed)):
            workload = self._engine.view[key].workload
            in_local_queue = seen.get(workload.local_queue, 0)
            seen[workload.local_queue] = in_local_queue + 1
            if door is not None and workload.local_queue != door:
                continue
            if offset > 0:
                offset -= 1
                continue
            if len(items) == limit:
                break
            items.append(
                {
                    "metadata": {"name": key.partition("/")[2], "namespace": workload.namespace},
                    "priority": workload.priority,
                    "localQueueName": workload.local_queue.partition("/")[2],
                    "positionInClusterQueue": position,
                    "positionInLocalQueue": in_local_queue,
                }
            )
        return {
            "apiVersion": "visibility.kueue.x-k8s.io/v1beta2",
            "kind": "PendingWorkloadsSummary",
            "metadata": {},
            "items": items,
        }


def _allocatable(node: Document, resource: str) -> int:
    status = node.get("status") or {}
    amounts = status.get("allocatable") or status.get("capacity") or {}
    try:
        return amount(resource, amounts.get(resource) or 0)
    except QuantityError:
        return 0


def _by_controller(pod: Object) -> tuple[str, None] | None:
    owner = controller_of(pod.document)
    return None if owner is None else (owner.uid, None)


def _pods_line(item: tuple[str, int]) -> str:
    text, count = item
    who = "A pod of it has" if count == 1 else f"{count} pods of it have"
    return f"{who} no node: {text}"


def as_json(value: Any) -> Any:
    """A value of the engine as plain data; what it is stands in `type`."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        parts = {_json_name(name): as_json(getattr(value, name)) for name in value._fields}
        return {"type": type(value).__name__, **parts}
    if is_dataclass(value):
        return {_json_name(f.name): as_json(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple | frozenset):
        return [as_json(item) for item in value]
    if isinstance(value, int) and abs(value) > NUMBER_MAX:
        return str(value)
    return value


def _json_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
