"""What every object has: metadata, conditions, owner references, label selectors."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from makeway.api.schema import Document, Time
from makeway.selectors import Requirement, all_hold

ConditionStatus = Literal["True", "False", "Unknown"]
SelectorOperator = Literal["In", "NotIn", "Exists", "DoesNotExist"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerReference:
    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False


def controller_of(document: Mapping[str, Any]) -> OwnerReference | None:
    """The owner that controls an object; None: nothing does."""
    for reference in document["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return OwnerReference(
                api_version=reference.get("apiVersion", ""),
                kind=reference.get("kind", ""),
                name=reference.get("name", ""),
                uid=reference["uid"],
                controller=True,
            )
    return None


def is_part_of_a_job(metadata: Mapping[str, Any]) -> bool:
    """Whether a Job answers for an object, which then doesn't wait in a queue for itself.

    The metadata may be as a user wrote it.
    """
    return any(
        owner.get("kind") == "Job" and str(owner.get("apiVersion")).startswith("batch/")
        for owner in _controllers(metadata)
    )


def has_controller(metadata: Mapping[str, Any]) -> bool:
    """Whether anything answers for an object whose metadata a user wrote."""
    return bool(_controllers(metadata))


def _controllers(metadata: Mapping[str, Any]) -> list[dict[str, Any]]:
    owners = metadata.get("ownerReferences")
    found = owners if isinstance(owners, list) else []
    return [owner for owner in found if isinstance(owner, dict) and owner.get("controller")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectMeta:
    name: str = ""  # empty only together with generate_name, before the object is created
    generate_name: str = ""
    namespace: str = ""  # empty for kinds that live outside namespaces
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    creation_timestamp: Time | None = None  # None: not created yet
    generation: int | None = None  # None: not created yet
    resource_version: str = ""
    deletion_timestamp: Time | None = None  # None: nobody asked for its deletion
    deletion_grace_period_seconds: int | None = None
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()
    managed_fields: tuple[Document, ...] = ()
    self_link: str = ""

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that controls the object; of a document, `controller_of` answers."""
        return next((owner for owner in self.owner_references if owner.controller), None)


UNNAMED = ObjectMeta()


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    type: str
    status: ConditionStatus
    reason: str = ""
    message: str = ""
    last_transition_time: Time | None = None
    observed_generation: int | None = None


def find_condition(conditions: Iterable[Condition], type: str) -> Condition | None:
    return next((condition for condition in conditions if condition.type == type), None)


def is_true(conditions: Iterable[Condition], type: str) -> bool:
    condition = find_condition(conditions, type)
    return condition is not None and condition.status == "True"


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectorRequirement:
    key: str
    operator: SelectorOperator
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSelector:
    """An empty one matches everything. (An absent one matches nothing; that is the caller's.)"""

    match_labels: Mapping[str, str] = field(default_factory=dict)
    match_expressions: tuple[SelectorRequirement, ...] = ()

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        labels = (Requirement(key, "In", (value,)) for key, value in self.match_labels.items())
        expressions = (Requirement(e.key, e.operator, e.values) for e in self.match_expressions)
        return (*labels, *expressions)

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all_hold(self.requirements, labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedReference:
    api_group: str = ""
    kind: str
    name: str
