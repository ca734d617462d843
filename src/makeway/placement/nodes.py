"""The nodes' capacity and what is used of it, as arrays with a row per node.

Rows are handed out once and reused when a node goes; columns are resources, the first is `pods`.
Code that looks at several nodes takes their rows in the order of names, so that ties go by name.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from makeway.engine.matching import Constraints, Taint, matches, untolerated_taint
from makeway.engine.model import PODS, ResourceName
from makeway.placement.decisions import Cause
from makeway.placement.model import HOSTNAME, NAME_FIELD, Node, NodeName, PodShape

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]

UNLIMITED = 2**62  # the pods of a node that states no limit
ASKED_MAX = 2**56  # larger amounts count as this, so that sums stay within 64 bits
_MASKS_KEPT = 256
_NOWHERE = -1
_CORDON = Taint("node.kubernetes.io/unschedulable")  # what `unschedulable` amounts to


def grown(array: npt.NDArray[np.generic], rows: int, columns: int | None = None) -> np.ndarray:
    """Return a copy with room for at least as many rows (and columns), zero where new."""
    shape = (rows,) if columns is None else (rows, columns)
    larger = np.zeros(shape, dtype=array.dtype)
    larger[tuple(slice(0, size) for size in array.shape)] = array
    return larger


class Room(NamedTuple):
    """What is free on some nodes: a room row per node, in the order of their names."""

    node_rows: Rows  # by room row: the row of the node table
    free: Ints  # by room row and column; negative where more is used than there is


class Columns:
    """Which resource stands in which column; grows with the resources that turn up."""

    def __init__(self) -> None:
        self.of: dict[ResourceName, int] = {PODS: 0}
        self.names: list[ResourceName] = [PODS]
        self._amounts: dict[PodShape, Ints] = {}

    def __len__(self) -> int:
        return len(self.names)

    def add(self, resource: ResourceName) -> int:
        if resource not in self.of:
            self.of[resource] = len(self.names)
            self.names.append(resource)
        return self.of[resource]

    def amounts(self, shape: PodShape) -> Ints:
        """What one pod of this shape takes, by column."""
        known = self._amounts.get(shape)
        if known is not None and len(known) == len(self):
            return known
        columns = [(self.add(resource), amount) for resource, amount in shape.requests]
        amounts = np.zeros(len(self), dtype=np.int64)
        for column, amount in columns:
            amounts[column] = min(amount, ASKED_MAX)
        amounts[0] = 1
        if len(self._amounts) >= 16 * _MASKS_KEPT:
            self._amounts.clear()
        self._amounts[shape] = amounts
        return amounts


class NodeTable:
    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.facts: list[Node | None] = []  # by row; None: the row is free for the next node
        self.row_of: dict[NodeName, int] = {}
        self.capacity: Ints = np.zeros((16, len(columns)), dtype=np.int64)
        self.used: Ints = np.zeros((16, len(columns)), dtype=np.int64)
        self._vacant: list[int] = []
        self._by_name: Rows | None = None  # None: nodes came or went since
        self._suited: dict[Constraints, Flags] = {}
        self._values: dict[str, tuple[list[str], Rows]] = {}  # of topology keys

    def put(self, node: Node) -> tuple[int, bool]:
        """Add or replace a node; return its row, and whether it is new."""
        row = self.row_of.get(node.name)
        is_new = row is None
        if row is None:
            row = self._new_row()
            self.row_of[node.name] = row
            self._by_name = None
        before, self.facts[row] = self.facts[row], node
        for resource in node.capacity:
            self.columns.add(resource)
        self.fit_columns()
        self.capacity[row] = 0
        for resource, amount in node.capacity.items():
            self.capacity[row, self.columns.of[resource]] = min(amount, UNLIMITED)
        if node.capacity.get(PODS) is None:
            self.capacity[row, 0] = UNLIMITED
        for constraints, suited in self._suited.items():
            suited[row] = why_unsuitable(node, constraints) is None
        if before is None or before.labels != node.labels:
            self._values.clear()
        return row, is_new

    def remove(self, name: NodeName) -> int:
        row = self.row_of.pop(name)
        self.facts[row] = None
        self.capacity[row] = 0
        self.used[row] = 0
        self._vacant.append(row)
        self._by_name = None
        self._values.clear()
        for suited in self._suited.values():
            suited[row] = False
        return row

    def _new_row(self) -> int:
        if self._vacant:
            return self._vacant.pop()
        self.facts.append(None)
        rows = len(self.facts)
        if rows > len(self.capacity):
            self.capacity = grown(self.capacity, 2 * rows, self.capacity.shape[1])
            self.used = grown(self.used, 2 * rows, self.used.shape[1])
            self._suited = {
                constraints: grown(suited, 2 * rows) for constraints, suited in self._suited.items()
            }
        return rows - 1

    def fit_columns(self) -> None:
        width = len(self.columns)
        if self.capacity.shape[1] < width:
            self.capacity = grown(self.capacity, len(self.capacity), width)
            self.used = grown(self.used, len(self.used), width)

    def charge(self, row: int, amounts: Ints, sign: int = 1) -> None:
        self.fit_columns()
        self.used[row, : len(amounts)] += sign * amounts

    def name(self, row: int) -> NodeName:
        node = self.facts[row]
        assert node is not None, row
        return node.name

    def rows_by_name(self) -> Rows:
        if self._by_name is None:
            rows = [row for _, row in sorted(self.row_of.items())]
            self._by_name = np.array(rows, dtype=np.intp)
        return self._by_name

    def room(self) -> Room:
        """What is free now on every node."""
        rows = self.rows_by_name()
        return Room(rows, self.capacity[rows] - self.used[rows])

    def suits(self, constraints: Constraints) -> Flags:
        """By row: may pods of these constraints run there at all?"""
        suited = self._suited.get(constraints)
        if suited is None:
            if len(self._suited) >= _MASKS_KEPT:
                self._suited.clear()
            suited = np.zeros(len(self.capacity), dtype=np.bool_)
            for row, node in enumerate(self.facts):
                suited[row] = node is not None and why_unsuitable(node, constraints) is None
            self._suited[constraints] = suited
        return suited

    def topology(self, key: str) -> tuple[list[str], Rows]:
        """Return the values of a topology key, sorted, and by row the index of the value.

        Nodes without the label have index -1.
        """
        if key not in self._values:
            found = {
                row: value
                for row, node in enumerate(self.facts)
                if node is not None and (value := _topology_value(node, key)) is not None
            }
            values = sorted(set(found.values()))
            index = {value: i for i, value in enumerate(values)}
            of_row = np.full(len(self.facts), _NOWHERE, dtype=np.intp)
            for row, value in found.items():
                of_row[row] = index[value]
            self._values[key] = values, of_row
        return self._values[key]


def _topology_value(node: Node, key: str) -> str | None:
    return node.labels.get(key, str(node.name) if key == HOSTNAME else None)


def why_unsuitable(node: Node, constraints: Constraints) -> Cause | None:
    """Why a node takes no pod of these constraints, however empty it is; None if it does."""
    labels = node.labels
    if any(requirement.key == NAME_FIELD for term in constraints.affinity for requirement in term):
        labels = {**labels, NAME_FIELD: str(node.name)}
    if not matches(constraints, labels):
        return Cause.SELECTOR
    if node.unschedulable and untolerated_taint((_CORDON,), constraints.tolerations) is not None:
        return Cause.UNSCHEDULABLE
    if untolerated_taint(node.taints, constraints.tolerations) is not None:
        return Cause.TAINT
    return None
