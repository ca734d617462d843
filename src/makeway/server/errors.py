"""Refusals, in the words of Kubernetes."""

from collections.abc import Mapping, Sequence
from typing import Any

from makeway.api.batch import PodDisruptionBudget
from makeway.api.errors import ABSENT, FieldError, show
from makeway.api.kinds import Resource

RETRY_AFTER_S = 1


class ApiError(Exception):
    def __init__(
        self, code: int, reason: str, message: str, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message
        self.details = details

    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
        }
        if self.details is not None:
            status["details"] = dict(self.details)
        return {**status, "code": self.code}


def of(resource: Resource, name: str) -> dict[str, Any]:
    """The object that an answer is about, in its details."""
    details = {"name": name, "group": resource.group, "kind": resource.plural}
    return {key: value for key, value in details.items() if value}


class DecodingError(ApiError):
    """What was sent is not an object of that kind: a wrong type, an unknown field."""


def cannot_handle(kind: str, version: str, why: str) -> DecodingError:
    message = f'{kind} in version "{version}" cannot be handled as a {kind}: {why}'
    return DecodingError(400, "BadRequest", message)


def not_found(resource: Resource, name: str) -> ApiError:
    message = f'{resource.full_name} "{name}" not found'
    return ApiError(404, "NotFound", message, of(resource, name))


def no_such_path() -> ApiError:
    message = "the server could not find the requested resource"
    return ApiError(404, "NotFound", message, {})


def no_dashboard() -> ApiError:
    why = "this server serves no dashboard (makeway up --no-dashboard, or --system)"
    return ApiError(404, "NotFound", why)


def already_exists(resource: Resource, name: str) -> ApiError:
    message = f'{resource.full_name} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, of(resource, name))


MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def conflict(resource: Resource, name: str, why: str = MODIFIED) -> ApiError:
    message = f'Operation cannot be fulfilled on {resource.full_name} "{name}": {why}'
    return ApiError(409, "Conflict", message, of(resource, name))


def binding_conflict(pod: str, why: str) -> ApiError:
    message = f'Operation cannot be fulfilled on pods/binding "{pod}": {why}'
    return ApiError(409, "Conflict", message, {"name": pod, "kind": "pods/binding"})


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def forbidden(resource: Resource, name: str, why: str) -> ApiError:
    message = f'{resource.full_name} "{name}" is forbidden: {why}'
    return ApiError(403, "Forbidden", message, of(resource, name))


def terminating(resource: Resource, name: str, namespace: str, why: str) -> ApiError:
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    message = f'{resource.full_name} "{name}" is forbidden: {why}'
    return ApiError(403, "Forbidden", message, {**of(resource, name), "causes": [cause]})


def bad_patch(resource: Resource, name: str, why: str) -> ApiError:
    """A patch that makes something of an object which is none of its kind."""
    cause = {"reason": "FieldValueInvalid", "message": why, "field": "patch"}
    message = f'{resource.full_name} "{name}" is invalid: patch: {why}'
    return ApiError(422, "Invalid", message, {"causes": [cause]})


def revision_required(resource: Resource, name: str) -> ApiError:
    """Replacing an object of a custom kind takes the revision that was seen of it."""
    why = "Invalid value: 0: must be specified for an update"
    cause = {"reason": "FieldValueInvalid", "message": why, "field": "metadata.resourceVersion"}
    message = f'{resource.full_name} "{name}" is invalid: metadata.resourceVersion: {why}'
    return ApiError(422, "Invalid", message, {**of(resource, name), "causes": [cause]})


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized", "Unauthorized")


def method_not_allowed() -> ApiError:
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message, {})


def not_acceptable(accepted: Sequence[str]) -> ApiError:
    message = f"only the following media types are accepted: {', '.join(accepted)}"
    return ApiError(406, "NotAcceptable", message, {})


def unsupported_media_type(accepted: Sequence[str]) -> ApiError:
    message = (
        "the body of the request was in an unknown format - accepted media types include: "
        f"{', '.join(accepted)}"
    )
    return ApiError(415, "UnsupportedMediaType", message, {})


def precondition_failed(resource: Resource, name: str, why: str) -> ApiError:
    """A conflict of a delete, which Kubernetes words by kind."""
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    message = f'Operation cannot be fulfilled on {kind} "{name}": {why}'
    return ApiError(409, "Conflict", message, {**of(resource, name), "kind": resource.kind})


def bad_option(options: str, field: str, sort: str, why: str) -> ApiError:
    """An option of a request that makes no sense; `options` is the kind, such as DeleteOptions."""
    cause = {"reason": sort, "message": why, "field": field}
    details = {"group": "meta.k8s.io", "kind": options, "causes": [cause]}
    message = f'{options}.meta.k8s.io "" is invalid: {field}: {why}'
    return ApiError(422, "Invalid", message, details)


def too_large(limit_bytes: int) -> ApiError:
    message = f"Request entity too large: limit is {limit_bytes}"
    return ApiError(413, "RequestEntityTooLarge", message)


def took_too_long(budget_s: float) -> ApiError:
    message = (
        f"Timeout: the request was not done within {budget_s:g} s, and nothing of it is written; "
        "the server is busy with large requests, or this one is too large"
    )
    return ApiError(504, "Timeout", message, {"retryAfterSeconds": RETRY_AFTER_S})


def header_too_large() -> ApiError:
    message = "Request Header Fields Too Large: the URL or a header is too long"
    return ApiError(431, "RequestHeaderFieldsTooLarge", message)


def expired(message: str) -> ApiError:
    return ApiError(410, "Expired", message)


def too_many_requests(message: str) -> ApiError:
    return ApiError(429, "TooManyRequests", message, {"retryAfterSeconds": RETRY_AFTER_S})


def budget_spent(budget: PodDisruptionBudget) -> ApiError:
    why = (
        f"The disruption budget {budget.metadata.name} needs {budget.status.desired_healthy} "
        f"healthy pods and has {budget.status.current_healthy} currently"
    )
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    causes = [{"reason": "DisruptionBudget", "message": why}]
    return ApiError(429, "TooManyRequests", message, {"causes": causes})


def too_large_revision(asked: int, current: int) -> ApiError:
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return ApiError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {asked}, current: {current}",
        {"causes": [cause], "retryAfterSeconds": RETRY_AFTER_S},
    )


def write_failed(why: str) -> ApiError:
    message = f"the write could not be stored, nothing of it is there: {why}"
    return ApiError(507, "InsufficientStorage", message)


def unavailable(why: str) -> ApiError:
    return ApiError(503, "ServiceUnavailable", why, {"retryAfterSeconds": RETRY_AFTER_S})


def no_memory() -> ApiError:
    return ApiError(503, "ServiceUnavailable", "the server has no memory left for this request")


def internal(message: str) -> ApiError:
    return ApiError(500, "InternalError", f"Internal error occurred: {message}")


def invalid(resource: Resource, name: str, errors: Sequence[FieldError]) -> ApiError:
    """All field errors of an object, as causes and in one line."""
    causes = [_cause(error) for error in errors]
    lines = [f"{cause['field']}: {cause['message']}" for cause in causes]
    text = lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]"
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    details = {**of(resource, name), "kind": resource.kind, "causes": causes}
    return ApiError(422, "Invalid", f'{kind} "{name}" is invalid: {text}', details)


def _cause(error: FieldError) -> dict[str, str]:
    if error.value is not ABSENT:
        reason, head = "FieldValueInvalid", f"Invalid value: {show(error.value)}"
    elif error.problem == "is missing":
        reason, head = "FieldValueRequired", "Required value"
    else:
        reason, head = "FieldValueForbidden", "Forbidden"
    hint = f"; {error.hint}" if error.hint else ""
    text = f"{head}: {error.problem}{hint}".encode("utf-8", "backslashreplace").decode("utf-8")
    return {"reason": reason, "message": text, "field": error.path or "<object>"}
