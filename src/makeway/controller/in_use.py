"""Flavors and queues that are in use stay until they no longer are, though somebody deletes them.

Each carries a finalizer from the moment that we see it. It is taken off one that is being deleted
when no queue names the flavor any more, or when nobody holds quota of the queue any more.
"""

from __future__ import annotations

from makeway.api.kinds import FLAVORS, QUEUES, WORKLOADS, Resource
from makeway.api.labels import IN_USE
from makeway.client.client import Document
from makeway.controller.workload_writes import without_finalizer
from makeway.engine.engine import Engine
from makeway.engine.model import QueueName
from makeway.plane.parts import NOTHING, Plan, Reconciler
from makeway.plane.picture import Change, Picture
from makeway.plane.writes import Key, Patch, as_seen

LOOK_AGAIN_S = 1.0  # at what is to go and is still in use


class InUse(Reconciler):
    """For one kind; heard after Admission, so that the engine knows what we are asked about."""

    def __init__(self, picture: Picture, engine: Engine, kind: Resource) -> None:
        super().__init__()
        assert kind in (FLAVORS, QUEUES), kind
        self._picture, self._view, self._kind = picture, engine.view, kind
        # Nothing is let go before everybody who may use it was listed.
        self.resources: tuple[Resource, ...] = tuple(dict.fromkeys((kind, QUEUES, WORKLOADS)))

    def changed(self, change: Change) -> None:
        if change.resource == self._kind:
            self.mark(change.key)

    def reconcile(self, key: Key, now: float) -> Plan:
        document = self._picture.get(self._kind, key)
        if document is None:
            return NOTHING
        held_by = document["metadata"].get("finalizers") or []
        if not document["metadata"].get("deletionTimestamp"):
            return NOTHING if IN_USE in held_by else Plan([self._hold(key, document)])
        if IN_USE not in held_by:
            return NOTHING
        if self._is_used(key.name):
            return Plan(next_at=now + LOOK_AGAIN_S)
        return Plan(without_finalizer(self._kind, document, IN_USE, is_exact=True))

    def _hold(self, key: Key, document: Document) -> Patch:
        finalizers = [*(document["metadata"].get("finalizers") or ()), IN_USE]
        metadata = {**as_seen(document), "finalizers": finalizers}
        return Patch(resource=self._kind, key=key, patch={"metadata": metadata})

    def _is_used(self, name: str) -> bool:
        if self._kind == QUEUES:
            return self._view.is_held(QueueName(name))
        return any(
            quotas.flavor == name
            for spec in self._view.specs()
            for group in spec.groups
            for quotas in group.flavors
        )
