"""Merge (RFC 7386), JSON (RFC 6902) and strategic merge patches: document and patch to document.

The input is never changed; parts that stay as they were are shared with the result.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from makeway.api.kinds import Resource
from makeway.server.errors import ApiError, bad_request
from makeway.server.schemas import ANY, Shape

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
OPERATIONS_MAX = 10_000
EFFORT_MAX = 300_000  # values that the operations of a patch may copy
MOVED_AT_ONCE = 100  # values that move up in a list in the time in which one is copied

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
    editor = _Editor(target)
    for index, operation in enumerate(operations):
        try:
            editor.operate(operation)
        except _PatchError as error:
            message = f"the server rejected our request due to an error in our request: {error}"
            raise ApiError(422, "Invalid", f"{message} (operation {index})") from None
    return editor.target


def _pointer(operation: dict[str, Any], field: str = "path") -> list[str]:
    text = operation.get(field)
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise _PatchError(f"{field} {text!r} is not a JSON pointer")
    return [step.replace("~1", "/").replace("~0", "~") for step in text.split("/")[1:]]


class _Editor:
    """A document that operations change one after the other.

    What the document shares with others is copied before it is changed, and once: of what was
    copied we are the only owner, until a `copy` shows it in two places. What copying, moving
    up and comparing cost is counted, so that few operations on a large document are not many.
    """

    def __init__(self, target: Json) -> None:
        self.target = target
        self._own: dict[int, Json] = {}  # containers that nobody else has, by identity
        self._effort = 0

    def operate(self, operation: Json) -> None:
        if not isinstance(operation, dict):
            raise _PatchError("is not an object")
        path = _pointer(operation)
        match operation.get("op"):
            case "add":
                self._put(path, _value(operation), is_new=True)
            case "replace":
                _get(self.target, path)
                self._put(path, _value(operation), is_new=False)
            case "remove":
                self._remove(path)
            case "move":
                origin = _pointer(operation, "from")
                if path[: len(origin)] == origin and path != origin:
                    raise _PatchError("moves a value into itself")
                value = _get(self.target, origin)
                self._remove(origin)
                self._put(path, value, is_new=True)
            case "copy":
                value = _get(self.target, _pointer(operation, "from"))
                self._spend(_size(value, EFFORT_MAX - self._effort + 1))
                self._own.clear()  # before: what holds the new place may be part of the value
                self._put(path, value, is_new=True)
            case "test":
                if not _same(_get(self.target, path), _value(operation)):
                    raise _PatchError(f"testing value {operation['path']} failed")
            case other:
                raise _PatchError(f"unexpected kind: {other}")

    def _spend(self, effort: int) -> None:
        self._effort += effort
        if self._effort > EFFORT_MAX:
            raise ApiError(413, "RequestEntityTooLarge", "the patch copies or moves too much")

    def _ours(self, container: Json) -> Json:
        """The container itself if it is ours to change, else a copy that is."""
        if id(container) in self._own:
            return container
        self._spend(len(container))
        copy = dict(container) if isinstance(container, dict) else list(container)
        self._own[id(copy)] = copy
        return copy

    def _holder(self, path: list[str]) -> Json:
        """What holds the last step of a path, ours to change."""
        holder = self.target = self._ours_or_refuse(self.target, path[0])
        for step, following in pairwise(path):
            if isinstance(holder, dict):
                if step not in holder:
                    raise _PatchError(f"the path to {step} does not exist")
                inner = holder[step] = self._ours_or_refuse(holder[step], following)
            else:
                index = _index(holder, step)
                inner = holder[index] = self._ours_or_refuse(holder[index], following)
            holder = inner
        return holder

    def _ours_or_refuse(self, container: Json, step: str) -> Json:
        if not isinstance(container, dict | list):
            raise _PatchError(f"nothing is found or put at {step}")
        return self._ours(container)

    def _put(self, path: list[str], value: Json, *, is_new: bool) -> None:
        if not path:
            self.target = value
            return
        holder, step = self._holder(path), path[-1]
        if isinstance(holder, dict):
            holder[step] = value
        elif is_new:
            index = _index(holder, step, may_end=True)
            self._spend((len(holder) - index) // MOVED_AT_ONCE)
            holder.insert(index, value)
        else:
            holder[_index(holder, step)] = value

    def _remove(self, path: list[str]) -> None:
        if not path:
            raise _PatchError("removes the whole document")
        holder, step = self._holder(path), path[-1]
        if isinstance(holder, dict):
            if step not in holder:
                raise _PatchError(f"Unable to remove nonexistent key: {step}")
            del holder[step]
        else:
            index = _index(holder, step)
            self._spend((len(holder) - index) // MOVED_AT_ONCE)
            del holder[index]


def _size(value: Json, most: int) -> int:
    """How many values there are in one; `most` if there are more."""
    size, open_ = 0, [value]
    while open_ and size < most:
        one = open_.pop()
        size += 1
        if isinstance(one, dict):
            open_.extend(one.values())
        elif isinstance(one, list):
            open_.extend(one)
    return size


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
        names = set(map(_mark, retained))
        result = {key: value for key, value in result.items() if key in names}
    for key, value in patch.items():
        if key in (_DIRECTIVE, _RETAIN) or key.startswith(_ORDER):
            continue
        if key.startswith(_DELETE_VALUES):
            name = key.removeprefix(_DELETE_VALUES)
            if isinstance(value, list) and isinstance(result.get(name), list):
                gone = set(map(_mark, value))
                result[name] = [item for item in result[name] if _mark(item) not in gone]
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
    in_order = order if isinstance(order, list) else patch
    if not key:
        known = set(map(_mark, before))
        merged = before + [item for item in patch if _mark(item) not in known]
        return _ordered(merged, in_order, "", before)
    if any(isinstance(item, dict) and item.get(_DIRECTIVE) == "replace" for item in patch):
        kept = [i for i in patch if not (isinstance(i, dict) and i.get(_DIRECTIVE) == "replace")]
        return [_plain(item) for item in kept]
    return _ordered(_merge_by_key(before, patch, key, shape.item or ANY), in_order, key, before)


def _merge_by_key(before: list[Any], patch: list[Any], key: str, shape: Shape) -> list[Any]:
    result: list[Any] = list(before)
    places: dict[str, list[int]] = {}  # of the items with a name, the first one last
    for place in reversed(range(len(result))):
        if isinstance(result[place], dict):
            places.setdefault(_mark(result[place].get(key)), []).append(place)
    for item in patch:
        if not isinstance(item, dict) or key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {key}")
        found = places.setdefault(_mark(item[key]), [])
        if item.get(_DIRECTIVE) == "delete":
            if found:
                result[found.pop()] = _GONE
        elif found:
            result[found[-1]] = _strategic(result[found[-1]], item, shape)
        else:
            found.append(len(result))
            result.append(_strategic({}, item, shape))
    return [item for item in result if item is not _GONE]


_GONE = object()


def _mark(value: Any) -> str:
    """A text that is the same for the same value, whatever its type."""
    return value if isinstance(value, str) else f"\0{value!r}"


def _ordered(items: list[Any], order: list[Any], key: str | None, before: list[Any]) -> list[Any]:
    """Merge the items that the order names, in its order, with the others, as Kubernetes does.

    The others keep their places relative to those that were there before; new ones go ahead.
    """

    def name(item: Any) -> str:
        return _mark(item.get(key) if key and isinstance(item, dict) else item)

    wanted: dict[str, list[Any]] = {name(item): [] for item in order}
    others = list[Any]()
    for item in items:
        wanted.get(name(item), others).append(item)
    named = [item for group in wanted.values() for item in group]
    known: dict[str, int] = {}
    for place, item in enumerate(before):
        known.setdefault(name(item), place)
    merged, left, right = list[Any](), 0, 0
    while left < len(others) and right < len(named):
        here, there = known.get(name(others[left])), known.get(name(named[right]))
        if here is not None and there is not None and here < there:
            merged.append(others[left])
            left += 1
        else:
            merged.append(named[right])
            right += 1
    return [*merged, *others[left:], *named[right:]]


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
