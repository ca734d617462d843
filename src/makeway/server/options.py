"""What a request asks for besides an object: how a write, a deletion or a binding is meant."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from makeway.server import errors
from makeway.server.errors import ApiError, bad_request
from makeway.server.messages import JSON, Request, parse
from makeway.server.people import Person
from makeway.server.protobuf import PROTOBUF, decode_protobuf


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a write is meant."""

    is_dry_run: bool = False
    field_validation: str = "Warn"  # Strict, Warn or Ignore
    manager: str = "unknown"
    is_forced: bool = False
    is_trusted: bool = False  # it comes from the controller in this process
    size: int = 0  # of the body, in bytes
    person: Person | None = None  # who asks, where several share the server
    may_create: bool = True  # what is applied and not there
    array_number: int | None = None  # of the array that is made; None: of each job its own


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    is_dry_run: bool = False
    propagation: str = ""  # Background, Foreground, Orphan; empty: the default
    grace_s: int | None = None  # None: what the object says
    uid: str = ""
    resource_version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """A node for a pod, and what else the pod gets with it."""

    node: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    metadata: Mapping[str, Any]  # may ask for a certain pod, by uid or revision


def read_body(request: Request) -> Any:
    if request.parsed is not None:
        return request.parsed
    match request.content_type:
        case "" | "application/json" | "application/yaml":
            return parse(request.body, request.content_type)
        case "application/vnd.kubernetes.protobuf":
            return decode_protobuf(request.body)
        case _:
            raise errors.unsupported_media_type([JSON, "application/yaml", PROTOBUF])


def read_options(request: Request) -> Options:
    validation = request.query.get("fieldValidation", "") or "Warn"
    if validation not in ("Strict", "Warn", "Ignore"):
        words = '"Ignore", "Strict", "Warn"'
        raise _unsupported(_OPTIONS[request.method], "fieldValidation", validation, words)
    manager = request.query.get("fieldManager", "")
    if not manager and request.method != "PATCH":
        manager = request.headers.get("user-agent", "").partition("/")[0]
    return Options(
        is_dry_run=_is_dry_run(request.query.get("dryRun", ""), _OPTIONS[request.method]),
        field_validation=validation,
        manager=manager[:128] or "unknown",
        is_forced=request.flag("force"),
        is_trusted=request.is_trusted,
        size=len(request.body),
        person=request.person,
        may_create=request.may_create,
    )


# What Kubernetes calls the options of a request, by method.
_OPTIONS = {
    "POST": "CreateOptions",
    "PUT": "UpdateOptions",
    "PATCH": "PatchOptions",
    "DELETE": "DeleteOptions",
}


def _unsupported(options: str, field: str, value: str, supported: str) -> ApiError:
    why = f'Unsupported value: "{value[:50]}": supported values: {supported}'
    return errors.bad_option(options, field, "FieldValueNotSupported", why)


def _is_dry_run(text: str, options: str) -> bool:
    if text not in ("", "All"):
        raise _unsupported(options, "dryRun", text, '"All"')
    return text == "All"


def read_delete_options(request: Request) -> DeleteOptions:
    body = read_body(request) if request.body.strip() else {}
    if not isinstance(body, dict):
        raise bad_request("DeleteOptions is not an object")
    return _delete_options(request, body)


def read_eviction(request: Request, pod: str) -> DeleteOptions:
    """How a pod is to be deleted by an eviction; refused if it speaks of another pod."""
    body = read_body(request) if request.body else {}
    if not isinstance(body, dict):
        body = {}
    if _name_of(body) not in ("", pod):
        raise bad_request("name in URL does not match name in Eviction object")
    asked = body.get("deleteOptions")
    return _delete_options(request, asked if isinstance(asked, dict) else {})


def _delete_options(request: Request, body: Mapping[str, Any]) -> DeleteOptions:
    dry_run = body.get("dryRun") or ([request.query["dryRun"]] if "dryRun" in request.query else [])
    if not isinstance(dry_run, list):
        raise bad_request("dryRun is not a list")
    if body.get("kind", "DeleteOptions") != "DeleteOptions":
        raise bad_request(f"{str(body['kind'])[:50]} is not DeleteOptions")
    propagation = body.get("propagationPolicy") or request.query.get("propagationPolicy", "")
    if propagation not in ("", "Background", "Foreground", "Orphan"):
        supported = '"Foreground", "Background", "Orphan"'
        raise _unsupported("DeleteOptions", "propagationPolicy", str(propagation), supported)
    if body.get("orphanDependents") is True or request.flag("orphanDependents"):
        if propagation:
            why = "Invalid value: orphanDependents and propagationPolicy cannot both be set"
            raise errors.bad_option("DeleteOptions", "propagationPolicy", "FieldValueInvalid", why)
        propagation = "Orphan"
    grace_s = body.get("gracePeriodSeconds")
    if grace_s is None:
        grace_s = request.number("gracePeriodSeconds")
    if grace_s is not None and not isinstance(grace_s, int):
        raise bad_request("gracePeriodSeconds is not a whole number")
    preconditions = body.get("preconditions") or {}
    if not isinstance(preconditions, dict):
        raise bad_request("preconditions is not an object")
    return DeleteOptions(
        is_dry_run=any(_is_dry_run(str(text), "DeleteOptions") for text in dry_run),
        propagation=propagation,
        grace_s=grace_s,
        uid=str(preconditions.get("uid") or ""),
        resource_version=str(preconditions.get("resourceVersion") or ""),
    )


def _name_of(body: Mapping[str, Any]) -> str:
    metadata = body.get("metadata")
    return str(metadata.get("name") or "") if isinstance(metadata, dict) else ""


def read_binding(request: Request, pod: str) -> Binding:
    """What is to be bound to which node; refused if it is about another pod or no node."""
    body = read_body(request)
    asked = body.get("target") if isinstance(body, dict) else None
    if not isinstance(asked, dict) or not isinstance(asked.get("name", ""), str):
        raise bad_request("target is not an object with a name")
    if not asked.get("name"):
        raise bad_request("target.name: Required value")
    if asked.get("kind") not in (None, "", "Node"):
        raise bad_request(f"target.kind: Unsupported value: {str(asked['kind'])[:50]!r}")
    if _name_of(body) != pod:
        raise bad_request("name in URL does not match name in Binding object")
    metadata = body["metadata"]
    return Binding(
        node=asked["name"],
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        metadata=metadata,
    )
