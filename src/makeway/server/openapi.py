"""OpenAPI v3: an index, and one document for each group and version."""

import hashlib
import re
from functools import cache
from typing import Any

from makeway.api.kinds import Resource
from makeway.server import errors
from makeway.server.discovery import ANSWERS, VERSION, group_versions, served
from makeway.server.messages import Response, encode
from makeway.server.patch import patch_types
from makeway.server.schemas import REFERENCE, components

_QUERY = ("dryRun", "fieldManager", "fieldValidation")
_FOR_EVER = (("Cache-Control", "public, immutable"), ("Expires", "Fri, 01 Jan 2100 00:00:00 GMT"))


def answer(path: list[str]) -> Response:
    match path:
        case ["v2"]:
            # Zero bytes are an empty protobuf message, which is all that kubectl needs of it.
            return Response(
                content_type="application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
            )
        case ["v3"]:
            return Response(body=index())
        case ["v3", "api", version] if version in group_versions()[""]:
            return Response(body=document("", version), headers=_FOR_EVER)
        case ["v3", "apis", group, version] if group and version in group_versions().get(group, ()):
            return Response(body=document(group, version), headers=_FOR_EVER)
        case _:
            raise errors.no_such_path()


def path_of(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


@cache
def index() -> bytes:
    """Each document with a hash, so that clients may keep it for ever."""
    paths = {}
    for group, versions in group_versions().items():
        for version in versions:
            path = path_of(group, version)
            mark = hashlib.sha256(document(group, version)).hexdigest().upper()[:32]
            paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={mark}"}
    return encode({"paths": paths})


@cache
def document(group: str, version: str) -> bytes:
    everything = components()
    schemas: dict[str, Any] = {}
    paths: dict[str, Any] = {}
    for resource in served(group, version):
        if resource in ANSWERS:
            continue
        name = _schema_name(resource, version)
        schema = dict(everything[resource.schema])
        kind = {"group": group, "version": version, "kind": resource.kind}
        schema["x-kubernetes-group-version-kind"] = [kind]
        schemas[name] = schema
        _collect(schema, schemas, everything)
        paths |= _paths(resource, version, name, kind)
    return encode(
        {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": VERSION},
            "paths": paths,
            "components": {"schemas": _apart(dict(sorted(schemas.items())))},
        }
    )


def _schema_name(resource: Resource, version: str) -> str:
    return resource.schema.replace(f".{resource.versions[0]}.", f".{version}.")


def _collect(node: Any, schemas: dict[str, Any], everything: dict[str, Any]) -> None:
    if isinstance(node, list):
        for item in node:
            _collect(item, schemas, everything)
    elif isinstance(node, dict):
        reference = node.get("$ref")
        if isinstance(reference, str):
            name = reference.removeprefix(REFERENCE)
            if name not in schemas:
                schemas[name] = everything[name]
                _collect(everything[name], schemas, everything)
        for value in node.values():
            _collect(value, schemas, everything)


def _apart(node: Any) -> Any:
    """The same with references apart from what is said of them: nothing may stand beside one."""
    if isinstance(node, list):
        return [_apart(item) for item in node]
    if not isinstance(node, dict):
        return node
    if isinstance(node.get("$ref"), str) and len(node) > 1:
        rest = {key: value for key, value in node.items() if key != "$ref"}
        return {**rest, "allOf": [{"$ref": node["$ref"]}]}
    return {key: _apart(value) for key, value in node.items()}


def _paths(resource: Resource, version: str, name: str, kind: dict[str, str]) -> dict[str, Any]:
    root = "/" + path_of(resource.group, version)
    middle = "/namespaces/{namespace}" if resource.is_namespaced else ""
    collection = f"{root}{middle}/{resource.plural}"
    item = f"{collection}/{{name}}"
    types = patch_types(resource)  # kubectl sends what it finds here

    def operations(*verbs: str) -> dict[str, Any]:
        return {verb: _operation(verb, name, kind, types) for verb in verbs}

    found = {
        collection: operations("get", "post"),
        item: operations("get", "put", "patch", "delete"),
    }
    if resource.has_status:
        found[f"{item}/status"] = operations("get", "put", "patch")
    return {path: {**made, **_path_parameters(path)} for path, made in found.items()}


def _path_parameters(path: str) -> dict[str, Any]:
    """What stands in braces in a path; generators of clients and tests refuse one without."""
    schema = {"type": "string", "uniqueItems": True}
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": schema}
        for name in re.findall(r"{(\w+)}", path)
    ]
    return {"parameters": parameters} if parameters else {}


def _operation(
    verb: str, name: str, kind: dict[str, str], patch_types: list[str]
) -> dict[str, Any]:
    reference = {"schema": {"$ref": REFERENCE + name}}
    operation: dict[str, Any] = {
        "responses": {"200": {"description": "OK", "content": {"application/json": reference}}},
        "x-kubernetes-action": verb,
        "x-kubernetes-group-version-kind": kind,
    }
    if verb in ("post", "put", "patch"):
        operation["parameters"] = [
            {"name": query, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
            for query in _QUERY
        ]
        types = patch_types if verb == "patch" else ["application/json"]
        body = {"schema": {"type": "object"}} if verb == "patch" else reference
        operation["requestBody"] = {"content": dict.fromkeys(types, body)}
    return operation
