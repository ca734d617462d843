"""What becomes of a document that a user hands in: the one way from text to a checked object."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from makeway.api import versions
from makeway.api.codec import decode
from makeway.api.defaults import with_defaults
from makeway.api.errors import ABSENT, FieldError, Unsupported
from makeway.api.kinds import View
from makeway.api.schema import Document
from makeway.api.validation import validate

_PATH_STEP = re.compile(r"\.?([^.\[\]]+)|\[([^\]]*)\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    object: View | None  # None exactly when there are errors
    document: Document | None  # what to store: current version, defaults written out; idem
    errors: tuple[FieldError, ...]  # about the fields as the user wrote them
    unsupported: tuple[Unsupported, ...]


def take_in(document: object, old: View | None = None) -> Intake:
    """Check a document in full, as a new object or as a change of `old`."""
    if not isinstance(document, Mapping):
        return _refuse(decode(document).errors)
    converted = versions.to_hub(document)
    completed = with_defaults(converted.document)
    decoded = decode(completed)
    errors = decoded.errors
    if decoded.object is not None and not converted.errors:
        # Only now: with errors of form, errors of sense would be guesses.
        errors = validate(decoded.object, old)
    errors = (*converted.errors, *map(converted.as_written, errors))
    if errors:
        return _refuse(tuple(_with_value_written(error, document) for error in errors))
    return Intake(
        object=decoded.object, document=completed, errors=(), unsupported=decoded.unsupported
    )


def _refuse(errors: tuple[FieldError, ...]) -> Intake:
    return Intake(object=None, document=None, errors=errors, unsupported=())


def _with_value_written(error: FieldError, document: Document) -> FieldError:
    """Show 1024Mi to the user who wrote it, where the checks speak of 1Gi."""
    if error.value is ABSENT:
        return error
    value: object = document
    for step in _PATH_STEP.finditer(error.path):
        name = step[1] or step[2]
        if isinstance(value, Mapping) and name in value:
            value = value[name]
        elif isinstance(value, Sequence) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return error
    return replace(error, value=value)
