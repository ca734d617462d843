"""Placement's decisions as text, and the pods that placement has to refuse.

The sentences begin as those of kube-scheduler do ("0/3 nodes are available: 2 Insufficient
nvidia.com/gpu"), since that is what people search their clusters for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, assert_never

from makeway.api import batch
from makeway.api.devices import DeviceId
from makeway.api.meta import LabelSelector
from makeway.api.quantity import format_amount
from makeway.placement import decisions as dec
from makeway.placement.model import Unit
from makeway.translate.placement import gang_key_of, gang_text
from makeway.translate.words import Line, Ref

_NAMED_MAX = 5  # pods in a sentence; the rest are counted
_DOMAINS_MAX = 3


class Message(NamedTuple):
    """What a pod is told. Numbers change all the time, and a new one alone is no news."""

    text: str
    gist: str  # equal for messages that differ in their numbers alone


LEAVING = Message("Waits on its nominated nodes for pods that are leaving", "leaving")


def unit_text(unit: Unit) -> str:
    return f"gang {gang_text(unit.key)}" if unit.is_gang else f"pod {unit.key}"


def assigned_text(pod: str, node: str) -> str:
    return f"Successfully assigned {pod} to {node}"


def wait_message(wait: dec.WaitForNodes) -> Message:
    """Why a pod or gang has no place yet."""
    if wait.reason is dec.WaitReason.VICTIMS_LEAVING:
        return LEAVING
    lacks = sorted(f"{blocked.cause.value} {blocked.resource}" for blocked in wait.blocked)
    domains = [lack.domain for lack in wait.domains[:_DOMAINS_MAX]]
    return Message(_wait_text(wait), f"{wait.reason.value} {wait.needed > 0} {lacks} {domains}")


def _wait_text(wait: dec.WaitForNodes) -> str:
    match wait.reason:
        case dec.WaitReason.GANG_MISSING:
            return (
                f"The gang {gang_text(wait.preemptor.key)} is not known: its PodGroup, Gang or "
                "Workload does not exist, or its queue has not admitted it"
            )
        case dec.WaitReason.MEMBERS_MISSING:
            return (
                f"{wait.needed} pods of the gang {gang_text(wait.preemptor.key)} have to be placed "
                "together, and fewer wait for a place"
            )
        case dec.WaitReason.VICTIMS_LEAVING:
            return LEAVING.text
        case dec.WaitReason.NOT_ENOUGH_ROOM if wait.needed == 0:
            return f"{_room_text(wait)} The gang has as many as it needs; more preempt nobody."
        case dec.WaitReason.NOT_ENOUGH_ROOM:
            return f"{_room_text(wait)} Preemption would not make enough room."
        case dec.WaitReason.NO_CANDIDATES:
            return f"{_room_text(wait)} No pod of lower preemption priority is in the way."
        case dec.WaitReason.MAY_NOT_PREEMPT:
            return f"{_room_text(wait)} Its preemption policy is Never."
        case _:
            assert_never(wait.reason)


def _room_text(wait: dec.WaitForNodes) -> str:
    nodes = sum(blocked.nodes for blocked in wait.blocked)
    if nodes == 0:
        return "There are no nodes."
    available = sum(blocked.nodes for blocked in wait.blocked if blocked.cause is dec.Cause.FITS)
    text = f"{available}/{nodes} nodes are available"
    lacks = [_blocked_text(b) for b in wait.blocked if b.cause is not dec.Cause.FITS]
    text += f": {', '.join(lacks)}." if lacks else "."
    if wait.preemptor.is_gang and wait.needed > 0:
        text += f" {wait.needed} pods have to be placed together, {wait.fitting} have room."
    if wait.domains:
        text += f" {_domains_text(wait.domains)}"
    return text


def _blocked_text(blocked: dec.Blocked) -> str:
    match blocked.cause:
        case dec.Cause.UNSCHEDULABLE:
            return f"{blocked.nodes} node(s) were unschedulable"
        case dec.Cause.TAINT:
            return f"{blocked.nodes} node(s) had untolerated taints"
        case dec.Cause.SELECTOR:
            return f"{blocked.nodes} node(s) didn't match Pod's node affinity/selector"
        case dec.Cause.TOPOLOGY:
            return f"{blocked.nodes} node(s) were outside the topology of the gang"
        case dec.Cause.RESOURCE:
            return f"{blocked.nodes} Insufficient {blocked.resource}"
        case dec.Cause.APART:
            return f"{blocked.nodes} node(s) had a member from which others keep apart"
        case dec.Cause.FITS:
            return f"{blocked.nodes} node(s) have room"
        case _:
            assert_never(blocked.cause)


def _domains_text(domains: Sequence[dec.DomainLack]) -> str:
    best = ", ".join(
        f"{lack.domain} has room for {lack.fitting}" for lack in domains[:_DOMAINS_MAX]
    )
    return f"All have to be in one domain: {best}."


def unwound_text(decision: dec.Unwind) -> str:
    return f"Too few pods of the gang {decision.gang} could be bound"


def unplaceable(refusal: str) -> Message:
    text = f"Makeway can't place this pod: {refusal}"
    return Message(text, text)


def scheduling_message(pod: batch.Pod) -> str:
    """What a scheduler said of a pod for which it has found no node."""
    said = (c.message for c in pod.status.conditions if c.type == "PodScheduled")
    return next(said, "") or "nobody has looked at it yet"


def no_node_line(count: int, message: str) -> Line:
    who = "A pod of it has" if count == 1 else f"{count} pods of it have"
    return Line(f"{who} no node: {message}")


def largest_node_line(resource: str, size: int, node: str, pods: Sequence[str]) -> Line:
    """What the node that has most of a resource has of it, and who is there."""
    has = f"The largest node has {format_amount(resource, size)} {resource}: "
    if not pods:
        return Line(has, Ref("Node", node), "; it is empty")
    named = [piece for pod in pods[:_NAMED_MAX] for piece in (", ", Ref("Pod", pod))]
    more = f" and {len(pods) - _NAMED_MAX} more" if len(pods) > _NAMED_MAX else ""
    return Line(has, Ref("Node", node), "; pods there: ", *named[1:], more)


def preemptor_text(plan: dec.PreemptUnits) -> str:
    """What the preemptor is told of those that make way for it."""
    where = f" on {plan.domain}" if plan.domain else ""
    return f"Preempts {len(plan.pods)} pods{where}: {_some(plan.pods)}"


def victim_text(plan: dec.PreemptUnits, node: str) -> str:
    return f"Preempted by {unit_text(plan.preemptor)} on node {node}"


def workload_text(plan: dec.PreemptUnits) -> str:
    """What a queue Workload is told when none of its pods is left."""
    return f"Every pod was preempted by {unit_text(plan.preemptor)} in placement"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
    return ", ".join(names[:_NAMED_MAX]) + more


# --- what placement does not know ---


def refusal_of(view: batch.Pod) -> str | None:
    """The field by which a pod asks for what placement does not know, and why; None if none.

    Such a pod is not placed at all, as no node could be said to be right for it.
    """
    return next(iter(_refusals(view)), None)


def _refusals(view: batch.Pod) -> Iterable[str]:
    document = view.spec.document or {}
    for index, volume in enumerate(_items(document, "volumes")):
        for kind in ("persistentVolumeClaim", "ephemeral"):
            if volume.get(kind):
                yield f"spec.volumes[{index}].{kind}: volumes that tie pods to nodes are not known"
    if _items(document, "resourceClaims"):
        yield "spec.resourceClaims: claims of devices are not known"
    for field, index, container in batch.all_containers(view.spec):
        if any(port.get("hostPort") for port in _items(container.document or {}, "ports")):
            yield f"spec.{field}[{index}].ports: ports of the node (hostPort) are not counted"
    yield from _affinity_refusals(view)
    yield from _spread_refusals(view)


def _affinity_refusals(view: batch.Pod) -> Iterable[str]:
    affinity, where = view.spec.affinity, "spec.affinity"
    if affinity is None:
        return
    if affinity.pod_affinity is not None and affinity.pod_affinity.required:
        yield f"{where}.podAffinity: pods are not placed near other pods"
    terms = () if affinity.pod_anti_affinity is None else affinity.pod_anti_affinity.required
    if len({term.topology_key for term in terms}) > 1:
        yield f"{where}.podAntiAffinity: pods keep apart by one topology key only"
    for term in terms:
        is_wider = bool(term.namespaces) or term.namespace_selector is not None
        if is_wider or not _is_among_members(view, term.label_selector):
            yield f"{where}.podAntiAffinity: pods keep apart from members of their own gang only"


def _spread_refusals(view: batch.Pod) -> Iterable[str]:
    where = "spec.topologySpreadConstraints"
    constraints = view.spec.topology_spread_constraints
    hard = [c for c in constraints if c.when_unsatisfiable == "DoNotSchedule"]
    if len(hard) > 1:
        yield f"{where}: one constraint with DoNotSchedule is kept, not {len(hard)}"
    if not all(_is_among_members(view, constraint.label_selector) for constraint in hard):
        yield f"{where}: pods are spread among members of their own gang only"


def _is_among_members(view: batch.Pod, selector: LabelSelector | None) -> bool:
    """Only the members of one gang are counted, so only what speaks of them can be kept."""
    is_own = selector is not None and selector.matches(view.metadata.labels)
    return is_own and gang_key_of(view) is not None


def _items(document: object, field: str) -> list[dict[str, object]]:
    listed = document.get(field) if isinstance(document, dict) else None
    return [item for item in listed or () if isinstance(item, dict)]


class GpuSetAside(NamedTuple):
    """A GPU that a node has and doesn't hand out now."""

    device: DeviceId
    why: str
    node: str

    def __str__(self) -> str:
        return f"GPU {self.device} is {self.why}"

    @property
    def with_node(self) -> str:
        return f"{self} (node {self.node})"


def set_aside_lines(gpus: Sequence[GpuSetAside]) -> Iterator[Line]:
    if gpus:
        yield Line("It can start when enough of these are handed out again:")
        yield from (Line(f"- {gpu.with_node}") for gpu in gpus)
