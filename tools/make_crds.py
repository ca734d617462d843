"""Make src/makeway/deploy/crds: our kinds as a real Kubernetes server is to serve them.

    python -m tools.make_crds

Fields and defaults come from the typed views, as in the embedded server, and columns from the same
table; what is written down here are the rules for values, in the form that Kubernetes checks
itself. They say what makeway.api.validation says of one object; what takes several objects can't be
said there. One version is served: with two, Kubernetes would drop the fields that differ.
"""

from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, cast, get_args, get_origin

import yaml

from makeway.api.codec import plan_of
from makeway.api.defaults import _written_default
from makeway.api.kinds import KINDS, RESOURCES, Resource
from makeway.api.validation.workloads import POD_SETS_MAX
from makeway.server.schemas import REFERENCE, components

FOLDER = Path(__file__).resolve().parents[1] / "src" / "makeway" / "deploy" / "crds"
KINDS_SERVED = (
    "AdmissionCheck",
    "ClusterQueue",
    "Cohort",
    "Gang",
    "LocalQueue",
    "ResourceFlavor",
    "Workload",
    "WorkloadPriorityClass",
)
HEAD = "# Made by tools/make_crds.py; change that, or the views in src/makeway/api.\n"
GROUPS = ("kueue.x-k8s.io", "makeway.dev")

Schema = dict[str, Any]

# Schemas of Kubernetes' that look different in a CRD, by the end of their name.
_NUMBER = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
_QUANTITY_PATTERN = rf"^(\+|-)?{_NUMBER}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{_NUMBER}))?$"
_REPLACED: Mapping[str, Schema] = {
    "ObjectMeta": {"type": "object"},
    # Checked where pods are made; a whole schema of pods would make every write dear.
    "PodTemplateSpec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "Quantity": {
        "pattern": _QUANTITY_PATTERN,
        "maxLength": 40,
        "x-kubernetes-int-or-string": True,
    },
    "IntOrString": {"x-kubernetes-int-or-string": True},
}
_NOT_IN_CRDS = (
    "x-kubernetes-patch-strategy",
    "x-kubernetes-patch-merge-key",
    "x-kubernetes-group-version-kind",
)


# Rules


def rule(expression: str, message: str, field: str = "") -> Schema:
    written = {"rule": expression, "message": message, "reason": "FieldValueInvalid"}
    return {**written, "fieldPath": field} if field else written


def rules(*several: Schema) -> Schema:
    return {"x-kubernetes-validations": list(several)}


def at_most(count: int, least: int = 0) -> Schema:
    return {"maxItems": count, **({"minItems": least} if least else {})}


_SUBDOMAIN = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$"
NAME: Schema = {"maxLength": 253, "pattern": _SUBDOMAIN}
POD_SET_NAME: Schema = {"maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"}
RESOURCE_NAME: Schema = {
    "maxLength": 317,
    "pattern": r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
}
FIXED = rules(rule("self == oldSelf", "field is immutable"))
NOT_NEGATIVE = rules(
    rule("quantity(string(self)).compareTo(quantity('0')) >= 0", "must not be negative")
)

_QUOTA = "resourceGroups[].flavors[].resources[]"
_ALL_QUOTAS = (
    "!has(self.resourceGroups) || "
    "self.resourceGroups.all(g, g.flavors.all(f, f.resources.all(r, {})))"
)


def quota_rules(parent: str) -> dict[str, Schema]:
    """What holds for the resource groups of queues and cohorts, whose parent is named there."""
    limits = _ALL_QUOTAS.format("!has(r.borrowingLimit) && !has(r.lendingLimit)")
    has_parent = f"has(self.{parent}) && self.{parent} != ''"
    return {
        parent: NAME,
        "": rules(
            rule(f"({has_parent}) || ({limits})", f"a limit means nothing without {parent}"),
        ),
        "resourceGroups": {
            **at_most(16),
            **rules(
                # The same of flavors is beyond what Kubernetes lets a rule cost; a policy says it.
                rule(
                    "self.all(g, g.coveredResources.all(r, "
                    "self.exists_one(h, r in h.coveredResources)))",
                    "a resource may be in one group only",
                ),
                rule(
                    "self.map(g, size(g.coveredResources)).sum() <= 256",
                    "there may be at most 256 resources in all groups",
                ),
                rule(
                    "self.map(g, size(g.flavors)).sum() <= 256",
                    "there may be at most 256 flavors in all groups",
                ),
            ),
        },
        "resourceGroups[]": rules(
            rule(
                "self.flavors.all(f, f.resources.map(r, r.name) == self.coveredResources)",
                "every flavor must list the covered resources, in their order",
                ".flavors",
            )
        ),
        "resourceGroups[].coveredResources": {**at_most(64, 1), "x-kubernetes-list-type": "set"},
        "resourceGroups[].coveredResources[]": RESOURCE_NAME,
        "resourceGroups[].flavors": at_most(64, 1),
        "resourceGroups[].flavors[].name": NAME,
        "resourceGroups[].flavors[].resources": at_most(64, 1),
        f"{_QUOTA}.name": RESOURCE_NAME,
        f"{_QUOTA}.nominalQuota": NOT_NEGATIVE,
        f"{_QUOTA}.borrowingLimit": NOT_NEGATIVE,
        f"{_QUOTA}.lendingLimit": NOT_NEGATIVE,
        "fairSharing.weight": rules(
            *NOT_NEGATIVE["x-kubernetes-validations"],
            rule(
                "quantity(string(self)).compareTo(quantity('0')) <= 0 || "
                "quantity(string(self)).compareTo(quantity('1n')) > 0",
                "must be 0 or more than 1n",
            ),
        ),
    }


def under(prefix: str, found: Mapping[str, Schema]) -> dict[str, Schema]:
    return {f"{prefix}.{path}".rstrip("."): schema for path, schema in found.items()}


_CLUSTER_QUEUE: dict[str, Schema] = {
    "namespaceSelector.matchExpressions[]": rules(
        rule(
            "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
            "In and NotIn need values, the others have none",
            ".values",
        )
    ),
    "namespaceSelector.matchExpressions[].key": RESOURCE_NAME,
    "namespaceSelector.matchExpressions[].operator": {
        "enum": ["In", "NotIn", "Exists", "DoesNotExist"]
    },
    _QUOTA: rules(
        rule(
            "!has(self.lendingLimit) || quantity(string(self.lendingLimit))"
            ".compareTo(quantity(string(self.nominalQuota))) <= 0",
            "must not be more than nominalQuota",
            ".lendingLimit",
        )
    ),
    "flavorFungibility": rules(
        rule(
            "!has(self.preference) || (self.whenCanBorrow == 'TryNextFlavor' && "
            "self.whenCanPreempt == 'TryNextFlavor')",
            "counts only when whenCanBorrow and whenCanPreempt are TryNextFlavor",
            ".preference",
        )
    ),
    "flavorFungibility.fallbackStrategy.rules": at_most(64),
    "flavorFungibility.fallbackStrategy.rules[]": rules(
        rule(
            "!has(self.trigger) || self.trigger != 'AdmissionCheckRejected' || !has(self.timeout)",
            "means nothing with AdmissionCheckRejected",
            ".timeout",
        ),
        rule(
            "!has(self.trigger) || self.trigger != 'TimeoutForPodsReadyExceeded' || "
            "has(self.timeout)",
            "is needed by TimeoutForPodsReadyExceeded",
            ".timeout",
        ),
    ),
    "flavorFungibility.fallbackStrategy.rules[].name": {"maxLength": 253},
    "flavorFungibility.fallbackStrategy.rules[].timeout": {
        "maxLength": 40,
        **rules(rule("duration(self) > duration('0s')", "must be a positive duration")),
    },
    "preemption": rules(
        rule(
            "self.reclaimWithinCohort != 'Never' || !has(self.borrowWithinCohort) || "
            "self.borrowWithinCohort.policy == 'Never'",
            "needs reclaimWithinCohort",
            ".borrowWithinCohort.policy",
        )
    ),
    "preemption.borrowWithinCohort": rules(
        rule(
            "!has(self.maxPriorityThreshold) || self.policy != 'Never'",
            "means nothing with policy Never",
            ".maxPriorityThreshold",
        )
    ),
    "preemption.triggerAfterWorkloadWaitingSeconds": {"minimum": 0},
    "preemption.minRuntimeSeconds": {"minimum": 0},
    "preemption.budget.evictionsPerHour": {"minimum": 1, "maximum": 1000},
    "preemption.workloadSorting": {
        **at_most(4),
        "x-kubernetes-list-type": "set",
        **rules(
            rule(
                "!self.exists(w, w == 'ByLowestPriority') || self[0] == 'ByLowestPriority'",
                "ByLowestPriority can't come after another order",
            ),
            rule(
                "!('ByLowestRuntime' in self && 'ByLongestRuntime' in self)",
                "there may be one order by run time",
            ),
        ),
    },
    "aging.everySeconds": {"minimum": 1},
    "aging.priority": {"minimum": 1},
    "aging.maximum": {"minimum": 1},
    "aging": rules(
        rule("self.maximum >= self.priority", "must be at least a single step", ".maximum")
    ),
    "admissionChecksStrategy.admissionChecks": at_most(64, 1),
    "admissionChecksStrategy.admissionChecks[].name": NAME,
    "admissionChecksStrategy.admissionChecks[].onFlavors": {
        **at_most(64),
        "x-kubernetes-list-type": "set",
    },
    "admissionChecksStrategy.admissionChecks[].onFlavors[]": {"maxLength": 253},
}

_MILESTONES: dict[str, Schema] = {
    "preemption.disruptionCostMilestones": {
        **at_most(16),
        **rules(
            rule(
                "self.map(m, m.seconds).isSorted() && "
                "self.all(m, self.exists_one(n, n.seconds == m.seconds))",
                "must be in the order of their times, which must differ",
            )
        ),
    },
    "preemption.disruptionCostMilestones[].seconds": {"minimum": 0},
    "preemption.disruptionCostMilestones[].cost": {"minimum": 0},
}

_FLAVOR = {
    "nodeLabels": {"maxProperties": 8},
    "nodeTaints": at_most(8),
    "nodeTaints[].effect": {"enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"]},
    "tolerations": at_most(8),
}

_RESERVED = (
    "has({0}.status) && has({0}.status.conditions) && {0}.status.conditions"
    ".exists(c, c.type == '{1}' && c.status == 'True')"
)
_WAS_RESERVED = _RESERVED.format("oldSelf", "QuotaReserved")
_STILL_RESERVED = f"{_WAS_RESERVED} && {_RESERVED.format('self', 'QuotaReserved')}"
_STILL_ADMITTED = (
    f"{_RESERVED.format('oldSelf', 'Admitted')} && {_RESERVED.format('self', 'Admitted')}"
)
_ADMISSION = "has(self.status) && has(self.status.admission)"
_KUEUE_REFERENCE = "{0}.spec.priorityClassRef.group == 'kueue.x-k8s.io'"


def _same(path: str) -> str:
    """Whether an optional field is as it was."""
    head, _, last = f".{path}".rpartition(".")
    new, old = f"self{head}", f"oldSelf{head}"
    return (
        f"has({new}.{last}) == has({old}.{last}) && "
        f"(!has({new}.{last}) || {new}.{last} == {old}.{last})"
    )


def _same_or(empty: str, *path: str) -> str:
    """Whether a field is as it was, where nothing and an empty value are the same."""
    return f"{_value_or(empty, 'self', *path)} == {_value_or(empty, 'oldSelf', *path)}"


def _value_or(empty: str, of: str, *path: str) -> str:
    steps = [".".join((of, *path[: depth + 1])) for depth in range(len(path))]
    return f"({' && '.join(f'has({step})' for step in steps)} ? {steps[-1]} : {empty})"


_SET_ONCE = "cannot be changed once set"
_NAMES = "(has({0}.podSetAssignments) ? {0}.podSetAssignments.map(p, p.name) : [])"
_USAGE, _OLD_USAGE = (_value_or("{}", of, "resourceUsage") for of in ("self", "oldSelf"))
_SAME_USAGE = (
    f"{_USAGE}.size() == {_OLD_USAGE}.size() && "
    f"{_USAGE}.all(r, r in {_OLD_USAGE} && quantity(string(self.resourceUsage[r]))"
    ".compareTo(quantity(string(oldSelf.resourceUsage[r]))) == 0)"
)
_WORKLOAD: dict[str, Schema] = {
    "": rules(
        rule(
            f"!({_WAS_RESERVED}) || self.spec.podSets == oldSelf.spec.podSets",
            "cannot be changed while quota is reserved",
            ".spec.podSets",
        ),
        rule(
            f"!({_STILL_RESERVED}) || ({_same('spec.queueName')})",
            "cannot be changed while quota is reserved",
            ".spec.queueName",
        ),
        rule(
            f"!({_WAS_RESERVED}) || ({_same('spec.priorityClassRef')}) || "
            "(has(self.spec.priorityClassRef) && has(oldSelf.spec.priorityClassRef) && "
            f"{_KUEUE_REFERENCE.format('self')} && {_KUEUE_REFERENCE.format('oldSelf')})",
            "cannot be changed while quota is reserved",
            ".spec.priorityClassRef",
        ),
        rule(
            f"!({_STILL_ADMITTED}) || ({_same('spec.maximumExecutionTimeSeconds')})",
            "cannot be changed while the workload is admitted",
            ".spec.maximumExecutionTimeSeconds",
        ),
        rule(
            f"!({_ADMISSION} && {_RESERVED.format('self', 'QuotaReserved')}) || "
            "(has(self.status.admission.podSetAssignments) && "
            "size(self.status.admission.podSetAssignments) == size(self.spec.podSets) && "
            "self.status.admission.podSetAssignments.all(a, "
            "self.spec.podSets.exists(p, p.name == a.name)))",
            "must have one entry for each pod set",
            ".status.admission.podSetAssignments",
        ),
        rule(
            "!has(self.status) || !has(self.status.reclaimablePods) || "
            "self.status.reclaimablePods.all(r, r.count >= 0 && "
            "self.spec.podSets.exists(p, p.name == r.name && r.count <= p.count))",
            "must name pod sets of this workload, and no more than their pods",
            ".status.reclaimablePods",
        ),
    ),
    "spec": rules(
        rule(
            "!has(self.priorityClassRef) || has(self.priority)",
            "is needed by priorityClassRef",
            ".priority",
        )
    ),
    "spec.podSets": {
        **at_most(POD_SETS_MAX, 1),
        **rules(
            rule(
                "self.filter(p, has(p.minCount)).size() <= 1",
                "only one pod set may have minCount",
            )
        ),
    },
    "spec.podSets[].name": POD_SET_NAME,
    "spec.podSets[].count": {"minimum": 0},
    "spec.podSets[]": rules(
        rule(
            "!has(self.minCount) || (self.minCount >= 1 && self.minCount <= self.count)",
            "must be between 1 and count",
            ".minCount",
        )
    ),
    "spec.queueName": NAME,
    "spec.priorityClassRef.name": NAME,
    "spec.priorityClassRef": rules(
        rule(
            "self.kind == (self.group == 'kueue.x-k8s.io' ? "
            "'WorkloadPriorityClass' : 'PriorityClass')",
            "must be a kind of that group",
            ".kind",
        )
    ),
    "spec.maximumExecutionTimeSeconds": {"minimum": 1},
    **under("spec", _MILESTONES),
    # By what it means: clients spell quantities anew, and drop maps that are empty.
    "status.admission": rules(
        rule("self.clusterQueue == oldSelf.clusterQueue", _SET_ONCE, ".clusterQueue"),
        rule(f"{_NAMES.format('self')} == {_NAMES.format('oldSelf')}", _SET_ONCE),
    ),
    "status.admission.podSetAssignments": at_most(POD_SETS_MAX),
    "status.admission.podSetAssignments[]": rules(
        rule(_same("count"), _SET_ONCE, ".count"),
        rule(_same_or("{}", "flavors"), _SET_ONCE, ".flavors"),
        rule(_SAME_USAGE, _SET_ONCE, ".resourceUsage"),
    ),
    "status.admission.podSetAssignments[].flavors": {"maxProperties": 256},
    "status.admission.podSetAssignments[].resourceUsage": {"maxProperties": 256},
    "status.admission.clusterQueue": NAME,
    "status.admission.podSetAssignments[].name": {**POD_SET_NAME, "default": "main"},
    "status.admissionChecks": at_most(64),
    "status.conditions": at_most(32),
    "status.conditions[].type": {"maxLength": 316},
    "status.preemption.claim.podSetAssignments": at_most(POD_SETS_MAX),
    "status.preemption.claim.podSetAssignments[].name": {**POD_SET_NAME, "default": "main"},
    "status.preemption.claim.heldBefore": at_most(256),
    "status.preemption.count": {"minimum": 1},
    "status.reclaimablePods": at_most(POD_SETS_MAX),
    "status.reclaimablePods[].name": POD_SET_NAME,
}

_IS_GANG = "has({0}.schedulingPolicy.gang)"
_STAYS = "cannot be changed; create another one"


_GANG: dict[str, Schema] = {
    "": rules(
        rule(_same_or("''", "priorityClassName"), _STAYS, ".priorityClassName"),
        rule(_same("disruptionMode"), _STAYS, ".disruptionMode"),
        rule(_same_or("[]", "schedulingConstraints", "topology"), _STAYS, ".schedulingConstraints"),
        rule(
            f"{_IS_GANG.format('self')} == {_IS_GANG.format('oldSelf')}",
            "cannot be switched between gang and basic",
            ".schedulingPolicy",
        ),
    ),
    "schedulingPolicy": rules(
        rule("has(self.gang) != has(self.basic)", "must have either gang or basic")
    ),
    "schedulingPolicy.gang.minCount": {"minimum": 1, "maximum": 100_000},
    "disruptionMode": rules(
        rule("has(self.single) != has(self.all)", "must have either single or all")
    ),
    "priorityClassName": NAME,
    "schedulingConstraints.topology": at_most(1),
    "schedulingConstraints.topology[].key": RESOURCE_NAME,
}

RULES: Mapping[str, Mapping[str, Schema]] = {
    "AdmissionCheck": {
        "spec.controllerName": {
            "minLength": 1,
            "maxLength": 253,
            **FIXED,
        }
    },
    "ClusterQueue": under("spec", {**quota_rules("cohortName"), **_CLUSTER_QUEUE}),
    "Cohort": {
        **under("spec", quota_rules("parentName")),
        ".": rules(
            rule(
                "!has(self.spec) || !has(self.spec.parentName) || "
                "self.spec.parentName != self.metadata.name",
                "must not be the cohort itself",
                ".spec.parentName",
            )
        ),
    },
    "Gang": {
        **under("spec", _GANG),
        # Pods name it by a label.
        "metadata": {"properties": {"name": {"type": "string", "maxLength": 63}}},
    },
    "LocalQueue": {
        "spec.clusterQueue": {**NAME, **FIXED},
        "spec.fairSharing.weight": NOT_NEGATIVE,
        **under("spec", _MILESTONES),
    },
    "ResourceFlavor": under("spec", _FLAVOR),
    "Workload": _WORKLOAD,
    "WorkloadPriorityClass": {},
}


# Schemas


def crd_schema(resource: Resource) -> Schema:
    cls = KINDS[(resource.group, resource.kind)]
    schema: Schema = _inlined(components()[resource.schema])
    _add_defaults(schema, cls, is_root=True)
    for path, more in RULES[resource.kind].items():
        _add(_find(schema, path), more)
    return schema


def _inlined(schema: Any) -> Any:
    """A schema without references, as CRDs demand."""
    if isinstance(schema, list):
        return [_inlined(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(REFERENCE)
        replaced = _REPLACED.get(name.rpartition(".")[2])
        found = _inlined(components()[name] if replaced is None else replaced)
        said = schema.get("description") if name.rpartition(".")[2] != "ObjectMeta" else None
        return {**found, "description": said} if said else found
    inlined = {key: _inlined(value) for key, value in schema.items() if key not in _NOT_IN_CRDS}
    if inlined.get("type") == "integer":
        inlined.setdefault("format", "int64")
    return inlined


def _add_defaults(schema: Schema, cls: type, *, is_root: bool = False) -> None:
    for name, plan in plan_of(cls, True).fields.items():
        if is_root and name in ("metadata", "status"):
            continue
        inner = schema["properties"].get(name)
        if inner is None or "x-kubernetes-preserve-unknown-fields" in inner:
            continue
        written = _written_default(plan)
        if written is not None:
            inner["default"] = written
        hint = plan.hint
        if get_origin(hint) is tuple:
            hint, inner = get_args(hint)[0], inner["items"]
        if (
            is_dataclass(hint)
            and "properties" in inner
            and hint.__module__.endswith(("queueing", "gangs"))
        ):
            _add_defaults(inner, cast(type, hint))


def _find(schema: Schema, path: str) -> Schema:
    for step in _steps(path):
        schema = schema["items"] if step == "[]" else schema["properties"][step]
    return schema


def _steps(path: str) -> Iterator[str]:
    for part in filter(None, path.split(".")):
        yield part.removesuffix("[]")
        if part.endswith("[]"):
            yield "[]"


def _add(schema: Schema, more: Schema) -> None:
    key = "x-kubernetes-validations"
    both = [*schema.get(key, ()), *more.get(key, ())]
    schema.update(more)
    if both:
        schema[key] = both


# Columns, by JSON path. The name comes first by itself.

_CONDITION = ".status.conditions[?(@.type=='{}')].status"


def _column(name: str, path: str, type_: str = "string", priority: int = 0) -> Schema:
    column = {"name": name, "jsonPath": path, "type": type_}
    return {**column, "priority": priority} if priority else column


AGE = _column("Age", ".metadata.creationTimestamp", "date")
COLUMNS: Mapping[str, tuple[Schema, ...]] = {
    "AdmissionCheck": (
        _column("Controller", ".spec.controllerName"),
        _column("Active", _CONDITION.format("Active")),
        AGE,
    ),
    "ClusterQueue": (
        _column("Cohort", ".spec.cohortName"),
        _column("Strategy", ".spec.queueingStrategy", priority=1),
        _column("Pending Workloads", ".status.pendingWorkloads", "integer"),
        _column("Admitted Workloads", ".status.admittedWorkloads", "integer", 1),
    ),
    "Cohort": (_column("Parent", ".spec.parentName"), AGE),
    "Gang": (
        _column("Min Count", ".spec.schedulingPolicy.gang.minCount", "integer"),
        _column("Scheduled", _CONDITION.format("PodGroupInitiallyScheduled")),
        AGE,
    ),
    "LocalQueue": (
        _column("ClusterQueue", ".spec.clusterQueue"),
        _column("Pending Workloads", ".status.pendingWorkloads", "integer"),
        _column("Admitted Workloads", ".status.admittedWorkloads", "integer"),
    ),
    "ResourceFlavor": (_column("Node Labels", ".spec.nodeLabels", priority=1), AGE),
    "Workload": (
        _column("Queue", ".spec.queueName"),
        _column("Reserved in", ".status.admission.clusterQueue"),
        _column("Admitted", _CONDITION.format("Admitted")),
        _column("Finished", _CONDITION.format("Finished")),
        AGE,
    ),
    "WorkloadPriorityClass": (_column("Value", ".value", "integer"),),
}


def crd(resource: Resource) -> Schema:
    names: Schema = {
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "plural": resource.plural,
        "singular": resource.singular,
    }
    if resource.short_names:
        names["shortNames"] = list(resource.short_names)
    version: Schema = {
        "name": resource.versions[0],
        "served": True,
        "storage": True,
        "additionalPrinterColumns": list(COLUMNS[resource.kind]),
        "schema": {"openAPIV3Schema": crd_schema(resource)},
    }
    if resource.has_status:
        version["subresources"] = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "names": names,
            "scope": "Namespaced" if resource.is_namespaced else "Cluster",
            "versions": [version],
        },
    }


class _Plain(yaml.SafeDumper):
    """Writes what occurs twice twice."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def files() -> dict[str, str]:
    """Text by file name."""
    return {
        f"{resource.plural}.yaml": HEAD
        + yaml.dump(crd(resource), Dumper=_Plain, sort_keys=False, width=100)
        for resource in RESOURCES
        if resource.group in GROUPS and resource.kind in KINDS_SERVED
    }


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in files().items():
        (FOLDER / name).write_text(text)
        print(FOLDER / name)


if __name__ == "__main__":
    main()
