"""YAML or JSON text to documents, each with the place it stands at.

The only file that imports a YAML library. Scalars are read as kubectl reads them (yes and on are
booleans), except that dates stay text and 1:30 is not 90. A key that stands twice is an error: one
of the two would be lost in silence. Nodes are composed here from the library's events, because its
own composer crashes the interpreter on text that is nested deeply enough.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from makeway.api.errors import ABSENT, FieldError, steps_of
from makeway.api.schema import Document

NODES_MAX = 250_000  # of a document; aliases can make a small text huge
DEPTH_MAX = 100

_BOOLEANS = {
    **dict.fromkeys(("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"), False),
}
_NULLS = ("", "~", "null", "Null", "NULL")
_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9_]*|0o?[0-7_]+|0x[0-9a-fA-F_]+|0b[01_]+)", re.ASCII)
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_DIGITS_MAX = 400
_PLAIN, _QUOTED = "plain", "quoted"
_BASE_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Position:
    source: str  # name of the file
    line: int  # from 1; 0 where it is not known (JSON)
    column: int = 0

    def __str__(self) -> str:
        return f"{self.source}:{self.line}" if self.line else self.source


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    document: Document
    index: int  # of the document in its file, from 0
    position: Position
    node: Any = field(default=None, repr=False, compare=False)  # the YAML node; None for JSON

    def locate(self, path: str) -> Position:
        """Return where the field at `path` stands, or the closest thing around it."""
        node, mark = self.node, None
        for name, _ in steps_of(path):
            node, place = _child(node, name)
            if place is None:
                break
            mark = place
        return self.position if mark is None else _position(self.position.source, mark)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntaxTrouble:
    """A text, or a part of it, that is no document."""

    position: Position
    error: FieldError

    def __str__(self) -> str:
        return f"{self.position}: {self.error}"


@dataclass(frozen=True, slots=True)
class Manifests:
    manifests: tuple[Manifest, ...]
    troubles: tuple[SyntaxTrouble, ...]  # with any of these the manifests are not complete


def read_manifests(text: str, source: str = "<text>") -> Manifests:
    """Return all documents of a file, lists taken apart, empty documents left out."""
    try:
        found = _read_json(text, source)
        if found is None:
            found = _read_yaml(text, source)
    except RecursionError:
        found = [_trouble(Position(source, 0), "is nested too deeply")]
    except UnicodeEncodeError:
        found = [_trouble(Position(source, 0), "is not text", "save it as UTF-8")]
    manifests: list[Manifest] = []
    troubles: list[SyntaxTrouble] = []
    for item in found:
        if isinstance(item, SyntaxTrouble):
            troubles.append(item)
            continue
        for manifest in _flatten(item):
            if isinstance(manifest.document, Mapping):
                manifests.append(manifest)
            else:
                hint, value = "write apiVersion, kind and so on", manifest.document
                troubles.append(_trouble(manifest.position, "is not an object", hint, value))
    return Manifests(tuple(manifests), tuple(troubles))


def _trouble(
    position: Position, problem: str, hint: str = "", value: object = ABSENT
) -> SyntaxTrouble:
    error = FieldError("", value, problem, hint)
    return SyntaxTrouble(position=position, error=error)


def _flatten(manifest: Manifest) -> Iterator[Manifest]:
    """Yield the items of a List, else the manifest itself."""
    if not isinstance(manifest.document, Mapping):
        yield manifest
        return
    kind, items = manifest.document.get("kind"), manifest.document.get("items")
    if not isinstance(kind, str) or not kind.endswith("List") or not isinstance(items, list):
        yield manifest
        return
    listed, _ = _child(manifest.node, "items")
    for number, item in enumerate(items):
        node, mark = _child(listed, str(number))
        source = manifest.position.source
        position = _position(source, mark) if mark is not None else manifest.position
        inner = Manifest(document=item, index=manifest.index, position=position, node=node)
        yield from _flatten(inner)


# JSON


class _DuplicateKey(ValueError):
    pass


def _read_json(text: str, source: str) -> list[Manifest | SyntaxTrouble] | None:
    """Return the one document of a JSON text; None if it is none, so perhaps YAML."""
    if not text.lstrip().startswith("{"):
        return None
    position = Position(source, 0)
    try:
        document = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except _DuplicateKey as error:
        return [_trouble(position, f"has the key {error} twice", "keep one of them")]
    except ValueError:
        return None
    return [Manifest(document=document, index=0, position=position)]


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        keys = [key for key, _ in pairs]
        raise _DuplicateKey(json.dumps(next(key for key in keys if keys.count(key) > 1)))
    return result


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


# YAML


class _Trouble(Exception):
    def __init__(self, mark: Any, problem: str, hint: str) -> None:
        super().__init__(problem)
        self.mark, self.problem, self.hint = mark, problem, hint


def _read_yaml(text: str, source: str) -> list[Manifest | SyntaxTrouble]:
    found: list[Manifest | SyntaxTrouble] = []
    loader = None
    try:
        loader = _BASE_LOADER(text)
        loader.get_event()  # the stream starts
        for index, node in enumerate(_Composer(loader).documents()):
            try:
                value = _Builder().build(node)
            except _Trouble as trouble:
                found.append(_at_mark(trouble, source))
                continue
            if value is not None:
                position = _position(source, node.start_mark)
                found.append(Manifest(document=value, index=index, position=position, node=node))
    except _Trouble as trouble:  # in composing: the rest of the text cannot be read
        found.append(_at_mark(trouble, source))
    except yaml.YAMLError as error:
        found.append(_yaml_trouble(error, source))
    finally:
        if loader is not None:
            loader.dispose()
    return found


def _position(source: str, mark: Any) -> Position:
    return Position(source, mark.line + 1, mark.column + 1)


def _at_mark(trouble: _Trouble, source: str) -> SyntaxTrouble:
    return _trouble(_position(source, trouble.mark), trouble.problem, trouble.hint)


class _Composer:
    """Makes nodes out of the library's events. The tag of a scalar says whether it is plain."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader
        self.anchors: dict[str, Any] = {}

    def documents(self) -> Iterator[Any]:
        while not self.loader.check_event(yaml.StreamEndEvent):
            self.loader.get_event()  # the document starts
            self.anchors = {}
            yield self.compose(0)
            self.loader.get_event()  # the document ends

    def compose(self, depth: int) -> Any:
        event = self.loader.get_event()
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self.anchors:
                hint = f"define it with &{event.anchor} before"
                raise _Trouble(event.start_mark, f'has no anchor "{event.anchor}"', hint)
            return self.anchors[event.anchor]
        if depth > DEPTH_MAX:
            raise _Trouble(event.start_mark, "is nested too deeply", "write it flatter")
        start, end = event.start_mark, event.end_mark
        if isinstance(event, yaml.ScalarEvent):
            tag = _PLAIN if event.implicit[0] else _QUOTED
            node: Any = yaml.ScalarNode(tag, event.value, start, end)
            self._remember(event, node)
            return node
        if isinstance(event, yaml.SequenceStartEvent):
            node = yaml.SequenceNode("", [], start, end)
            self._remember(event, node)
            while not self.loader.check_event(yaml.SequenceEndEvent):
                node.value.append(self.compose(depth + 1))
        else:
            node = yaml.MappingNode("", [], start, end)
            self._remember(event, node)
            while not self.loader.check_event(yaml.MappingEndEvent):
                key = self.compose(depth + 1)
                node.value.append((key, self.compose(depth + 1)))
        self.loader.get_event()  # the collection ends
        return node

    def _remember(self, event: Any, node: Any) -> None:
        if event.anchor is not None:
            self.anchors[event.anchor] = node


def _yaml_trouble(error: yaml.YAMLError, source: str) -> SyntaxTrouble:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    position = _position(source, mark) if mark else Position(source, 0)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    hint = "check indentation, quotes and colons" if mark else ""
    return _trouble(position, f"is not YAML: {problem}", hint)


class _Builder:
    """Makes plain values out of YAML nodes."""

    def __init__(self) -> None:
        self.nodes_left = NODES_MAX
        self.open: set[int] = set()  # nodes that we are inside of

    def build(self, node: Any) -> Any:
        self.nodes_left -= 1
        if self.nodes_left < 0:
            raise _Trouble(node.start_mark, "is too large", "write out what aliases repeat")
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node)
        if id(node) in self.open:
            raise _Trouble(node.start_mark, "contains itself", "write it out")
        self.open.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            value: Any = [self.build(item) for item in node.value]
        else:
            value = self._mapping(node)
        self.open.discard(id(node))
        return value

    def _mapping(self, node: Any) -> dict[str, Any]:
        result: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _PLAIN and key_node.value == "<<":
                self._merge(value_node, merged)
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                raise _Trouble(key_node.start_mark, "is not a key", "write text before the colon")
            if key_node.value in result:
                problem = f'has the key "{key_node.value}" twice'
                raise _Trouble(key_node.start_mark, problem, "keep one of them")
            result[key_node.value] = self.build(value_node)
        return {**merged, **result}

    def _merge(self, node: Any, merged: dict[str, Any]) -> None:
        sources = self.build(node)
        for source in sources if isinstance(sources, list) else [sources]:
            if not isinstance(source, dict):
                raise _Trouble(node.start_mark, "merges something other than a mapping", "")
            for key, value in source.items():
                merged.setdefault(key, value)


def _scalar(node: Any) -> Any:
    text: str = node.value
    if node.tag == _QUOTED:
        return text
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if len(text) <= _DIGITS_MAX and _WHOLE.fullmatch(text):
        return _whole_number(text)
    if len(text) <= _DIGITS_MAX and _NUMBER.fullmatch(text):
        number = float(text)
        return number if abs(number) != float("inf") else text
    return text


def _whole_number(text: str) -> int | str:
    digits = text.replace("_", "").lower()
    sign, digits = (-1, digits[1:]) if digits.startswith("-") else (1, digits.lstrip("+"))
    if len(digits) > 1 and digits[0] == "0" and digits[1].isdigit():
        digits = "0o" + digits[1:]
    try:
        return sign * int(digits, 0)
    except ValueError:
        return text


# Finding a field again


def _child(node: Any, step: str) -> tuple[Any, Any]:
    """Return the node at one step, and the mark where its key (or the item) stands; or nothing."""
    if isinstance(node, yaml.MappingNode):
        for key_node, value_node in node.value:
            if isinstance(key_node, yaml.ScalarNode) and key_node.value == step:
                return value_node, key_node.start_mark
    if isinstance(node, yaml.SequenceNode) and step.isdecimal() and len(step) < 10:
        for item in node.value[int(step) :][:1]:
            return item, item.start_mark
    return None, None


# Writing


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    def ignore_aliases(self, data: Any) -> bool:
        """Write out what stands twice: people read this."""
        return True


def write_yaml(*documents: Document) -> str:
    """Return documents as YAML, keys in their order."""
    text = [
        yaml.dump(
            document, Dumper=_Dumper, sort_keys=False, default_flow_style=False, allow_unicode=True
        )
        for document in documents
    ]
    return "---\n".join(text)
