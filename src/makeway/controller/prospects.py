"""Whether a Job that is not there yet could ever run: with all of the quota, on an empty machine.

What only others who run keep it from is no matter here: that passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from makeway.api.batch import Job, Node, pod_requests
from makeway.api.codec import decode_as, decode_unconverted
from makeway.api.devices import is_gpu
from makeway.api.kinds import NODES, QUEUES
from makeway.api.labels import MIN_PARALLELISM, QUEUE_NAME
from makeway.api.quantity import format_amount
from makeway.client.client import Document
from makeway.controller import automatic
from makeway.engine.engine import Engine
from makeway.engine.model import FlavorResource, LocalQueueKey, QueueName, ResourceName
from makeway.plane.picture import Picture
from makeway.plane.writes import Key
from makeway.translate.brief import NEVER, amount_in_brief


def prospects(engine: Engine, picture: Picture, namespace: str, job: Any) -> Document:
    """What would make it wait in vain (`never`), as sentences; none of what can't be read."""
    decoded = decode_as(Job, job).object if isinstance(job, Mapping) else None
    found = [] if decoded is None else list(_obstacles(engine, picture, namespace, decoded))
    return {"apiVersion": "visibility.makeway.dev/v1", "kind": "Prospects", "never": found}


def _obstacles(engine: Engine, picture: Picture, namespace: str, job: Job) -> Iterator[str]:
    per_pod = pod_requests(job.spec.template.spec)
    asked = {name: amount * _pods(job) for name, amount in per_pod.items()}
    nodes = [decode_unconverted(Node, document).object for document in picture.all(NODES)]
    known = [node for node in nodes if node is not None]
    queue = job.metadata.labels.get(QUEUE_NAME, "")
    yield from _beyond_quota(engine, picture, known, LocalQueueKey(f"{namespace}/{queue}"), asked)
    yield from _beyond_nodes(known, per_pod)


def _pods(job: Job) -> int:
    """How many there are at once; of who would do with fewer, so many."""
    spec = job.spec
    least = job.metadata.annotations.get(MIN_PARALLELISM, "")
    if least.isdecimal() and len(least) < 9:
        return int(least)
    return min(spec.parallelism, spec.completions or spec.parallelism)


def _beyond_quota(
    engine: Engine,
    picture: Picture,
    nodes: Sequence[Node],
    queue: LocalQueueKey,
    asked: Mapping[str, int],
) -> Iterator[str]:
    local = engine.view.local_queue(queue)
    found = None if local is None else _capacities(engine, local.queue)
    if local is None or found is None:
        return
    for resource, amount in asked.items():
        if not amount:
            continue
        cells = [most for cell, most in found.items() if cell.resource == resource]
        if not cells:
            what, others = amount_in_brief(resource, amount), _other_gpus(resource, found)
            yield f"{NEVER}{what} asked, and ClusterQueue {local.queue} has no {resource}{others}"
            continue
        document = picture.get(QUEUES, Key("", local.queue))
        most = max(cells) + automatic.set_aside(document, nodes, resource)
        if amount > most:
            yield f"{_never(resource, amount, most)} for ClusterQueue {local.queue}"


def _other_gpus(resource: str, cells: Iterable[FlavorResource]) -> str:
    """What else it might have asked for, where GPUs are divided or of another make."""
    names = sorted({cell.resource for cell in cells if is_gpu(cell.resource)})
    return f" but {', '.join(names)} (--gpu-resource)" if names and is_gpu(resource) else ""


def _capacities(engine: Engine, name: QueueName) -> Mapping[FlavorResource, int] | None:
    """All that a queue could ever have, borrowed quota and all; None: there is no such queue."""
    for queue in engine.view.queues():
        if queue.spec.name == name:
            return {
                cell: queue.capacity[cell]
                for group in queue.spec.groups
                for quotas in group.flavors
                for cell in (
                    FlavorResource(quotas.flavor, ResourceName(r)) for r in group.resources
                )
            }
    return None


def _beyond_nodes(nodes: Sequence[Node], per_pod: Mapping[str, int]) -> Iterator[str]:
    sizes = [{**node.status.allocatable, **node.status.capacity} for node in nodes]
    for resource, amount in per_pod.items():
        most = max((size.get(resource, 0) for size in sizes), default=amount)
        if amount > most:
            yield f"{_never(resource, amount, most)} on the largest node"


def _never(resource: str, asked: int, most: int) -> str:
    what = amount_in_brief(resource, asked)
    return f"{NEVER}{what} asked, {format_amount(resource, most)} exist"
