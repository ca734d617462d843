"""Questions about oneself: may I, what may I, who am I."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from makeway.api.kinds import Resource
from makeway.server.access import EVERYTHING, Access, Ask, Rule, groups_shown
from makeway.server.errors import bad_request
from makeway.server.people import Person

# Where one token may do everything, this is who has it.
USER = "makeway-admin"
GROUPS = ("system:masters", "system:authenticated")


def answer_review(
    asked: Resource, review: Any, person: Person | None, access: Access | None
) -> dict[str, Any]:
    if not isinstance(review, dict):
        raise bad_request(f"{asked.kind} is not an object")
    answered = {"metadata": {"creationTimestamp": None}, **review}
    answered |= {"kind": asked.kind, "apiVersion": asked.api_version}
    spec = review.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    match asked.kind:
        case "SelfSubjectAccessReview":
            answered["status"] = _may(spec, person, access)
        case "SelfSubjectRulesReview":
            answered["status"] = _listed(_rules(spec, person, access))
        case "SelfSubjectReview":
            answered["status"] = {"userInfo": _described(person)}
    return answered


def _may(spec: Mapping[str, Any], person: Person | None, access: Access | None) -> dict[str, Any]:
    if person is None or access is None:
        return {"allowed": True, "reason": "the token of this server is admin's"}
    if person.is_admin:
        return {"allowed": True, "reason": f"{person.name} is an admin of this machine"}
    return {"allowed": access.allows(person, _ask_in(spec))}


def _rules(spec: Mapping[str, Any], person: Person | None, access: Access | None) -> Iterable[Rule]:
    if person is None or access is None:
        return EVERYTHING
    return access.rules(person, str(spec.get("namespace") or ""))


def _ask_in(spec: Mapping[str, Any]) -> Ask:
    about, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if isinstance(about, dict):
        words = ("verb", "group", "resource", "subresource", "namespace", "name")
        verb, group, resource, part, namespace, name = (str(about.get(w) or "") for w in words)
        if part:
            resource = f"{resource}/{part}"
        if resource == "namespaces" and name:
            namespace = name
        return Ask(verb=verb, group=group, resource=resource, namespace=namespace, name=name)
    if isinstance(path, dict) and path.get("path"):
        return Ask(verb=str(path.get("verb") or ""), path=str(path["path"]))
    raise bad_request("spec: write resourceAttributes, or nonResourceAttributes with a path")


def _listed(rules: Iterable[Rule]) -> dict[str, Any]:
    documents = [rule.as_document() for rule in rules]
    return {
        "resourceRules": [d for d in documents if "resources" in d],
        "nonResourceRules": [d for d in documents if "nonResourceURLs" in d],
        "incomplete": False,
    }


def _described(person: Person | None) -> dict[str, Any]:
    if person is None:
        return {"username": USER, "groups": list(GROUPS)}
    return {"username": person.name, "uid": str(person.uid), "groups": groups_shown(person)}
