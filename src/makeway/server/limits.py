"""How large an object may be: in bytes, as Kubernetes has it, and in values to look at."""

from __future__ import annotations

from typing import Any

from makeway.server.errors import ApiError

OBJECT_MAX_BYTES = 1536 * 1024  # as etcd takes
ANNOTATIONS_MAX_BYTES = 256 * 1024
VALUES_MAX = 60_000  # in all of a document
ITEMS_MAX = 5_000  # objects in a list, keys in a map
DEPTH_MAX = 100
UNCOUNTED_BYTES = 8 * 1024  # a document as small as that can't hold too much


def check_values(document: Any) -> None:
    """Refuse what has too many values, or too many in one place."""
    seen, level, depth = 0, [document], 0
    while level:
        seen += len(level)
        depth += 1
        if seen > VALUES_MAX:
            raise _too_much(f"has more than {VALUES_MAX} values")
        if depth > DEPTH_MAX:
            raise ApiError(400, "BadRequest", "the body of the request is nested too deeply")
        inner = list[Any]()
        for value in level:
            if isinstance(value, dict):
                _check_items(len(value), "keys in one map")
                inner.extend(value.values())
            elif isinstance(value, list):
                if len(value) > ITEMS_MAX and any(isinstance(one, dict | list) for one in value):
                    _check_items(len(value), "objects in one list")
                inner.extend(value)
        level = inner


def _check_items(found: int, what: str) -> None:
    if found > ITEMS_MAX:
        raise _too_much(f"has {found} {what}; the limit is {ITEMS_MAX}")


def check_size(document: dict[str, Any], size: int, size_before: int) -> None:
    """Refuse an object that is too large, unless it is getting smaller."""
    if size > OBJECT_MAX_BYTES and size > size_before:
        raise _too_much(f"would have {size} bytes; the limit is {OBJECT_MAX_BYTES}")
    if size > max(UNCOUNTED_BYTES, size_before):
        check_values(document)


def annotations_size(annotations: Any) -> int:
    if not isinstance(annotations, dict):
        return 0
    return sum(
        len(str(key).encode()) + len(str(value).encode()) for key, value in annotations.items()
    )


def _too_much(what: str) -> ApiError:
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: the object {what}")
