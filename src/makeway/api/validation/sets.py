"""Rules between objects: those of a file, or all that there are."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from makeway.api.batch import Job, Pod, PriorityClass
from makeway.api.errors import FieldError
from makeway.api.gangs import Gang, GangWorkload, PodGroup
from makeway.api.kinds import View
from makeway.api.labels import PREEMPTION_PRIORITY_CLASS, PRIORITY_CLASS
from makeway.api.priorities import SYSTEM_PRIORITIES, resolve_priorities
from makeway.api.queueing import Cohort, WorkloadPriorityClass


@dataclass(frozen=True, slots=True)
class SetError:
    """An error in the object at `index` of the set."""

    index: int
    error: FieldError


def validate_set(views: Sequence[View], *, distance_max: int | None = None) -> tuple[SetError, ...]:
    """Return what is wrong between the objects of a file or a store, in their order.

    `distance_max` is how far a preemption priority may lie above that of scheduling; None: any.
    """
    errors = [
        *_cohort_cycles(views),
        *_preemption_of_jobs(views, distance_max),
        *_preemption_of_gangs(views, distance_max),
    ]
    return tuple(sorted(errors, key=lambda error: error.index))


def _cohort_cycles(views: Sequence[View]) -> Iterable[SetError]:
    """Yield one error for each cohort that is its own ancestor."""
    cohorts = {view.metadata.name: view for view in views if isinstance(view, Cohort)}
    for index, view in enumerate(views):
        if not isinstance(view, Cohort) or view.spec.parent_name == view.metadata.name:
            continue
        way = [view.metadata.name]
        seen = set(way)
        while (cohort := cohorts.get(way[-1])) is not None and cohort.spec.parent_name:
            way.append(cohort.spec.parent_name)
            if way[-1] in seen:
                break
            seen.add(way[-1])
        if len(way) > 1 and way[-1] == way[0]:
            problem = f"makes a cycle ({' > '.join(way)})"
            hint = "give one of these cohorts another parent, or none"
            error = FieldError("spec.parentName", view.spec.parent_name, problem, hint)
            yield SetError(index, error)


def _preemption_of_jobs(views: Sequence[View], distance_max: int | None) -> Iterable[SetError]:
    """Yield an error where a preemption priority is below that of scheduling, or too far above.

    The former would allow two workloads to preempt each other for ever. Classes that are not in
    the set say nothing.
    """
    classes: dict[str, int] = dict(SYSTEM_PRIORITIES)
    queue_classes: dict[str, int] = {}
    global_default = 0
    for view in views:
        if isinstance(view, WorkloadPriorityClass):
            queue_classes[view.metadata.name] = view.value
        elif isinstance(view, PriorityClass):
            classes[view.metadata.name] = view.value
            if view.global_default:
                global_default = view.value
    for index, view in enumerate(views):
        if not isinstance(view, Job | Pod):
            continue
        name = view.metadata.annotations.get(PREEMPTION_PRIORITY_CLASS)
        preemption = classes.get(name or "", queue_classes.get(name or ""))
        if name is None or preemption is None:
            continue
        spec = view.spec if isinstance(view, Pod) else view.spec.template.spec
        of_pods = (
            classes.get(spec.priority_class_name) if spec.priority_class_name else global_default
        )
        scheduling = spec.priority if spec.priority is not None else of_pods
        queue_class = view.metadata.labels.get(PRIORITY_CLASS, "")
        highest = max(
            (p for p in (scheduling, queue_classes.get(queue_class)) if p is not None), default=None
        )
        if highest is None:
            continue
        if preemption < highest:
            problem = f"({preemption}) is below the scheduling priority ({highest})"
            hint = f"name a class with a value of at least {highest}"
        elif distance_max is not None and preemption - highest > distance_max:
            problem = f"({preemption}) is too far above the scheduling priority ({highest})"
            hint = f"name a class with a value of at most {highest + distance_max}"
        else:
            continue
        path = f"metadata.annotations[{PREEMPTION_PRIORITY_CLASS}]"
        yield SetError(index, FieldError(path, name, problem, hint))


def _preemption_of_gangs(views: Sequence[View], distance_max: int | None) -> Iterable[SetError]:
    """The same for gangs, which name classes in fields or in the annotation."""
    classes = [view for view in views if isinstance(view, PriorityClass)]
    known = {cls.metadata.name for cls in classes} | set(SYSTEM_PRIORITIES) | {""}
    for index, view in enumerate(views):
        match view:
            case GangWorkload():
                name = view.spec.preemption_priority_class_name
                path = "spec.preemptionPriorityClassName"
            case PodGroup() | Gang():
                name = view.metadata.annotations.get(PREEMPTION_PRIORITY_CLASS, "")
                path = f"metadata.annotations[{PREEMPTION_PRIORITY_CLASS}]"
            case _:
                continue
        if {name, view.spec.priority_class_name} <= known:
            resolved = resolve_priorities(
                view.spec.priority_class_name,
                name,
                classes,
                preemption_path=path,
                distance_max=distance_max,
            )
            yield from (SetError(index, error) for error in resolved.errors)
