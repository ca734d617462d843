"""Every field of our kinds says what it means, to `kubectl explain` and in the CRDs."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from tools.make_crds import FOLDER, KINDS_SERVED

from makeway.api.descriptions import DESCRIPTIONS
from makeway.api.kinds import GANG_WORKLOADS, POD_GROUPS, RESOURCES, Resource
from makeway.server.schemas import REFERENCE, components

OURS = [r for r in RESOURCES if r.view is not None and not r.is_built_in]
DESCRIBED = (*OURS, GANG_WORKLOADS, POD_GROUPS)
HINT = "give each a sentence in src/makeway/api/descriptions.py"


def undescribed(schema: Any, path: str, place: str) -> Iterator[str]:
    """Fields without a word, in what is described here and not by Kubernetes."""
    for name, field in schema.get("properties", {}).items():
        here = f"{path}.{name}"
        if "description" not in field and name not in ("apiVersion", "kind"):
            yield here
        inner = field.get("items", field)
        inner = inner.get("additionalProperties", inner)
        reference = inner.get("$ref", "").removeprefix(REFERENCE)
        if reference.startswith(place):
            inner = components()[reference]
        yield from undescribed(inner, here, place)


@pytest.mark.parametrize("resource", DESCRIBED, ids=lambda r: r.full_name)
def test_every_field_is_described(resource: Resource) -> None:
    schema = components()[resource.schema]
    place = resource.schema.rpartition(".")[0]

    assert "description" in schema
    assert list(undescribed(schema, resource.kind, place)) == [], HINT


@pytest.mark.parametrize("kind", KINDS_SERVED)
def test_so_it_is_in_the_crds(kind: str) -> None:
    (file,) = [f for f in FOLDER.iterdir() if f"kind: {kind}\n" in f.read_text()]
    (version,) = yaml.safe_load(file.read_text())["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]

    assert "description" in schema
    found = [path for path in undescribed(schema, kind, "-") if ".metadata" not in path]
    assert found == []  # of metadata a CRD may say nothing


def test_nothing_is_described_that_is_not_there() -> None:
    fields: dict[str, set[str]] = {}
    for name, schema in components().items():
        view = {GANG_WORKLOADS.schema: "GangWorkload"}.get(name, name.rpartition(".")[2])
        fields.setdefault(view, set()).update(schema.get("properties", {}))

    for view, described in DESCRIPTIONS.items():
        assert set(described) - {""} <= fields[view], view
