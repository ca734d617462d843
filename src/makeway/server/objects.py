"""An object as it is asked for and as it may be stored: address, form, sense, carried-over parts.

Documents in, documents out; nothing here reads or writes the store.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from makeway.api import versions
from makeway.api.batch import ENDED_PHASES, Job, Pod, PodTemplateSpec
from makeway.api.codec import decode_change, decode_hub
from makeway.api.errors import ABSENT, FieldError
from makeway.api.intake import decode_and_check
from makeway.api.kinds import NAMESPACES, NEW_EVENTS, PODS, UNSUPPORTED_KINDS, Resource, View
from makeway.api.validation import is_compared, validate
from makeway.api.validation.findings import Findings
from makeway.api.validation.names import check_key, check_labels, check_name
from makeway.server import defaulting, errors, events, limit_ranges, rbac, rules
from makeway.server.errors import bad_request
from makeway.server.limits import ANNOTATIONS_MAX_BYTES, annotations_size
from makeway.server.messages import decode, encode
from makeway.server.options import Options
from makeway.server.schemas import Misfit, fit_to, shape_of
from makeway.server.surroundings import Surroundings
from makeway.server.unheeded import unheeded
from makeway.store import Key

Document = dict[str, Any]

# Parts of the metadata that only the server sets.
SERVER_FIELDS = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
)


@dataclass(frozen=True, slots=True)
class Outcome:
    body: bytes  # of the object, in the stored version
    is_new: bool = False
    is_gone: bool = False  # deleted by this request
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    resource: Resource
    version: str
    namespace: str
    name: str
    subresource: str = ""

    @property
    def key(self) -> Key:
        return Key(self.resource.stored.full_name, self.namespace, self.name)


def addressed(target: Target, written: Any) -> Document:
    """The document with kind, version and namespace as the URL says; refused if it differs."""
    resource = target.resource
    if not isinstance(written, dict):
        raise bad_request("the body of the request is not an object")
    document: Document = dict(written)
    expected = resource.in_version(target.version)
    found = document["apiVersion"] = document.get("apiVersion") or expected
    kind = document.setdefault("kind", resource.kind)
    if found != expected:
        raise bad_request(
            f"the API version in the data ({found}) does not match the expected API version "
            f"({expected})"
        )
    if kind != resource.kind:
        raise bad_request(
            f"{kind} in version {target.version!r} cannot be handled as a {resource.kind}: "
            "the kind in the data does not match the URL"
        )
    metadata = document.get("metadata")
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict):
        raise bad_request("metadata is not an object")
    for name in ("name", "namespace", "generateName", "resourceVersion", "uid"):
        if not isinstance(metadata.get(name, ""), str | None):
            raise bad_request(f"metadata.{name} is not a string")
    metadata = document["metadata"] = dict(metadata)
    if not resource.is_namespaced:
        metadata.pop("namespace", None)
        return document
    metadata["namespace"] = metadata.get("namespace") or target.namespace
    if metadata["namespace"] != target.namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    return document


def check_name_on_url(target: Target, document: Document) -> None:
    name = document["metadata"].get("name")
    if name != target.name:
        raise bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({target.name})"
        )


def convert(target: Target, wanted: Document) -> versions.Converted:
    """The document as the stored version writes it."""
    if target.resource is NEW_EVENTS:
        return events.to_core(wanted)
    converted = versions.to_hub(wanted)
    if converted.errors:
        raise errors.invalid(target.resource, target.name, converted.errors)
    return converted


def shown_as(document: Mapping[str, Any], resource: Resource, version: str) -> Mapping[str, Any]:
    """A stored document in the form that a client speaks."""
    if resource is NEW_EVENTS:
        return events.from_core(document)
    return versions.from_hub(document, version)


@dataclass(frozen=True, slots=True)
class Checked:
    """What may be stored."""

    document: Document
    view: View | None = None  # None: of a kind without one, or not needed
    warnings: tuple[str, ...] = ()


def checked(
    target: Target,
    converted: versions.Converted,
    old: Document | None,
    options: Options,
    around: Surroundings,
) -> Checked:
    """Complete, decode and check what was converted; ApiError if anything is wrong with it."""
    resource = target.resource
    wanted: Document = dict(converted.document)
    if target.subresource == "status" and old is not None:
        return _checked_status(target, wanted, old, options)
    unknown = [_as_written(path, converted) for path in fit(wanted, target)]
    warnings = unknown_fields(target, unknown, options)
    complete = defaulting.complete(resource, wanted, around, is_new=old is None)
    found: Sequence[FieldError] = _check_metadata(resource, complete["metadata"])
    view = None
    if not found and (resource.view is not None or _is_unsupported(resource)):
        intake = decode_and_check(complete, converted, _compared_view(resource, old))
        view, found = intake.object, intake.errors
        warnings += tuple(str(part) for part in intake.unsupported)
    elif not found and resource.group == rbac.GROUP:
        found = rbac.problems(resource, complete, old)
    elif not found:
        found = _check_names(complete["metadata"])
    if found:
        raise errors.invalid(resource, target.name, found)
    if old is None:
        rules.check_new(resource, complete, around)
        if isinstance(view, Pod):
            limit_ranges.check_pod(target.name, target.namespace, view.spec, around)
        if around.unlimited and not options.is_trusted and _has_limits(view):
            warnings += (f"limits of this machine's jobs don't hold: {around.unlimited}",)
        if not options.is_trusted:
            warnings += unheeded(view)
    return Checked(complete, view, warnings)


def _compared_view(resource: Resource, old: Document | None) -> View | None:
    """The object as it was; None if it is new, or nobody asks what changes."""
    if old is None or resource.view is None or not is_compared(resource.view):
        return None
    return decode_hub(old).object


def _is_unsupported(resource: Resource) -> bool:
    return (resource.group, resource.kind) in UNSUPPORTED_KINDS


_FINALIZERS = ("orphan", "foregroundDeletion", "kubernetes")  # those without a domain


def _check_metadata(resource: Resource, metadata: Mapping[str, Any]) -> list[FieldError]:
    """Rules that hold for all kinds alike, besides those of spelling."""
    found = []
    size = annotations_size(metadata.get("annotations"))
    if size > ANNOTATIONS_MAX_BYTES:
        problem = f"are too long: {size} bytes, may not be more than {ANNOTATIONS_MAX_BYTES}"
        found.append(FieldError("metadata.annotations", ABSENT, problem))
    owners = metadata.get("ownerReferences") or ()
    if sum(1 for owner in owners if owner.get("controller")) > 1:
        problem = "has two controllers; only one reference can have controller set to true"
        found.append(FieldError("metadata.ownerReferences", ABSENT, problem))
    for index, name in enumerate(metadata.get("finalizers") or ()):
        if resource.is_built_in and "/" not in name and name not in _FINALIZERS:
            path = f"metadata.finalizers[{index}]"
            hint = "write a name with a domain, such as example.com/hold"
            found.append(FieldError(path, name, "has no domain", hint))
    return found


def _has_limits(view: object) -> bool:
    if isinstance(view, Job):
        view = view.spec.template
    if not isinstance(view, Pod | PodTemplateSpec):
        return False
    return any({"cpu", "memory"} & one.resources.limits.keys() for one in view.spec.containers)


def _checked_status(target: Target, wanted: Document, old: Document, options: Options) -> Checked:
    """The same for a write of the status alone: what else there is was checked before.

    By far the most writes are of this kind. They are for controllers, which have been told
    before which fields are not acted on. Our own makes statuses of values that were checked.
    """
    resource = target.resource
    part = {"status": wanted["status"]}
    unknown = fit(part, target)
    warnings = unknown_fields(target, unknown, options)
    new = {**wanted, "status": part.get("status", {})}
    if resource.view is not None and not options.is_trusted:
        before = _compared_view(resource, old)
        decoded = (
            decode_hub(new) if before is None else decode_change(before, new, "metadata", "status")
        )
        found = decoded.errors
        if decoded.object is not None:
            found = validate(decoded.object, before)
        if found:
            raise errors.invalid(resource, target.name, found)
    return Checked(new, warnings=warnings)


def fit(document: Document, target: Target) -> list[str]:
    """Take out what the schema does not know, and return where that was; wrong types are refused.

    Kubernetes decodes its own kinds into types, and checks custom ones like any other rule.
    """
    resource = target.resource
    try:
        unknown = fit_to(
            document, shape_of(resource.stored.schema), is_checked=not resource.is_built_in
        )
    except Misfit as error:
        if resource.is_built_in or error.path.startswith(".metadata"):
            why = error.as_decoded(resource.kind)
            raise errors.cannot_handle(resource.kind, target.version, why) from None
        wrong = FieldError(error.path.removeprefix("."), error.value, error.problem)
        raise errors.invalid(resource, target.name, [wrong]) from None
    return unknown


def check_finalizers(target: Target, new: Mapping[str, Any], old: Mapping[str, Any]) -> None:
    """An object that is being deleted gets no new finalizers."""
    if not old.get("deletionTimestamp"):
        return
    more = [name for name in new.get("finalizers") or () if name not in old.get("finalizers", ())]
    if more:
        problem = f"no new finalizers can be added if the object is being deleted: {more}"
        found = FieldError("metadata.finalizers", ABSENT, problem)
        raise errors.invalid(target.resource, target.name, [found])


def unknown_fields(target: Target, unknown: list[str], options: Options) -> tuple[str, ...]:
    texts = [f'unknown field "{path.removeprefix(".")}"' for path in unknown]
    if texts and options.field_validation == "Strict":
        why = f"strict decoding error: {', '.join(texts)}"
        raise errors.cannot_handle(target.resource.kind, target.version, why)
    return tuple(texts) if options.field_validation == "Warn" else ()


def _as_written(path: str, converted: versions.Converted) -> str:
    if not converted.renamed:
        return path
    error = FieldError(path.removeprefix("."), None, "")
    return converted.as_written(error).path


def _check_names(metadata: Mapping[str, Any]) -> list[FieldError]:
    """For kinds without a view of their own."""
    found = Findings()
    here = found.at("metadata")
    check_name(metadata.get("name", ""), here.at("name"))
    check_labels(metadata.get("labels") or {}, here.at("labels"))
    for key in metadata.get("annotations") or {}:
        check_key(key, here.at("annotations", key))
    return found.errors


def copied(document: Document) -> Document:
    copy: Document = decode(encode(document))
    return copy


def encoded(document: Document, revision: int) -> bytes:
    """The document as it is kept; the encoder's own result holds on to several times its size."""
    document["metadata"]["resourceVersion"] = str(revision)
    return bytes(memoryview(encode(document)))


def carried_metadata(new: Mapping[str, Any], old: Mapping[str, Any]) -> Document:
    """New metadata with what only the server sets as it was."""
    carried = dict(new)
    for name in SERVER_FIELDS:
        carried.pop(name, None)
        if name in old:
            carried[name] = old[name]
    carried["name"] = old["name"]
    if "managedFields" not in carried and "managedFields" in old:
        carried["managedFields"] = old["managedFields"]
    if old.get("generateName"):
        carried["generateName"] = old["generateName"]
    return carried


def spec_differs(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    aside = ("metadata", "status")
    return {k: v for k, v in new.items() if k not in aside} != {
        k: v for k, v in old.items() if k not in aside
    }


def grace_s(resource: Resource, document: Mapping[str, Any], asked_s: int | None) -> int:
    """Only pods that have a node and still run get time to end."""
    if resource is not PODS:
        return 0
    spec, status = document.get("spec") or {}, document.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in ENDED_PHASES:
        return 0
    if asked_s is not None:
        return asked_s if asked_s >= 0 else 1
    default_s = spec.get("terminationGracePeriodSeconds")
    return 30 if default_s is None else int(default_s)


def can_be_removed(resource: Resource, document: Mapping[str, Any]) -> bool:
    """Whether nothing holds an object that is marked for deletion."""
    metadata = document["metadata"]
    if metadata.get("finalizers"):
        return False
    if resource is NAMESPACES and (document.get("spec") or {}).get("finalizers"):
        return False
    return not (resource is PODS and metadata.get("deletionGracePeriodSeconds"))
