"""Request bodies in Kubernetes' protobuf, which kubectl sends where it builds the object itself.

A generic decoder of the wire format; which number is which field comes from package data (see
tools/make_schemas.py). Answers are always JSON, which every client takes.
"""

import base64
import json
from functools import cache
from typing import Any

from makeway.api.kinds import ALIASES, BY_KIND
from makeway.api.times import format_time
from makeway.server.errors import ApiError, bad_request
from makeway.server.schemas import components, data

PROTOBUF = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\0"
_DEPTH_MAX = 50
_MACHINERY = "k8s.io.apimachinery.pkg."
_REVIEWS = {
    "SelfSubjectAccessReview": "k8s.io.api.authorization.v1.SelfSubjectAccessReview",
    "SelfSubjectRulesReview": "k8s.io.api.authorization.v1.SelfSubjectRulesReview",
    "SelfSubjectReview": "k8s.io.api.authentication.v1.SelfSubjectReview",
    "Eviction": "k8s.io.api.policy.v1.Eviction",
    "DeleteOptions": "k8s.io.apimachinery.pkg.apis.meta.v1.DeleteOptions",
}
# Go writes numbers that are zero because nobody set them. Of these fields it does not: they are
# pointers, so a zero is meant.
_ZERO_IS_MEANT = frozenset(
    (
        "activeDeadlineSeconds",
        "backoffLimit",
        "completions",
        "gracePeriodSeconds",
        "parallelism",
        "suspend",
        "terminationGracePeriodSeconds",
        "tolerationSeconds",
        "ttlSecondsAfterFinished",
    )
)


@cache
def _messages() -> dict[str, dict[int, tuple[str, str, bool, bool]]]:
    return {
        message: {
            int(number): (name, kind, bool(is_repeated), bool(is_inline))
            for number, (name, kind, is_repeated, is_inline) in fields.items()
        }
        for message, fields in data("protobuf.json.gz").items()
    }


def decode_protobuf(body: bytes) -> dict[str, Any]:
    """Return the object in a body as JSON would have it."""
    if not body.startswith(_MAGIC):
        raise _broken("provided data does not appear to be a protobuf message")
    envelope = _fields(memoryview(body)[len(_MAGIC) :])
    type_meta = _fields(_bytes(envelope.get(1, [b""])[-1]))
    api_version = _text(type_meta.get(1, [b""])[-1])
    kind = _text(type_meta.get(2, [b""])[-1])
    message = _message_of(api_version, kind)
    if message is None:
        raise bad_request(f'no kind "{kind}" is registered for version "{api_version}"')
    document = _object(_bytes(envelope.get(2, [b""])[-1]), message, 0)
    return {"apiVersion": api_version, "kind": kind, **document}


def _message_of(api_version: str, kind: str) -> str | None:
    group = api_version.rpartition("/")[0]
    resource = next((r for r in ALIASES if (r.group, r.kind) == (group, kind)), None)
    resource = resource or BY_KIND.get((group, kind))
    name = _REVIEWS.get(kind)
    if resource is not None:
        name = "k8s.io." + resource.schema.removeprefix("io.k8s.")
    return name if name in _messages() else None


def _broken(why: str) -> ApiError:
    return bad_request(f"the protobuf body can't be read: {why}")


def _bytes(value: Any) -> memoryview:
    if isinstance(value, int):
        raise _broken("a number stands where a message should be")
    return memoryview(value)


def _text(value: Any) -> str:
    try:
        return bytes(_bytes(value)).decode()
    except UnicodeDecodeError:
        raise _broken("a text is not UTF-8") from None


def _varint(body: memoryview, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        if position >= len(body) or shift > 63:
            raise _broken("it ends too early")
        byte = body[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
        shift += 7


def _fields(body: memoryview) -> dict[int, list[Any]]:
    """The wire format: number of a field to what stands there, in order."""
    found: dict[int, list[Any]] = {}
    position = 0
    while position < len(body):
        tag, position = _varint(body, position)
        number, wire = tag >> 3, tag & 7
        value: Any
        if wire == 0:
            value, position = _varint(body, position)
        else:
            if wire == 2:
                length, position = _varint(body, position)
            elif wire in (1, 5):
                length = 8 if wire == 1 else 4
            else:
                raise _broken(f"wire type {wire} is not used by Kubernetes")
            if position + length > len(body):
                raise _broken("it ends too early")
            value = body[position : position + length]
            position += length
        found.setdefault(number, []).append(value)
    return found


def _object(body: memoryview, message: str, depth: int) -> dict[str, Any]:
    if depth > _DEPTH_MAX:
        raise _broken("it is nested too deeply")
    table = _messages()[message]
    schema = components().get("io.k8s." + message.removeprefix("k8s.io."), {})
    required = schema.get("required", ())
    result: dict[str, Any] = {}
    for number, values in _fields(body).items():
        known = table.get(number)
        if known is None:
            continue
        name, kind, is_repeated, is_inline = known
        if kind.startswith("map<"):
            result[name] = _map(values, kind[4:-1], depth)
        elif is_repeated:
            result[name] = [_value(value, kind, depth) for value in values]
        elif is_inline:
            result |= _object(_bytes(values[-1]), kind, depth + 1)
        else:
            value = _value(values[-1], kind, depth)
            is_zero = value in (None, "", 0, False) and name not in required
            if is_zero and (value is None or name not in _ZERO_IS_MEANT):
                continue
            # An empty message may be one that Go's JSON would leave out, or one that is meant
            # (emptyDir: {}); only those at the top are never meant.
            if value == {} and name in ("status", "metadata", "resources"):
                continue
            result[name] = value
    return result


def _map(entries: list[Any], kind: str, depth: int) -> dict[str, Any]:
    result = {}
    for entry in entries:
        fields = _fields(_bytes(entry))
        key = _text(fields.get(1, [b""])[-1])
        result[key] = _value(fields.get(2, [b""])[-1], kind, depth)
    return result


def _value(value: Any, kind: str, depth: int) -> Any:
    match kind:
        case "string":
            return _text(value)
        case "bool":
            return bool(_number(value))
        case "int32" | "int64":
            return _number(value)
        case "bytes":
            return base64.b64encode(bytes(_bytes(value))).decode()
    special = kind.removeprefix(_MACHINERY)
    if special == "api.resource.Quantity":
        return _text(_fields(_bytes(value)).get(1, [b""])[-1])
    if special == "util.intstr.IntOrString":
        parts = _fields(_bytes(value))
        if _number(parts.get(1, [0])[-1]) == 1:
            return _text(parts.get(3, [b""])[-1])
        return _number(parts.get(2, [0])[-1])
    if special in ("apis.meta.v1.Time", "apis.meta.v1.MicroTime"):
        parts = _fields(_bytes(value))
        seconds, nanos = _number(parts.get(1, [0])[-1]), _number(parts.get(2, [0])[-1])
        if not -62135596800 < seconds < 253402300800 or not seconds:
            return None
        return format_time(seconds + (nanos // 1000) / 1e6)
    if special == "apis.meta.v1.FieldsV1":
        raw = _text(_fields(_bytes(value)).get(1, [b"{}"])[-1])
        try:
            return json.loads(raw)
        except ValueError:
            raise _broken("fieldsV1 is not JSON") from None
    if kind not in _messages():
        raise _broken(f"{kind} is not known")
    return _object(_bytes(value), kind, depth + 1)


def _number(value: Any) -> int:
    if not isinstance(value, int):
        raise _broken("a message stands where a number should be")
    return value - (1 << 64) if value >= 1 << 63 else value
