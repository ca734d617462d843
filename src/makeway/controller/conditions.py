"""Conditions of an object, as a list in its document: one per type, in the order they came."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from makeway.api.times import format_time
from makeway.client.client import Document


def conditions_of(document: Document) -> Sequence[Document]:
    """Those in its status, as the list that stands there; an empty list where there are none."""
    conditions: list[Document] = (document.get("status") or {}).get("conditions") or []
    return conditions


def true_types(conditions: Iterable[Document]) -> set[str]:
    """The types of those that hold."""
    true: set[str] = set()
    for condition in conditions:  # a comprehension is slower, and this runs for every change
        if condition.get("status") == "True":
            true.add(condition.get("type", ""))
    return true


def reason_in(document: Document, type: str) -> str:
    """Of a condition of this type; empty where there is none."""
    found = (c.get("reason") for c in conditions_of(document) if c.get("type") == type)
    return next(found, None) or ""


def with_condition(
    conditions: Iterable[Document],
    type: str,
    status: str,
    reason: str,
    message: str,
    now: float,
    generation: int | None = None,
) -> list[Document]:
    """The list with this condition set; equal to the old list if nothing is new.

    The time of transition moves only with the status, so that it tells since when it holds.
    `generation` is what the object's spec was at when this was found out; None: not told.
    """
    old = list(conditions)
    place = next((i for i, condition in enumerate(old) if condition.get("type") == type), None)
    since: object = format_time(now)
    if place is not None and old[place].get("status") == status:
        since = old[place].get("lastTransitionTime") or since
    new: dict[str, object] = {
        "type": type,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
    }
    if generation is not None:
        new["observedGeneration"] = generation
    if place is None:
        return [*old, new]
    if all(old[place].get(field) == value for field, value in new.items()):
        return old  # a server may show more in it, such as when it was last probed
    return [*old[:place], new, *old[place + 1 :]]


def without_condition(conditions: Iterable[Document], type: str) -> list[Document]:
    return [condition for condition in conditions if condition.get("type") != type]
