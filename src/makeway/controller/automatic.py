"""A queue for whoever has made none: `default`, which owns what the nodes have.

It is there from the start, so that a job can be submitted before anybody has thought about quota.
As soon as another ClusterQueue covers one of its resources it is held: what runs there goes on,
what waits is told where to go, and nothing new comes in. When no such queue is left, it is back.

Its objects carry the label `makeway.dev/automatic`. The quota that we gave it is noted beside it;
who changes that, or where a LocalQueue leads to, has made it his own, and we leave it to him.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from makeway.api.batch import Node
from makeway.api.kinds import FLAVORS, LOCAL_QUEUES, NAMESPACES, NODES, QUEUES, WORKLOADS, Resource
from makeway.api.labels import AUTOMATIC, DEFAULT
from makeway.api.quantity import amount_in_object
from makeway.api.queueing import ClusterQueue, Workload
from makeway.client.client import Document
from makeway.controller.job_workload import holds_quota
from makeway.plane.parts import NOTHING, Plan, Reconciler
from makeway.plane.picture import Change, Picture
from makeway.plane.writes import Create, Key, Patch, Say, Write, as_seen, key_of
from makeway.translate import messages

FLAVOR = "automatic"  # not a name that users give to theirs
QUOTA = "makeway.dev/automatic-quota"  # annotation: what we last gave it
HELD_FOR = "makeway.dev/held-for"  # annotation: the queues for whose sake we hold it
NOT_QUOTA = frozenset(("pods",))  # a limit of each node, and nothing that jobs ask for
OF_THE_SYSTEM = "kube-"  # namespaces where nobody submits jobs
EVERYTHING = Key("", DEFAULT)  # the one key: all of it is looked at together


class AutomaticQueue(Reconciler):
    resources: tuple[Resource, ...] = (
        *(NODES, NAMESPACES, FLAVORS, QUEUES, LOCAL_QUEUES),
        WORKLOADS,  # not heard of, but looked through when those who wait have to be told
    )
    contested = (QUEUES, LOCAL_QUEUES)

    def __init__(self, picture: Picture, *, is_shared: bool = False) -> None:
        """`is_shared`: by several people, so what each used lately counts."""
        super().__init__()
        self._picture, self._is_shared = picture, is_shared

    def changed(self, change: Change) -> None:
        if change.resource != WORKLOADS:
            self.mark(EVERYTHING)

    def reconcile(self, key: Key, now: float) -> Plan:
        nodes = (self._picture.find(NODES, found) for found in self._picture.keys(NODES))
        quota = quota_of([n.view for n in nodes if n is not None and n.view is not None])
        owners = sorted(self._owners(quota))
        queue = self._picture.get(QUEUES, Key("", DEFAULT))
        if queue is None:
            return NOTHING if owners or not quota else Plan(self._missing(quota))
        if changed := [found for found in self._ours() if _is_changed(*found)]:
            return Plan([_given_up(*found) for found in changed])
        if not is_automatic(queue) or queue["metadata"].get("deletionTimestamp"):
            return NOTHING
        if held := self._hold_or_resume(queue, owners):
            return Plan(held)
        if owners:
            return NOTHING
        if quota and quota_in(queue) != _text(quota):
            return Plan([_regiven(queue, quota)])
        return Plan(self._missing(quota))

    def _owners(self, quota: Mapping[str, str]) -> Iterator[str]:
        """The queues of others that have something of what we would give."""
        for key in self._picture.keys(QUEUES):
            found = self._picture.find(QUEUES, key)
            if found is None or found.view is None or is_automatic(found.document):
                continue
            queue: ClusterQueue = found.view
            groups = queue.spec.resource_groups
            if any(name in quota for group in groups for name in group.covered_resources):
                yield key.name

    def _missing(self, quota: Mapping[str, str]) -> Sequence[Create]:
        names = [key.name for key in self._picture.keys(NAMESPACES)]
        leaving = [n for n in names if _is_leaving(self._picture.get(NAMESPACES, Key("", n)))]
        of_people = (name for name in names if name not in leaving)
        wanted = documents(quota, of_people, is_shared=self._is_shared)
        creations = [Create(resource=kind, document=document) for kind, document in wanted]
        return [made for made in creations if not self._picture.has(made.resource, made.key)]

    def _ours(self) -> Iterator[tuple[Resource, Document]]:
        for kind in (FLAVORS, QUEUES, LOCAL_QUEUES):
            for document in self._picture.all(kind):
                if is_automatic(document):
                    yield kind, document

    def _hold_or_resume(self, queue: Document, owners: Sequence[str]) -> Sequence[Write]:
        """What follows when the first owner has come, or the last has gone."""
        held_for = (queue["metadata"].get("annotations") or {}).get(HELD_FOR)
        if bool(owners) == bool(held_for):
            return ()
        policy, noted = ("Hold", ", ".join(owners)) if owners else ("None", None)
        writes: list[Write] = []
        for kind, document in self._ours():
            if kind in (QUEUES, LOCAL_QUEUES):
                metadata: Document = as_seen(document)
                if kind == QUEUES:
                    metadata["annotations"] = {HELD_FOR: noted}
                patch = {"metadata": metadata, "spec": {"stopPolicy": policy}}
                writes.append(Patch(resource=kind, key=key_of(document), patch=patch))
        return [*writes, *(self._told(owners) if owners else ())]

    def _told(self, owners: Sequence[str]) -> Iterator[Say]:
        """To everybody who waits there: where to go."""
        for key in self._picture.keys(WORKLOADS):
            found = self._picture.find(WORKLOADS, key)
            if found is None or found.view is None:
                continue
            workload: Workload = found.view
            if workload.spec.queue_name == DEFAULT and not holds_quota(workload):
                about = _asker(found.document)
                message = messages.AUTOMATIC_HELD.format(", ".join(owners))
                yield Say(about=about, reason="QueueHeld", message=message, type="Warning")


def documents(
    quota: Mapping[str, str], namespaces: Iterable[str], *, is_shared: bool = False
) -> Iterator[tuple[Resource, Document]]:
    """The queue that owns so much, its flavor, and its doors in the namespaces of people."""
    yield FLAVORS, _document(FLAVORS, FLAVOR)
    queue = _document(QUEUES, DEFAULT)
    queue["metadata"]["annotations"] = {QUOTA: _text(quota)}
    queue["spec"] = {"namespaceSelector": {}, "resourceGroups": _groups(quota)}
    if is_shared:
        queue["spec"]["admissionScope"] = {"admissionMode": "UsageBasedAdmissionFairSharing"}
    yield QUEUES, queue
    for namespace in namespaces:
        if not namespace.startswith(OF_THE_SYSTEM):
            door = _document(LOCAL_QUEUES, DEFAULT)
            door["metadata"]["namespace"] = namespace
            yield LOCAL_QUEUES, door | {"spec": {"clusterQueue": DEFAULT}}


def quota_of(nodes: Sequence[Node]) -> dict[str, str]:
    """All that nodes have to give now, by resource; nothing of what they may give again later."""
    total: dict[str, int] = {}
    for node in nodes:
        offered = node.status.allocatable or node.status.capacity
        for name, amount in {**dict.fromkeys(node.status.capacity, 0), **offered}.items():
            if name not in NOT_QUOTA:
                total[name] = total.get(name, 0) + amount
    some = {name for node in nodes for name, n in node.status.capacity.items() if n}
    return {n: amount_in_object(n, total[n]) for n in sorted(total) if total[n] or n in some}


def set_aside(queue: Document | None, nodes: Iterable[Node], resource: str) -> int:
    """What nodes have and don't offer now, and an automatic queue gets when they do again."""
    if queue is None or not is_automatic(queue):
        return 0
    parts = ((node.status.capacity, node.status.allocatable) for node in nodes)
    return sum(
        most - offered.get(resource, most) for has, offered in parts if (most := has.get(resource))
    )


def quota_in(queue: Document) -> str:
    """What a queue has, as we note it."""
    groups = (queue.get("spec") or {}).get("resourceGroups") or ()
    resources = [r for g in groups for flavor in g["flavors"] for r in flavor["resources"]]
    return _text({resource["name"]: str(resource["nominalQuota"]) for resource in resources})


def is_automatic(document: Document) -> bool:
    return (document["metadata"].get("labels") or {}).get(AUTOMATIC) == "true"


def _text(quota: Mapping[str, str]) -> str:
    return ",".join(f"{name}={amount}" for name, amount in quota.items())


def _groups(quota: Mapping[str, str]) -> list[Document]:
    resources = [{"name": name, "nominalQuota": amount} for name, amount in quota.items()]
    flavors = [{"name": FLAVOR, "resources": resources}]
    return [{"coveredResources": list(quota), "flavors": flavors}]


def _document(kind: Resource, name: str) -> Document:
    metadata: Document = {"name": name, "labels": {AUTOMATIC: "true"}}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}


def _regiven(queue: Document, quota: Mapping[str, str]) -> Patch:
    """The nodes have changed, and with them what it owns."""
    metadata = {**as_seen(queue), "annotations": {QUOTA: _text(quota)}}
    patch = {"metadata": metadata, "spec": {"resourceGroups": _groups(quota)}}
    return Patch(resource=QUEUES, key=key_of(queue), patch=patch)


def _is_changed(kind: Resource, document: Document) -> bool:
    """Whether somebody else has said what it should be."""
    if kind == LOCAL_QUEUES:
        return bool(document["spec"].get("clusterQueue") != DEFAULT)
    noted = (document["metadata"].get("annotations") or {}).get(QUOTA)
    return kind == QUEUES and quota_in(document) != noted


def _given_up(kind: Resource, document: Document) -> Patch:
    """No longer ours; if we held it, that is over, too."""
    unmarked = {"labels": {AUTOMATIC: None}, "annotations": {QUOTA: None, HELD_FOR: None}}
    patch = {"metadata": {**as_seen(document), **unmarked}, "spec": {"stopPolicy": "None"}}
    return Patch(resource=kind, key=key_of(document), patch=patch)


def _asker(workload: Document) -> Document:
    """Whose Workload it is, for events: people look at their Job."""
    metadata = workload["metadata"]
    for owner in metadata.get("ownerReferences") or ():
        named = {"name": owner["name"], "uid": owner["uid"], "namespace": metadata["namespace"]}
        return {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "metadata": named}
    return {"apiVersion": WORKLOADS.api_version, "kind": WORKLOADS.kind, "metadata": metadata}


def _is_leaving(document: Document | None) -> bool:
    return document is None or bool(document["metadata"].get("deletionTimestamp"))
