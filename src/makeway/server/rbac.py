"""Rules about roles and bindings themselves, as Kubernetes has them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from makeway.api.errors import ABSENT, FieldError
from makeway.api.kinds import CLUSTER_ROLES, Resource

GROUP = CLUSTER_ROLES.group
_SUBJECTS = {"User": GROUP, "Group": GROUP, "ServiceAccount": ""}
_NAME = re.compile(r"[^/%]{1,253}")  # whatever a path can hold, colons as well
Document = Mapping[str, Any]


def problems(resource: Resource, new: Document, old: Document | None) -> list[FieldError]:
    found = [*_name_problems(new["metadata"].get("name") or "")]
    if resource.kind.endswith("Role"):
        return [*found, *_role_problems(resource, new)]
    if old is not None and old.get("roleRef") != new.get("roleRef"):
        found.append(FieldError("roleRef", ABSENT, "cannot be changed", "create another binding"))
    return [*found, *_binding_problems(resource, new)]


def _name_problems(name: str) -> Iterator[FieldError]:
    if not _NAME.fullmatch(name) or name in (".", ".."):
        yield FieldError("metadata.name", name, "is not a name", "leave out / and %")


def _role_problems(resource: Resource, role: Document) -> Iterator[FieldError]:
    for index, rule in enumerate(role.get("rules") or ()):
        here = f"rules[{index}]"
        if not rule.get("verbs"):
            yield FieldError(f"{here}.verbs", ABSENT, "is missing", "list a verb")
        if rule.get("nonResourceURLs"):
            if resource.is_namespaced:
                problem = "is for a ClusterRole: paths lie in no namespace"
                yield FieldError(f"{here}.nonResourceURLs", ABSENT, problem)
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                problem = "a rule is about paths or about resources, not about both"
                yield FieldError(f"{here}.nonResourceURLs", ABSENT, problem)
            continue
        for name in ("apiGroups", "resources"):
            if not rule.get(name):
                yield FieldError(f"{here}.{name}", ABSENT, "is missing", "list one")
    if role.get("aggregationRule"):
        problem = "roles that are put together of others are not acted on"
        yield FieldError("aggregationRule", ABSENT, problem, "write the rules out")


def _binding_problems(resource: Resource, binding: Document) -> Iterator[FieldError]:
    role = binding.get("roleRef") or {}
    kinds = ("Role", "ClusterRole") if resource.is_namespaced else ("ClusterRole",)
    if role.get("apiGroup") != GROUP:
        yield FieldError("roleRef.apiGroup", role.get("apiGroup"), "is wrong", f"write {GROUP}")
    if role.get("kind") not in kinds:
        hint = f"write {' or '.join(kinds)}"
        yield FieldError("roleRef.kind", role.get("kind"), "is wrong", hint)
    if not role.get("name"):
        yield FieldError("roleRef.name", ABSENT, "is missing", "name a role")
    for index, subject in enumerate(binding.get("subjects") or ()):
        yield from _subject_problems(f"subjects[{index}]", subject)


def _subject_problems(here: str, subject: Document) -> Iterator[FieldError]:
    kind = subject.get("kind")
    if kind not in _SUBJECTS:
        yield FieldError(f"{here}.kind", kind, "is wrong", f"write {', '.join(_SUBJECTS)}")
    elif (subject.get("apiGroup") or "") != _SUBJECTS[kind]:
        hint = f"write {_SUBJECTS[kind]!r}"
        yield FieldError(f"{here}.apiGroup", subject.get("apiGroup"), "is wrong", hint)
    if not subject.get("name"):
        yield FieldError(f"{here}.name", ABSENT, "is missing", "name somebody")
