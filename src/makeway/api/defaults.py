"""Document to document with the API's defaults written out; pure, used by server and CLI alike.

The defaults are those of the views: what a view shows for a field that is absent is what gets
written. Only what users specify is completed, never `metadata` or `status`. A document with parts
of the wrong type keeps them as they are; saying so is `codec`'s business.
"""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, is_dataclass
from typing import Any, cast, get_args, get_origin

from makeway.api.codec import FieldPlan, plan_of
from makeway.api.kinds import class_of
from makeway.api.schema import Document

_NOT_SPECIFIED = ("metadata", "status")


def with_defaults(document: Document) -> Document:
    """Return a document of the current version, completed; of a kind or version unknown, as it is.

    Documents of older versions go through `versions.to_hub` first.
    """
    kind = class_of(document)
    return document if kind is None else _complete(document, kind, is_root=True)


def _complete(document: Document, cls: type, *, is_root: bool = False) -> Document:
    completed = dict(document)
    for name, plan in plan_of(cls, True).fields.items():
        if is_root and name in _NOT_SPECIFIED:
            continue
        value = document.get(name)
        if value is None:
            value = _written_default(plan)
        if value is not None:
            completed[name] = _complete_value(value, plan.hint)
    return completed


def _written_default(plan: FieldPlan) -> Any:
    default = plan.default
    if default is MISSING or default is None or default is False or default in ("", ()):
        return None
    written = plan.encoder(default, "")
    return None if written == {} else written


def _complete_value(value: object, hint: Any) -> object:
    if is_dataclass(hint) and isinstance(value, Mapping):
        return _complete(value, cast(type, hint))
    if get_origin(hint) is tuple and isinstance(value, Sequence) and not isinstance(value, str):
        item_hint = get_args(hint)[0]
        if is_dataclass(item_hint):
            return [_complete_value(item, item_hint) for item in value]
    return value
