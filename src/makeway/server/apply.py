"""Server-side apply: whose fields are which, what an apply may change of them, and what it drops.

A field is a path of steps as `managedFields` spells them: `f:spec`, `k:{"name":"main"}`, `v:"x"`.
A manager is a set of such paths. Ownership is written down from the first apply of an object on;
until then nobody needs it, and all fields count as set by `before-first-apply`, as in Kubernetes
for objects that come from a time without it. So objects that are never applied carry no burden.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from makeway.server.errors import ApiError, bad_request
from makeway.server.objects import SERVER_FIELDS
from makeway.server.schemas import ANY, Shape

Path = tuple[str, ...]
BEFORE_FIRST = "before-first-apply"
UPDATE, APPLY = "Update", "Apply"
MANAGERS_MAX = 10  # of those that update; the oldest ones are merged, as in Kubernetes
MERGED_NAME = "ancient-changes"

# What nobody owns.
_NOT_OWNED_METADATA = ("name", "namespace", "managedFields", "resourceVersion", *SERVER_FIELDS)
_NOT_OWNED: frozenset[Path] = frozenset(
    [("f:apiVersion",), ("f:kind",), *(("f:metadata", f"f:{n}") for n in _NOT_OWNED_METADATA)]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manager:
    name: str
    operation: str
    subresource: str
    api_version: str
    time: str
    fields: frozenset[Path]

    @property
    def identity(self) -> tuple[str, str, str]:
        return self.name, self.operation, self.subresource


def read_managers(document: Mapping[str, Any]) -> list[Manager]:
    return [
        Manager(
            name=entry.get("manager", ""),
            operation=entry.get("operation", UPDATE),
            subresource=entry.get("subresource", ""),
            api_version=entry.get("apiVersion", ""),
            time=entry.get("time", ""),
            fields=frozenset(_read_fields(entry.get("fieldsV1") or {})),
        )
        for entry in document["metadata"].get("managedFields") or ()
        if isinstance(entry, Mapping)
    ]


def _read_fields(tree: Any, path: Path = ()) -> Iterable[Path]:
    if not isinstance(tree, Mapping):
        return
    if path and (not tree or "." in tree):
        yield path
    for step, inner in tree.items():
        if _is_step(step):
            yield from _read_fields(inner, (*path, step))


def _is_step(text: str) -> bool:
    """Whether a step is well written; clients may send managedFields, too."""
    if text.startswith("f:"):
        return True
    if not text.startswith(("k:", "v:")):
        return False
    try:
        value = json.loads(text[2:])
    except ValueError:
        return False
    return text.startswith("v:") or isinstance(value, dict)


def write_managers(managers: Iterable[Manager]) -> list[dict[str, Any]]:
    entries = []
    for manager in sorted(managers, key=lambda m: (m.operation != APPLY, m.time, m.name)):
        if not manager.fields:
            continue
        entry = {
            "manager": manager.name,
            "operation": manager.operation,
            "apiVersion": manager.api_version,
            "time": manager.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": _write_fields(manager.fields),
        }
        if manager.subresource:
            entry["subresource"] = manager.subresource
        entries.append(entry)
    return entries


def _write_fields(paths: Iterable[Path]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    members = sorted(paths)
    for path in members:
        node = tree
        for step in path:
            node = node.setdefault(step, {})
    for path in members:
        node = tree
        for step in path:
            node = node[step]
        if node:
            node["."] = {}
    return tree


# Fields of a document


def fields_of(document: Mapping[str, Any], shape: Shape) -> frozenset[Path]:
    """The fields that a document sets: leaves, and the items of lists that have keys."""
    found: set[Path] = set()
    _collect(document, shape, (), found)
    return frozenset(
        path for path in found if path[:2] not in _NOT_OWNED and path not in _NOT_OWNED
    )


def _collect(value: Any, shape: Shape, path: Path, found: set[Path]) -> None:
    if isinstance(value, Mapping) and value and shape.kind in ("object", "any"):
        for key, item in value.items():
            _collect(item, shape.at(key), (*path, f"f:{key}"), found)
    elif isinstance(value, list) and value and shape.keys and shape.item is not None:
        for item in value:
            step = key_step(item, shape)
            found.add((*path, step))
            _collect(item, shape.item, (*path, step), found)
    elif isinstance(value, list) and value and shape.is_set:
        found.update((*path, value_step(item)) for item in value)
    else:
        found.add(path)


def key_step(item: Any, shape: Shape) -> str:
    if not isinstance(item, Mapping):
        raise bad_request("an item of a list with keys is not an object")
    names = {}
    for key in shape.keys:
        value = item.get(key)
        if value is None and key == "protocol":
            value = "TCP"  # the only key with a default
        if value is not None:
            names[key] = value
    return "k:" + json.dumps(names, separators=(",", ":"), sort_keys=True)


def value_step(item: Any) -> str:
    return "v:" + json.dumps(item, separators=(",", ":"), sort_keys=True)


_ABSENT = object()


class Look:
    """Finds values of a document by their paths; a list is gone through once, not once per path."""

    def __init__(self, document: Any, shape: Shape) -> None:
        self._document, self._shape = document, shape
        self._items: dict[int, dict[str, Any]] = {}  # by the list's identity, then by step

    def at(self, path: Path) -> Any:
        """The value at a path; `_ABSENT` if it is not there. Items of a set are just there."""
        document, shape = self._document, self._shape
        for step in path:
            if step.startswith("f:"):
                if not isinstance(document, Mapping) or step[2:] not in document:
                    return _ABSENT
                document, shape = document[step[2:]], shape.at(step[2:])
                continue
            if not isinstance(document, list):
                return _ABSENT
            document = self._items_of(document, shape, step[:2]).get(step, _ABSENT)
            if document is _ABSENT:
                return _ABSENT
            shape = (shape.item or ANY) if step.startswith("k:") else ANY
        return document

    def _items_of(self, items: list[Any], shape: Shape, sort: str) -> dict[str, Any]:
        found = self._items.get(id(items))
        if found is None:
            found = self._items[id(items)] = {}
            for item in items:
                step = key_step(item, shape) if sort == "k:" else value_step(item)
                found.setdefault(step, item)
        return found


Tree = dict[str, Any]  # steps to steps; a path ends where a step leads to nothing


def _tree_of(paths: Iterable[Path]) -> Tree:
    """The paths as a tree; of a path that goes on from the end of another, the shorter counts."""
    tree: Tree = {}
    for path in sorted(paths, key=len):
        node: Any = tree
        for step in path[:-1]:
            node = node.setdefault(step, {})
            if node is None:
                break
        else:
            node[path[-1]] = None
    return tree


def _without(document: Any, shape: Shape, tree: Tree) -> Any:
    """The document without these fields; what gets empty by that goes too, but for items."""
    if isinstance(document, Mapping):
        result = {}
        for name, value in document.items():
            inner = tree.get(f"f:{name}", _ABSENT)
            if inner is None:
                continue
            left = value if inner is _ABSENT else _without(value, shape.at(name), inner)
            if left not in ({}, []) or value in ({}, []):
                result[name] = left
        return result
    if not isinstance(document, list):
        return document
    kept = []
    for item in document:
        step = key_step(item, shape) if shape.keys else value_step(item)
        inner = tree.get(step, _ABSENT)
        if inner is not None:
            is_same = inner is _ABSENT
            kept.append(item if is_same else _without(item, shape.item or ANY, inner))
    return kept


def _merge(live: Any, applied: Any, shape: Shape) -> Any:
    if isinstance(live, Mapping) and isinstance(applied, Mapping):
        result = dict(live)
        for key, value in applied.items():
            result[key] = _merge(live.get(key, _ABSENT), value, shape.at(key))
        return result
    if isinstance(live, list) and isinstance(applied, list) and shape.keys:
        places: dict[str, int] = {}
        for place, item in enumerate(live):
            places.setdefault(key_step(item, shape), place)
        merged = list(live)
        for item in applied:
            found = places.get(key_step(item, shape))
            if found is None:
                merged.append(item)
            else:
                merged[found] = _merge(live[found], item, shape.item or ANY)
        return merged
    if isinstance(live, list) and isinstance(applied, list) and shape.is_set:
        known = set(map(value_step, live))
        return live + [item for item in applied if value_step(item) not in known]
    return applied


# The two ways of changing an object


def apply(
    live: Mapping[str, Any] | None,
    applied: Mapping[str, Any],
    shape: Shape,
    manager: Manager,
    *,
    is_forced: bool,
) -> dict[str, Any]:
    """Return the object after `manager` has applied what it wants; ApiError on a conflict.

    Of `manager` everything but its fields counts; those are what `applied` sets.
    """
    wanted = fields_of(applied, shape)
    mine = replace(manager, fields=wanted)
    if live is None:
        created = dict(applied)
        created["metadata"] = {**applied["metadata"], "managedFields": write_managers([mine])}
        return created
    managers = read_managers(live)
    if not managers:
        first = replace(
            manager,
            name=BEFORE_FIRST,
            operation=UPDATE,
            fields=fields_of({k: v for k, v in live.items() if k != "status"}, shape),
        )
        managers = [first]
    others = [m for m in managers if m.identity != mine.identity]
    there, here = Look(live, shape), Look(applied, shape)
    contested = {
        path
        for path in wanted
        if path[-1].startswith("f:") and _is_contested(there.at(path), here.at(path))
    }
    conflicts = [(other, sorted(other.fields & contested)) for other in others]
    conflicts = [(other, paths) for other, paths in conflicts if paths]
    if conflicts and not is_forced:
        raise _conflict(conflicts)
    others = [replace(other, fields=other.fields - contested) for other in others]
    result: Any = _merge(live, applied, shape)
    before = next((m.fields for m in managers if m.identity == mine.identity), frozenset())
    still_owned = frozenset().union(wanted, *(other.fields for other in others))
    ways = {owned[:length] for owned in still_owned for length in range(1, len(owned) + 1)}
    if dropped := before - still_owned - ways:
        result = _without(result, shape, _tree_of(dropped))
    same = next((m for m in managers if m.identity == mine.identity and m.fields == wanted), None)
    entries = [*others, mine if same is None else same]
    return {**result, "metadata": {**result["metadata"], "managedFields": write_managers(entries)}}


def _is_contested(live: Any, wanted: Any) -> bool:
    # An empty map asks for no field of its own, so it is content with whatever stands there.
    return bool(live != wanted) and not (wanted == {} and isinstance(live, Mapping))


def _conflict(conflicts: list[tuple[Manager, list[Path]]]) -> ApiError:
    fields: dict[str, list[str]] = {}  # by whose they are
    for other, paths in conflicts:
        using = f" using {other.api_version}" if other.operation == UPDATE else ""
        subresource = f' with subresource "{other.subresource}"' if other.subresource else ""
        with_whom = f' with "{other.name}"{subresource}{using}'
        fields.setdefault(with_whom, []).extend(map(written, paths))
    pairs = [(with_whom, field) for with_whom, listed in fields.items() for field in listed]
    if len(pairs) == 1:
        text = "1 conflict: conflict" + ": ".join(pairs[0])
    else:
        lists = (
            "\n- ".join((f"conflicts{with_whom}:", *listed)) for with_whom, listed in fields.items()
        )
        text = f"{len(pairs)} conflicts: " + "\n".join(lists)
    reason = "FieldManagerConflict"
    causes = [
        {"reason": reason, "message": f"conflict{with_whom}", "field": f} for with_whom, f in pairs
    ]
    return ApiError(409, "Conflict", f"Apply failed with {text}", {"causes": causes})


def written(path: Path) -> str:
    """A path as Kubernetes writes it in conflicts: .spec.containers[name="main"].image"""
    text = ""
    for step in path:
        if step.startswith("f:"):
            text += f".{step[2:]}"
        elif step.startswith("k:"):
            keys = json.loads(step[2:])
            text += "[" + ",".join(f"{k}={json.dumps(v)}" for k, v in keys.items()) + "]"
        else:
            text += f"[={step[2:]}]"
    return text


def track_update(
    live: Mapping[str, Any], new: dict[str, Any], shape: Shape, manager: Manager
) -> None:
    """Note in `new` what a write that is no apply changed, if anybody asked to keep track."""
    metadata = new["metadata"]
    if metadata.get("managedFields") == []:
        return  # the client asks to drop the record of field ownership
    managers = read_managers(new)
    if not managers:
        return
    before, after = fields_of(live, shape), fields_of(new, shape)
    there, here = Look(live, shape), Look(new, shape)
    changed = frozenset(
        path
        for path in after
        if path not in before or (path[-1].startswith("f:") and there.at(path) != here.at(path))
    )
    gone = before - after
    if not changed and not gone:
        return
    mine = replace(manager, fields=changed)
    entries = []
    for other in managers:
        if other.identity == mine.identity:
            mine = replace(mine, fields=(other.fields - gone) | changed)
        else:
            entries.append(replace(other, fields=other.fields - changed - gone))
    metadata["managedFields"] = write_managers(_bounded([*entries, mine]))


def _bounded(managers: list[Manager]) -> list[Manager]:
    updating = sorted((m for m in managers if m.operation == UPDATE), key=lambda m: m.time)
    if len(updating) <= MANAGERS_MAX:
        return managers
    old = updating[: len(updating) - MANAGERS_MAX + 1]
    merged = replace(old[-1], name=MERGED_NAME, fields=frozenset().union(*(m.fields for m in old)))
    return [m for m in managers if m not in old] + [merged]
