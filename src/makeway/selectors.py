"""Label selectors as Kubernetes reads them: the one place that decides whether labels match.

Queues, budgets, nodes, queries and evictions all ask here. What is written differently (typed
views, query strings, affinity terms) is brought into the form of requirements first.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)


class Requirement(NamedTuple):
    """One expression of a selector, such as `zone in (a, b)`; hashable, as shapes are."""

    key: str
    operator: str  # In, NotIn, Exists, DoesNotExist, Gt, Lt; no other one is ever satisfied
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return _compares(value, self.operator, self.values)
        return False


def all_hold(requirements: Iterable[Requirement], labels: Mapping[str, str]) -> bool:
    """Whether labels match a selector; one without requirements matches everything."""
    return all(requirement.holds(labels) for requirement in requirements)


def _compares(value: str | None, operator: str, bounds: tuple[str, ...]) -> bool:
    """Whether a label is a whole number beyond the bound; what is no number never is."""
    if value is None or not bounds:
        return False
    if not _WHOLE_NUMBER.fullmatch(value) or not _WHOLE_NUMBER.fullmatch(bounds[0]):
        return False
    return int(value) > int(bounds[0]) if operator == "Gt" else int(value) < int(bounds[0])
