"""JSON document to typed view and back: the only parser.

A decoder is built once per class from the class's type hints and then runs without looking at them
again. It reads a document in the document's own order, notes every error it meets and goes on, so
that users see all their mistakes at once; an object with an error in it is never built.

`decode` judges form only: names, types, enums, quantities. Whether the parts fit together is
`validation`'s question.
"""

import difflib
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from functools import cache
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from makeway.api import quantity, times, versions
from makeway.api.errors import ABSENT, FieldError, Unsupported, one_of, step_to
from makeway.api.kinds import (
    KINDS,
    UNSUPPORTED_KINDS,
    Kind,
    UnsupportedKind,
    View,
    unsupported_parts,
)
from makeway.api.meta import UNNAMED, ObjectMeta
from makeway.api.schema import Document, Mark

ViewT = TypeVar("ViewT", covariant=True)
KindT = TypeVar("KindT", bound=Kind)


@dataclass(frozen=True, slots=True)
class Decoded(Generic[ViewT]):
    object: ViewT | None  # None exactly when there are errors
    errors: tuple[FieldError, ...] = ()  # in the order of the document
    unsupported: tuple[Unsupported, ...] = ()


def decode(document: object) -> Decoded[View]:
    """Return the view of a document of any kind and version that Makeway knows."""
    if not isinstance(document, Mapping):
        return _refused("", document, "is not an object", "write apiVersion, kind and so on")
    converted = versions.to_hub(document)
    decoded = decode_hub(converted.document)
    errors = (*converted.errors, *map(converted.as_written, decoded.errors))
    return Decoded(None, errors) if errors else decoded


def decode_hub(document: Document) -> Decoded[View]:
    """Return the view of a document of the current version: converted before, or stored."""
    api_version, kind = document.get("apiVersion"), document.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str) or not kind:
        return Decoded(None, _untyped(api_version, kind))
    group, _ = versions.split_api_version(api_version)
    found = KINDS.get((group, kind))
    if found is not None:
        if api_version == found.API_VERSION:
            return _decode_known(found, document)
        problem, hint = "is not a version that Makeway reads", f"write {found.API_VERSION}"
        return _refused("apiVersion", api_version, problem, hint)
    if (group, kind) in UNSUPPORTED_KINDS:
        return _decode_unsupported(document, api_version, kind, UNSUPPORTED_KINDS[group, kind])
    return _unknown_kind(api_version, kind)


def decode_as(kind: type[KindT], document: object) -> Decoded[KindT]:
    """Return the view of a document that must be of `kind`.

    The items of a list come without kind and version: then the current version is understood.
    """
    if isinstance(document, Mapping):
        if "kind" not in document and "apiVersion" not in document:
            document = {"apiVersion": kind.API_VERSION, "kind": kind.KIND, **document}
        written = document.get("kind")
        if isinstance(written, str) and written and written != kind.KIND:
            return _refused("kind", written, "is not expected here", f"write {kind.KIND}")
    return cast(Decoded[KindT], decode(document))


def decode_unconverted(cls: type[KindT], document: Document) -> Decoded[KindT]:
    """Return what `cls` shows of a document in its own version, which nobody has to convert.

    For objects as a server stores them, also by a view that shows less than that of their kind, and
    for settings of ours.
    """
    notes = Notes()
    view = _object_decoder(cls, True)(document, None, notes)
    return Decoded(None if notes.errors else view, tuple(notes.errors), tuple(notes.unsupported))


def decode_change(old: View, document: Document, *names: str) -> Decoded[View]:
    """Return the view of a document that differs from `old` in these fields alone."""
    plan, notes = plan_of(cast(type, type(old)), True), Notes()
    changed = {
        plan.fields[name].attribute: plan.fields[name].decoder(document[name], (None, name), notes)
        for name in names
        if name in plan.fields
    }
    if notes.errors:
        return Decoded(None, tuple(notes.errors))
    if plan.document:
        changed[plan.document] = document
    return Decoded(replace(old, **changed))


def _decode_known(kind: type[Kind], document: Document) -> Decoded[Any]:
    notes = Notes()
    view = _object_decoder(kind, True)(document, None, notes)
    if notes.errors:
        return Decoded(None, tuple(notes.errors))
    return Decoded(view, (), (*notes.unsupported, *unsupported_parts(view)))


def _decode_unsupported(
    document: Document, api_version: str, kind: str, what: str
) -> Decoded[View]:
    notes = Notes()
    metadata = document.get("metadata")
    named = UNNAMED
    if metadata is not None:
        named = _object_decoder(ObjectMeta, False)(metadata, (None, "metadata"), notes)
    if notes.errors:
        return Decoded(None, tuple(notes.errors))
    view = UnsupportedKind(api_version=api_version, kind=kind, metadata=named, document=document)
    return Decoded(view, (), (Unsupported(path="", what=f"{kind}: {what}"),))


def _refused(path: str, value: object, problem: str, hint: str) -> Decoded[Any]:
    return Decoded(None, (FieldError(path, value, problem, hint),))


def _untyped(api_version: object, kind: object) -> tuple[FieldError, ...]:
    return tuple(
        FieldError(path, ABSENT, "is missing", f"write for example {hint}")
        for path, value, hint in (
            ("apiVersion", api_version, f"{versions.QUEUEING_GROUP}/{versions.HUB_VERSION}"),
            ("kind", kind, "ClusterQueue"),
        )
        if not isinstance(value, str) or not value
    )


def _unknown_kind(api_version: str, kind: str) -> Decoded[Any]:
    group, _ = versions.split_api_version(api_version)
    of_group = [known for known_group, known in KINDS if known_group == group]
    if kind in (known for _, known in KINDS):
        known_as = tuple(
            sorted(cls.API_VERSION for (_, name), cls in KINDS.items() if name == kind)
        )
        problem, hint = f"has no kind {kind}", f"write {one_of(known_as)}"
        return _refused("apiVersion", api_version, problem, hint)
    if of_group:
        return _refused("kind", kind, f"is not a kind of {api_version}", _suggest(kind, of_group))
    hint = f"known are {one_of(tuple(sorted(known for _, known in KINDS)))}"
    return _refused("kind", kind, "is not a kind that Makeway knows", hint)


# Decoding. A path is a chain of (path before, name or index), written out only for an error.

Path = tuple[Any, str | int] | None
Decoder = Callable[[Any, Path, "Notes"], Any]


class Notes:
    """What a decoder has to say besides the value, which counts only without errors."""

    __slots__ = ("errors", "unsupported")

    def __init__(self) -> None:
        self.errors: list[FieldError] = []
        self.unsupported: list[Unsupported] = []

    def error(self, path: Path, value: object, problem: str, hint: str) -> None:
        self.errors.append(FieldError(write_path(path), value, problem, hint))


def write_path(path: Path) -> str:
    steps: list[str] = []
    while path is not None:
        path, step = path
        if isinstance(step, int):
            steps.append(f"[{step}]")
        else:
            steps.append(step_to(step))
    return "".join(reversed(steps)).removeprefix(".")


def json_name(attribute: str) -> str:
    first, *rest = attribute.split("_")
    return first + "".join(word.capitalize() for word in rest)


@dataclass(frozen=True, slots=True)
class FieldPlan:
    """How one field is read and written."""

    attribute: str
    name: str  # in the document
    decoder: Decoder
    plain: type | None  # a value of this very type is taken as it is; None: it has to be read
    encoder: "Encoder"
    is_amount: bool  # of the resource that the sibling `name` names
    unsupported: str  # the ability that Makeway lacks; empty if it has it
    hint: Any  # the type, without None
    is_optional: bool  # None means something other than an empty object
    default: Any  # MISSING if it must be written


@dataclass(frozen=True, slots=True)
class ClassPlan:
    fields: Mapping[str, FieldPlan]  # by name in the document
    required: tuple[str, ...]
    document: str  # the attribute that keeps the whole document; empty if there is none
    has_amounts: bool


@cache
def plan_of(cls: type, strict: bool) -> ClassPlan:
    hints = get_type_hints(cls, include_extras=True)
    plans: dict[str, FieldPlan] = {}
    required: list[str] = []
    document = ""
    members: tuple[Field[Any], ...] = fields(cls)
    for member in members:
        if _mark_of(hints[member.name]) is Mark.WHOLE:
            document = member.name
    for member in members:
        if member.name == document:
            continue
        hint = _without_none(hints[member.name])
        # A status is written by controllers, perhaps newer than we are; users make no typos in it.
        is_strict = strict and not document and member.name != "status"
        name = member.metadata.get("name") or json_name(member.name)
        plans[name] = FieldPlan(
            attribute=member.name,
            name=name,
            decoder=_decoder_of(hint, is_strict),
            plain=hint if hint in (str, bool) and not member.metadata.get("unsupported") else None,
            encoder=_encoder_of(hint),
            is_amount=_mark_of(hint) is Mark.AMOUNT,
            unsupported=member.metadata.get("unsupported", ""),
            hint=hint,
            is_optional=hint is not hints[member.name],
            default=member.default,
        )
        if member.default is MISSING and member.default_factory is MISSING:
            required.append(name)
    has_amounts = any(plan.is_amount for plan in plans.values())
    return ClassPlan(plans, tuple(required), document, has_amounts)


def _without_none(hint: Any) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        rest = [member for member in get_args(hint) if member is not type(None)]
        return rest[0] if len(rest) == 1 else Union[tuple(rest)]  # noqa: UP007
    return hint


def _mark_of(hint: Any) -> Mark | None:
    return get_args(hint)[1] if get_origin(hint) is Annotated else None


@cache
def _object_decoder(cls: type, strict: bool) -> Decoder:
    """Build the decoder of a dataclass; lenient ones pass over fields that they don't know."""
    class_plan = plan_of(cls, strict)
    known, required = class_plan.fields, class_plan.required
    document_attribute, has_amounts = class_plan.document, class_plan.has_amounts
    strict = strict and not document_attribute
    is_root = hasattr(cls, "KIND")

    def decode_object(value: Any, path: Path, notes: Notes) -> Any:
        if type(value) is not dict and not isinstance(value, Mapping):
            notes.error(path, value, "is not an object", _object_hint(known))
            return None
        errors_before = len(notes.errors)
        arguments: dict[str, Any] = {}
        resource = value.get("name") if has_amounts else None
        for key, item in value.items():
            plan = known.get(key)
            if plan is None:
                if strict and not (is_root and key in ("apiVersion", "kind")):
                    problem = "is not a known field"
                    notes.error((path, str(key)), ABSENT, problem, _suggest(str(key), known))
                continue
            if item is None:
                continue
            if type(item) is plan.plain:
                arguments[plan.attribute] = item
                continue
            here = (path, key)
            if plan.unsupported:
                notes.unsupported.append(Unsupported(path=write_path(here), what=plan.unsupported))
            if plan.is_amount:
                arguments[plan.attribute] = _decode_quantity(item, here, notes, str(resource))
            else:
                arguments[plan.attribute] = plan.decoder(item, here, notes)
        for name in required:
            if value.get(name) is None:
                notes.error((path, name), ABSENT, "is missing", _missing_hint(known[name]))
        if len(notes.errors) > errors_before:
            return None
        if document_attribute:
            arguments[document_attribute] = value
        return cls(**arguments)

    return decode_object


@cache
def _decoder_of(hint: Any, strict: bool) -> Decoder:
    mark = _mark_of(hint)
    if mark is not None:
        return _MARKED[mark]
    if is_dataclass(hint):
        return _object_decoder(cast(type, hint), strict)
    origin = get_origin(hint)
    if origin is Literal:
        return _enum_decoder(get_args(hint))
    if origin is tuple:
        return _list_decoder(_decoder_of(get_args(hint)[0], strict))
    if origin is Mapping:
        return _mapping_decoder(get_args(hint)[1], strict)
    if origin is Union:
        assert set(get_args(hint)) == {int, str}, hint
        return _decode_int_or_str
    return _PLAIN[hint]


def _list_decoder(decode_item: Decoder) -> Decoder:
    def decode_list(value: Any, path: Path, notes: Notes) -> Any:
        if type(value) is not list and (
            not isinstance(value, Sequence) or isinstance(value, str | bytes)
        ):
            notes.error(path, value, "is not a list", "write a list, also for a single item")
            return ()
        return tuple([decode_item(item, (path, index), notes) for index, item in enumerate(value)])

    return decode_list


def _mapping_decoder(hint: Any, strict: bool) -> Decoder:
    is_amount = _mark_of(hint) is Mark.AMOUNT
    decode_item: Decoder | None = None if hint is object else _decoder_of(hint, strict)

    def decode_mapping(value: Any, path: Path, notes: Notes) -> Any:
        if not isinstance(value, Mapping):
            notes.error(path, value, "is not a mapping", "write keys with values")
            return {}
        if decode_item is None:
            return value
        result: dict[str, Any] = {}
        for key, item in value.items():
            here = (path, str(key))
            if not isinstance(key, str):
                notes.error(here, key, "is not text", f'put the key in quotes: "{key}"')
            elif is_amount:
                result[key] = _decode_quantity(item, here, notes, key)
            else:
                result[key] = decode_item(item, here, notes)
        return result

    return decode_mapping


def _enum_decoder(choices: tuple[str, ...]) -> Decoder:
    allowed = frozenset(choices)
    hint = f"write {one_of(choices)}"

    def decode_enum(value: Any, path: Path, notes: Notes) -> Any:
        if not isinstance(value, str) or value not in allowed:
            notes.error(path, value, "is not a value of this field", hint)
            return None
        return value

    return decode_enum


def _decode_str(value: Any, path: Path, notes: Notes) -> Any:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        kind = "a boolean" if isinstance(value, bool) else "a number"
        text = str(value).lower() if isinstance(value, bool) else str(value)
        notes.error(path, value, f"is {kind}, not text", f'put it in quotes: "{text}"')
    else:
        notes.error(path, value, "is not text", "write text")
    return None


def _decode_bool(value: Any, path: Path, notes: Notes) -> Any:
    if isinstance(value, bool):
        return value
    notes.error(path, value, "is not a boolean", "write true or false, without quotes")
    return None


def _int_decoder(bits: int) -> Decoder:
    highest = 2 ** (bits - 1) - 1

    def decode_int(value: Any, path: Path, notes: Notes) -> Any:
        if not isinstance(value, int) or isinstance(value, bool):
            hint = "without a point or exponent" if isinstance(value, float) else "without quotes"
            notes.error(path, value, "is not a whole number", f"write a number {hint}")
        elif not -highest - 1 <= value <= highest:
            hint = f"write a number between {-highest - 1} and {highest}"
            notes.error(path, value, "is out of range", hint)
        else:
            return value
        return None

    return decode_int


def _decode_int_or_str(value: Any, path: Path, notes: Notes) -> Any:
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    notes.error(path, value, "is neither a number nor a share", 'write for example 2 or "50%"')
    return None


def _decode_anything(value: Any, path: Path, notes: Notes) -> Any:
    return value


def _decode_quantity(value: Any, path: Path, notes: Notes, resource: str | None = None) -> Any:
    """An amount of a resource, or a number that is none."""
    try:
        if resource is None:
            return quantity.parse_quantity(value)
        return quantity.amount(resource, value)
    except quantity.QuantityError:
        notes.error(path, value, "is not a quantity", 'write a number such as 4, "500m" or "16Gi"')
        return None


def _text_decoder(parse: Callable[[str], float], problem: str, hint: str) -> Decoder:
    def decode_text(value: Any, path: Path, notes: Notes) -> Any:
        try:
            if isinstance(value, str):
                return parse(value)
        except (times.DurationError, times.TimeError):
            pass
        notes.error(path, value, problem, hint)
        return None

    return decode_text


_DURATION_HINT = 'write for example "90s", "10m" or "1h30m"'
_TIME_HINT = 'write for example "2026-01-31T12:00:00Z"'


_PLAIN: Mapping[Any, Decoder] = {
    str: _decode_str,
    bool: _decode_bool,
    int: _int_decoder(64),
    object: _decode_anything,
}
_MARKED: Mapping[Mark, Decoder] = {
    Mark.INT32: _int_decoder(32),
    Mark.AMOUNT: _decode_quantity,  # never called: amounts need their resource
    Mark.QUANTITY: _decode_quantity,
    Mark.DURATION: _text_decoder(times.parse_duration, "is not a duration", _DURATION_HINT),
    Mark.TIME: _text_decoder(times.parse_time, "is not a point in time", _TIME_HINT),
}


def _suggest(word: str, known: Sequence[str] | Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(word[:100], list(known), n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]}?"
    return f"known are {one_of(tuple(sorted(known)))}" if known else "remove it"


def _object_hint(known: Mapping[str, FieldPlan]) -> str:
    return f"write a mapping with {', '.join(list(known)[:3])}" + (" …" if len(known) > 3 else "")


def _missing_hint(plan: FieldPlan) -> str:
    if get_origin(plan.hint) is Literal:
        return f"write {one_of(get_args(plan.hint))}"
    return f"write {plan.name}"


# Encoding: the inverse. Left out is what says nothing: None, empty text, lists and mappings, and
# false where it is the default. Numbers and defaults that mean something are written.

Encoder = Callable[[Any, str], Any]  # the text names the resource, for amounts


def encode(view: object) -> dict[str, Any]:
    """Return the document of a view; of a built-in kind, the document that it shows parts of."""
    if isinstance(view, UnsupportedKind):
        assert view.document is not None
        return dict(view.document)
    encoded = _encode_object(view, "")
    if hasattr(view, "KIND") and "kind" not in encoded:
        return {"apiVersion": view.API_VERSION, "kind": view.KIND, **encoded}  # type: ignore[attr-defined]
    return encoded


def _encode_object(view: Any, _resource: str) -> dict[str, Any]:
    cls: type = type(view)
    class_plan = plan_of(cls, True)
    document = getattr(view, class_plan.document) if class_plan.document else None
    if document is not None:
        return dict(document)
    resource = view.name if class_plan.has_amounts else ""
    result: dict[str, Any] = {}
    for name, plan in class_plan.fields.items():
        value = getattr(view, plan.attribute)
        if value is None or value in ("", (), {}) or (value is False and not plan.default):
            continue
        encoded = plan.encoder(value, resource)
        if encoded != {} or plan.is_optional:
            result[name] = encoded
    return result


@cache
def _encoder_of(hint: Any) -> Encoder:
    mark = _mark_of(hint)
    if mark is not None:
        return _MARKED_OUT.get(mark, _encode_as_is)
    if is_dataclass(hint):
        return _encode_object
    origin = get_origin(hint)
    if origin is tuple:
        encode_item = _encoder_of(get_args(hint)[0])
        return lambda value, resource: [encode_item(item, resource) for item in value]
    if origin is Mapping:
        encode_value = _encoder_of(get_args(hint)[1])
        return lambda value, _: {key: encode_value(item, key) for key, item in value.items()}
    return _encode_as_is


def _encode_as_is(value: Any, _resource: str) -> Any:
    return value


_MARKED_OUT: Mapping[Mark, Encoder] = {
    Mark.AMOUNT: lambda value, resource: quantity.format_amount(resource, value),
    Mark.QUANTITY: lambda value, _: quantity.format_quantity(value),
    Mark.DURATION: lambda value, _: times.format_duration(value),
    Mark.TIME: lambda value, _: times.format_time(value),
}
