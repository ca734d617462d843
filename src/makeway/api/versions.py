"""Documents of older versions and spellings to today's (the hub, v1beta2), and back again.

Document in, document out, the input untouched. What the hub calls differently is noted in
`renamed`, so that errors can speak of the fields that the user wrote. Values of a wrong type are
left alone wherever `codec` will complain about them anyway.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from makeway.api.errors import FieldError
from makeway.api.quantity import QuantityError, amount, format_amount
from makeway.api.schema import Document

QUEUEING_GROUP = "kueue.x-k8s.io"
CONFIGURATION_GROUP = "config.kueue.x-k8s.io"
HUB_VERSION = "v1beta2"
OLD_VERSIONS = ("v1beta1", "v1alpha2", "v1alpha1")

_SEARCH = ("MayStopSearch", "TryNextFlavor")
# What stood for the first of these, field by field: the word of the other field is none.
_SEARCH_OLD = {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"}
_RECLAIM_OLD = {
    "ReclaimFromLowerPriority": "LowerPriority",
    "ReclaimFromAny": "Any",
    "ReclaimAny": "Any",
    "Always": "Any",
}
_RECLAIM_ALPHA = {"LowerPriority": "ReclaimFromLowerPriority", "Any": "ReclaimFromAny"}
_WITHIN_QUEUE_OLD = {"LowerPriorityOnly": "LowerPriority"}
_SOURCES = {
    "kueue.x-k8s.io/workloadpriorityclass": ("kueue.x-k8s.io", "WorkloadPriorityClass"),
    "scheduling.k8s.io/priorityclass": ("scheduling.k8s.io", "PriorityClass"),
}
_MISSPELT_TIME = "accumulatedPastExexcutionTimeSeconds"  # sic, in v1beta1
_RIGHT_TIME = "accumulatedPastExecutionTimeSeconds"

Editable = dict[str, Any]


@dataclass(slots=True)
class Converted:
    document: Document
    written: Document  # as it was before
    renamed: dict[str, str] = field(default_factory=dict)  # path in the hub -> path as written
    errors: list[FieldError] = field(default_factory=list)

    def refuse(self, path: str, value: object, problem: str, hint: str) -> None:
        self.errors.append(FieldError(path, value, problem, hint))

    def as_written(self, error: FieldError) -> FieldError:
        """Let an error about the hub's document name the field that the user wrote."""
        path = error.path
        for hub_path in sorted(self.renamed, key=len, reverse=True):  # the innermost field first
            rest = path.removeprefix(hub_path)
            if path.startswith(hub_path) and rest[:1] in ("", ".", "["):
                path = self.renamed[hub_path] + rest
        return replace(error, path=path)


def split_api_version(api_version: str) -> tuple[str, str]:
    """Return group and version; the group of `v1` is empty."""
    group, _, version = api_version.rpartition("/")
    return group, version


def to_hub(document: Document) -> Converted:
    """Return the document as today's version writes it; a document of another group as it is."""
    converted = Converted(document, document)
    api_version, kind = document.get("apiVersion"), document.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str):
        return converted
    group, version = split_api_version(api_version)
    is_old = version in OLD_VERSIONS
    rewrite = _TO_HUB.get((group, kind))
    if rewrite is None and not is_old:
        return converted
    if group not in (QUEUEING_GROUP, CONFIGURATION_GROUP) or version not in (
        HUB_VERSION,
        *OLD_VERSIONS,
    ):
        return converted
    hub = dict(document)
    hub["apiVersion"] = f"{group}/{HUB_VERSION}"
    if rewrite is not None:
        rewrite(hub, is_old, converted)
    converted.document = hub
    return converted


def from_hub(document: Document, version: str) -> Document:
    """Return a hub document as `version` writes it."""
    api_version, kind = document.get("apiVersion"), document.get("kind")
    if version not in OLD_VERSIONS or not isinstance(api_version, str) or not isinstance(kind, str):
        return document
    group, _ = split_api_version(api_version)
    if group not in (QUEUEING_GROUP, CONFIGURATION_GROUP):
        return document
    older = dict(document)
    older["apiVersion"] = f"{group}/{version}"
    rewrite = _FROM_HUB.get((group, kind))
    if rewrite is not None:
        rewrite(older)
    if version == "v1alpha2" and kind == "ClusterQueue":
        _cluster_queue_to_alpha(older)
    return older


def _open(parent: Editable, key: str) -> Editable | None:
    """Make the mapping under `key` editable, in a copy of its own; None if there is none."""
    value = parent.get(key)
    if not isinstance(value, Mapping):
        return None
    parent[key] = opened = dict(value)
    return opened


def _open_each(parent: Editable, key: str) -> list[tuple[int, Editable]]:
    """Make the mappings in the list under `key` editable, each with its place in the list."""
    value = parent.get(key)
    if not isinstance(value, Sequence) or isinstance(value, str):
        return []
    parent[key] = opened = [dict(item) if isinstance(item, Mapping) else item for item in value]
    return [(index, item) for index, item in enumerate(opened) if isinstance(item, dict)]


def _rename(parent: Editable, path: str, old: str, new: str, converted: Converted) -> None:
    if parent.get(old) is None:
        parent.pop(old, None)
        return
    if parent.get(new) is not None:
        problem = f"stands beside {new}, which is the same field"
        converted.refuse(f"{path}.{old}", parent.pop(old), problem, f"keep only {new}")
        return
    parent[new] = parent.pop(old)
    converted.renamed[f"{path}.{new}"] = f"{path}.{old}"


def _translate(parent: Editable, key: str, words: Mapping[str, str]) -> None:
    value = parent.get(key)
    if isinstance(value, str):
        parent[key] = words.get(value, value)


# ClusterQueue and Cohort


def _cluster_queue_to_hub(document: Editable, is_old: bool, converted: Converted) -> None:
    spec = _open(document, "spec")
    if spec is None:
        return
    _list_of_checks_to_strategy(spec, converted)
    fungibility = _open(spec, "flavorFungibility")
    if fungibility is not None:
        _fallbacks_to_hub(fungibility, converted)
        if is_old:
            _policies_to_hub(fungibility, converted)
    if not is_old:
        return
    _rename(spec, "spec", "cohort", "cohortName", converted)
    preemption = _open(spec, "preemption")
    if preemption is not None:
        _rename(preemption, "spec.preemption", "withinCohort", "reclaimWithinCohort", converted)
        _translate(preemption, "reclaimWithinCohort", _RECLAIM_OLD)
        _translate(preemption, "withinClusterQueue", _WITHIN_QUEUE_OLD)
    _resources_to_groups(spec, converted)
    _quotas_to_hub(spec, converted)


def _cohort_to_hub(document: Editable, is_old: bool, converted: Converted) -> None:
    spec = _open(document, "spec")
    if spec is not None and is_old:
        _rename(spec, "spec", "parent", "parentName", converted)
        _quotas_to_hub(spec, converted)


def _list_of_checks_to_strategy(spec: Editable, converted: Converted) -> None:
    names = spec.get("admissionChecks")
    if not isinstance(names, Sequence) or isinstance(names, str):
        return
    del spec["admissionChecks"]
    strategy = "admissionChecksStrategy"
    if spec.get(strategy) is not None:
        problem, hint = f"stands beside {strategy}", f"keep only {strategy}"
        converted.refuse("spec.admissionChecks", names, problem, hint)
    elif names:
        spec[strategy] = {"admissionChecks": [{"name": name} for name in names]}
        checks = f"spec.{strategy}.admissionChecks"
        converted.renamed[checks] = "spec.admissionChecks"
        for index in range(len(names)):
            converted.renamed[f"{checks}[{index}].name"] = f"spec.admissionChecks[{index}]"


def _policies_to_hub(fungibility: Editable, converted: Converted) -> None:
    for name, old in _SEARCH_OLD.items():
        value = fungibility.get(name)
        if value == old:
            fungibility[name] = _SEARCH[0]
        elif isinstance(value, str) and value not in _SEARCH:
            problem, hint = "is not a value of this field", f"write {old} or {_SEARCH[1]}"
            path = f"spec.flavorFungibility.{name}"
            converted.refuse(path, fungibility.pop(name), problem, hint)


def _fallbacks_to_hub(fungibility: Editable, converted: Converted) -> None:
    path = "spec.flavorFungibility"
    _rename(fungibility, path, "flavorFallbackStrategy", "fallbackStrategy", converted)
    strategy = _open(fungibility, "fallbackStrategy")
    if strategy is None:
        return
    for index, rule in _open_each(strategy, "rules"):
        rule_path = f"{path}.fallbackStrategy.rules[{index}]"
        minutes = rule.get("timeoutMinutes")
        if minutes is None:
            continue
        if isinstance(minutes, bool) or not isinstance(minutes, int) or abs(minutes) > 10**9:
            problem, hint = "is not a number of minutes", "write a whole number such as 10"
            written = rule.pop("timeoutMinutes")
            converted.refuse(f"{rule_path}.timeoutMinutes", written, problem, hint)
            continue
        _rename(rule, rule_path, "timeoutMinutes", "timeout", converted)
        if rule.get("timeout") == minutes:
            rule["timeout"] = f"{minutes}m"


def _resources_to_groups(spec: Editable, converted: Converted) -> None:
    """Turn v1alpha2's list of resources into groups: those with the same flavors go together."""
    if "resources" not in spec or "resourceGroups" in spec:
        return
    groups: dict[tuple[str, ...], Editable] = {}
    for index, resource in _open_each(spec, "resources"):
        flavors = [flavor for _, flavor in _open_each(resource, "flavors")]
        names = tuple(str(flavor.get("name")) for flavor in flavors)
        empty: list[Editable] = [
            {"name": flavor.get("name"), "resources": []} for flavor in flavors
        ]
        group = groups.setdefault(names, {"coveredResources": [], "flavors": empty})
        group_path = f"spec.resourceGroups[{list(groups).index(names)}]"
        place = len(group["coveredResources"])
        group["coveredResources"].append(resource.get("name"))
        converted.renamed[f"{group_path}.coveredResources[{place}]"] = (
            f"spec.resources[{index}].name"
        )
        for number, (of_group, flavor) in enumerate(zip(group["flavors"], flavors, strict=True)):
            written = f"spec.resources[{index}].flavors[{number}]"
            quota = {key: value for key, value in flavor.items() if key != "name"}
            of_group["resources"].append({"name": resource.get("name"), **quota})
            converted.renamed[f"{group_path}.flavors[{number}].resources[{place}]"] = written
    del spec["resources"]
    spec["resourceGroups"] = list(groups.values())


def _quotas_to_hub(spec: Editable, converted: Converted) -> None:
    for g, group in _open_each(spec, "resourceGroups"):
        for f, flavor in _open_each(group, "flavors"):
            for r, quota in _open_each(flavor, "resources"):
                path = f"spec.resourceGroups[{g}].flavors[{f}].resources[{r}]"
                _min_and_max_to_hub(quota, path, converted)


def _min_and_max_to_hub(quota: Editable, path: str, converted: Converted) -> None:
    written = converted.renamed.get(path, path)
    nested = quota.get("quota")
    if isinstance(nested, Mapping) and set(nested) <= {"min", "max"}:
        del quota["quota"]
        quota.update(nested)
        written += ".quota"
    if "min" in quota and "nominalQuota" not in quota:
        quota["nominalQuota"] = quota.pop("min")
        converted.renamed[f"{path}.nominalQuota"] = f"{written}.min"
    if "max" not in quota or "borrowingLimit" in quota:
        return
    highest = quota.pop("max")
    if highest is None:
        return
    resource = str(quota.get("name"))
    converted.renamed[f"{path}.borrowingLimit"] = f"{written}.max"
    try:
        limit = amount(resource, highest) - amount(resource, quota.get("nominalQuota", 0))
    except QuantityError:
        quota["borrowingLimit"] = highest  # the codec says which of the two is wrong
        return
    if limit < 0:
        problem, hint = "is below min", "write a max that is at least min"
        converted.refuse(f"{written}.max", highest, problem, hint)
    else:
        quota["borrowingLimit"] = format_amount(resource, limit)


def _cluster_queue_from_hub(document: Editable) -> None:
    spec = _open(document, "spec")
    if spec is None:
        return
    _move(spec, "cohortName", "cohort")
    fungibility = _open(spec, "flavorFungibility")
    if fungibility is not None:
        for name, old in _SEARCH_OLD.items():
            _translate(fungibility, name, {_SEARCH[0]: old})


def _cluster_queue_to_alpha(document: Editable) -> None:
    """The form of the first version that had preemption: resources, each with its flavors."""
    spec = _open(document, "spec")
    if spec is None:
        return
    preemption = _open(spec, "preemption")
    if preemption is not None:
        _move(preemption, "reclaimWithinCohort", "withinCohort")
        _translate(preemption, "withinCohort", _RECLAIM_ALPHA)
    groups = spec.pop("resourceGroups", None) or ()
    if groups:
        spec["resources"] = [
            {"name": resource, "flavors": _quotas_to_alpha(group, resource)}
            for group in groups
            for resource in group["coveredResources"]
        ]


def _quotas_to_alpha(group: Editable, resource: str) -> list[Editable]:
    return [
        {"name": flavor["name"], **_quota_to_alpha(quota)}
        for flavor in group["flavors"]
        for quota in flavor["resources"]
        if quota["name"] == resource
    ]


def _quota_to_alpha(quota: Editable) -> Editable:
    """Of what this version has no name for, today's is kept beside."""
    resource, lowest = str(quota["name"]), quota["nominalQuota"]
    named = {"name", "nominalQuota", "borrowingLimit"}
    bounds = {"min": lowest}
    if quota.get("borrowingLimit") is not None:
        highest = amount(resource, lowest) + amount(resource, quota["borrowingLimit"])
        bounds["max"] = format_amount(resource, highest)
    return {**{k: v for k, v in quota.items() if k not in named}, "quota": bounds}


def _move(parent: Editable, old: str, new: str) -> None:
    if old in parent:
        parent[new] = parent.pop(old)


# LocalQueue and Workload


def _local_queue_to_hub(document: Editable, is_old: bool, converted: Converted) -> None:
    status = _open(document, "status")
    if status is not None and is_old:
        _rename(status, "status", "flavorUsage", "flavorsUsage", converted)


def _local_queue_from_hub(document: Editable) -> None:
    status = _open(document, "status")
    if status is not None:
        _move(status, "flavorsUsage", "flavorUsage")


def _workload_to_hub(document: Editable, is_old: bool, converted: Converted) -> None:
    if not is_old:
        return
    status = _open(document, "status")
    if status is not None:
        _rename(status, "status", _MISSPELT_TIME, _RIGHT_TIME, converted)
    spec = _open(document, "spec")
    if spec is None:
        return
    name = spec.pop("priorityClassName", None)
    source = spec.pop("priorityClassSource", None)
    if name is None or name == "":
        return
    converted.renamed["spec.priorityClassRef"] = "spec.priorityClassSource"
    converted.renamed["spec.priorityClassRef.name"] = "spec.priorityClassName"
    if source is None or source == "":
        source = "scheduling.k8s.io/priorityclass"  # the class that pods themselves would use
    if not isinstance(source, str) or source not in _SOURCES:
        problem, hint = "is not a kind of priority class", f"write {' or '.join(_SOURCES)}"
        converted.refuse("spec.priorityClassSource", source, problem, hint)
        return
    group, kind = _SOURCES[source]
    spec["priorityClassRef"] = {"group": group, "kind": kind, "name": name}


def _workload_from_hub(document: Editable) -> None:
    status = _open(document, "status")
    if status is not None:
        _move(status, _RIGHT_TIME, _MISSPELT_TIME)
    spec = _open(document, "spec")
    if spec is None:
        return
    reference = spec.pop("priorityClassRef", None)
    if isinstance(reference, Mapping):
        spec["priorityClassName"] = reference.get("name")
        for source, (group, kind) in _SOURCES.items():
            if (group, kind) == (reference.get("group"), reference.get("kind")):
                spec["priorityClassSource"] = source


# Configuration


def _configuration_to_hub(document: Editable, is_old: bool, converted: Converted) -> None:
    """In v1beta1 a section counts only with `enable: true`; in the hub its presence is enough."""
    if not is_old:
        return
    waiting = _open(document, "waitForPodsReady")
    if waiting is not None:
        waiting.setdefault("enable", False)
        waiting.setdefault("blockAdmission", waiting["enable"])
    sharing = _open(document, "fairSharing")
    if sharing is not None:
        sharing.setdefault("enable", False)


def _configuration_from_hub(document: Editable) -> None:
    for section in ("waitForPodsReady", "fairSharing"):
        opened = _open(document, section)
        if opened is not None:
            opened.setdefault("enable", True)
            if section == "waitForPodsReady":
                opened.setdefault("blockAdmission", False)


_TO_HUB: dict[tuple[str, str], Callable[[Editable, bool, Converted], None]] = {
    (QUEUEING_GROUP, "ClusterQueue"): _cluster_queue_to_hub,
    (QUEUEING_GROUP, "Cohort"): _cohort_to_hub,
    (QUEUEING_GROUP, "LocalQueue"): _local_queue_to_hub,
    (QUEUEING_GROUP, "Workload"): _workload_to_hub,
    (CONFIGURATION_GROUP, "Configuration"): _configuration_to_hub,
}
_FROM_HUB: dict[tuple[str, str], Callable[[Editable], None]] = {
    (QUEUEING_GROUP, "ClusterQueue"): _cluster_queue_from_hub,
    (QUEUEING_GROUP, "LocalQueue"): _local_queue_from_hub,
    (QUEUEING_GROUP, "Workload"): _workload_from_hub,
    (CONFIGURATION_GROUP, "Configuration"): _configuration_from_hub,
}
