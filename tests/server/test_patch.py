"""Merge, JSON and strategic merge patches; server-side apply; protobuf bodies."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.server.errors import ApiError
from makeway.server.patch import json_patch, merge_patch, strategic_patch
from makeway.server.protobuf import decode_protobuf
from makeway.server.schemas import shape_of
from tests.harness.documents import cluster_queue, job
from tests.server.harness import APPLY, JOBS, MERGE, QUEUES, Server, play

# The examples of RFC 7386.
MERGES: list[tuple[Any, Any, Any]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("target", "patch", "expected"), MERGES)
def test_merge_patch(target: Any, patch: Any, expected: Any) -> None:
    assert merge_patch(target, patch) == expected


def _op(op: str, path: str, **more: Any) -> dict[str, Any]:
    return {"op": op, "path": path, **more}


JSON_PATCHES: list[tuple[Any, Any, Any]] = [
    ({"a": 1}, [_op("add", "/b", value=2)], {"a": 1, "b": 2}),
    ({"a": [1, 3]}, [_op("add", "/a/1", value=2)], {"a": [1, 2, 3]}),
    ({"a": [1]}, [_op("add", "/a/-", value=2)], {"a": [1, 2]}),
    ({"a": 1}, [_op("remove", "/a")], {}),
    ({"a": [1, 2]}, [_op("remove", "/a/0")], {"a": [2]}),
    ({"a": 1}, [_op("replace", "/a", value=None)], {"a": None}),
    ({"a": {"b": 1}}, [_op("move", "/c", **{"from": "/a/b"})], {"a": {}, "c": 1}),
    ({"a": 1}, [_op("copy", "/b", **{"from": "/a"})], {"a": 1, "b": 1}),
    # What was changed before, shown inside of itself: as it was, and not without an end.
    (
        {"a": 1},
        [_op("add", "/b", value=2), _op("copy", "/c", **{"from": ""})],
        {"a": 1, "b": 2, "c": {"a": 1, "b": 2}},
    ),
    ({"a/b": 1, "m~n": 2}, [_op("test", "/a~1b", value=1), _op("remove", "/m~0n")], {"a/b": 1}),
]


@pytest.mark.parametrize(("target", "patch", "expected"), JSON_PATCHES)
def test_json_patch(target: Any, patch: Any, expected: Any) -> None:
    assert json_patch(target, patch) == expected


@pytest.mark.parametrize(
    "patch",
    [
        {"op": "add"},
        ["add"],
        [_op("add", "/x/y", value=1)],
        [_op("add", "a", value=1)],
        [_op("add", "/a")],
        [_op("remove", "/nope")],
        [_op("remove", "")],
        [_op("replace", "/nope", value=1)],
        [_op("test", "/a", value=2)],
        [_op("test", "/a", value=True)],
        [_op("add", "/l/01", value=1)],
        [_op("add", "/l/9", value=1)],
        [_op("move", "/a/b", **{"from": "/a"})],
        [_op("explode", "/a")],
        [_op("add", "/a/b", value=1)],
        [_op("copy", "/l/-", **{"from": ""})] * 60,
    ],
)
def test_a_json_patch_that_does_not_fit_is_refused(patch: Any) -> None:
    with pytest.raises(ApiError) as caught:
        json_patch({"a": 1, "l": [1]}, patch)
    assert caught.value.code in (400, 413, 422)


SPEC = "io.k8s.api.core.v1.PodSpec"
TWO = {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]}
STRATEGIC: dict[str, tuple[Any, Any, Any]] = {
    "merges items by their key": (
        TWO,
        {"containers": [{"name": "b", "image": "3"}]},
        {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "3"}]},
    ),
    "adds items": (
        {"containers": [{"name": "a"}]},
        {"containers": [{"name": "c", "image": "4"}]},
        {"containers": [{"name": "c", "image": "4"}, {"name": "a"}]},
    ),
    "deletes items": (
        TWO,
        {"containers": [{"name": "a", "$patch": "delete"}]},
        {"containers": [{"name": "b", "image": "2"}]},
    ),
    "replaces lists": (
        TWO,
        {"containers": [{"$patch": "replace"}, {"name": "z"}]},
        {"containers": [{"name": "z"}]},
    ),
    "orders items": (
        TWO,
        {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]},
        {"containers": [{"name": "b", "image": "2"}, {"name": "a", "image": "1"}]},
    ),
    "replaces atomic lists": (
        {"tolerations": [{"key": "a"}]},
        {"tolerations": [{"key": "b"}]},
        {"tolerations": [{"key": "b"}]},
    ),
    "null deletes": ({"nodeName": "n", "hostname": "h"}, {"nodeName": None}, {"hostname": "h"}),
    "replaces maps": (
        {"nodeSelector": {"a": "1"}},
        {"nodeSelector": {"$patch": "replace", "b": "2"}},
        {"nodeSelector": {"b": "2"}},
    ),
    "retains keys": (
        {"volumes": [{"name": "v", "emptyDir": {}}]},
        {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"p": 1}}]},
        {"volumes": [{"name": "v", "hostPath": {"p": 1}}]},
    ),
}


@pytest.mark.parametrize(("target", "patch", "expected"), STRATEGIC.values(), ids=STRATEGIC)
def test_strategic_patch(target: Any, patch: Any, expected: Any) -> None:
    assert strategic_patch(target, patch, shape_of(SPEC)) == expected


def test_a_strategic_patch_deletes_from_lists_of_plain_values() -> None:
    shape = shape_of("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
    patch = {"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]}
    target = {"finalizers": ["a", "b"]}
    assert strategic_patch(target, patch, shape) == {"finalizers": ["c", "b"]}


# Server-side apply


def _applied(name: str = "vision", **spec: Any) -> dict[str, Any]:
    return cluster_queue(name) | {"spec": spec}


async def _apply(
    server: Server, manager: str, document: Any, *, force: bool = False, code: int = 0
) -> Any:
    query = f"fieldManager={manager}&force={str(force).lower()}"
    url = f"{QUEUES}/{document['metadata']['name']}?{query}"
    return await server.json("PATCH", url, document, content_type=APPLY, code=code)


def test_applying_creates_and_then_changes(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        made = await _apply(server, "me", _applied(cohortName="lab"), code=201)
        assert made["metadata"]["managedFields"][0]["fieldsV1"] == {"f:spec": {"f:cohortName": {}}}
        same = await _apply(server, "me", _applied(cohortName="lab"), code=200)
        assert same == made
        after = await _apply(server, "me", _applied(stopPolicy="Hold"))
        assert "cohortName" not in after["spec"]
        assert after["spec"]["stopPolicy"] == "Hold"

    play(tmp_path, story)


def test_what_another_has_set_is_a_conflict_unless_forced(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await _apply(server, "me", _applied(cohortName="lab", stopPolicy="Hold"))
        answer = await _apply(server, "you", _applied(cohortName="other"), code=409)
        assert answer["message"] == (
            'Apply failed with 1 conflict: conflict with "me": .spec.cohortName'
        )
        assert answer["details"]["causes"] == [
            {
                "reason": "FieldManagerConflict",
                "message": 'conflict with "me"',
                "field": ".spec.cohortName",
            }
        ]
        after = await _apply(server, "you", _applied(cohortName="other"), force=True)
        assert after["spec"]["cohortName"] == "other"
        # It is theirs now: leaving it out changes nothing.
        after = await _apply(server, "me", _applied(stopPolicy="Hold"))
        assert after["spec"]["cohortName"] == "other"

    play(tmp_path, story)


def test_two_may_want_the_same(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await _apply(server, "me", _applied(cohortName="lab"))
        await _apply(server, "you", _applied(cohortName="lab"))
        after = await _apply(server, "me", _applied())
        assert after["spec"]["cohortName"] == "lab"
        after = await _apply(server, "you", _applied())
        assert "cohortName" not in after["spec"]

    play(tmp_path, story)


def test_a_plain_write_takes_over_what_it_changes(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await _apply(server, "me", _applied(cohortName="lab"))
        url = f"{QUEUES}/vision?fieldManager=editor"
        patch = {"spec": {"cohortName": "edited"}}
        await server.json("PATCH", url, patch, content_type=MERGE)
        answer = await _apply(server, "me", _applied(cohortName="lab"), code=409)
        assert 'conflict with "editor" using kueue.x-k8s.io/v1beta2' in answer["message"]

    play(tmp_path, story)


def test_what_was_there_before_the_first_apply_has_an_owner_too(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        made = await server.json("POST", QUEUES, cluster_queue(cohortName="lab"))
        assert "managedFields" not in made["metadata"]
        answer = await _apply(server, "me", _applied(cohortName="x"), code=409)
        assert 'conflict with "before-first-apply"' in answer["message"]

    play(tmp_path, story)


def test_items_of_keyed_lists_have_owners_of_their_own(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        def wanted(*names: str) -> dict[str, Any]:
            containers = [{"name": name, "image": name} for name in names]
            made = job("shared", suspend=True)
            made["spec"]["template"]["spec"] = {"containers": containers, "restartPolicy": "Never"}
            return made

        url = f"{JOBS}/shared?fieldManager"
        await server.json("PATCH", f"{url}=me", wanted("a"), content_type=APPLY)
        conflict = wanted("a")
        conflict["spec"]["template"]["spec"]["containers"][0]["image"] = "z"
        answer = await server.json("PATCH", f"{url}=you", conflict, content_type=APPLY, code=409)
        assert '.spec.template.spec.containers[name="a"].image' in answer["message"]

    play(tmp_path, story)


def test_nonsense_in_managed_fields_is_passed_over(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await server.json("POST", QUEUES, cluster_queue(cohortName="lab"))
        fields: dict[str, Any] = {
            "k:[": {},
            "k:5": {},
            "x": {},
            "": {},
            "f:spec": {"f:cohortName": {}, "k:{": {}},
        }
        entry = {"manager": "odd", "operation": "Update", "fieldsV1": fields}
        patch = {"metadata": {"managedFields": [entry]}}
        await server.json("PATCH", f"{QUEUES}/vision", patch, content_type=MERGE)
        answer = await _apply(server, "me", _applied(cohortName="x"), code=409)
        assert 'conflict with "odd"' in answer["message"]

    play(tmp_path, story)


def test_apply_needs_a_manager_and_the_right_name(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        body = _applied()
        await server.json("PATCH", f"{QUEUES}/vision", body, content_type=APPLY, code=422)
        url = f"{QUEUES}/other?fieldManager=me"
        await server.json("PATCH", url, body, content_type=APPLY, code=400)

    play(tmp_path, story)


# Protobuf


@given(st.binary(max_size=300))
def test_no_body_can_break_the_protobuf_decoder(body: bytes) -> None:
    header = b"k8s\0\n\x0f\n\x08batch/v1\x12\x03Job"
    for prefix in (b"", b"k8s\0", header + b"\x12"):
        with contextlib.suppress(ApiError):
            decode_protobuf(prefix + body)


def test_a_small_protobuf_body() -> None:
    body = b"k8s\0\n\x0f\n\x02v1\x12\tNamespace\x12\x0a\n\x08\n\x06team-a"
    assert decode_protobuf(body) == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "team-a"},
    }


def test_a_strategic_merge_of_twenty_thousand_entries_looks_at_each_once() -> None:
    class Counted(str):
        compared = 0

        def __eq__(self, other: object) -> bool:
            Counted.compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    def entries(start: int) -> list[dict[str, str]]:
        return [
            {"name": Counted(f"V{n}"), "value": str(start)} for n in range(start, start + 20_000)
        ]

    shape = shape_of("io.k8s.api.core.v1.Container")
    merged = strategic_patch({"env": entries(0)}, {"env": entries(10_000)}, shape)

    assert len(merged["env"]) == 30_000
    assert Counted.compared < 500_000  # and not the product, 400 million
