"""Rules for pods, and for the kinds of Kubernetes that have to do with them."""

import re
from collections.abc import Mapping, Sequence

from makeway.api import batch
from makeway.api.errors import ABSENT
from makeway.api.labels import GROUP_NAME, GROUP_TOTAL, MAX_EXEC_TIME, MIN_PARALLELISM, QUEUE_NAME
from makeway.api.priorities import SYSTEM_PRIORITIES
from makeway.api.quantity import NANOS_PER_UNIT, format_amount, is_extended, parse_nanos
from makeway.api.validation.findings import Findings, check_unique
from makeway.api.validation.names import (
    check_key,
    check_label_value,
    check_labels,
    check_name,
    check_selector,
    check_short_name,
)
from makeway.api.validation.pod_sources import check_sources

USER_PRIORITY_MAX = 1_000_000_000
_SHARE = re.compile(r"[0-9]{1,9}%", re.ASCII)


def check_taints(taints: Sequence[batch.Taint], found: Findings) -> None:
    for index, taint in enumerate(taints):
        check_key(taint.key, found.at(index, "key"))
        check_label_value(taint.value, found.at(index, "value"))
    keys = ((f"{taint.key}:{taint.effect}", found.at(i)) for i, taint in enumerate(taints))
    check_unique(keys, "taint")


def check_node(node: batch.Node, found: Findings) -> None:
    check_taints(node.spec.taints, found.at("spec", "taints"))


def check_tolerations(tolerations: Sequence[batch.Toleration], found: Findings) -> None:
    for index, toleration in enumerate(tolerations):
        here = found.at(index)
        if toleration.key:
            check_key(toleration.key, here.at("key"))
        elif toleration.operator != "Exists":
            hint = "write a key, or operator Exists to tolerate everything"
            here.at("operator").add(toleration.operator, "needs a key", hint)
        if toleration.operator == "Exists" and toleration.value:
            here.at("value").add(toleration.value, "means nothing with Exists", "remove it")
        if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
            here.at("effect").add(
                toleration.effect or ABSENT,
                "does not go with tolerationSeconds",
                "write NoExecute, or remove tolerationSeconds",
            )


def check_not_negative(resource: str, amount: int, found: Findings) -> None:
    if amount < 0:
        found.add(format_amount(resource, amount), "is negative", "write 0 or more")


def check_pod_spec(spec: batch.PodSpec, found: Findings, *, in_workload: bool = False) -> None:
    if not spec.containers and not in_workload:
        found.at("containers").add(ABSENT, "is empty", "list at least one container")
    names: list[tuple[str, Findings]] = []
    for place, index, container in batch.all_containers(spec):
        here = found.at(place, index)
        names.append((container.name, here.at("name")))
        check_short_name(container.name, "container", here.at("name"))
        _check_requirements(container.resources, here.at("resources"))
        if not in_workload:
            _check_extended(container.resources, here.at("resources"))
        if in_workload:
            _check_no_pods(container.resources, here.at("resources"))
    check_unique(names, "container")
    _check_volumes((spec.document or {}).get("volumes"), found.at("volumes"))
    if not in_workload:
        check_sources(spec.document or {}, found)
    if spec.resources is not None:
        _check_requirements(spec.resources, found.at("resources"))
        if in_workload:
            _check_no_pods(spec.resources, found.at("resources"))
    for resource, amount in spec.overhead.items():
        check_not_negative(resource, amount, found.at("overhead", resource))
    check_labels(spec.node_selector, found.at("nodeSelector"))
    check_tolerations(spec.tolerations, found.at("tolerations"))
    _check_affinity(spec, found.at("affinity"))
    if spec.active_deadline_seconds is not None and spec.active_deadline_seconds < 1:
        here = found.at("activeDeadlineSeconds")
        here.add(spec.active_deadline_seconds, "is not positive", "write 1 or more")
    if spec.termination_grace_period_seconds < 0:
        here = found.at("terminationGracePeriodSeconds")
        here.add(spec.termination_grace_period_seconds, "is negative", "write 0 or more")


def _check_volumes(volumes: object, found: Findings) -> None:
    """Their names become folders, so they are checked though nothing else of them is read here."""
    names: list[tuple[str, Findings]] = []
    for index, volume in enumerate(volumes if isinstance(volumes, list) else ()):
        name = volume.get("name") if isinstance(volume, Mapping) else None
        here = found.at(index).at("name")
        check_short_name(str(name or ""), "volume", here)
        names.append((str(name or ""), here))
    check_unique(names, "volume")


def _check_requirements(requirements: batch.ResourceRequirements, found: Findings) -> None:
    for place, amounts in (("requests", requirements.requests), ("limits", requirements.limits)):
        for resource, amount in amounts.items():
            here = found.at(place, resource)
            check_key(resource, here)
            check_not_negative(resource, amount, here)
    for resource, requested in requirements.requests.items():
        limit = requirements.limits.get(resource)
        if limit is not None and requested > limit:
            written = format_amount(resource, limit)
            found.at("requests", resource).add(
                format_amount(resource, requested),
                f"is more than its limit ({written})",
                f"write at most {written}, or raise the limit",
            )


def _check_no_pods(requirements: batch.ResourceRequirements, found: Findings) -> None:
    for place, amounts in (("requests", requirements.requests), ("limits", requirements.limits)):
        if "pods" in amounts:
            hint = "remove it; pods are counted anyway"
            found.at(place, "pods").add(ABSENT, "is not to be requested", hint)


def _check_extended(requirements: batch.ResourceRequirements, found: Findings) -> None:
    """Devices and the like come whole, and nobody may use more of them than was asked for."""
    written = requirements.document or {}
    for place in ("requests", "limits"):
        amounts = written.get(place)
        for resource, value in amounts.items() if isinstance(amounts, dict) else ():
            if is_extended(resource) and parse_nanos(value) % NANOS_PER_UNIT:
                found.at(place, resource).add(
                    value, "is not a whole number", "write how many, such as 1"
                )
    for resource, requested in requirements.requests.items():
        limit = requirements.limits.get(resource)
        if is_extended(resource) and limit is not None and requested < limit:
            found.at("requests", resource).add(
                str(requested),
                f"is not its limit ({limit})",
                "write the same number twice, or only the limit",
            )


def _check_affinity(spec: batch.PodSpec, found: Findings) -> None:
    node_affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if node_affinity is None or node_affinity.required is None:
        return
    here = found.at("nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    terms = node_affinity.required.node_selector_terms
    if not terms:
        here.at("nodeSelectorTerms").add(ABSENT, "is empty", "list at least one term")
    for t, term in enumerate(terms):
        for r, requirement in enumerate(term.match_expressions):
            place = here.at("nodeSelectorTerms", t, "matchExpressions", r, "values")
            count, operator = len(requirement.values), requirement.operator
            if operator in ("In", "NotIn") and count == 0:
                place.add(ABSENT, f"is needed by {operator}", "list a value")
            if operator in ("Exists", "DoesNotExist") and count > 0:
                place.add(list(requirement.values), f"means nothing with {operator}", "remove it")
            if operator in ("Gt", "Lt") and not _is_one_number(requirement.values):
                hint = 'write one whole number in quotes, such as ["4"]'
                place.add(list(requirement.values), f"does not go with {operator}", hint)


def _is_one_number(values: Sequence[str]) -> bool:
    return len(values) == 1 and re.fullmatch(r"[-+]?[0-9]{1,19}", values[0], re.ASCII) is not None


def check_job(job: batch.Job, found: Findings) -> None:
    spec, here = job.spec, found.at("spec")
    metadata = found.at("metadata")
    labels, annotations = job.metadata.labels, job.metadata.annotations
    if QUEUE_NAME in labels:
        check_name(labels[QUEUE_NAME], metadata.at("labels", QUEUE_NAME))
    if MAX_EXEC_TIME in labels and not 1 <= _number_in(labels[MAX_EXEC_TIME]) < 2**31:
        hint = 'write a number of seconds in quotes, such as "3600"'
        place = metadata.at("labels", MAX_EXEC_TIME)
        place.add(labels[MAX_EXEC_TIME], "is not a number of seconds", hint)
    if MIN_PARALLELISM in annotations:
        text = annotations[MIN_PARALLELISM]
        if not 1 <= _number_in(text) <= spec.parallelism:
            hint = f'write a number in quotes, between "1" and parallelism ("{spec.parallelism}")'
            place = metadata.at("annotations", MIN_PARALLELISM)
            place.add(text, "is not a number of pods of this Job", hint)
    for name, count in (
        ("parallelism", spec.parallelism),
        ("completions", spec.completions),
        ("backoffLimit", spec.backoff_limit),
        ("activeDeadlineSeconds", spec.active_deadline_seconds),
        ("ttlSecondsAfterFinished", spec.ttl_seconds_after_finished),
    ):
        if count is not None and count < 0:
            here.at(name).add(count, "is negative", "write 0 or more")
    if spec.completion_mode == "Indexed" and spec.completions is None:
        here.at("completions").add(ABSENT, "is needed by Indexed", "write how many must succeed")
    template = here.at("template", "spec")
    if spec.template.spec.restart_policy == "Always":
        place, hint = template.at("restartPolicy"), "write Never or OnFailure"
        place.add("Always", "does not go with a Job, which has to end", hint)
    check_pod_spec(spec.template.spec, template)


def check_pod(pod: batch.Pod, found: Findings) -> None:
    metadata, labels, annotations = (
        found.at("metadata"),
        pod.metadata.labels,
        pod.metadata.annotations,
    )
    if QUEUE_NAME in labels:
        check_name(labels[QUEUE_NAME], metadata.at("labels", QUEUE_NAME))
    for place, keys in (("labels", labels), ("annotations", annotations)):
        here = metadata.at(place)
        if GROUP_NAME in keys:
            check_name(keys[GROUP_NAME], here.at(GROUP_NAME))
        if GROUP_TOTAL in keys and not 1 <= _number_in(keys[GROUP_TOTAL]) < 2**31:
            hint = 'write how many pods the group has, in quotes, such as "2"'
            here.at(GROUP_TOTAL).add(keys[GROUP_TOTAL], "is not a number of pods", hint)
    both = {**labels, **annotations}
    if GROUP_NAME in both and GROUP_TOTAL not in both:
        hint = 'write how many pods the group has, in quotes, such as "2"'
        metadata.at("annotations", GROUP_TOTAL).add(ABSENT, "is needed by a group", hint)
    if GROUP_TOTAL in both and GROUP_NAME not in both:
        hint = f"write the label {GROUP_NAME}, or leave both out"
        metadata.at("labels", GROUP_NAME).add(ABSENT, "is needed by a number of pods", hint)
    check_pod_spec(pod.spec, found.at("spec"))


def _number_in(text: str) -> int:
    """Return the whole number that a label or annotation holds; -1 if it holds none."""
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text, re.ASCII) else -1


def check_priority_class(cls: batch.PriorityClass, found: Findings) -> None:
    name = cls.metadata.name
    if name in SYSTEM_PRIORITIES:
        if cls.value != SYSTEM_PRIORITIES[name]:
            hint = f"write {SYSTEM_PRIORITIES[name]}"
            found.at("value").add(cls.value, f"is not the value of {name}", hint)
        return
    if cls.value > USER_PRIORITY_MAX:
        hint = f"write at most {USER_PRIORITY_MAX}"
        found.at("value").add(cls.value, "is kept for the system", hint)
    if name.startswith("system-"):
        found.at("metadata", "name").add(name, "is kept for the system", "drop the system- prefix")


def check_disruption_budget(budget: batch.PodDisruptionBudget, found: Findings) -> None:
    spec, here = budget.spec, found.at("spec")
    check_selector(spec.selector, here.at("selector"))
    for name, value in (
        ("minAvailable", spec.min_available),
        ("maxUnavailable", spec.max_unavailable),
    ):
        if isinstance(value, str) and not _SHARE.fullmatch(value):
            here.at(name).add(value, "is not a share", 'write for example "50%"')
        if isinstance(value, int) and value < 0:
            here.at(name).add(value, "is negative", "write 0 or more")
    if spec.min_available is not None and spec.max_unavailable is not None:
        place, problem = here.at("maxUnavailable"), "stands beside minAvailable"
        place.add(spec.max_unavailable, problem, "keep one of them")
