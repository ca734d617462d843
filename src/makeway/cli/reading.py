"""Small questions to documents, whoever wrote them and however much of them is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from makeway.api.times import TimeError, parse_time

Document = dict[str, Any]


def at(document: Any, *path: str) -> Any:
    """What stands at a path; None where the path ends before."""
    for step in path:
        if not isinstance(document, Mapping):
            return None
        document = document.get(step)
    return document


def text_at(document: Any, *path: str) -> str:
    found = at(document, *path)
    return "" if found is None else str(found)


def moment_at(document: Any, *path: str) -> float | None:
    """Seconds since 1970; None where there is no time."""
    found = at(document, *path)
    try:
        return parse_time(found) if isinstance(found, str) else None
    except TimeError:
        return None


def items_at(document: Any, *path: str) -> list[Document]:
    found = at(document, *path)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def count_at(document: Any, *path: str) -> int:
    found = at(document, *path)
    return found if isinstance(found, int) else 0


def condition(document: Any, type_: str) -> Document | None:
    conditions = items_at(document, "status", "conditions")
    return next((c for c in conditions if c.get("type") == type_), None)


def is_so(document: Any, type_: str) -> bool:
    return text_at(condition(document, type_), "status") == "True"


def name_of(document: Document) -> str:
    return text_at(document, "metadata", "name")


def namespace_of(document: Document) -> str:
    return text_at(document, "metadata", "namespace")


def key_of(document: Document) -> tuple[str, str]:
    """Namespace and name, in the order in which clients take them apart."""
    return namespace_of(document), name_of(document)


def uid_of(document: Document) -> str:
    return text_at(document, "metadata", "uid")


def label(document: Document, key: str) -> str:
    return text_at(document, "metadata", "labels", key)


def annotation(document: Document, key: str) -> str:
    return text_at(document, "metadata", "annotations", key)
