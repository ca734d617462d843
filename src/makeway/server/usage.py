"""metrics.k8s.io: what pods and nodes use of CPU and memory right now, for `kubectl top`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from makeway.api.devices import GPU
from makeway.api.kinds import NODES, PODS, Resource
from makeway.api.times import format_time
from makeway.server import errors
from makeway.server.messages import Request, Response, decode, json_response
from makeway.server.reads import Reads
from makeway.store import Key, Store

GROUP, VERSION = "metrics.k8s.io", "v1beta1"
RESOURCES = (
    Resource(f"{GROUP}/{VERSION}", "nodes", "NodeMetrics", is_namespaced=False, has_status=False),
    Resource(f"{GROUP}/{VERSION}", "pods", "PodMetrics", has_status=False),
)


class Use(Protocol):
    """Of a span of time that ends at `at`."""

    @property
    def cpus(self) -> float: ...

    @property
    def memory_bytes(self) -> int: ...

    @property
    def at(self) -> float: ...

    @property
    def window_s(self) -> float: ...

    @property
    def gpus(self) -> float | None: ...


class Meter(Protocol):
    async def pods(self) -> Mapping[str, Mapping[str, Use]]:
        """By uid and container, as far as it is known yet."""

    async def node(self, name: str) -> Use: ...


class Usage:
    def __init__(self, store: Store, reads: Reads) -> None:
        self._store, self._reads = store, reads
        self.meter: Meter | None = None  # None: nobody here runs pods

    async def answer(self, request: Request, rest: Sequence[str]) -> Response:
        if self.meter is None:
            raise errors.no_such_path()
        if request.method != "GET":
            raise errors.method_not_allowed()
        match rest:
            case ["nodes"]:
                keys = await self._reads.keys(request, NODES, "")
                found = [await self._node(self.meter, key) for key in keys]
                return _listed("NodeMetricsList", found)
            case ["nodes", name]:
                return _one(NODES, name, await self._node(self.meter, _key(NODES, "", name)))
            case ["pods"]:
                return await self._pods(self.meter, request, "")
            case ["namespaces", namespace, "pods"]:
                return await self._pods(self.meter, request, namespace)
            case ["namespaces", namespace, "pods", name]:
                uses = await self.meter.pods()
                return _one(PODS, name, self._pod(uses, _key(PODS, namespace, name)))
            case _:
                raise errors.no_such_path()

    async def _pods(self, meter: Meter, request: Request, namespace: str) -> Response:
        uses = await meter.pods()
        keys = await self._reads.keys(request, PODS, namespace)
        return _listed("PodMetricsList", [self._pod(uses, key) for key in keys])

    def _pod(self, uses: Mapping[str, Mapping[str, Use]], key: Key) -> dict[str, Any] | None:
        record = self._store.get(key)
        if record is None:
            return None
        metadata = decode(record.body)["metadata"]
        containers = uses.get(metadata["uid"])
        if not containers:
            return None
        told = [{"name": name, "usage": _amounts(use)} for name, use in containers.items()]
        return _document("PodMetrics", metadata, next(iter(containers.values())), containers=told)

    async def _node(self, meter: Meter, key: Key) -> dict[str, Any] | None:
        record = self._store.get(key)
        if record is None:
            return None
        metadata, use = decode(record.body)["metadata"], await meter.node(key.name)
        return _document("NodeMetrics", metadata, use, usage=_amounts(use))


def _key(resource: Resource, namespace: str, name: str) -> Key:
    return Key(resource.full_name, namespace, name)


def _document(kind: str, metadata: Mapping[str, Any], use: Use, **more: Any) -> dict[str, Any]:
    kept = {name: metadata[name] for name in ("name", "namespace", "labels") if name in metadata}
    moment = format_time(use.at)
    return {
        "kind": kind,
        "apiVersion": f"{GROUP}/{VERSION}",
        "metadata": {**kept, "creationTimestamp": moment},
        "timestamp": moment,
        "window": f"{use.window_s:.3f}s",
        **more,
    }


def _amounts(use: Use) -> dict[str, str]:
    found = {"cpu": f"{round(use.cpus * 1e9)}n", "memory": f"{use.memory_bytes // 1024}Ki"}
    return found if use.gpus is None else {**found, GPU: f"{round(use.gpus * 1000)}m"}


def _listed(kind: str, found: Sequence[Mapping[str, Any] | None]) -> Response:
    items = [one for one in found if one is not None]
    version = f"{GROUP}/{VERSION}"
    return json_response({"kind": kind, "apiVersion": version, "metadata": {}, "items": items})


def _one(resource: Resource, name: str, found: Mapping[str, Any] | None) -> Response:
    """Of what isn't measured, or was only once, nothing is known."""
    if found is None:
        raise errors.not_found(resource, name)
    return json_response(found)
