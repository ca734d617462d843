"""Schemas of all kinds that are served, and what the server asks of them.

Kubernetes' own come as package data (see tools/make_schemas.py), ours out of the typed views, so
what `kubectl explain` shows is what the codec reads. One schema serves strict decoding, strategic
patches, server-side apply and OpenAPI.
"""

import base64
import gzip
import json
from collections.abc import Mapping
from dataclasses import is_dataclass
from fractions import Fraction
from functools import cache
from importlib import resources
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

from makeway.api.batch import PodTemplateSpec, Taint, Toleration
from makeway.api.codec import plan_of
from makeway.api.descriptions import DESCRIPTIONS
from makeway.api.gangs import GangWorkload, PodGroup
from makeway.api.kinds import RESOURCES, Resource
from makeway.api.meta import LabelSelector, ObjectMeta
from makeway.api.schema import Mark

REFERENCE = "#/components/schemas/"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_CORE = "io.k8s.api.core.v1."
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}

# Views of what Kubernetes describes itself.
_BUILT_IN: Mapping[type, str] = {
    ObjectMeta: _META + "ObjectMeta",
    LabelSelector: _META + "LabelSelector",
    PodTemplateSpec: _CORE + "PodTemplateSpec",
    Taint: _CORE + "Taint",
    Toleration: _CORE + "Toleration",
}
# What our kinds have of Kubernetes', which comes without prose.
_SHARED = (
    _META + "LabelSelector",
    _META + "LabelSelectorRequirement",
    _CORE + "Taint",
    _CORE + "Toleration",
)
# Lists of ours whose items are told apart by a key, as in Kueue's CRDs.
_LIST_KEYS: Mapping[str, str] = {
    "conditions": "type",
    "podSets": "name",
    "podSetAssignments": "name",
    "flavors": "name",
    "resources": "name",
    "admissionChecks": "name",
    "reclaimablePods": "name",
    "resourceRequests": "name",
    "flavorsReservation": "name",
    "flavorsUsage": "name",
    "podGroups": "name",
    "flavorAssignmentHistory": "resourceFlavor",
    "heldBefore": "flavor",
}
# Of another age than the data that the package carries.
_POD_ADDITIONS: Mapping[str, Any] = {
    "workloadRef": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "podGroup": {"type": "string"},
            "podGroupReplicaKey": {"type": "string"},
        },
    },
}


def data(name: str) -> Any:
    file = resources.files("makeway.server") / "data" / name
    return json.loads(gzip.decompress(file.read_bytes()))


@cache
def components() -> dict[str, Any]:
    """All schemas by name."""
    schemas: dict[str, Any] = data("schemas.json.gz")
    schemas[_CORE + "PodSpec"]["properties"].update(_POD_ADDITIONS)
    for name in _SHARED:
        for field, said in DESCRIPTIONS[name.rpartition(".")[2]].items():
            schemas[name]["properties"][field]["description"] = said
    for resource in RESOURCES:
        if resource.schema not in schemas:
            schemas[resource.schema] = _kind_schema(resource, schemas)
    return schemas


def _kind_schema(resource: Resource, schemas: dict[str, Any]) -> dict[str, Any]:
    prefix = resource.schema.rpartition(".")[0] + "."
    typed = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
    if resource.view is not None:
        schema = _object_schema(resource.view, prefix, schemas)
        return {**schema, "properties": {**typed, **schema["properties"]}}
    anything = {"type": "object", **_ANYTHING}
    metadata = {"$ref": REFERENCE + _BUILT_IN[ObjectMeta]}
    properties = {**typed, "metadata": metadata, "spec": anything, "status": anything}
    return {"type": "object", "properties": properties}


def _object_schema(cls: type, prefix: str, schemas: dict[str, Any]) -> dict[str, Any]:
    plan, said = plan_of(cls, True), DESCRIPTIONS.get(cls.__name__, {})
    properties = {
        name: _described(_field_schema(name, field.hint, prefix, schemas), said.get(name))
        for name, field in plan.fields.items()
    }
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    schema = _described(schema, said.get(""))
    if plan.required:
        schema["required"] = list(plan.required)
    if plan.document and cls not in (GangWorkload, PodGroup):
        schema.update(_ANYTHING)
    return schema


def _described(schema: dict[str, Any], description: str | None) -> dict[str, Any]:
    return schema if description is None else {"description": description, **schema}


def _field_schema(name: str, hint: Any, prefix: str, schemas: dict[str, Any]) -> dict[str, Any]:
    if get_origin(hint) is Annotated:
        return _marked(get_args(hint)[1])
    if is_dataclass(hint):
        return {"$ref": REFERENCE + _named(cast(type, hint), prefix, schemas)}
    origin = get_origin(hint)
    if origin is Literal:
        return {"type": "string", "enum": list(get_args(hint))}
    if origin is tuple:
        item = get_args(hint)[0]
        schema = {"type": "array", "items": _field_schema("", item, prefix, schemas)}
        key = _LIST_KEYS.get(name)
        if key is not None and is_dataclass(item):
            return {
                **schema,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": [key],
                "x-kubernetes-patch-strategy": "merge",
                "x-kubernetes-patch-merge-key": key,
            }
        return {**schema, "x-kubernetes-list-type": "atomic"}
    if origin is Mapping:
        value = _field_schema("", get_args(hint)[1], prefix, schemas)
        return {"type": "object", "additionalProperties": value}
    if origin is Union:
        return {"$ref": REFERENCE + "io.k8s.apimachinery.pkg.util.intstr.IntOrString"}
    if hint is Fraction:
        return {"$ref": REFERENCE + _QUANTITY}
    plain = {str: "string", bool: "boolean", int: "integer"}.get(hint)
    return dict(_ANYTHING) if plain is None else {"type": plain}


def _named(cls: type, prefix: str, schemas: dict[str, Any]) -> str:
    if cls in _BUILT_IN:
        return _BUILT_IN[cls]
    name = prefix + cls.__name__
    if name not in schemas:
        schemas[name] = {}  # a class that contains itself finds its name taken
        schemas[name] = _object_schema(cls, prefix, schemas)
    return name


def _marked(mark: Mark) -> dict[str, Any]:
    match mark:
        case Mark.AMOUNT | Mark.QUANTITY:
            return {"$ref": REFERENCE + _QUANTITY}
        case Mark.DURATION:
            return {"type": "string"}
        case Mark.TIME:
            return {"$ref": REFERENCE + _META + "Time"}
        case Mark.INT32:
            return {"type": "integer", "format": "int32"}
        case Mark.WHOLE:
            return dict(_ANYTHING)


# Schemas as the server walks along them.


class Shape:
    """What may stand at one place of a document."""

    __slots__ = ("fields", "is_set", "item", "keys", "kind", "merge_key", "name", "plain", "values")

    def __init__(self) -> None:
        self.kind = "any"  # object, array, string, bytes, integer, number, boolean, or any
        self.plain: tuple[type, ...] = ()  # types of values that need no second look
        self.name = ""  # of the schema, for messages
        self.fields: dict[str, Shape] | None = None  # None: any key
        self.values: Shape | None = None  # of a map
        self.item: Shape | None = None  # of a list
        self.keys: tuple[str, ...] = ()  # by which the items of a list are told apart
        self.is_set = False  # a list whose items are told apart by their value
        self.merge_key: str | None = None  # strategic merge; "" for a list of plain values

    def at(self, key: str) -> "Shape":
        """What may stand under a key."""
        if self.fields is not None:
            return self.fields.get(key, ANY)
        return self.values or ANY


ANY = Shape()


_shapes: dict[str, Shape] = {}


def shape_of(schema: str) -> Shape:
    """The shape of a schema by its name; it may contain itself."""
    if schema not in _shapes:
        shape = _shapes[schema] = Shape()
        _fill(shape, components()[schema])
        shape.name = schema.rpartition(".")[2]
    return _shapes[schema]


def _shape(schema: Mapping[str, Any]) -> Shape:
    reference = schema.get("$ref")
    if reference is not None:
        return shape_of(reference.removeprefix(REFERENCE))
    shape = Shape()
    _fill(shape, schema)
    return shape


def _fill(shape: Shape, schema: Mapping[str, Any]) -> None:
    shape.kind = "bytes" if schema.get("format") == "byte" else schema.get("type", "any")
    if shape.kind not in ("any", "object", "array", "bytes"):
        shape.plain = _TYPES[shape.kind]
    if shape.kind == "object":
        if schema.get("x-kubernetes-preserve-unknown-fields"):
            shape.kind = "any"
        elif "properties" in schema:
            shape.fields = {name: _shape(inner) for name, inner in schema["properties"].items()}
        elif isinstance(schema.get("additionalProperties"), Mapping):
            shape.values = _shape(schema["additionalProperties"])
        else:
            shape.kind = "any"
    elif shape.kind == "array":
        shape.item = _shape(schema.get("items", {}))
        shape.keys = tuple(schema.get("x-kubernetes-list-map-keys", ()))
        shape.is_set = schema.get("x-kubernetes-list-type") == "set"
        if "merge" in schema.get("x-kubernetes-patch-strategy", ""):
            shape.merge_key = schema.get("x-kubernetes-patch-merge-key", "")


_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
}
_WORDS = {
    str: "string",
    int: "number",
    float: "number",
    bool: "bool",
    dict: "object",
    list: "array",
}


def fit_to(document: dict[str, Any], shape: Shape, *, is_checked: bool) -> list[str]:
    """Take out of a document what its schema does not know, in place; return the paths of that.

    Nulls count as absent. Misfit is raised for a value of a wrong type, and, if that is checked,
    for an item that stands twice in a list with keys.
    """
    unknown: list[str] = []
    _fit(document, shape, "", unknown, is_checked)
    return unknown


class Misfit(Exception):
    def __init__(self, value: Any, path: str, problem: str, expected: str = "") -> None:
        super().__init__(path)
        self.value, self.path, self.problem, self.expected = value, path, problem, expected

    def as_decoded(self, kind: str) -> str:
        """The words of a decoder."""
        if self.expected == "bytes":
            return self.problem
        found = _WORDS.get(type(self.value), "value")
        return (
            f"json: cannot unmarshal {found} into Go struct field {kind}{self.path} "
            f"of type {self.expected}"
        )


def _wrong_type(value: Any, path: str, expected: str) -> Misfit:
    return Misfit(value, path, f"is not of type {expected}", expected)


def _fit(value: Any, shape: Shape, path: str, unknown: list[str], is_checked: bool) -> None:
    kind = shape.kind
    if kind == "object":
        if type(value) is not dict:
            raise _wrong_type(value, path, "object")
        fields = shape.fields
        if fields is not None:
            for key in [k for k, v in value.items() if v is None or k not in fields]:
                if value[key] is not None or key not in fields:
                    unknown.append(f"{path}.{key}")
                del value[key]
            for key, item in value.items():
                inner = fields[key]
                if type(item) not in inner.plain and inner.kind != "any":
                    _fit(item, inner, f"{path}.{key}", unknown, is_checked)
        elif shape.values is not None:
            for key in [k for k, v in value.items() if v is None]:
                del value[key]
            for key, item in value.items():
                if type(item) not in shape.values.plain:
                    _fit(item, shape.values, f"{path}.{key}", unknown, is_checked)
    elif kind == "array":
        if type(value) is not list:
            raise _wrong_type(value, path, "array")
        each = shape.item
        if each is not None and each.kind != "any":
            for index, item in enumerate(value):
                if type(item) not in each.plain:
                    _fit(item, each, f"{path}[{index}]", unknown, is_checked)
        if is_checked and shape.keys:
            _check_keys(value, shape, path)
    elif kind == "bytes":
        _check_base64(value, path)
    elif kind != "any" and type(value) not in _TYPES[kind]:
        raise _wrong_type(value, path, kind)


def _check_base64(value: Any, path: str) -> None:
    if type(value) is not str:
        raise _wrong_type(value, path, "string")
    try:
        base64.b64decode(value.replace("\r", "").replace("\n", ""), validate=True)
    except ValueError:
        # The value may be a secret, written as it is by mistake: it is not repeated.
        raise Misfit("", path, f"illegal base64 data at {path[1:]}", "bytes") from None


def _check_keys(items: list[Any], shape: Shape, path: str) -> None:
    seen = set[tuple[Any, ...]]()
    for index, item in enumerate(items):
        key = tuple(str(item.get(name)) for name in shape.keys)
        if key in seen:
            raise Misfit(", ".join(key), f"{path}[{index}]", "stands here twice")
        seen.add(key)
