"""GPUs that nodes have and don't hand out now: drained, or used by somebody outside.

The automatic queue does not own them meanwhile, so whoever needs one seems to ask for more than
there will ever be. It is told that it waits for them.
"""

from __future__ import annotations

from collections.abc import Sequence

from makeway.api.batch import Node
from makeway.api.devices import UNAVAILABLE, is_gpu, parse_unavailable
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

    To be asked of one that waits in that ClusterQueue.
    """
    document = None if queue is None else picture.get(QUEUES, Key("", queue))
    if document is None or not is_automatic(document):
        return []
    nodes = [found.view for key in picture.keys(NODES) if (found := picture.find(NODES, key))]
    known: list[Node] = [node for node in nodes if node is not None]
    others = [one for one in obstacles if not _would_do(one, document, known)]
    if len(others) == len(obstacles) or (others and can_never_run(others)):
        return []
    return [
        GpuSetAside(device, why, node.metadata.name)
        for node in known
        for device, why in parse_unavailable(node.metadata.annotations.get(UNAVAILABLE, "")).items()
    ]


def _would_do(obstacle: Obstacle, queue: Document, nodes: Sequence[Node]) -> bool:
    """Whether what is set aside would overcome it."""
    if not isinstance(obstacle, ExceedsCapacity) or not is_gpu(obstacle.cell.resource):
        return False
    more = set_aside(queue, nodes, obstacle.cell.resource)
    return not obstacle._replace(capacity=obstacle.capacity + more).is_final
