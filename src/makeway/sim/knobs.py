"""What a planner can turn, by a name: quota, load, gates, and every field of every object.

quota of flavor a100               all of it, spread over its holders in proportion
quota of flavor a100 of queue vision
load, load of queue vision         more or fewer jobs
gate OwnersFirst
queue/vision.queueingStrategy      a field; queue/*. for all of them
simulation.startup[spot].delay     an item of a list by its name

A value is what the field takes; of quota and load also +8, -8 and x1.5.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

from makeway.api.manifests import Manifest, Position, read_manifests
from makeway.api.quantity import QuantityError, amount, format_amount, in_units
from makeway.sim.load import Load
from makeway.sim.overlay import KEYS, documents_of_kind
from makeway.sim.trace_jobs import SimulationError

KINDS: Mapping[str, str] = {
    "queue": "ClusterQueue",
    "clusterqueue": "ClusterQueue",
    "localqueue": "LocalQueue",
    "cohort": "Cohort",
    "flavor": "ResourceFlavor",
    "priority": "WorkloadPriorityClass",
    "simulation": "Simulation",
    "configuration": "Configuration",
}
SINGLE: Mapping[str, str] = {
    "Simulation": "makeway.dev/v1alpha1",
    "Configuration": "config.kueue.x-k8s.io/v1beta2",
}
TOP = ("spec", "metadata")
_PATH = re.compile(r"(\w+)(?:/([^.\[\s]+))?\.(.+)")
_STEP = re.compile(r"\.?([^.\[\]]+)|\[([^\]]+)\]")
_RELATIVE = re.compile(r"([+\-x*])\s*([0-9.]+)")
VALUE_HINT = "write KNOB=VALUE, for example 'quota of flavor a100=+8' or load=1.5"
HINT = (
    "write for example 'quota of flavor a100', 'load', 'load of queue vision', 'gate OwnersFirst'"
    " or 'queue/vision.queueingStrategy'"
)


class Setup(NamedTuple):
    """What can be turned: objects, and the load."""

    manifests: tuple[Manifest, ...]
    load: Load = Load()


@dataclass(frozen=True, slots=True)
class Turn:
    """A knob and what it is turned to, both as written."""

    knob: str
    value: str

    def __str__(self) -> str:
        return f"{self.knob}={self.value}"


def parse_turn(text: str) -> Turn:
    knob, equals, value = text.rpartition("=")
    if not equals or not knob.strip() or not value.strip():
        raise SimulationError(f"{text or '(nothing)'}: {VALUE_HINT}")
    return Turn(" ".join(knob.split()), value.strip())


def turned(setup: Setup, turns: Iterable[Turn]) -> Setup:
    for turn in turns:
        setup = knob_named(turn.knob).turned(setup, turn.value)
    return setup


class Knob:
    name: str

    def turned(self, setup: Setup, value: str) -> Setup:
        raise NotImplementedError

    def reading(self, setup: Setup) -> float:
        """Where it stands, for a search."""
        raise SimulationError(f"{self.name}: only quota and load can be searched for")

    is_whole = True  # values are whole numbers


def knob_named(text: str) -> Knob:
    words = text.split()
    match words:
        case ["quota", *rest]:
            return QuotaKnob(text, rest)
        case ["load"]:
            return LoadKnob(text, None)
        case ["load", "of", "queue", name] | ["load", "of", name]:
            return LoadKnob(text, name)
        case ["gate", name]:
            return PathKnob(text, "Simulation", "", ("featureGates", name))
    found = _PATH.fullmatch(text)
    if found is None or found[1].lower() not in KINDS:
        raise SimulationError(f"{text}: is nothing that can be turned; {HINT}")
    kind = KINDS[found[1].lower()]
    if (found[2] is None) != (kind in SINGLE):
        example = "simulation.termination" if kind in SINGLE else f"{found[1]}/NAME.{found[3]}"
        raise SimulationError(f"{text}: write {example}")
    steps = tuple(step[1] or step[2] for step in _STEP.finditer(found[3]))
    return PathKnob(text, kind, found[2] or "", steps)


# --- fields ---


class PathKnob(Knob):
    def __init__(self, text: str, kind: str, name: str, steps: Sequence[str]) -> None:
        self.name, self._kind, self._object, self._steps = text, kind, name, steps

    def turned(self, setup: Setup, value: str) -> Setup:
        manifests, is_found = [], False
        for manifest in self._with_singles(setup.manifests):
            if self._means(manifest):
                is_found = True
                manifest = _edited(
                    manifest, self._path(), _yaml_value(f"{self.name}={value}", value)
                )
            manifests.append(manifest)
        if not is_found:
            there = ", ".join(_name_of(m) for m in documents_of_kind(setup.manifests, self._kind))
            what = f"there is no {self._kind} {self._object}"
            raise SimulationError(f"{self.name}: {what} (there are {there or 'none'})")
        return setup._replace(manifests=tuple(manifests))

    def _with_singles(self, manifests: Sequence[Manifest]) -> Sequence[Manifest]:
        if self._kind not in SINGLE or any(documents_of_kind(manifests, self._kind)):
            return manifests
        document = {"apiVersion": SINGLE[self._kind], "kind": self._kind}
        return (*manifests, Manifest(document=document, index=0, position=Position("--set", 0)))

    def _means(self, manifest: Manifest) -> bool:
        is_kind = manifest.document.get("kind") == self._kind
        return is_kind and self._object in ("", "*", _name_of(manifest))

    def _path(self) -> Sequence[str]:
        is_whole_path = self._steps[0] in TOP or self._kind == "Configuration"
        return self._steps if is_whole_path else ("spec", *self._steps)


def _name_of(manifest: Manifest) -> str:
    metadata = manifest.document.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, Mapping) else ""


def _yaml_value(text: str, value: str) -> object:
    found = read_manifests(f"value: {value}", "--set")
    if found.troubles or len(found.manifests) != 1:
        raise SimulationError(f"{text}: {value} is no value")
    return found.manifests[0].document["value"]


def _edited(manifest: Manifest, path: Sequence[str], value: object) -> Manifest:
    document = deepcopy(dict(manifest.document))
    holder: Any = document
    for i, step in enumerate(path[:-1]):
        holder = _inside(holder, step, path, i)
    last = path[-1]
    if isinstance(holder, list):
        place = _place_in(holder, last, path, len(path) - 1)
        holder[place] = value
    elif value is None and last in holder:
        del holder[last]
    else:  # a null that removes nothing stays: who reads the object knows whether it has the field
        holder[last] = value
    return replace(manifest, document=document)


def _inside(holder: Any, step: str, path: Sequence[str], depth: int) -> Any:
    if isinstance(holder, list):
        return holder[_place_in(holder, step, path, depth)]
    is_list_next = step in KEYS
    inner = holder.get(step) if isinstance(holder, Mapping) else None
    if not isinstance(inner, Mapping | list):
        if not isinstance(holder, MutableMapping):
            raise SimulationError(f"{'.'.join(path)}: {step} is inside of something without fields")
        inner = holder[step] = [] if is_list_next else {}
    return inner


def _place_in(items: list[Any], step: str, path: Sequence[str], depth: int) -> int:
    """The place of an item by number or name; a named thing that is not there is added."""
    if step.isdigit() and int(step) < len(items):
        return int(step)
    key = KEYS.get(path[depth - 1], "name")
    for i, item in enumerate(items):
        if isinstance(item, Mapping) and step in (item.get(key), *_listed(item.get(key))):
            return i
    if step.isdigit():
        raise SimulationError(f"{'.'.join(path)}: there is no item {step}")
    items.append({key: step})
    return len(items) - 1


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()


# --- quota ---


class QuotaCell(NamedTuple):
    """One nominal quota in the objects: of whom, and how much."""

    manifest: int
    group: int
    flavor: int
    place: int
    resource: str
    amount: int


class QuotaKnob(Knob):
    def __init__(self, text: str, words: Sequence[str]) -> None:
        self.name = text
        self._wanted: list[tuple[str, str]] = []  # what kind of name (may be empty), and the name
        rest = list(words)
        while rest:
            match rest:
                case [
                    "of" | "in",
                    ("flavor" | "queue" | "cohort" | "resource") as kind,
                    name,
                    *more,
                ]:
                    self._wanted.append((kind, name))
                case ["of" | "in", name, *more]:
                    self._wanted.append(("", name))
                case _:
                    raise SimulationError(
                        f"{text}: write 'quota of flavor a100' or 'quota of flavor a100 of queue b'"
                    )
            rest = more

    def turned(self, setup: Setup, value: str) -> Setup:
        cells, main = self._cells(setup)
        total = sum(cell.amount for cell in cells if cell.resource == main)
        goal = self._goal(total, main, value)
        amounts = self._spread(cells, main, total, goal)
        documents = {
            cell.manifest: deepcopy(setup.manifests[cell.manifest].document) for cell in cells
        }
        for cell, new in zip(cells, amounts, strict=True):
            document: Any = documents[cell.manifest]
            group = document["spec"]["resourceGroups"][cell.group]
            resource = group["flavors"][cell.flavor]["resources"][cell.place]
            resource["nominalQuota"] = format_amount(cell.resource, new)
        manifests = [
            replace(manifest, document=documents[i]) if i in documents else manifest
            for i, manifest in enumerate(setup.manifests)
        ]
        return setup._replace(manifests=tuple(manifests))

    def reading(self, setup: Setup) -> float:
        cells, main = self._cells(setup)
        return in_units(main, sum(cell.amount for cell in cells if cell.resource == main))

    def _goal(self, total: int, main: str, value: str) -> int:
        relative = _RELATIVE.fullmatch(value)
        try:
            if relative is None:
                goal = amount(main, value)
            elif relative[1] in "x*":
                goal = round(total * Fraction(relative[2]))
            else:
                goal = total + (1 if relative[1] == "+" else -1) * amount(main, relative[2])
        except (QuantityError, ValueError):
            problem = f"{value} is no amount; write 640, +8, -8 or x1.5"
            raise SimulationError(f"{self.name}={value}: {problem}") from None
        if goal < 0:
            raise SimulationError(
                f"{self.name}={value}: there is only {format_amount(main, total)}"
            )
        return goal

    def _spread(self, cells: Sequence[QuotaCell], main: str, total: int, goal: int) -> list[int]:
        """In proportion, the main resource exactly; others grow as their machines do."""
        mains = [cell for cell in cells if cell.resource == main]
        if not total and len(mains) > 1:
            raise SimulationError(
                f"{self.name}: it has {len(mains)} holders with nothing, so there is no proportion;"
                " name one of them: 'quota of flavor a100 of queue b'"
            )
        if not total:
            return [goal if cell.resource == main else cell.amount for cell in cells]
        factor = Fraction(goal, total)
        exact = _shared_out(goal, [cell.amount for cell in mains], total)
        by_cell = dict(zip(mains, exact, strict=True))
        return [by_cell.get(cell, round(cell.amount * factor)) for cell in cells]

    def _cells(self, setup: Setup) -> tuple[list[QuotaCell], str]:
        found = [*quota_cells(setup.manifests)]
        self._check_names([names for _, names in found])
        cells = [cell for cell, names in found if self._means(names)]
        if not cells:
            known = [names for _, names in found]
            raise SimulationError(
                f"{self.name}: no queue or cohort has such a quota ({self._there(known)})"
            )
        resources = dict.fromkeys(cell.resource for cell in cells)
        return cells, min(resources, key=lambda name: ("gpu" not in name.lower(), name != "cpu"))

    def _there(self, all_names: Sequence[Mapping[str, str]]) -> str:
        """What there is of the kind that was named wrongly."""
        wrong = (kind for kind, name in self._wanted if all(n.get(kind) != name for n in all_names))
        kind = next(wrong, "") or "flavor"
        names = dict.fromkeys(names[kind] for names in all_names if kind in names)
        return f"by {kind} there is {', '.join(names) or 'none'}"

    def _check_names(self, all_names: Sequence[Mapping[str, str]]) -> None:
        for kind, name in self._wanted:
            kinds = {k for names in all_names for k, own in names.items() if own == name}
            if not kind and len(kinds) > 1:
                raise SimulationError(
                    f"{self.name}: {name} is a {' and a '.join(sorted(kinds))}; say which:"
                    f" 'quota of {min(kinds)} {name}'"
                )

    def _means(self, names: Mapping[str, str]) -> bool:
        return all(
            names.get(kind) == name if kind else name in names.values()
            for kind, name in self._wanted
        )


def quota_cells(manifests: Iterable[Manifest]) -> Iterator[tuple[QuotaCell, dict[str, str]]]:
    """Every nominal quota, and by what names one may speak of it."""
    for i, manifest in enumerate(manifests):
        kind = {"ClusterQueue": "queue", "Cohort": "cohort"}.get(str(manifest.document.get("kind")))
        spec = manifest.document.get("spec")
        if kind is None or not isinstance(spec, Mapping):
            continue
        for g, group in enumerate(_items(spec, "resourceGroups")):
            for f, flavor in enumerate(_items(group, "flavors")):
                for r, resource in enumerate(_items(flavor, "resources")):
                    name = str(resource.get("name"))
                    try:
                        own = amount(name, resource.get("nominalQuota", 0))
                    except QuantityError:
                        continue  # whoever reads the object will refuse it
                    names = {
                        kind: _name_of(manifest),
                        "flavor": str(flavor.get("name")),
                        "resource": name,
                    }
                    yield QuotaCell(i, g, f, r, name, own), names


def _items(holder: Mapping[str, Any], name: str) -> Sequence[Mapping[str, Any]]:
    found = holder.get(name)
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def _shared_out(goal: int, amounts: Sequence[int], total: int) -> list[int]:
    """Whole parts of `goal` in proportion; the biggest remainders are rounded up."""
    parts = [goal * own // total for own in amounts]
    by_rest = sorted(range(len(parts)), key=lambda i: (-(goal * amounts[i] % total), i))
    for i in by_rest[: goal - sum(parts)]:
        parts[i] += 1
    return parts


# --- load ---


class LoadKnob(Knob):
    is_whole = False

    def __init__(self, text: str, queue: str | None) -> None:
        self.name, self._queue = text, queue

    def turned(self, setup: Setup, value: str) -> Setup:
        is_relative = value[:1] in ("x", "*")
        try:
            factor = float(value[1:] if is_relative else value)
        except ValueError:
            factor = -1.0
        if not 0 < factor < 1000:
            raise SimulationError(f"{self.name}={value}: write a factor such as 1.5 or 2")
        factor *= self.reading(setup) if is_relative else 1.0
        load = setup.load
        if self._queue is None:
            return setup._replace(load=replace(load, scale=factor))
        return setup._replace(load=replace(load, growth={**load.growth, self._queue: factor}))

    def reading(self, setup: Setup) -> float:
        return setup.load.scale if self._queue is None else setup.load.growth.get(self._queue, 1.0)
