"""What only the engine knows, for whoever asks: why a workload waits, and who is before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from makeway.api.batch import ENDED_PHASES, Node, Pod, pod_requests
from makeway.api.codec import decode_unconverted
from makeway.api.kinds import NODES, PODS, WORKLOADS
from makeway.api.meta import controller_of
from makeway.api.times import in_whole_seconds
from makeway.client.client import Document
from makeway.controller.discretion import told_name
from makeway.controller.set_aside import gpus_waited_for, set_aside_on
from makeway.engine.engine import Engine
from makeway.engine.explain import Explanation
from makeway.engine.model import LocalQueueKey, QueueName, WorkloadKey
from makeway.plane.picture import Object, Picture
from makeway.plane.writes import Key
from makeway.translate.data import as_data, obstacle_data, pieces_data
from makeway.translate.explanation import explanation_lines
from makeway.translate.places import (
    GpuSetAside,
    largest_node_line,
    no_node_line,
    scheduling_message,
    set_aside_lines,
)
from makeway.translate.words import Line

PENDING_MAX = 1000  # in one answer, unless more are asked for


class Visibility:
    def __init__(
        self,
        engine: Engine,
        picture: Picture,
        clock: Callable[[], float],
        *,
        is_shared: bool = False,
    ) -> None:
        """Where people share a server (`is_shared`), pods are not called by their names."""
        self._engine, self._picture, self._clock = engine, picture, clock
        self._is_shared = is_shared
        self._pods_of = picture.index(PODS, _by_controller)

    def explain(self, namespace: str, name: str) -> Document | None:
        """Why a workload does not run, as data and as lines; None if it isn't known."""
        key = WorkloadKey(f"{namespace}/{name}")
        if self._engine.view.workload(key) is None:
            return None
        now = self._clock()
        explanation, gpus = self._explained(key, now)
        pods = self._pods_without_node(Key(namespace, name))
        messages = Counter(scheduling_message(pod) for pod in pods)
        lines = [
            *explanation_lines(explanation, now, in_whole_seconds),
            *set_aside_lines(gpus),
            *(no_node_line(count, text) for text, count in messages.items()),
            *self._largest_nodes(pods),
        ]
        return {
            "apiVersion": "makeway.dev/v1",
            "kind": "Explanation",
            "metadata": {"name": name, "namespace": namespace},
            **as_data(explanation),
            "obstacles": [obstacle_data(obstacle, now) for obstacle in explanation.obstacles],
            "podsWithoutNode": [{"count": n, "message": text} for text, n in messages.items()],
            "lines": [str(line) for line in lines],
            "pieces": [pieces_data(line) for line in lines],
        }

    def _explained(self, key: WorkloadKey, now: float) -> tuple[Explanation, list[GpuSetAside]]:
        """With the GPUs that it waits for to be handed out again; then nothing else would help."""
        found = self._engine.explain(key, now)
        gpus = gpus_waited_for(self._picture, found.queue, found.obstacles)
        return (replace(found, helps=()) if gpus else found), gpus

    def waits_for(self, keys: Iterable[str]) -> dict[str, str]:
        """Of those among them that only wait for GPUs to be handed out again: for which."""
        found = self._engine.glances(map(WorkloadKey, keys))
        waited = {
            key: gpus_waited_for(self._picture, one.queue, one.obstacles)
            for key, one in found.items()
        }
        return {key: ", ".join(map(str, gpus)) for key, gpus in waited.items() if gpus}

    def _pods_without_node(self, key: Key) -> list[Pod]:
        """Pods of a workload for which a scheduler has found no node."""
        workload = self._picture.get(WORKLOADS, key)
        owner = None if workload is None else controller_of(workload)
        keys = [] if owner is None else self._pods_of.keys(owner.uid)
        pods = _pods(self._picture.get(PODS, pod) or {} for pod in keys)
        return [pod for pod in pods if ("PodScheduled", "False") in _conditions(pod)]

    def _largest_nodes(self, waiting: Iterable[Pod]) -> Iterator[Line]:
        """Of what even the largest node has too little left: how much it has, and who is there."""
        needs: dict[str, int] = {}
        for pod in waiting:
            for resource, needed in pod_requests(pod.spec).items():
                needs[resource] = max(needed, needs.get(resource, 0))
        documents = self._picture.all(NODES) if needs else ()
        decoded = (decode_unconverted(Node, document).object for document in documents)
        nodes = [node for node in decoded if node is not None]
        for resource, needed in sorted(needs.items()):
            sizes = [(_size(node, resource), node.metadata.name) for node in nodes]
            size, name = max(sizes, default=(0, ""))
            there = self._pods_on(name) if name else []
            if name and size - sum(pod_requests(p.spec).get(resource, 0) for p in there) < needed:
                pods = sorted(f"{p.metadata.namespace}/{p.metadata.name}" for p in there)
                if self._is_shared:
                    pods = list(dict.fromkeys(told_name(self._picture, pod) for pod in pods))
                yield largest_node_line(resource, size, name, pods)
        yield from (Line(gpu.with_node) for node in nodes for gpu in set_aside_on(node, needs))

    def _pods_on(self, node: str) -> list[Pod]:
        return _pods(
            pod
            for pod in self._picture.all(PODS)
            if (pod.get("spec") or {}).get("nodeName") == node
            and (pod.get("status") or {}).get("phase") not in ENDED_PHASES
        )

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
        self, queue: QueueName, local_queue: LocalQueueKey | None, offset: int, limit: int
    ) -> Document:
        """Who waits in a queue, or of them those of one LocalQueue."""
        items: list[Document] = []
        seen: dict[LocalQueueKey, int] = {}
        needed = offset + limit if local_queue is None else None
        for position, key in enumerate(self._engine.waiting_in(queue, needed)):
            workload = self._engine.view[key].workload
            in_local_queue = seen.get(workload.local_queue, 0)
            seen[workload.local_queue] = in_local_queue + 1
            if local_queue is not None and workload.local_queue != local_queue:
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


def _pods(documents: Iterable[Document]) -> list[Pod]:
    views = (decode_unconverted(Pod, document).object for document in documents)
    return [view for view in views if view is not None]


def _by_controller(pod: Object) -> tuple[str, None] | None:
    owner = controller_of(pod.document)
    return None if owner is None else (owner.uid, None)


def _conditions(pod: Pod) -> set[tuple[str, str]]:
    return {(condition.type, condition.status) for condition in pod.status.conditions}


def _size(node: Node, resource: str) -> int:
    return (node.status.allocatable or node.status.capacity).get(resource, 0)
