"""What can happen to placement."""

from __future__ import annotations

from typing import NamedTuple

from makeway.placement.model import Budget, BudgetKey, Gang, GangKey, Node, NodeName, Pod, PodKey


class NodeSeen(NamedTuple):
    """A node as it now is: new, changed, or unchanged."""

    node: Node


class NodeGone(NamedTuple):
    name: NodeName


class PodSeen(NamedTuple):
    pod: Pod


class PodGone(NamedTuple):
    """The pod has ended or been deleted, and takes no room any more.

    Also told when another pod of the same name has taken its place: names are all we know.
    """

    key: PodKey


class GangSeen(NamedTuple):
    gang: Gang


class GangGone(NamedTuple):
    key: GangKey


class BudgetSeen(NamedTuple):
    budget: Budget


class BudgetGone(NamedTuple):
    key: BudgetKey


class BindFailed(NamedTuple):
    """A bind that we counted on was refused: the pod has no node after all."""

    key: PodKey


class EvictionFailed(NamedTuple):
    """A victim that we counted as leaving stays."""

    key: PodKey


PlacementEvent = (
    NodeSeen
    | NodeGone
    | PodSeen
    | PodGone
    | GangSeen
    | GangGone
    | BudgetSeen
    | BudgetGone
    | BindFailed
    | EvictionFailed
)
