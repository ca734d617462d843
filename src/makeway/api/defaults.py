"""Document to document with the API's defaults written out; pure, used by server and CLI alike.

The defaults are those of the views: what a view shows for a field that is absent is what gets
written. Only what users specify is completed, never `metadata` or `status`. A document with parts
of the wrong type keeps them as they are; saying so is `codec`'s business.
"""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, is_dataclass
from functools import cache
from typing import Any, NamedTuple, cast, get_args, get_origin

from makeway.api.codec import FieldPlan, plan_of
from makeway.api.kinds import class_of
from makeway.api.schema import Document

_NOT_SPECIFIED = ("metadata", "status")


def with_defaults(document: Document) -> Document:
    """Return a document of the current version, completed; of a kind or version unknown, as it is.

    Documents of older versions go through `versions.to_hub` first.
    """
    kind = class_of(document)
    return document if kind is None else _complete(document, kind)


class _Completion(NamedTuple):
    """What can be added to a field of a class."""

    name: str
    default: Any  # as it is written; None: nothing
    inner: type | None  # of the object in it, or of the objects in its list


def _complete(document: Document, cls: type) -> Document:
    completed = dict(document)
    for name, default, inner in _completions(cls):
        value = document.get(name)
        if value is None:
            value = default
        if value is not None:
            completed[name] = value if inner is None else _complete_inside(value, inner)
    return completed


def _complete_inside(value: object, inner: type) -> object:
    if isinstance(value, Mapping):
        return _complete(value, inner)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_complete(i, inner) if isinstance(i, Mapping) else i for i in value]
    return value


@cache
def _completions(cls: type) -> tuple[_Completion, ...]:
    found = (
        _Completion(name, _written_default(plan), _inner(plan.hint))
        for name, plan in plan_of(cls, True).fields.items()
        if not (name in _NOT_SPECIFIED and hasattr(cls, "KIND"))
    )
    return tuple(each for each in found if (each.default, each.inner) != (None, None))


def _written_default(plan: FieldPlan) -> Any:
    default = plan.default
    if default is MISSING or default is None or default is False or default in ("", ()):
        return None
    written = plan.encoder(default, "")
    return None if written == {} else written


def _inner(hint: Any) -> type | None:
    if get_origin(hint) is tuple:
        hint = get_args(hint)[0]
    return cast(type, hint) if is_dataclass(hint) else None
