"""Objects laid over objects of the same kind and name, before anybody reads them.

Mappings are merged field by field, lists of things with a name item by item, other lists are
replaced as a whole, and null removes a field. What comes out is read and checked as if somebody
had written it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from makeway.api.manifests import Manifest, Position
from makeway.sim.trace_jobs import SimulationError, position_of

# By the name of a list: the field by which its items are told apart. Stockouts and failures are
# not here: several may concern one flavor.
KEYS: Mapping[str, str] = {
    "resourceGroups": "coveredResources",
    "flavors": "name",
    "resources": "name",
    "startup": "flavor",
    "nodes": "flavor",
    "prices": "flavor",
    "speeds": "flavor",
    "checkpoints": "queue",
    "cancellations": "queue",
    "checks": "name",
}
Identity = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayeredManifest(Manifest):
    """A document made of two; a field stands where the upper one has it, else in the lower one."""

    lower: Manifest
    upper: Manifest

    def locate(self, path: str) -> Position:
        found = self.upper.locate(path)
        return self.lower.locate(path) if found == self.upper.position else found


def identity_of(manifest: Manifest) -> Identity:
    """Kind, namespace and name; objects of which there is only one have no name."""
    document = manifest.document
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    kind = str(document.get("kind", ""))
    if kind in ("Simulation", "Configuration"):
        return kind, "", ""
    return kind, str(metadata.get("namespace", "")), str(metadata.get("name", ""))


def laid_over(lower: Iterable[Manifest], upper: Iterable[Manifest]) -> tuple[Manifest, ...]:
    """All objects, in the order of their first appearance.

    An object that stands twice in one of the two is left as it is: that is for others to refuse.
    """
    found: list[Manifest] = [*lower]
    places = {identity_of(manifest): i for i, manifest in enumerate(found)}
    for manifest in upper:
        place = places.get(identity_of(manifest))
        if place is None:
            found.append(manifest)
        else:
            found[place] = _merged(found[place], manifest)
    return tuple(found)


def _merged(lower: Manifest, upper: Manifest) -> Manifest:
    versions = [manifest.document.get("apiVersion") for manifest in (lower, upper)]
    if versions[1] is not None and versions[0] != versions[1]:
        raise SimulationError(
            f"{position_of(upper.locate('apiVersion'))}: apiVersion: {versions[1]} can't be laid"
            f" over {versions[0]} of {position_of(lower.position)}; write the same"
        )
    return LayeredManifest(
        document=merged(lower.document, upper.document),
        index=lower.index,
        position=lower.position,
        node=lower.node,
        lower=lower,
        upper=upper,
    )


def merged(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(lower)
    for name, value in upper.items():
        below = result.get(name)
        if value is None:
            result.pop(name, None)
        elif isinstance(value, Mapping) and isinstance(below, Mapping):
            result[name] = merged(below, value)
        elif name in KEYS and isinstance(value, list) and isinstance(below, list):
            result[name] = _merged_lists(below, value, KEYS[name])
        else:
            result[name] = value
    return result


def _merged_lists(lower: Sequence[Any], upper: Sequence[Any], key: str) -> list[Any]:
    items = [*lower, *upper]
    if not all(isinstance(item, Mapping) and key in item for item in items):
        return list(upper)
    above = {str(item[key]): item for item in upper}
    result = [merged(item, above.pop(str(item[key]), {})) for item in lower]
    return [*result, *above.values()]


def documents_of_kind(manifests: Iterable[Manifest], kind: str) -> Iterator[Manifest]:
    return (manifest for manifest in manifests if manifest.document.get("kind") == kind)
