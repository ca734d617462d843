"""Shares of a machine as one line says them, as queues, and back."""

from __future__ import annotations

import grp
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from makeway.accounts import account_named, namespace_of
from makeway.api.batch import Node
from makeway.api.kinds import COHORTS, FLAVORS, QUEUES, Resource
from makeway.api.labels import SHARE, SHARE_LABEL, SHARE_OF, SHARE_ORDER
from makeway.api.quantity import QuantityError, amount, amount_in_object, format_amount
from makeway.api.queueing import ClusterQueue
from makeway.cli.command import RequestRefused, UsageError
from makeway.client.client import Document

FLAVOR, COHORT = "machine", "shares"
GPU, CPU = "nvidia.com/gpu", "cpu"
_NOT_SHARED = frozenset({"pods", "ephemeral-storage"})
ACCOUNT, GROUP = "account", "group"


class Share(NamedTuple):
    name: str  # of its queue
    whose: str  # `account:ada`, `group:vision`
    amount: int  # of what the machine is counted in, in its smallest unit
    most: int | None = None  # with what it borrows; None: all that others leave


def shares_of(words: Sequence[str], counted: str) -> list[Share]:
    """What `vision=4 %speech=2..4` means."""
    found: dict[str, Share] = {}
    for word in words:
        name, equals, text = word.rpartition("=")
        if not equals or not name:
            raise UsageError(f"{word}: write NAME=NUMBER, for example vision=4 or ada=2..4")
        own, dots, cap = text.partition("..")
        size, most = _number(own, word, counted), _number(cap, word, counted) if dots else None
        share = Share(*_owner(name), size, most)
        if size < 0 or share.name in found:
            raise UsageError(f"{word}: write each once, and no less than 0")
        if most is not None and most < size:
            raise UsageError(f"{word}: at most {cap} is less than its own {own}")
        found[share.name] = share
    return list(found.values())


def _number(text: str, word: str, counted: str) -> int:
    try:
        return amount(counted, text)
    except QuantityError:
        raise UsageError(f"{word}: {text!r} is no number of {counted}") from None


def _owner(name: str) -> tuple[str, str]:
    """The queue's name and whose it is; an account goes before a group of the same name."""
    account = None if name.startswith("%") else account_named(name)
    if account is not None:
        return namespace_of(account), f"{ACCOUNT}:{account.name}"
    try:
        group = grp.getgrnam(name.removeprefix("%"))
    except KeyError:
        raise RequestRefused(f"{name} is neither an account nor a group here") from None
    plain = group.gr_name if group.gr_name.isascii() and group.gr_name.islower() else ""
    is_name = plain and all(sign.isalnum() or sign == "-" for sign in plain.strip("-"))
    return plain if is_name and plain[0] != "-" else f"g-{group.gr_gid}", f"{GROUP}:{group.gr_name}"


def capacity_of(nodes: Iterable[Node]) -> dict[str, int]:
    """What there is to share, by resource."""
    total: dict[str, int] = {}
    for node in nodes:
        for resource, size in (node.status.allocatable or node.status.capacity).items():
            if resource not in _NOT_SHARED and size:
                total[resource] = total.get(resource, 0) + size
    return dict(sorted(total.items()))


def counted_in(capacity: Mapping[str, int]) -> str:
    """What shares are counted in: GPUs where there are any, else CPUs."""
    return GPU if GPU in capacity else CPU


def parts_of(share: int, counted: str, capacity: Mapping[str, int]) -> dict[str, int]:
    """All that goes with a share: as large a part of everything else."""
    whole = capacity.get(counted, 0)
    return {
        resource: share if resource == counted else size * share // whole if whole else 0
        for resource, size in capacity.items()
    }


def check_sum(shares: Sequence[Share], counted: str, capacity: Mapping[str, int]) -> None:
    asked, there = sum(share.amount for share in shares), capacity.get(counted, 0)
    if asked > there:
        texts = [format_amount(counted, size) for size in (asked, there)]
        raise RequestRefused(f"{texts[0]} {counted} are shared out, and there are {texts[1]}")


def objects_of(
    shares: Sequence[Share], capacity: Mapping[str, int], *, may_borrow: bool
) -> Iterator[tuple[Resource, Document]]:
    """The flavor, the queues, and what is left for whoever needs it."""
    counted = counted_in(capacity)
    yield FLAVORS, _document(FLAVORS, FLAVOR, {})
    if may_borrow:
        left = capacity.get(counted, 0) - sum(share.amount for share in shares)
        groups = _groups(parts_of(left, counted, capacity)) if left else []
        yield COHORTS, _document(COHORTS, COHORT, {"resourceGroups": groups})
    for order, share in enumerate(shares):
        spec: Document = {
            "namespaceSelector": {"matchLabels": {f"{SHARE_LABEL}{share.name}": "member"}},
            "resourceGroups": _groups(parts_of(share.amount, counted, capacity)),
            "preemption": {"withinClusterQueue": "LowerPriority"},
        }
        if may_borrow:
            if share.most is not None:
                _cap(spec, parts_of(share.most - share.amount, counted, capacity))
            spec["cohortName"] = COHORT
            spec["preemption"]["reclaimWithinCohort"] = "Any"
        if share.whose.startswith(GROUP):
            # Several people stand in it: who used less lately goes first.
            spec["admissionScope"] = {"admissionMode": "UsageBasedAdmissionFairSharing"}
        queue = _document(QUEUES, share.name, spec)
        marks = {SHARE_OF: share.whose, SHARE_ORDER: str(order)}
        queue["metadata"]["annotations"] = marks
        yield QUEUES, queue


def _document(resource: Resource, name: str, spec: Document) -> Document:
    metadata = {"name": name, "labels": {SHARE: "true"}}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": metadata,
        "spec": spec,
    }


def _cap(spec: Document, parts: Mapping[str, int]) -> None:
    for quota in spec["resourceGroups"][0]["flavors"][0]["resources"]:
        quota["borrowingLimit"] = amount_in_object(quota["name"], parts[quota["name"]])


def _groups(parts: Mapping[str, int]) -> list[Document]:
    quotas = [
        {"name": resource, "nominalQuota": amount_in_object(resource, size)}
        for resource, size in parts.items()
    ]
    flavors = [{"name": FLAVOR, "resources": quotas}]
    return [{"coveredResources": list(parts), "flavors": flavors}] if parts else []


# And back


class Standing(NamedTuple):
    """A share as it is now, in what shares are counted in."""

    name: str
    whose: str
    owns: int
    uses: int
    borrows: int
    waiting: int
    may_borrow: bool
    most: int | None = None  # with what it borrows; None: all that others leave

    @property
    def word(self) -> str:
        """As one would write it."""
        sort, _, name = self.whose.partition(":")
        return f"%{name}" if sort == GROUP and account_named(name) else name

    def as_row(self) -> dict[str, Any]:
        return {**self._asdict(), "lends": self.lends}

    @property
    def lends(self) -> int:
        """Of its own, what it leaves to others."""
        return max(0, self.owns - (self.uses - self.borrows)) if self.may_borrow else 0


def standing_of(queue: ClusterQueue, counted: str) -> Standing:
    quotas = [
        quota
        for group in queue.spec.resource_groups
        for flavor in group.flavors
        for quota in flavor.resources
        if quota.name == counted
    ]
    owns = sum(quota.nominal_quota for quota in quotas)
    limits = [q.borrowing_limit for q in quotas if q.borrowing_limit is not None]
    used = [u for f in queue.status.flavors_usage for u in f.resources if u.name == counted]
    return Standing(
        queue.metadata.name,
        queue.metadata.annotations.get(SHARE_OF, ""),
        owns,
        sum(usage.total for usage in used),
        sum(usage.borrowed for usage in used),
        queue.status.pending_workloads,
        bool(queue.spec.cohort_name),
        owns + sum(limits) if limits else None,
    )


def order_of(queue: ClusterQueue) -> tuple[int, str]:
    order = queue.metadata.annotations.get(SHARE_ORDER, "")
    return (int(order) if order.isdecimal() else 0, queue.metadata.name)


def command_of(standings: Sequence[Standing], counted: str) -> str:
    """The line that says the same."""
    words = [f"{s.word}={_sizes(s, counted)}" for s in standings]
    borrow = ["--borrow"] if any(s.may_borrow for s in standings) else []
    return " ".join(["makeway", "share", *words, *borrow])


def _sizes(standing: Standing, counted: str) -> str:
    own = format_amount(counted, standing.owns)
    return own if standing.most is None else f"{own}..{format_amount(counted, standing.most)}"
