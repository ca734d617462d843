"""The parsers of what comes from outside, each as a function of bytes that raises only for a bug.

What a parser may raise is the error it is there to raise; anything else is a bug. The examples are
what a search begins with.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import orjson

from makeway.api.kinds import JOBS, PODS
from makeway.api.manifests import read_manifests
from makeway.api.quantity import QuantityError, amount, canonical, parse_nanos
from makeway.api.times import DurationError, TimeError, parse_duration, parse_time
from makeway.client.kubeconfig import KubeconfigError, read_kubeconfig
from makeway.server.errors import ApiError
from makeway.server.patch import json_patch, merge_patch, strategic_patch
from makeway.server.protobuf import decode_protobuf
from makeway.server.schemas import shape_of
from makeway.server.selectors import field_selector, label_selector
from makeway.sim.trace_jobs import SimulationError
from makeway.sim.traces import parse_trace

JOB = {
    "metadata": {"name": "j", "labels": {"a": "b"}, "finalizers": ["x/y"]},
    "spec": {"template": {"spec": {"containers": [{"name": "c", "env": [{"name": "A"}]}]}}},
}
_CONFIG = Path(tempfile.gettempdir()) / "makeway-fuzz-kubeconfig"


class Parser(NamedTuple):
    read: Callable[[bytes], object]
    refuses_with: tuple[type[Exception], ...]
    examples: tuple[bytes, ...]


def quantity(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    nanos = parse_nanos(text)
    assert parse_nanos(canonical(text)) == nanos, (text, canonical(text))
    amount("cpu", text)
    amount("memory", text)


def times(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    try:
        parse_time(text)
    except TimeError:
        parse_duration(text)


def selector(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    predicate = label_selector(text)
    if predicate is not None:
        predicate({"metadata": {"labels": {"a": "b", "tier": "web"}}})
    field_selector(text, PODS.full_name)


def patch(data: bytes) -> None:
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError:
        return
    before = orjson.dumps(JOB)
    try:
        if isinstance(found, list):
            orjson.dumps(json_patch(JOB, found))
        else:
            orjson.dumps(merge_patch(JOB, found))
            orjson.dumps(strategic_patch(JOB, found, shape_of(JOBS.schema)))
    finally:
        assert orjson.dumps(JOB) == before, "the document itself was changed"


def kubeconfig(data: bytes) -> None:
    _CONFIG.write_bytes(data)
    try:
        read_kubeconfig(_CONFIG)
    finally:
        _CONFIG.unlink(missing_ok=True)


PARSERS: dict[str, Parser] = {
    "quantities": Parser(quantity, (QuantityError,), (b"1500m", b"4Gi", b"-1e3", b"0.5", b"1e-9")),
    "times": Parser(
        times, (DurationError,), (b"2026-01-05T10:03:00Z", b"1h30m", b"1970-01-01T00:00:00.5+02:00")
    ),
    "selectors": Parser(
        selector,
        (ApiError,),
        (b"a=b,tier in (web, db),!c,x notin (y)", b"metadata.name=x,status.phase!=Running", b"a>3"),
    ),
    "patches": Parser(
        patch,
        (ApiError,),
        (
            b'{"spec":{"template":{"spec":{"containers":[{"name":"c","$patch":"delete"}]}}}}',
            b'{"metadata":{"$deleteFromPrimitiveList/finalizers":["x/y"],"labels":null}}',
            b'{"spec":{"$setElementOrder/containers":[{"name":"c"}],"$retainKeys":["template"]}}',
            b'[{"op":"add","path":"/metadata/labels/c~1d","value":1},{"op":"test","path":""}]',
            b'[{"op":"move","from":"/spec","path":"/metadata/x"},{"op":"copy","from":"","path":"/-"}]',
        ),
    ),
    "protobuf": Parser(
        lambda data: decode_protobuf(b"k8s\0" + data),
        (ApiError,),
        (
            b"\n\x0c\n\x02v1\x12\x06Secret\x12\x00",
            b"\n\x0f\n\x08batch/v1\x12\x03Job\x12\x0c\n\x04\n\x02jj\x12\x04\x08\x01\x10\x02",
            b"\n\x09\n\x02v1\x12\x03Pod\x12\x08\n\x06Z\x04\n\x00\x12\x00",
        ),
    ),
    "kubeconfigs": Parser(
        kubeconfig,
        (KubeconfigError,),
        (
            b"clusters: [{name: a, cluster: {server: 'https://h:1'}}]\n"
            b"contexts: [{name: a, context: {cluster: a, user: u}}]\n"
            b"users: [{name: u, user: {token: t}}]\ncurrent-context: a\n",
            b'{"current-context":"a","users":[{"name":"u","user":{"exec":{"command":"c"}}}]}',
        ),
    ),
    "manifests": Parser(
        lambda data: read_manifests(data.decode("utf-8", "replace")),
        (),
        (b"a: &x [1, *x]\n---\n- {b: !!int 1e3, ? c : 0x1f}\n", b'{"kind":"List","items":[{}]}'),
    ),
    "traces": Parser(
        lambda data: parse_trace(data.decode("utf-8", "replace"), "fuzz"),
        (SimulationError,),
        (
            b"; UnixStartTime: 100\n1 0 10 100 4 -1 -1 4 100 -1 1 1 1 -1 1 -1 -1 -1\n",
            b"submit,duration,cpu,queue\n0,10,1,a\n1h30m,2m,500m,b\n",
            b"JobID|Submit|Start|End|AllocTRES|State\n1|2026-01-05T10:00:00|Unknown|None|cpu=4|FAILED\n",
        ),
    ),
}


def read(name: str, data: bytes) -> bool:
    """Whether a parser takes it; raises only for a bug."""
    parser = PARSERS[name]
    try:
        parser.read(data)
    except parser.refuses_with:
        return False
    return True
