"""Does a pod suit a flavor or a node: labels, taints and tolerations, as Kubernetes reads them.

The values are plain and hashable, since they are part of what makes two workloads equal in shape.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from makeway.selectors import Requirement, all_hold

BLOCKING_EFFECTS = ("NoSchedule", "NoExecute")


class Taint(NamedTuple):
    key: str
    value: str = ""
    effect: str = "NoSchedule"


class Toleration(NamedTuple):
    key: str = ""  # empty with operator Exists tolerates every key
    operator: str = "Equal"
    value: str = ""
    effect: str = ""  # empty tolerates every effect

    def tolerates(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator == "Exists":
            return True
        return bool(self.key) and self.value == taint.value


Term = tuple[Requirement, ...]  # all must hold; the terms of an affinity are alternatives


class Constraints(NamedTuple):
    """What a pod asks of the place it runs on."""

    selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[Term, ...] = ()  # required terms; empty asks for nothing
    tolerations: tuple[Toleration, ...] = ()


UNCONSTRAINED = Constraints()


def untolerated_taint(taints: Iterable[Taint], tolerations: Collection[Toleration]) -> Taint | None:
    """Return the first taint that keeps a pod away; PreferNoSchedule never does."""
    for taint in taints:
        if taint.effect in BLOCKING_EFFECTS and not any(t.tolerates(taint) for t in tolerations):
            return taint
    return None


def matches(constraints: Constraints, labels: Mapping[str, str]) -> bool:
    """Do these labels satisfy the node selector and one of the affinity terms?"""
    if any(labels.get(key) != value for key, value in constraints.selector):
        return False
    if not constraints.affinity:
        return True
    return any(term and all_hold(term, labels) for term in constraints.affinity)


def matches_known_keys(constraints: Constraints, labels: Mapping[str, str]) -> bool:
    """Like `matches`, but keys that are not among `labels` are somebody else's business.

    A flavor names only the labels that tell it apart; whether a node has the others is for
    placement to see. A term that asks only for such keys is satisfied, and with it the affinity.
    """
    selector = tuple((key, value) for key, value in constraints.selector if key in labels)
    terms: list[Term] = []
    for term in constraints.affinity:
        known = tuple(requirement for requirement in term if requirement.key in labels)
        if not known:
            terms = []
            break
        terms.append(known)
    return matches(Constraints(selector=selector, affinity=tuple(terms)), labels)
