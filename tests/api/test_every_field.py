"""Nothing that users may write is accepted and ignored.

Every field of the configuration and of every object that is served is walked over. Either it is
marked as one that Makeway does not act on, and then it is reported wherever it is written; or some
code other than the one that reads and checks it uses it, and a test names it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast, get_args, get_origin

import pytest

from makeway.api.codec import FieldPlan, decode, plan_of
from makeway.api.gates import GATES, GATES_OF_KUEUE
from makeway.api.kinds import KINDS, RESOURCES, UNSUPPORTED_KINDS, Kind
from makeway.api.labels import UNSUPPORTED
from makeway.api.meta import ObjectMeta

ROOT = Path(__file__).parents[2]
SOURCE, TESTS = ROOT / "src" / "makeway", ROOT / "tests"
# Here fields are read, converted and checked, which is not yet acting on them.
READING = ("validation", "versions.py", "codec.py", "schema.py", "defaults.py", "kinds.py")


# Fields that ask for nothing that somebody could do, each with what it is for.
SAY_NOTHING = {
    "basic": "the policy of pods that are no gang, by its presence",
    "single": "the mode of pods that go one by one, by its presence",
    "strategy": "has one value",
    "controller_ref": "tells readers to whom a gang belongs",
    "immutable": "what validation holds fixed",
    "time_added": "when a taint came, which nodes are told with it",
    "toleration_seconds": "carried to pods, for whoever drives pods from nodes",
    "pending_workloads_status": "of an old version; nobody fills it any more",
    "retry_count": "what the controller of a check keeps there",
    "weighted_share": "what a controller tells its readers there",
    "resource_requests": "what a controller tells its readers there",
}


class Place(NamedTuple):
    kind: type[Kind]
    path: tuple[str, ...]  # as users write it; "[]" for any item, "*" for any key
    plan: FieldPlan

    def __str__(self) -> str:
        return f"{self.kind.KIND}: {'.'.join(self.path)}"


def places() -> Iterator[Place]:
    for kind in KINDS.values():
        yield from _below(kind, cast(type, kind), (), set())


def _below(kind: type[Kind], cls: type, path: tuple[str, ...], seen: set[type]) -> Iterator[Place]:
    for name, plan in plan_of(cls, True).fields.items():
        if plan.hint is ObjectMeta:
            continue  # what every object has
        here = (*path, name)
        yield Place(kind, here, plan)
        inner, step = _inner(plan.hint)
        if is_dataclass(inner) and inner not in seen:
            yield from _below(kind, cast(type, inner), (*here, *step), {*seen, cast(type, inner)})


def _inner(hint: Any) -> tuple[Any, tuple[str, ...]]:
    if get_origin(hint) is tuple:
        return get_args(hint)[0], ("[]",)
    return hint, ()


ALL = list(places())
REPORTED = [place for place in ALL if place.plan.unsupported]
ACTED_ON = {
    place.plan.attribute: place
    for place in ALL
    if not place.plan.unsupported and place.plan.attribute not in SAY_NOTHING
}


@cache
def used_in_source() -> frozenset[str]:
    """Attributes that are looked at, and words that documents are made of."""
    found: set[str] = set()
    for file in SOURCE.rglob("*.py"):
        if (file.parent.name == "api" and file.name in READING) or "validation" in file.parts:
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                found.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
            elif isinstance(node, ast.keyword) and node.arg is not None:
                found.add(node.arg)
    return frozenset(found)


@cache
def named_in_tests() -> str:
    own = Path(__file__)
    files = (file for file in TESTS.rglob("*") if file.suffix in (".py", ".yaml", ".toml"))
    return "\n".join(file.read_text() for file in files if file != own)


@pytest.mark.parametrize("attribute", sorted(ACTED_ON))
def test_a_field_is_acted_on_and_named_by_a_test(attribute: str) -> None:
    place = ACTED_ON[attribute]
    names = {attribute, place.plan.name}

    assert names & used_in_source(), f"{place} is read, and then nobody looks at it"
    assert any(name in named_in_tests() for name in names), f"no test knows {place}"


@pytest.mark.parametrize("place", REPORTED, ids=str)
def test_a_field_that_is_not_acted_on_is_reported_where_it_is_written(place: Place) -> None:
    document: dict[str, Any] = {"apiVersion": place.kind.API_VERSION, "kind": place.kind.KIND}
    _write(document, cast(type, place.kind), place.path)

    read = decode(document)

    assert read.errors == ()
    written = ".".join(place.path).replace(".[]", "[0]")
    assert [lack.path for lack in read.unsupported] == [written]


def _write(document: dict[str, Any], cls: type, path: tuple[str, ...]) -> None:
    """Fill in what must be there, and the field itself with anything."""
    plan = plan_of(cls, True)
    for name in plan.required:
        document.setdefault(name, _anything(plan.fields[name].hint))
    if not path:
        return
    name, *rest = path
    inner, step = _inner(plan.fields[name].hint)
    if not rest:
        document[name] = {"any": "thing"}
        return
    below: dict[str, Any] = {}
    document[name] = [below] if step else below
    _write(below, inner, tuple(rest[len(step) :]))


def _anything(hint: Any) -> Any:
    inner, step = _inner(hint)
    if is_dataclass(inner):
        made: dict[str, Any] = {}
        _write(made, cast(type, inner), ())
        return [made] if step else made
    if step:
        return []
    return "x" if hint is str else get_args(hint)[0] if get_origin(hint) is not None else 0


@pytest.mark.parametrize("gate", sorted(GATES_OF_KUEUE))
def test_a_gate_of_kueues_that_switches_nothing_is_reported(gate: str) -> None:
    kind = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}

    read = decode({**kind, "featureGates": {gate: True}})

    assert [lack.path for lack in read.unsupported] == [f"featureGates.{gate}"]


@pytest.mark.parametrize("gate", sorted(GATES))
def test_a_gate_of_ours_switches_something(gate: str) -> None:
    assert gate in used_in_source()
    assert gate in named_in_tests()


@pytest.mark.parametrize("key", sorted(UNSUPPORTED))
def test_a_label_that_asks_for_what_is_lacking_is_reported(key: str) -> None:
    document: dict[str, Any] = {"apiVersion": "batch/v1", "kind": "Job"}
    document["metadata"] = {"name": "j", "labels": {key: "x"}}

    read = decode({**document, "spec": {"template": {}}})

    assert [lack.path for lack in read.unsupported] == [f"metadata.labels[{key}]"]


def test_a_kind_that_is_served_is_read_or_reported() -> None:
    known_by_name = {"EndpointSlice", "Event", "Lease"}  # kept for others, who act on them
    # The server itself acts on these.
    known_by_name |= {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
    for resource in RESOURCES:
        of_kind = resource.group, resource.kind
        is_reported = of_kind in UNSUPPORTED_KINDS
        assert (of_kind in KINDS) is not is_reported or resource.kind in known_by_name
