"""What can be done to the objects of a server, as values: decided in one place, sent in another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, assert_never

from makeway.api.kinds import PODS, Resource
from makeway.client.client import Client, Document


class Key(NamedTuple):
    namespace: str  # empty for kinds that live outside namespaces
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @classmethod
    def parse(cls, text: str) -> Key:
        """Of an object in a namespace, as `str` writes it."""
        namespace, _, name = text.partition("/")
        return cls(namespace, name)


def key_of(document: Document) -> Key:
    metadata = document["metadata"]
    return Key(metadata.get("namespace") or "", metadata["name"])


def as_seen(document: Document) -> Document:
    """Metadata for a patch that is the condition that the object is still as we saw it."""
    metadata = document["metadata"]
    return {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """An event about an object; nobody waits for it, and nothing depends on it."""

    about: Document  # with apiVersion, kind and metadata
    reason: str
    message: str
    type: str = "Normal"  # or Warning


class EventText(NamedTuple):
    """What an event says; the object that it is about is known elsewhere."""

    reason: str
    message: str
    type: str = "Normal"

    def about(self, document: Document) -> Say:
        """An event as `kubectl describe` shows it; many may wait, so only a part is kept."""
        about = {name: document[name] for name in ("apiVersion", "kind", "metadata")}
        return Say(about=about, reason=self.reason, message=self.message, type=self.type)


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """A write that events may follow; `Reconciler.settled` answers with them."""

    cause: Key | None = None  # for the sake of which key a Reconciler sends it
    then: tuple[Say, ...] = ()  # what to say when it is done; if it fails, nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Create(Announced):
    resource: Resource
    document: Document  # with name and namespace

    @property
    def key(self) -> Key:
        return key_of(self.document)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch(Announced):
    """A merge patch; a uid or resourceVersion in its metadata is a condition."""

    resource: Resource
    key: Key
    patch: Document
    subresource: str = ""


def status_patch(
    resource: Resource,
    document: Document,
    status: Document,
    annotations: Mapping[str, str] | None = None,
) -> Patch:
    """Lists are replaced as a whole, so the patch holds only for the state that we looked at.

    Of built-in kinds, annotations may be written with the status.
    """
    metadata = as_seen(document) | ({"annotations": annotations} if annotations else {})
    patch = {"metadata": metadata, "status": status}
    return Patch(resource=resource, key=key_of(document), patch=patch, subresource="status")


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete(Announced):
    resource: Resource
    key: Key
    uid: str
    grace_s: int | None = None  # None: what the object says
    propagation: str = "Background"


@dataclass(frozen=True, slots=True, kw_only=True)
class OfPod(Announced):
    """A write to a subresource that only pods have."""

    key: Key
    uid: str

    @property
    def resource(self) -> Resource:
        return PODS


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind(OfPod):
    """Give a pod its node."""

    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evict(OfPod):
    """Ask for a pod's end where disruption budgets allow it."""


ObjectWrite = Create | Patch | Delete | Bind | Evict
Write = ObjectWrite | Say


async def send(client: Client, write: ObjectWrite) -> Document | None:
    """Carry out; the object as it is then, or None where the server doesn't show it."""
    namespace, name = write.key
    match write:
        case Create():
            return await client.create(write.resource, write.document)
        case Patch():
            return await client.patch(
                write.resource, name, namespace, patch=write.patch, subresource=write.subresource
            )
        case Delete():
            answer = await client.delete(
                write.resource,
                name,
                namespace,
                uid=write.uid,
                grace_s=write.grace_s,
                propagation=write.propagation,
            )
            return answer if answer.get("kind") == write.resource.kind else None
        case Bind():
            metadata = {"name": name, "namespace": namespace, "uid": write.uid}
            target = {"apiVersion": "v1", "kind": "Node", "name": write.node}
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata}
            await client.post(PODS, write.key, "binding", binding | {"target": target})
            return None
        case Evict():
            metadata = {"name": name, "namespace": namespace}
            options = {"preconditions": {"uid": write.uid}}
            eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
            await client.post(PODS, write.key, "eviction", eviction | {"deleteOptions": options})
            return None
        case _:
            assert_never(write)
