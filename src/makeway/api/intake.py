"""What becomes of a document that a user hands in: the one way from text to a checked object."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace

from makeway.api import versions
from makeway.api.codec import decode, decode_hub
from makeway.api.defaults import with_defaults
from makeway.api.errors import ABSENT, FieldError, Unsupported, steps_of
from makeway.api.kinds import View
from makeway.api.schema import Document
from makeway.api.validation import validate

ROUNDS_MAX = 8  # a part may go with what it was in, up to the deepest nesting of our kinds


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    object: View | None  # None exactly when there are errors
    document: Document | None  # to store: current version, with defaults; None exactly then
    errors: tuple[FieldError, ...]  # about the fields as the user wrote them
    unsupported: tuple[Unsupported, ...]
    readable: View | None = None  # the object, or what is left of it without its malformed parts


def take_in(document: object, old: View | None = None) -> Intake:
    """Convert, complete, decode and check a document, as a new object or as a change of `old`."""
    if not isinstance(document, Mapping):
        return _refuse(decode(document).errors)
    converted = versions.to_hub(document)
    return decode_and_check(with_defaults(converted.document), converted, old)


def decode_and_check(
    completed: Document, converted: versions.Converted, old: View | None
) -> Intake:
    """Decode and check a document with its defaults; errors speak of what was converted to it."""
    decoded = decode_hub(completed)
    readable, errors = decoded.object, decoded.errors
    if readable is not None:
        errors = validate(readable, old)
    else:
        readable, malformed = _read_the_rest(completed, errors)
        if readable is not None:
            sense = validate(readable, old)
            errors = (*errors, *(error for error in sense if not _touches(error, malformed)))
    errors = (*converted.errors, *map(converted.as_written, errors))
    if errors:
        written = tuple(_with_value_written(error, converted.written) for error in errors)
        return _refuse(written, readable)
    return Intake(
        object=readable,
        document=completed,
        errors=(),
        unsupported=decoded.unsupported,
        readable=readable,
    )


def _refuse(errors: tuple[FieldError, ...], readable: View | None = None) -> Intake:
    return Intake(object=None, document=None, errors=errors, unsupported=(), readable=readable)


def _read_the_rest(
    document: Document, errors: tuple[FieldError, ...]
) -> tuple[View | None, tuple[str, ...]]:
    """Decode without the malformed parts, so that everything wrong can be told at once.

    Returns the paths that were left out too. Leaving one out may break what it is part of, which
    then goes as well; nothing may be left in the end.
    """
    rest = deepcopy(dict(document))
    left_out: list[str] = []
    for _ in range(ROUNDS_MAX):
        for error in errors:
            path = _take_out(rest, error.path)
            if path is None:
                return None, ()
            left_out.append(path)
        decoded = decode_hub(rest)
        if decoded.object is not None:
            return decoded.object, tuple(left_out)
        errors = decoded.errors
    return None, ()


def _take_out(document: dict[str, object], path: str) -> str | None:
    """Delete the field at `path`, or the nearest one around it; None if that is everything.

    Items of a list stay where they are, or the paths of their neighbours would be wrong.
    """
    value: object = document
    field: tuple[dict[str, object], str, str] | None = None
    for name, end in steps_of(path):
        if isinstance(value, dict) and name in value:
            field = (value, name, path[:end])
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            break
    if field is None or field[2] in ("apiVersion", "kind"):
        return None
    holder, name, taken = field
    del holder[name]
    return taken


def _touches(error: FieldError, paths: tuple[str, ...]) -> bool:
    """Is the error about something that was left out, or about what it was part of?"""
    return any(error.path.startswith(path) or path.startswith(error.path) for path in paths)


def _with_value_written(error: FieldError, document: Document) -> FieldError:
    """Show 1024Mi to the user who wrote it, where the checks speak of 1Gi."""
    names = [name for name, _ in steps_of(error.path)]
    if error.value is ABSENT or names[-1:] == [error.value]:
        return error  # it is about the key; what stands there may be a secret
    value: object = document
    for name in names:
        if isinstance(value, Mapping) and name in value:
            value = value[name]
        elif isinstance(value, Sequence) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return error
    return replace(error, value=value)
