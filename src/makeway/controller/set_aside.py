"""GPUs that nodes have and don't hand out now: drained, or used by somebody outside.

The automatic queue does not own them meanwhile, so whoever needs one seems to ask for more than
there will ever be. It is told that it waits for them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence

from makeway.api.batch import Node
from makeway.api.devices import GPU, GPU_LIST, UNAVAILABLE, is_gpu, parse_unavailable
from makeway.api.kinds import NODES, QUEUES
from makeway.client.client import Document
from makeway.controller.automatic import is_automatic, set_aside
from makeway.engine.decisions import ExceedsCapacity
from makeway.engine.explain import Obstacle
from makeway.plane.picture import Picture
from makeway.plane.writes import Key
from makeway.translate.categories import can_never_run
from makeway.translate.places import GpuSetAside


def gpus_waited_for(
    picture: Picture, queue: str | None, obstacles: Sequence[Obstacle]
) -> list[GpuSetAside]:
    """Those with which a workload could run that never could without; none: it lacks other things.

    The obstacles are those of one that waits in that ClusterQueue.
    """
    document = None if queue is None else picture.get(QUEUES, Key("", queue))
    if document is None or not is_automatic(document) or not can_never_run(obstacles):
        return []
    nodes = [found.view for key in picture.keys(NODES) if (found := picture.find(NODES, key))]
    known: list[Node] = [node for node in nodes if node is not None]
    needed = [_gpus_needed(one, document, known) for one in obstacles]
    others = [one for one, resource in zip(obstacles, needed, strict=True) if not resource]
    if len(others) == len(obstacles) or (others and can_never_run(others)):
        return []
    return [gpu for node in known for gpu in set_aside_on(node, needed)]


def _gpus_needed(obstacle: Obstacle, queue: Document, nodes: Sequence[Node]) -> str:
    """The resource of which what is set aside would overcome it; empty: it would not."""
    if not isinstance(obstacle, ExceedsCapacity) or not is_gpu(obstacle.cell.resource):
        return ""
    more = set_aside(queue, nodes, obstacle.cell.resource)
    is_final = obstacle._replace(capacity=obstacle.capacity + more).is_final
    return "" if is_final else obstacle.cell.resource


def set_aside_on(node: Node, resources: Collection[str]) -> Iterator[GpuSetAside]:
    """Those of a node that count as one of these resources."""
    annotations = node.metadata.annotations
    reasons = parse_unavailable(annotations.get(UNAVAILABLE, ""))
    # Nothing is listed of those that are only declared.
    listed = json.loads(annotations.get(GPU_LIST) or "[]") if reasons else ()
    kinds = {gpu["id"]: gpu["resource"] for gpu in listed}
    for device, why in reasons.items():
        if kinds.get(device, GPU) in resources:
            yield GpuSetAside(device, why, node.metadata.name)
