"""Admission policies: a queued Job or pod waits from its first moment; only its queue releases it.

Kubernetes evaluates them itself, so there is no webhook that could be down.
"""

from __future__ import annotations

from typing import NamedTuple

from makeway.api.labels import ADMISSION_GATE, MANAGED, QUEUE_NAME
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
_GATES = "{}.spec.?schedulingGates.orValue([]).exists(g, g.name == '" + ADMISSION_GATE + "')"
_IS_MANAGED = "{}.metadata.?labels[?'" + MANAGED + "'].orValue('') == 'true'"


def mutating_policies() -> list[Document]:
    """Those that hold back what is created."""
    jobs = _policy(
        "makeway-suspend-queued-jobs",
        _rules("batch", "jobs", "CREATE", QUEUE_NAME),
        {
            "names-a-queue": _NAMED.format("object"),
            "is-no-part-of-a-job": _NO_PART_OF_A_JOB,
            "is-run-by-kubernetes": _OF_KUBERNETES,
        },
        "Object{spec: Object.spec{suspend: true}}",
    )
    pods = _policy(
        "makeway-gate-queued-pods",
        _rules("", "pods", "CREATE", QUEUE_NAME),
        {"names-a-queue": _NAMED.format("object"), "has-no-controller": "!" + _OWNER.format("")},
        f"Object{{metadata: Object.metadata{{labels: {{'{MANAGED}': 'true'}}, "
        f"finalizers: ['{MANAGED}']}}, "
        f"spec: Object.spec{{schedulingGates: [Object.spec.schedulingGates{{name: "
        f"'{ADMISSION_GATE}'}}]}}}}",
    )
    return [*jobs, *pods]


def validating_policies(account: str) -> list[Document]:
    """Those that let `account`, a service account's user name, and nobody else release it."""
    is_us = f"request.userInfo.username == '{account}'"
    suspended = "{}.spec.?suspend.orValue(false)"
    jobs = _guard(
        "makeway-release-queued-jobs",
        _rules("batch", "jobs", "UPDATE", QUEUE_NAME),
        f"!{suspended.format('oldObject')} || {suspended.format('object')} || {is_us}",
        "a queued Job is started by its queue; "
        f"to start it outside of queues, take the label {QUEUE_NAME} away first",
        {
            "names-a-queue-or-did": f"{_NAMED.format('object')} || {_NAMED.format('oldObject')}",
            "is-no-part-of-a-job": _NO_PART_OF_A_JOB,
            "is-run-by-kubernetes": _OF_KUBERNETES,
        },
    )
    pods = _guard(
        "makeway-release-queued-pods",
        _rules("", "pods", "UPDATE", MANAGED),
        # Without the label, the next request would not come before this policy.
        f"!{_GATES.format('oldObject')} || {is_us} || "
        f"({_GATES.format('object')} && {_IS_MANAGED.format('object')})",
        "a queued pod is released by its queue; "
        f"to run it outside of queues, create it without the label {QUEUE_NAME}",
        {},
    )
    return [*jobs, *pods]


def _rules(group: str, resource: str, operation: str, label: str) -> Document:
    rule = {
        "apiGroups": [group],
        "apiVersions": ["v1"],
        "operations": [operation],
        "resources": [resource],
    }
    return {
        "resourceRules": [rule],
        # On an update, the old object counts as well as the new object.
        "objectSelector": {"matchExpressions": [{"key": label, "operator": "Exists"}]},
    }


def _conditions(conditions: dict[str, str]) -> list[Document]:
    return [{"name": name, "expression": text} for name, text in conditions.items()]


def _policy(
    name: str, constraints: Document, conditions: dict[str, str], change: str
) -> list[Document]:
    spec = {
        "matchConstraints": constraints,
        "matchConditions": _conditions(conditions),
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "mutations": [
            {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": change}}
        ],
    }
    return [
        _object("MutatingAdmissionPolicy", name, spec),
        _object("MutatingAdmissionPolicyBinding", name, {"policyName": name}),
    ]


def _guard(
    name: str, constraints: Document, rule: str, message: str, conditions: dict[str, str]
) -> list[Document]:
    spec: Document = {
        "matchConstraints": constraints,
        "failurePolicy": "Fail",
        "validations": [{"expression": rule, "message": message, "reason": "Forbidden"}],
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
