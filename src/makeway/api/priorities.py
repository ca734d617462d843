"""From names of priority classes to numbers, as the Priority admission of Kubernetes does it."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from makeway.api.batch import PreemptionPolicy, PriorityClass
from makeway.api.errors import FieldError

SYSTEM_PRIORITIES: Mapping[str, int] = {
    "system-node-critical": 2_000_001_000,
    "system-cluster-critical": 2_000_000_000,
}


class Priorities(NamedTuple):
    scheduling: int  # counts when a place is looked for
    preemption: int  # counts when a victim is looked for; never below `scheduling`
    preemption_policy: PreemptionPolicy


class Resolved(NamedTuple):
    priorities: Priorities | None  # None exactly when there are errors
    errors: tuple[FieldError, ...] = ()


class _Class(NamedTuple):
    value: int
    preemption_policy: PreemptionPolicy


def resolve_priorities(
    class_name: str,
    preemption_class_name: str,
    classes: Iterable[PriorityClass],
    *,
    preemption_path: str = "spec.preemptionPriorityClassName",
    distance_max: int | None = None,
) -> Resolved:
    """Resolve the two class names of a workload or pod; an empty name stands for the default.

    The default is the class marked as global default (of several the one of least value), else
    priority 0. Without a preemption class, the preemption priority is the scheduling priority.
    `distance_max` bounds how far it may lie above; None is no bound.
    """
    known = {cls.metadata.name: cls for cls in classes}
    found = _find(class_name, known)
    if found is None:
        return Resolved(None, (_unknown("spec.priorityClassName", class_name, known),))
    preemption = _find(preemption_class_name, known) if preemption_class_name else found
    if preemption is None:
        return Resolved(None, (_unknown(preemption_path, preemption_class_name, known),))
    problem, hint = "", ""
    if preemption.value < found.value:
        problem = f"has value {preemption.value}, below the scheduling priority {found.value}"
        hint = f"name a class of {found.value} or more; else preemptions could go round in circles"
    elif distance_max is not None and preemption.value - found.value > distance_max:
        problem = f"has value {preemption.value}, too far above {found.value}"
        hint = f"name a class of at most {found.value + distance_max}"
    if problem:
        error = FieldError(preemption_path, preemption_class_name, problem, hint)
        return Resolved(None, (error,))
    return Resolved(Priorities(found.value, preemption.value, found.preemption_policy))


def _find(name: str, known: Mapping[str, PriorityClass]) -> _Class | None:
    if name in known:
        return _Class(known[name].value, known[name].preemption_policy)
    if name in SYSTEM_PRIORITIES:
        return _Class(SYSTEM_PRIORITIES[name], "PreemptLowerPriority")
    if name:
        return None
    defaults = (cls for cls in known.values() if cls.global_default)
    least = min(defaults, key=lambda cls: (cls.value, cls.metadata.name), default=None)
    if least is None:
        return _Class(0, "PreemptLowerPriority")
    return _Class(least.value, least.preemption_policy)


def _unknown(path: str, name: str, known: Mapping[str, PriorityClass]) -> FieldError:
    names = ", ".join(sorted(known)) or "none"
    hint = f"create it first, or name one that exists ({names})"
    return FieldError(path, name, "is not a priority class", hint)
