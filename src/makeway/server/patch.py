"""Merge (RFC 7386), JSON (RFC 6902) and strategic merge patches: document and patch to document.

The input is never changed; parts that stay as they were are shared with the result.
"""

from collections.abc import Mapping
from typing import Any

from makeway.api.kinds import Resource
from makeway.server.errors import ApiError, bad_request
from makeway.server.schemas import ANY, Shape

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
OPERATIONS_MAX = 10_000
COPIED_MAX = 3 * 1024 * 1024  # elements that "copy" may multiply a document to

Json = Any


def patch_types(resource: Resource) -> list[str]:
    """The kinds of patches that objects of a kind take."""
    strategic = [STRATEGIC_PATCH] if resource.is_built_in else []
    return [JSON_PATCH, MERGE_PATCH, *strategic, APPLY_PATCH]


def merge_patch(target: Json, patch: Json) -> Json:
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


# JSON patch


class _PatchError(Exception):
    pass


def json_patch(target: Json, operations: Json) -> Json:
    if not isinstance(operations, list):
        raise bad_request("a JSON patch is a list of operations")
    if len(operations) > OPERATIONS_MAX:
        message = (
            f"The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, "
            f"got {len(operations)}"
        )
        raise ApiError(413, "RequestEntityTooLarge", message)
    copied = 0
    for index, operation in enumerate(operations):
        try:
            if isinstance(operation, dict) and operation.get("op") == "copy":
                copied += _size(_get(target, _pointer(operation, "from")))
                if copied > COPIED_MAX:
                    raise ApiError(413, "RequestEntityTooLarge", "the patch copies too much")
            target = _operate(target, operation)
        except _PatchError as error:
            message = f"the server rejected our request due to an error in our request: {error}"
            raise ApiError(422, "Invalid", f"{message} (operation {index})") from None
    return target


def _size(value: Json) -> int:
    if isinstance(value, dict):
        return 1 + sum(_size(item) for item in value.values())
    if isinstance(value, list):
        return 1 + sum(_size(item) for item in value)
    return 1


def _pointer(operation: dict[str, Any], field: str = "path") -> list[str]:
    text = operation.get(field)
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise _PatchError(f"{field} {text!r} is not a JSON pointer")
    return [step.replace("~1", "/").replace("~0", "~") for step in text.split("/")[1:]]


def _operate(target: Json, operation: Json) -> Json:
    if not isinstance(operation, dict):
        raise _PatchError("is not an object")
    path = _pointer(operation)
    match operation.get("op"):
        case "add":
            return _put(target, path, _value(operation), is_new=True)
        case "replace":
            _get(target, path)
            return _put(target, path, _value(operation), is_new=False)
        case "remove":
            return _remove(target, path)
        case "move":
            origin = _pointer(operation, "from")
            if path[: len(origin)] == origin and path != origin:
                raise _PatchError("moves a value into itself")
            return _put(_remove(target, origin), path, _get(target, origin), is_new=True)
        case "copy":
            return _put(target, path, _get(target, _pointer(operation, "from")), is_new=True)
        case "test":
            if not _same(_get(target, path), _value(operation)):
                raise _PatchError(f"testing value {operation['path']} failed")
            return target
        case other:
            raise _PatchError(f"unexpected kind: {other}")


def _same(one: Json, other: Json) -> bool:
    """Equal as JSON: true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(_same(a, b) for a, b in pairs)
    return bool(one == other)


def _value(operation: dict[str, Any]) -> Json:
    if "value" not in operation:
        raise _PatchError("has no value")
    return operation["value"]


def _index(items: list[Any], step: str, *, may_end: bool = False) -> int:
    if step == "-" and may_end:
        return len(items)
    if not step.isdecimal() or not step.isascii() or (step != "0" and step.startswith("0")):
        raise _PatchError(f"{step!r} is not an index")
    if len(step) > 9 or int(step) > len(items) - (0 if may_end else 1):
        raise _PatchError(f"index {step} is out of bounds")
    return int(step)


def _get(target: Json, path: list[str]) -> Json:
    for step in path:
        if isinstance(target, dict):
            if step not in target:
                raise _PatchError(f"the path /{'/'.join(path)} does not exist")
            target = target[step]
        elif isinstance(target, list):
            target = target[_index(target, step)]
        else:
            raise _PatchError(f"the path /{'/'.join(path)} does not exist")
    return target


def _put(target: Json, path: list[str], value: Json, *, is_new: bool) -> Json:
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(target, dict):
        if rest and step not in target:
            raise _PatchError(f"the path to {step} does not exist")
        return {**target, step: _put(target.get(step), rest, value, is_new=is_new)}
    if isinstance(target, list):
        if rest or not is_new:
            index = _index(target, step)
            inner = _put(target[index], rest, value, is_new=is_new)
            return [*target[:index], inner, *target[index + 1 :]]
        index = _index(target, step, may_end=True)
        return [*target[:index], value, *target[index:]]
    raise _PatchError(f"nothing can be put at {step}")


def _remove(target: Json, path: list[str]) -> Json:
    if not path:
        raise _PatchError("removes the whole document")
    step, rest = path[0], path[1:]
    if isinstance(target, dict):
        if step not in target:
            raise _PatchError(f"Unable to remove nonexistent key: {step}")
        if rest:
            return {**target, step: _remove(target[step], rest)}
        return {key: value for key, value in target.items() if key != step}
    if isinstance(target, list):
        index = _index(target, step)
        if rest:
            return [*target[:index], _remove(target[index], rest), *target[index + 1 :]]
        return target[:index] + target[index + 1 :]
    raise _PatchError(f"Unable to remove nonexistent key: {step}")


# Strategic merge patch

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETE_VALUES = "$deleteFromPrimitiveList/"


def strategic_patch(target: Json, patch: Json, shape: Shape) -> Json:
    """Merge a patch by the rules that the schema gives: lists with a merge key by that key."""
    if not isinstance(patch, dict):
        raise bad_request("a strategic merge patch is an object")
    return _strategic(target if isinstance(target, dict) else {}, patch, shape)


def _strategic(target: dict[str, Any], patch: dict[str, Any], shape: Shape) -> dict[str, Any]:
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        replaced: dict[str, Any] = _plain(patch)
        return replaced
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise bad_request(f"unknown directive in a strategic merge patch: {directive!r}")
    result = dict(target)
    retained = patch.get(_RETAIN)
    if isinstance(retained, list):
        result = {key: value for key, value in result.items() if key in retained}
    for key, value in patch.items():
        if key in (_DIRECTIVE, _RETAIN) or key.startswith(_ORDER):
            continue
        if key.startswith(_DELETE_VALUES):
            name = key.removeprefix(_DELETE_VALUES)
            if isinstance(value, list) and isinstance(result.get(name), list):
                result[name] = [item for item in result[name] if item not in value]
            continue
        if value is None:
            result.pop(key, None)
            continue
        inner = shape.at(key)
        order = patch.get(_ORDER + key)
        if isinstance(value, dict):
            before = result.get(key)
            result[key] = _strategic(before if isinstance(before, dict) else {}, value, inner)
        elif isinstance(value, list) and inner.merge_key is not None:
            before = result.get(key)
            before = before if isinstance(before, list) else []
            result[key] = _merge_list(before, value, inner, order)
        else:
            result[key] = _plain(value)
    for key, order in patch.items():
        name = key.removeprefix(_ORDER)
        items = result.get(name)
        if not key.startswith(_ORDER) or name in patch:
            continue
        if isinstance(order, list) and isinstance(items, list):
            result[name] = _ordered(items, order, shape.at(name).merge_key, items)
    return result


def _merge_list(before: list[Any], patch: list[Any], shape: Shape, order: Any) -> list[Any]:
    key = shape.merge_key
    if not key:
        merged = before + [item for item in patch if item not in before]
        return _ordered(merged, order if isinstance(order, list) else patch, "", before)
    if any(isinstance(item, dict) and item.get(_DIRECTIVE) == "replace" for item in patch):
        kept = [i for i in patch if not (isinstance(i, dict) and i.get(_DIRECTIVE) == "replace")]
        return [_plain(item) for item in kept]
    result = list(before)
    for item in patch:
        if not isinstance(item, dict) or key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {key}")
        name = item[key]
        same = (i for i, old in enumerate(result) if isinstance(old, dict) and old.get(key) == name)
        place = next(same, None)
        if item.get(_DIRECTIVE) == "delete":
            if place is not None:
                del result[place]
        elif place is None:
            result.append(_strategic({}, item, shape.item or ANY))
        else:
            result[place] = _strategic(result[place], item, shape.item or ANY)
    return _ordered(result, order if isinstance(order, list) else patch, key, before)


def _ordered(items: list[Any], order: list[Any], key: str | None, before: list[Any]) -> list[Any]:
    """Merge the items that the order names, in its order, with the others, as Kubernetes does.

    The others keep their places relative to those that were there before; new ones go ahead.
    """

    def name(item: Any) -> Any:
        return item.get(key) if key and isinstance(item, dict) else item

    wanted, known = [name(item) for item in order], [name(item) for item in before]
    named = [i for n in dict.fromkeys(map(repr, wanted)) for i in items if repr(name(i)) == n]
    others = [item for item in items if name(item) not in wanted]
    merged = list[Any]()
    while named and others:
        left, right = name(others[0]), name(named[0])
        is_before = left in known and right in known and known.index(left) < known.index(right)
        merged.append(others.pop(0) if is_before else named.pop(0))
    return [*merged, *others, *named]


def _plain(value: Json) -> Json:
    """A value without directives and nulls."""
    if isinstance(value, Mapping):
        return {
            key: _plain(item)
            for key, item in value.items()
            if not key.startswith("$") and item is not None
        }
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
