"""Admission policies: a queued Job or pod waits from its first moment; only its queue releases it.

Kubernetes evaluates them itself, so there is no webhook that could be down.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from makeway.api.codec import encode
from makeway.api.configuration import Configuration
from makeway.api.kinds import LOCAL_QUEUES, WORKLOAD_CLASSES, Resource
from makeway.api.labels import ADMISSION_GATE, DEFAULT, MANAGED, PRIORITY_CLASS, QUEUE_NAME
from makeway.client.client import Document

GROUP = "admissionregistration.k8s.io"
API_VERSION = f"{GROUP}/v1"


class KubeVersion(NamedTuple):
    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


MUTATING_SINCE = KubeVersion(1, 36)
VALIDATING_SINCE = KubeVersion(1, 30)

_NAMED = "{}.metadata.?labels[?'" + QUEUE_NAME + "'].orValue('') != ''"
_OWNER = "object.metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false){})"
# A Job owned by a queued Job waits with that. A Job of a CronJob waits for itself.
_NO_PART_OF_A_JOB = "!" + _OWNER.format(" && o.kind == 'Job' && o.apiVersion.startsWith('batch/')")
_OF_KUBERNETES = "object.spec.?managedBy.orValue('{0}') == '{0}'".format(
    "kubernetes.io/job-controller"
)
_OWN_JOB = {"is-no-part-of-a-job": _NO_PART_OF_A_JOB, "is-run-by-kubernetes": _OF_KUBERNETES}
_ALONE = "!" + _OWNER.format("")
_GATES = "{}.spec.?schedulingGates.orValue([]).exists(g, g.name == '" + ADMISSION_GATE + "')"
_IS_MANAGED = "{}.metadata.?labels[?'" + MANAGED + "'].orValue('') == 'true'"
# All that has requests in a pod set `s`; and whether those of one such part, `c`, can be counted.
_POD = "s.template.?spec"
_PARTS = (
    f"({_POD}.?containers.orValue([]) + {_POD}.?initContainers.orValue([]) + "
    f"[{_POD}.orValue({{}})])"
)
_AMOUNTS_ARE_FINE = (
    "['requests', 'limits'].all(w, c.?resources[?w].orValue({}).all(r, r != 'pods' && "
    "quantity(string(c.resources[w][r])).compareTo(quantity('0')) >= 0))"
)
_LABEL = "Object{{metadata: Object.metadata{{labels: {{'{}': '{}'}}}}}}"
_HOLD_JOB = "Object{spec: Object.spec{suspend: true}}"
_HOLD_POD = (
    f"Object{{metadata: Object.metadata{{labels: {{'{MANAGED}': 'true'}}, "
    f"finalizers: ['{MANAGED}']}}, "
    f"spec: Object.spec{{schedulingGates: [Object.spec.schedulingGates{{name: "
    f"'{ADMISSION_GATE}'}}]}}}}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What the policies are about, by the controller's configuration."""

    namespaces: Document  # a label selector: where anything is queued
    holds_all: bool  # also Jobs and pods that name no queue
    has_default_class: bool  # a WorkloadPriorityClass named `default` is for who names none


def scope_of(configuration: Configuration, own_namespace: str) -> Scope:
    return Scope(
        namespaces=encode(configuration.outside_of(own_namespace).managed_namespaces),
        holds_all=configuration.manage_jobs_without_queue_name,
        has_default_class=configuration.gate("WorkloadPriorityClassDefaulting"),
    )


def mutating_policies(scope: Scope) -> list[Document]:
    """Those that hold back what is created, and name the defaults."""
    label = "" if scope.holds_all else QUEUE_NAME
    jobs = _policy(
        "makeway-suspend-queued-jobs",
        _rules(scope, "batch", "jobs", "CREATE", label),
        _held(scope, "jobs"),
        [_HOLD_JOB],
    )
    pods = _policy(
        "makeway-gate-queued-pods",
        _rules(scope, "", "pods", "CREATE", label),
        _held(scope, "pods"),
        [_HOLD_POD],
    )
    return [*jobs, *pods, *_default_queue(scope), *_default_class(scope)]


def _default_queue(scope: Scope) -> list[Document]:
    """A LocalQueue named `default` is for who names none.

    It is looked up as the parameter of a policy, in the namespace of the request.
    """
    named = _LABEL.format(QUEUE_NAME, DEFAULT)
    return [
        *_policy(
            "makeway-default-queue-of-jobs",
            _rules(scope, "batch", "jobs", "CREATE", lacks=QUEUE_NAME),
            _OWN_JOB,
            [named, _HOLD_JOB],
            LOCAL_QUEUES,
        ),
        *_policy(
            "makeway-default-queue-of-pods",
            _rules(scope, "", "pods", "CREATE", lacks=QUEUE_NAME),
            {"stands-alone": _ALONE},
            [named, _HOLD_POD],
            LOCAL_QUEUES,
        ),
    ]


def _default_class(scope: Scope) -> list[Document]:
    """A WorkloadPriorityClass named `default` is for who is queued and names none.

    Whether it is queued is part of the change, not of the conditions: a policy that was not called
    at first is not called again when another has named a queue.
    """
    if not scope.has_default_class:
        return []
    return [
        policy
        for group, resource in (("batch", "jobs"), ("", "pods"))
        for policy in _policy(
            f"makeway-default-class-of-{resource}",
            _rules(scope, group, resource, "CREATE", lacks=PRIORITY_CLASS),
            {"is-no-part-of-a-job": _NO_PART_OF_A_JOB},
            [_class_if(" && ".join(f"({held})" for held in _held(scope, resource).values()))],
            WORKLOAD_CLASSES,
        )
    ]


def _class_if(condition: str) -> str:
    labels = f"{condition} ? {{'{PRIORITY_CLASS}': '{DEFAULT}'}} : {{}}"
    return f"Object{{metadata: Object.metadata{{labels: {labels}}}}}"


def _held(scope: Scope, resource: str) -> dict[str, str]:
    """Which Jobs or pods wait in a queue, or for one."""
    named = {"names-a-queue": _NAMED.format("object")}
    if resource == "jobs":
        return {**({} if scope.holds_all else named), **_OWN_JOB}
    if scope.holds_all:
        named = {"names-a-queue-or-stands-alone": f"{_NAMED.format('object')} || {_ALONE}"}
    return {**named, "is-no-part-of-a-job": _NO_PART_OF_A_JOB}


def validating_policies(account: str, scope: Scope) -> list[Document]:
    """Those that let `account`, a service account's user name, and nobody else release it."""
    is_us = f"request.userInfo.username == '{account}'"
    suspended = "{}.spec.?suspend.orValue(false)"
    named = f"{_NAMED.format('object')} || {_NAMED.format('oldObject')}"
    way_out = (
        "give it a queue that admits it"
        if scope.holds_all
        else f"to start it outside of queues, take the label {QUEUE_NAME} away first"
    )
    jobs = _guard(
        "makeway-release-queued-jobs",
        _rules(scope, "batch", "jobs", "UPDATE", "" if scope.holds_all else QUEUE_NAME),
        f"!{suspended.format('oldObject')} || {suspended.format('object')} || {is_us}",
        f"a queued Job is started by its queue; {way_out}",
        {**({} if scope.holds_all else {"names-a-queue-or-did": named}), **_OWN_JOB},
    )
    pods = _guard(
        "makeway-release-queued-pods",
        _rules(scope, "", "pods", "UPDATE", MANAGED),
        # Without the label, the next request would not come before this policy.
        f"!{_GATES.format('oldObject')} || {is_us} || "
        f"({_GATES.format('object')} && {_IS_MANAGED.format('object')})",
        "a queued pod is released by its queue; "
        f"to run it outside of queues, create it without the label {QUEUE_NAME}",
        {},
    )
    return [*jobs, *pods]


def checking_policies() -> list[Document]:
    """What is wrong with queues and Workloads, as far as their schemas can't say it: there a rule
    may cost little for the largest object that there could be, and pods have no schema.
    """
    groups = "object.?spec.?resourceGroups.orValue([])"
    of_name = "h.flavors.filter(k, k.name == f.name).size()"
    queues = _guard(
        "makeway-check-queues",
        _own_rules("clusterqueues", "cohorts"),
        f"{groups}.all(g, g.flavors.all(f, {groups}.map(h, {of_name}).sum() == 1))",
        "spec.resourceGroups: a flavor may be in one group only",
        {},
        reason="Invalid",
    )
    workloads = _guard(
        "makeway-check-workloads",
        _own_rules("workloads"),
        f"object.spec.podSets.all(s, {_PARTS}.all(c, {_AMOUNTS_ARE_FINE}))",
        "spec.podSets: requests and limits must not be negative, nor name pods, which are counted "
        "anyway",
        {"pod-sets-changed": "oldObject == null || object.spec.podSets != oldObject.spec.podSets"},
        reason="Invalid",
    )
    return [*queues, *workloads]


def _own_rules(*resources: str) -> Document:
    rule = {
        "apiGroups": [LOCAL_QUEUES.group],
        "apiVersions": [LOCAL_QUEUES.versions[0]],
        "operations": ["CREATE", "UPDATE"],
        "resources": list(resources),
    }
    return {"resourceRules": [rule]}


def _rules(
    scope: Scope, group: str, resource: str, operation: str, label: str = "", lacks: str = ""
) -> Document:
    """Requests about objects that have one label, or lack another, in our namespaces."""
    rule = {
        "apiGroups": [group],
        "apiVersions": ["v1"],
        "operations": [operation],
        "resources": [resource],
    }
    found = {"resourceRules": [rule], "namespaceSelector": scope.namespaces}
    labels = [{"key": label, "operator": "Exists"}] if label else []
    labels += [{"key": lacks, "operator": "DoesNotExist"}] if lacks else []
    if not labels:
        return found
    # On an update, the old object counts as well as the new object.
    return {**found, "objectSelector": {"matchExpressions": labels}}


def _conditions(conditions: dict[str, str]) -> list[Document]:
    return [{"name": name, "expression": text} for name, text in conditions.items()]


def _policy(
    name: str,
    constraints: Document,
    conditions: dict[str, str],
    changes: list[str],
    if_there: Resource | None = None,
) -> list[Document]:
    """`if_there`: only where an object of this kind is named `default`."""
    spec: Document = {
        "matchConstraints": constraints,
        "matchConditions": _conditions(conditions),
        # Who can't be given a default may still go without; nobody may go past a queue.
        "failurePolicy": "Fail" if if_there is None else "Ignore",
        "reinvocationPolicy": "IfNeeded",
        "mutations": [
            {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": change}}
            for change in changes
        ],
    }
    binding: Document = {"policyName": name}
    if if_there is not None:
        spec["paramKind"] = {"apiVersion": if_there.api_version, "kind": if_there.kind}
        binding["paramRef"] = {"name": DEFAULT, "parameterNotFoundAction": "Allow"}
    return [
        _object("MutatingAdmissionPolicy", name, spec),
        _object("MutatingAdmissionPolicyBinding", name, binding),
    ]


def _guard(
    name: str,
    constraints: Document,
    rule: str,
    message: str,
    conditions: dict[str, str],
    *,
    reason: str = "Forbidden",
) -> list[Document]:
    spec: Document = {
        "matchConstraints": constraints,
        "failurePolicy": "Fail",
        "validations": [{"expression": rule, "message": message, "reason": reason}],
    }
    if conditions:
        spec["matchConditions"] = _conditions(conditions)
    binding = {"policyName": name, "validationActions": ["Deny"]}
    return [
        _object("ValidatingAdmissionPolicy", name, spec),
        _object("ValidatingAdmissionPolicyBinding", name, binding),
    ]


def _object(kind: str, name: str, spec: Document) -> Document:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}
