"""The engine's values as lists of numbers and texts, and back.

The types say how: a value is written as the list of its fields, those at the end left out that have
their default; where several types are possible, the name of the type comes first. Texts, and values
that many share (pod sets, assignments, reasons), are written once per segment, with the record that
has them first; after that a number stands for them. `schema` has the names of all fields in order:
by it a later version reads what an earlier one has written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from makeway.engine.decisions import Decision, Reason
from makeway.engine.events import Event
from makeway.engine.model import Assignment, PodSet

Raw = Any  # what JSON has
Encode = Callable[[Any], Raw]
Decode = Callable[[Raw], Any]

DECISIONS = tuple[Decision, ...]
# Values that many records share, by the name under which they are written.
SHARED: dict[str, Any] = {
    "PodSets": tuple[PodSet, ...],
    "Assignment": Assignment,
    "Reasons": tuple[Reason, ...],
}
_NAME_OF_SHARED = {type_: name for name, type_ in SHARED.items()}


class Unreadable(Exception):
    """What was written can't be read; the text says why."""


class Field(NamedTuple):
    name: str
    type: Any
    default: Any  # MISSING: it has none


def fields_of(cls: type) -> tuple[Field, ...]:
    hints = get_type_hints(cls)
    if is_dataclass(cls):
        return tuple(Field(f.name, hints[f.name], _default_of(f)) for f in fields(cls))
    names: tuple[str, ...] = cls._fields  # type: ignore[attr-defined]
    defaults = cls._field_defaults  # type: ignore[attr-defined]
    return tuple(Field(name, hints[name], defaults.get(name, MISSING)) for name in names)


def _default_of(field: Any) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def is_record(type_: Any) -> bool:
    return is_dataclass(type_) or (isinstance(type_, type) and hasattr(type_, "_fields"))


def plain(type_: Any) -> Any:
    """Without a NewType around it."""
    while hasattr(type_, "__supertype__"):
        type_ = type_.__supertype__
    return type_


def schema() -> dict[str, list[str]]:
    """Every type that is written, with the names of its fields in order."""
    found: dict[str, list[str]] = {}
    ahead: list[Any] = [Event, DECISIONS]
    while ahead:
        type_ = plain(ahead.pop())
        if is_record(type_):
            if type_.__name__ not in found:
                own = fields_of(type_)
                found[type_.__name__] = [field.name for field in own]
                ahead += [field.type for field in own]
        elif not (isinstance(type_, type) and get_origin(type_) is None):
            ahead += get_args(type_)
    return dict(sorted(found.items()))


class Encoder:
    """Of one segment: it remembers what was written already."""

    def __init__(self) -> None:
        self._texts: dict[str, int] = {}
        self._shared: dict[str, dict[Any, int]] = {name: {} for name in SHARED}
        self._new_texts: list[str] = []
        self._new_shared: list[Raw] = []
        self._forms: dict[Any, Encode | None] = {}
        self.event = _needed(self._form(Event))
        self.decisions = _needed(self._form(DECISIONS))

    def take_new(self) -> tuple[list[str], list[Raw]]:
        """Texts and shared values that were written for the first time since this was asked."""
        new = self._new_texts, self._new_shared
        self._new_texts, self._new_shared = [], []
        return new

    def text(self, value: str) -> int:
        number = self._texts.get(value)
        if number is None:
            number = self._texts[value] = len(self._texts)
            self._new_texts.append(value)
        return number

    def name(self, value: str) -> int:
        """A text that somebody has chosen, and not a word of ours."""
        return self.text(value)

    def _form(self, type_: Any) -> Encode | None:
        """How values of a type are written; None: as they are."""
        type_ = plain(type_)
        if type_ not in self._forms:
            name = _NAME_OF_SHARED.get(type_)
            made = self._made(type_)
            self._forms[type_] = made if name is None else self._sharing(name, _needed(made))
        return self._forms[type_]

    def _made(self, type_: Any) -> Encode | None:
        if type_ is str:
            return self.name
        if type_ in (int, float, bool, NoneType):
            return None
        if is_record(type_):
            return self._record(type_)
        if isinstance(type_, type) and issubclass(type_, Enum):
            return lambda value: self.text(value.value)
        origin, inner = get_origin(type_), get_args(type_)
        if origin in (Union, UnionType):
            return self._union(inner)
        if origin is tuple and inner[-1] is Ellipsis:
            return _each(self._form(inner[0]))
        if origin is tuple:
            return _one_by_one([self._form(part) for part in inner])
        if origin is frozenset:
            each = _each(self._form(inner[0]))
            return lambda value: each(sorted(value))
        assert issubclass(origin, Mapping), type_
        return _pairs(*map(self._form, inner))

    def _union(self, types: Sequence[Any]) -> Encode | None:
        own = [type_ for type_ in types if type_ is not NoneType]
        if len(own) == 1:
            form = self._form(own[0])
            return None if form is None else lambda v: None if v is None else form(v)
        forms = {type_: (type_.__name__, _needed(self._form(type_))) for type_ in own}

        def encode(value: Any) -> Raw:
            if value is None:
                return None
            name, form = forms[type(value)]
            return [self.text(name), *form(value)]

        return encode

    def _record(self, cls: type) -> Encode:
        own = fields_of(cls)
        defaults = [field.default for field in own]
        values_of = _values_of(cls, [field.name for field in own])
        forms: list[Encode | None] = []

        def encode(value: Any) -> Raw:
            if not forms:
                forms.extend(self._form(field.type) for field in own)
            values = values_of(value)
            end = len(defaults)
            while end and defaults[end - 1] is not MISSING and values[end - 1] == defaults[end - 1]:
                end -= 1
            pairs = zip(forms[:end], values, strict=False)
            return [value if form is None else form(value) for form, value in pairs]

        return encode

    def _sharing(self, name: str, form: Encode) -> Encode:
        known = self._shared[name]

        def encode(value: Any) -> Raw:
            number = known.get(value)
            if number is None:
                written = form(value)
                number = known[value] = len(known)
                self._new_shared.append([self.text(name), written])
            return number

        return encode


class Decoder:
    """Of one segment, by the schema that it was written with."""

    def __init__(self, written: Mapping[str, Sequence[str]]) -> None:
        self._written = written
        self._texts: list[str] = []
        self._shared: dict[str, list[Any]] = {name: [] for name in SHARED}
        self._forms: dict[Any, Decode | None] = {}
        self._shared_forms = {name: _needed(self._made(SHARED[name])) for name in SHARED}
        self.event = _needed(self._form(Event))
        self.decisions = _needed(self._form(DECISIONS))

    def learn(self, texts: Sequence[str], shared: Sequence[Raw]) -> None:
        self._texts += texts
        for number, written in shared:
            name = self.text(number)
            if name in self._shared_forms:
                self._shared[name].append(self._shared_forms[name](written))

    def text(self, number: int) -> str:
        return self._texts[number]

    def _form(self, type_: Any) -> Decode | None:
        type_ = plain(type_)
        if type_ not in self._forms:
            name = _NAME_OF_SHARED.get(type_)
            self._forms[type_] = (
                self._made(type_) if name is None else self._shared[name].__getitem__
            )
        return self._forms[type_]

    def _made(self, type_: Any) -> Decode | None:
        if type_ is str:
            return self._texts.__getitem__
        if type_ in (int, float, bool, NoneType):
            return None
        if is_record(type_):
            return self._record(type_)
        if isinstance(type_, type) and issubclass(type_, Enum):
            return lambda raw: type_(self._texts[raw])
        origin, inner = get_origin(type_), get_args(type_)
        if origin in (Union, UnionType):
            return self._union(inner)
        if origin is tuple and inner[-1] is Ellipsis:
            each = _each(self._form(inner[0]))
            return lambda raw: tuple(each(raw))
        if origin is tuple:
            parts = _one_by_one([self._form(part) for part in inner])
            return lambda raw: tuple(parts(raw))
        if origin is frozenset:
            each = _each(self._form(inner[0]))
            return lambda raw: frozenset(each(raw))
        assert issubclass(origin, Mapping), type_
        pairs = _pairs(*map(self._form, inner))
        return lambda raw: dict(zip(*[iter(pairs(_Flat(raw)))] * 2, strict=True))

    def _union(self, types: Sequence[Any]) -> Decode | None:
        own = [type_ for type_ in types if type_ is not NoneType]
        if len(own) == 1:
            form = self._form(own[0])
            return None if form is None else lambda raw: None if raw is None else form(raw)
        forms = {type_.__name__: _needed(self._form(type_)) for type_ in own}

        def decode(raw: Raw) -> Any:
            if raw is None:
                return None
            name = self.text(raw[0])
            if name not in forms:
                raise Unreadable(f"{name} is not known to this version of Makeway")
            return forms[name](raw[1:])

        return decode

    def _record(self, cls: type) -> Decode:
        own = {field.name: field for field in fields_of(cls)}
        names = self._written.get(cls.__name__, list(own))
        forms: list[tuple[str, Decode | None]] = []

        def decode(raw: Raw) -> Any:
            if not forms:
                forms.extend(
                    (name, self._form(own[name].type) if name in own else None) for name in names
                )
            values = {
                name: part if form is None else form(part)
                for (name, form), part in zip(forms, raw, strict=False)
                if name in own
            }
            try:
                return cls(**values)
            except TypeError as error:
                raise Unreadable(f"{cls.__name__} lacks a field: {error}") from None

        return decode


class _Flat:
    """Keys and values in turn, as the items of a mapping."""

    def __init__(self, raw: Sequence[Raw]) -> None:
        self._raw = raw

    def items(self) -> Any:
        return zip(*[iter(self._raw)] * 2, strict=True)


def _needed(form: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    assert form is not None
    return form


def _values_of(cls: type, names: Sequence[str]) -> Callable[[Any], Sequence[Any]]:
    if issubclass(cls, tuple):
        return lambda value: value
    if len(names) == 1:
        return lambda value: (getattr(value, names[0]),)
    return attrgetter(*names)


def _each(form: Callable[[Any], Any] | None) -> Callable[[Any], list[Any]]:
    return list if form is None else lambda values: [form(value) for value in values]


def _one_by_one(forms: Sequence[Callable[[Any], Any] | None]) -> Callable[[Any], list[Any]]:
    return lambda values: [
        value if form is None else form(value) for form, value in zip(forms, values, strict=True)
    ]


def _pairs(
    key: Callable[[Any], Any] | None, value: Callable[[Any], Any] | None
) -> Callable[[Any], list[Any]]:
    """A mapping as keys and values in turn."""

    def flat(mapping: Any) -> list[Any]:
        found: list[Any] = []
        for one, other in mapping.items():
            found.append(one if key is None else key(one))
            found.append(other if value is None else value(other))
        return found

    return flat
