"""Label and field selectors of list and watch, as they are written in a query."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from makeway.api.kinds import Resource
from makeway.selectors import Requirement, all_hold
from makeway.server.errors import bad_request
from makeway.server.messages import Request, decode
from makeway.server.tables import at

Document = Mapping[str, Any]
Predicate = Callable[[Document], bool]

REQUIREMENTS_MAX, VALUES_MAX = 1_000, 10_000
_SPACES = " \t\n\r\f\v"
_KEY = r"[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?"
# Without spaces around them: two places that may take the same spaces cost the square of them.
_SET = re.compile(rf"({_KEY})\s+(in|notin)\s*\(([^()]*)\)", re.ASCII)
_EQUAL = re.compile(rf"({_KEY})\s*(==|!=|=)\s*([-A-Za-z0-9_.]*)", re.ASCII)
_ORDER = re.compile(rf"({_KEY})\s*(<|>)\s*(-?[0-9]+)", re.ASCII)
_EXISTS = re.compile(rf"(!?)\s*({_KEY})", re.ASCII)

# Of the object that an event is about.
_ABOUT = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
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
        *(f"involvedObject.{part}" for part in _ABOUT),
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    "events.events.k8s.io": (
        *(f"regarding.{part}" for part in _ABOUT),
        "reason",
        "reportingController",
        "type",
    ),
    "namespaces": ("status.phase",),
    "nodes": ("spec.unschedulable",),
    "jobs.batch": ("status.successful",),
}
_PLACES = {
    "status.successful": "status.succeeded",
    "source": "source.component",
    "reportingController": "reportingComponent",
    **{f"regarding.{part}": f"involvedObject.{part}" for part in _ABOUT},
}
# What stands for a field that is not there, where it is not the empty text.
_ABSENT = {"status.successful": "0", "spec.unschedulable": "false"}


def label_selector(text: str) -> Predicate | None:
    """Return what tells whether an object's labels match; None if all do."""
    requirements = [_requirement(part) for part in _few(_split(text))]
    if not requirements:
        return None

    def matches(document: Document) -> bool:
        return all_hold(requirements, document["metadata"].get("labels") or {})

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
    return [part.strip(_SPACES) for part in parts] if text.strip(_SPACES) else []


def _few(parts: list[str]) -> list[str]:
    """Every object of a list is held against each of them."""
    if len(parts) > REQUIREMENTS_MAX:
        raise bad_request(f"a selector may have {REQUIREMENTS_MAX} requirements, not {len(parts)}")
    return parts


def _requirement(part: str) -> Requirement:
    if found := _SET.fullmatch(part):
        values = tuple(value.strip() for value in found[3].split(","))
        if len(values) > VALUES_MAX:
            raise bad_request(f"a requirement may name {VALUES_MAX} values, not {len(values)}")
        return Requirement(found[1], "In" if found[2] == "in" else "NotIn", values)
    if found := _EQUAL.fullmatch(part):
        return Requirement(found[1], "NotIn" if found[2] == "!=" else "In", (found[3],))
    if found := _ORDER.fullmatch(part):
        return Requirement(found[1], "Gt" if found[2] == ">" else "Lt", (found[3],))
    if found := _EXISTS.fullmatch(part):
        return Requirement(found[2], "DoesNotExist" if found[1] else "Exists")
    raise bad_request(f"unable to parse requirement: {part[:200]!r} is not a selector")


def field_selector(text: str, full_name: str) -> tuple[Predicate | None, str | None]:
    """Return what tells whether an object's fields match, and the name if it must be just one."""
    tests: list[tuple[str, bool, str]] = []
    only_name: str | None = None
    for part in _few(text.split(",")):
        if not part.strip():
            continue
        found = re.fullmatch(r"\s*([\w.]+)\s*(==|!=|=)(.*)", part, re.ASCII)
        if found is None:
            raise bad_request(f"invalid selector: '{part[:200]}'; can't understand '{part[:200]}'")
        field, is_equal, value = found[1], found[2] != "!=", found[3].strip()
        known = ("metadata.name", "metadata.namespace", *_FIELDS.get(full_name, ()))
        if field not in known:
            raise bad_request(f"field label not supported: {field}")
        if field == "metadata.name" and is_equal:
            only_name = value
        tests.append((field, is_equal, value))
    if not tests:
        return None, None

    def matches(document: Document) -> bool:
        return all((_text_at(document, field) == value) is equal for field, equal, value in tests)

    return matches, only_name


def _text_at(document: Document, field: str) -> str:
    """The field as text."""
    value = at(document, *_PLACES.get(field, field).split("."))
    if value is None:
        return _ABSENT.get(field, "")
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


class Matcher:
    """Whether an object is selected."""

    def __init__(self, tests: list[Predicate], name: str | None) -> None:
        self._tests, self.name = tests, name

    @property
    def is_trivial(self) -> bool:
        return not self._tests

    def __call__(self, body: bytes) -> bool:
        if not self._tests:
            return True
        document = decode(body)
        return all(test(document) for test in self._tests)


def matcher_of(request: Request, resource: Resource) -> Matcher:
    labels = label_selector(request.query.get("labelSelector", ""))
    fields, name = field_selector(request.query.get("fieldSelector", ""), resource.full_name)
    return Matcher([test for test in (labels, fields) if test is not None], name)
