"""Label and field selectors of list and watch."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from makeway.server.errors import ApiError, bad_request

Document = Mapping[str, Any]
Predicate = Callable[[Document], bool]

_KEY = r"[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?"
_SET = re.compile(rf"\s*({_KEY})\s+(in|notin)\s*\(([^()]*)\)\s*", re.ASCII)
_EQUAL = re.compile(rf"\s*({_KEY})\s*(==|!=|=)\s*([-A-Za-z0-9_.]*)\s*", re.ASCII)
_ORDER = re.compile(rf"\s*({_KEY})\s*(<|>)\s*(-?[0-9]+)\s*", re.ASCII)
_EXISTS = re.compile(rf"\s*(!?)\s*({_KEY})\s*", re.ASCII)

# The fields that Kubernetes lets one select by, besides the name and the namespace.
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "pods": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    "events": (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    "namespaces": ("status.phase",),
    "nodes": ("spec.unschedulable",),
    "jobs.batch": ("status.successful",),
}


def label_selector(text: str) -> Predicate | None:
    """Return what tells whether an object's labels match; None if all do."""
    tests = [_label_test(part) for part in _split(text)]
    if not tests:
        return None

    def matches(document: Document) -> bool:
        labels = document["metadata"].get("labels") or {}
        return all(test(labels) for test in tests)

    return matches


def _split(text: str) -> list[str]:
    """Part at the commas that stand outside of parentheses."""
    parts, depth, start = [], 0, 0
    for index, sign in enumerate(text):
        if sign == "(":
            depth += 1
        elif sign == ")":
            depth -= 1
        elif sign == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    parts.append(text[start:])
    return parts if text.strip() else []


def _label_test(part: str) -> Callable[[Mapping[str, str]], bool]:
    if found := _SET.fullmatch(part):
        key, operator = found[1], found[2]
        values = frozenset(value.strip() for value in found[3].split(","))
        if operator == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if found := _EQUAL.fullmatch(part):
        key, operator, value = found[1], found[2], found[3]
        if operator == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if found := _ORDER.fullmatch(part):
        return _order_test(found[1], found[2], int(found[3][:20]))
    if found := _EXISTS.fullmatch(part):
        key = found[2]
        if found[1]:
            return lambda labels: key not in labels
        return lambda labels: key in labels
    raise bad_request(f"unable to parse requirement: {part.strip()[:200]!r} is not a selector")


def _order_test(key: str, operator: str, limit: int) -> Callable[[Mapping[str, str]], bool]:
    def test(labels: Mapping[str, str]) -> bool:
        value = labels.get(key, "")
        if not value.lstrip("-").isdecimal() or len(value) > 20:
            return False
        return int(value) > limit if operator == ">" else int(value) < limit

    return test


def field_selector(text: str, store_kind: str) -> tuple[Predicate | None, str | None]:
    """Return what tells whether an object's fields match, and the name if it must be just one."""
    tests: list[tuple[tuple[str, ...], bool, str]] = []
    only_name: str | None = None
    for part in text.split(","):
        if not part.strip():
            continue
        found = re.fullmatch(r"\s*([\w.]+)\s*(==|!=|=)(.*)", part, re.ASCII)
        if found is None:
            raise _bad_field(f"invalid selector: '{part[:200]}'; can't understand '{part[:200]}'")
        field, is_equal, value = found[1], found[2] != "!=", found[3].strip()
        known = ("metadata.name", "metadata.namespace", *_FIELDS.get(store_kind, ()))
        if field not in known:
            raise _bad_field(f"field label not supported: {field}")
        if field == "metadata.name" and is_equal:
            only_name = value
        tests.append((tuple(field.split(".")), is_equal, value))
    if not tests:
        return None, None

    def matches(document: Document) -> bool:
        return all((_at(document, path) == value) is equal for path, equal, value in tests)

    return matches, only_name


def _bad_field(message: str) -> ApiError:
    return bad_request(message)


def _at(document: Document, path: tuple[str, ...]) -> str:
    """The field as text; what is not there counts as empty."""
    value: Any = document
    if path == ("status", "successful"):
        path = ("status", "succeeded")
    if path == ("source",):
        path = ("source", "component")
    for step in path:
        if not isinstance(value, Mapping):
            return ""
        value = value.get(step)
    if value is None and path == ("status", "succeeded"):
        return "0"
    if value is None:
        return "false" if path == ("spec", "unschedulable") else ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
