"""Flavors and queues that are in use stay until they no longer are, though somebody deletes them.

Each carries a finalizer from the moment that we see it. It is taken off one that is being deleted
when no queue names the flavor any more, or when nobody holds quota of the queue any more.
"""

from __future__ import annotations

from makeway.api.kinds import FLAVORS, QUEUES, WORKLOADS, Resource
from makeway.api.labels import IN_USE
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
        is_leaving = bool(document["metadata"].get("deletionTimestamp"))
        if not is_leaving and IN_USE not in held_by:
            metadata = {**as_seen(document), "finalizers": [*held_by, IN_USE]}
            return Plan([Patch(resource=self._kind, key=key, patch={"metadata": metadata})])
        if not is_leaving or IN_USE not in held_by:
            return NOTHING
        if self._is_used(key.name):
            return Plan(next_at=now + LOOK_AGAIN_S)
        return Plan(without_finalizer(self._kind, document, IN_USE, is_exact=True))

    def _is_used(self, name: str) -> bool:
        if self._kind == QUEUES:
            return self._view.is_held(QueueName(name))
        return any(
            quotas.flavor == name
            for spec in self._view.specs()
            for group in spec.groups
            for quotas in group.flavors
        )
