"""Which queues and cohorts belong together, and the tree that they make."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import is_
from typing import NamedTuple

from makeway.engine.model import Cohort, CohortName
from makeway.engine.quota import Node
from makeway.engine.tree import QueueState, Tree

Cohorts = Mapping[CohortName, Cohort]  # those that are declared; others have no quota


class TreeMembers(NamedTuple):
    """The queues and cohorts that make one tree."""

    queues: list[QueueState]
    cohorts: dict[CohortName, Cohort]
    root: CohortName | None  # None: a lone queue

    @property
    def specs(self) -> tuple[object, ...]:
        return (*(queue.spec for queue in self.queues), *self.cohorts.values(), self.root)

    def are_built_as(self, tree: Tree) -> bool:
        mine = self.specs
        return (
            len(mine) == len(tree.specs)
            and all(map(is_, mine, tree.specs))
            and all(tree.nodes[queue.node.index] is queue.node for queue in self.queues)
        )

    def build(self) -> Tree:
        if self.root is None:
            (queue,) = self.queues
            root = queue.node
            root.parent = None
        else:
            root = self._join(self.root)
        tree = Tree(root, self.queues, self.specs)
        for queue in self.queues:
            queue.tree = tree
        return tree

    def _join(self, root: CohortName) -> Node:
        nodes: dict[CohortName, Node] = {}

        def cohort_node(name: CohortName) -> Node:
            node = nodes.get(name)
            if node is None:
                spec = self.cohorts.get(name) or Cohort(name=name)
                node = nodes[name] = Node(name, spec.quotas, spec.weight, is_queue=False)
                if name != root and spec.parent is not None:
                    node.parent = cohort_node(spec.parent)
                    node.parent.children.append(node)
            return node

        top = cohort_node(root)
        for name in sorted(self.cohorts):
            cohort_node(name)
        for queue in sorted(self.queues, key=lambda queue: queue.spec.name):
            assert queue.spec.cohort is not None
            queue.node.parent = cohort_node(queue.spec.cohort)
            queue.node.parent.children.append(queue.node)
        return top


def members_of_trees(queues: Iterable[QueueState], cohorts: Cohorts) -> Iterator[TreeMembers]:
    """Who belongs together: one tree per root cohort, one per queue without cohort."""
    joined: dict[CohortName, TreeMembers] = {}
    lone: list[TreeMembers] = []
    for queue in queues:
        if queue.spec.cohort is None:
            lone.append(TreeMembers([queue], {}, None))
            continue
        root = root_of(queue.spec.cohort, cohorts)
        joined.setdefault(root, TreeMembers([], {}, root)).queues.append(queue)
    for name, cohort in cohorts.items():
        root = root_of(name, cohorts)
        if root in joined:
            joined[root].cohorts[name] = cohort
    yield from joined.values()
    yield from lone


def trees_without_queues(queues: Iterable[QueueState], cohorts: Cohorts) -> Iterator[Tree]:
    """Of cohorts that no queue is below; nothing is decided in them."""
    used = {root_of(q.spec.cohort, cohorts) for q in queues if q.spec.cohort is not None}
    idle: dict[CohortName, TreeMembers] = {}
    for name, cohort in cohorts.items():
        root = root_of(name, cohorts)
        if root not in used:
            idle.setdefault(root, TreeMembers([], {}, root)).cohorts[name] = cohort
    return (members.build() for members in idle.values())


def root_of(name: CohortName, cohorts: Cohorts) -> CohortName:
    """The top of its tree; of a cycle, the first of its names, which is then cut there."""
    path = [name]
    while (cohort := cohorts.get(path[-1])) is not None and cohort.parent is not None:
        if cohort.parent in path:
            return min(path[path.index(cohort.parent) :])
        path.append(cohort.parent)
    return path[-1]


def is_in_cycle(name: CohortName | None, cohorts: Cohorts) -> bool:
    """Do the parents of this cohort lead back to themselves?"""
    seen: set[CohortName] = set()
    while name is not None:
        if name in seen:
            return True
        seen.add(name)
        cohort = cohorts.get(name)
        name = cohort.parent if cohort is not None else None
    return False
