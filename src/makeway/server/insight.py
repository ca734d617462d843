"""What a server can answer only with the scheduler's help: reasons, positions, metrics."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from makeway.server import errors
from makeway.server.messages import Request, Response, encode
from makeway.server.options import read_body

VISIBILITY_GROUP = "visibility.kueue.x-k8s.io"
VISIBILITY_VERSIONS = ("v1beta2", "v1beta1")
OWN_VISIBILITY = ("visibility.makeway.dev", "v1")
LISTED_MAX = 1000  # unless more are asked for


class Insight(Protocol):
    def explain(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        """Why a workload does not run; None if it isn't known."""

    def pending_in_queue(self, name: str, offset: int, limit: int) -> Mapping[str, Any] | None: ...

    def pending_in_local_queue(
        self, namespace: str, name: str, offset: int, limit: int
    ) -> Mapping[str, Any] | None: ...

    def jobs(self, namespace: str, query: Mapping[str, str]) -> Mapping[str, Any]:
        """Jobs at a glance; an empty namespace means all."""

    def prospects(self, namespace: str, job: Any) -> Mapping[str, Any]:
        """Why a Job that is not there yet could never run."""

    def preview(self, document: Mapping[str, Any]) -> Mapping[str, Any] | str:
        """What would become of an object that is complete; or why nobody can say."""

    def difference(self, documents: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | str:
        """What would change for whom with these queue objects; or why nobody can say."""

    def metrics(self) -> str: ...

    @property
    def is_ready(self) -> bool: ...


class Forecasts(Protocol):
    """When workloads will start and end, as far as the last forecast tells; nobody waits for it."""

    def one(self, namespace: str, name: str) -> Mapping[str, Any]: ...

    def all(self, namespace: str) -> Mapping[str, Any]:
        """Of everybody in a namespace; of all of them, if it is empty."""


class Remembering(Protocol):
    """Who reads the journal for others, one question of each (`who`) at a time."""

    async def why(
        self, who: str, namespace: str, name: str, at: float, since: float
    ) -> Mapping[str, Any]:
        """Why a workload did not run at a time; of what was before `since` nothing is told."""

    async def usage(self, who: str, since: float, until: float) -> Mapping[str, Any]:
        """What everybody has had between two times."""


class Inviting(Protocol):
    """The dashboard beside the server, as far as the server knows it."""

    def invite(self, name: str, uid: int | None) -> Mapping[str, Any]:
        """Its address, and a code that lets a reader in; without uid, he may do everything."""

    def sign_out(self, name: str, uid: int | None) -> None:
        """End all pages of a reader."""


def would_be(found: Mapping[str, Any] | str) -> Response:
    """What would be, or that the question makes no sense."""
    if isinstance(found, str):
        raise errors.bad_request(found)
    return Response(body=encode(found))


def pending(insight: Insight | None, request: Request, rest: list[str]) -> Response:
    """The pending workloads of a queue, as Kueue's visibility API tells them."""
    if insight is None or request.method != "GET":
        raise errors.no_such_path()
    offset, limit = request.number("offset") or 0, request.number("limit") or LISTED_MAX
    match rest:
        case ["clusterqueues", name, "pendingworkloads"]:
            found = insight.pending_in_queue(name, offset, limit)
        case ["namespaces", namespace, "localqueues", name, "pendingworkloads"]:
            found = insight.pending_in_local_queue(namespace, name, offset, limit)
        case _:
            raise errors.no_such_path()
    if found is None:
        raise errors.no_such_path()
    return Response(body=encode(found))


def at_a_glance(insight: Insight | None, request: Request, rest: list[str]) -> Response:
    """Jobs at a glance, a row for each: what `makeway status` shows; and prospects of one more."""
    if insight is None or not insight.is_ready:
        raise errors.no_such_path()
    match request.method, rest:
        case "GET", ["jobs"]:
            return Response(body=encode(insight.jobs("", request.query)))
        case "GET", ["namespaces", namespace, "jobs"]:
            return Response(body=encode(insight.jobs(namespace, request.query)))
        case "POST", ["namespaces", namespace, "prospects"]:
            return Response(body=encode(insight.prospects(namespace, read_body(request))))
        case _:
            raise errors.no_such_path()
