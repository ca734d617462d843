"""What a server answers with the help of others: scheduler, forecaster, journal and dashboard."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from makeway.accounts import account_of_uid
from makeway.api.kinds import NAMESPACES
from makeway.api.times import parse_time
from makeway.server import errors
from makeway.server.messages import Request, Response, decode, json_response, success
from makeway.server.objects import Target
from makeway.server.options import read_body
from makeway.store import Key, Store

GROUP, VERSIONS = "visibility.kueue.x-k8s.io", ("v1beta2", "v1beta1")
OWN = ("visibility.makeway.dev", "v1")  # group and version
LISTED_MAX = 1000  # unless more are asked for
OWNER = "owner"  # whoever has the token, where our account has no name


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
    return json_response(found)


def at_a_glance(insight: Insight | None, request: Request, rest: list[str]) -> Response:
    """Jobs at a glance, a row for each: what `makeway status` shows; and prospects of one more."""
    if insight is None or not insight.is_ready:
        raise errors.no_such_path()
    match request.method, rest:
        case "GET", ["jobs"]:
            return json_response(insight.jobs("", request.query))
        case "GET", ["namespaces", namespace, "jobs"]:
            return json_response(insight.jobs(namespace, request.query))
        case "POST", ["namespaces", namespace, "prospects"]:
            return json_response(insight.prospects(namespace, read_body(request)))
        case _:
            raise errors.no_such_path()


def explanation(insight: Insight | None, store: Store, target: Target) -> Response:
    _expect_there(store, target)
    found = insight and insight.explain(target.namespace, target.name)
    if not found:
        raise errors.no_such_path()
    return json_response(found)


def preview(insight: Insight | None, document: Mapping[str, Any]) -> Response:
    """What would become of an object, for whoever may create it."""
    if insight is None:
        raise errors.no_such_path()
    return _would_be(insight.preview(document))


def difference(insight: Insight | None, request: Request) -> Response:
    """What would change for whom, were these objects applied: for those who may do anything."""
    asked = read_body(request)
    items = asked.get("items") if isinstance(asked, dict) else None
    if not isinstance(items, list) or insight is None:
        raise errors.bad_request("items: write a list of queue objects")
    return _would_be(insight.difference(items))


def _would_be(found: Mapping[str, Any] | str) -> Response:
    """What would be, or that the question makes no sense."""
    if isinstance(found, str):
        raise errors.bad_request(found)
    return json_response(found)


def one_forecast(forecasts: Forecasts | None, store: Store, target: Target) -> Response:
    _expect_there(store, target)
    if forecasts is None:
        raise errors.no_such_path()
    return json_response(forecasts.one(target.namespace, target.name))


def all_forecasts(forecasts: Forecasts | None, scope: list[str]) -> Response:
    """Of one namespace, or of all."""
    match scope:
        case [] if forecasts is not None:
            return json_response(forecasts.all(""))
        case ["namespaces", namespace] if forecasts is not None:
            return json_response(forecasts.all(namespace))
        case _:
            raise errors.no_such_path()


async def past_explanation(
    history: Remembering | None, store: Store, request: Request, target: Target, *, is_shared: bool
) -> Response:
    """Of a Workload that may be gone; who has a namespace is not told of its last owner."""
    if history is None:
        raise errors.no_such_path()
    found = store.get(Key(NAMESPACES.full_name, "", target.namespace))
    if found is None:
        raise errors.not_found(NAMESPACES, target.namespace)
    made = parse_time(decode(found.body)["metadata"]["creationTimestamp"])
    told = await history.why(
        *(_who(request), target.namespace, target.name),
        at=request.moment("at"),
        since=made if is_shared else 0.0,
    )
    return json_response(told)


async def past_usage(history: Remembering | None, request: Request) -> Response:
    if history is None:
        raise errors.no_such_path()
    times = request.moment("since"), request.moment("until")
    return json_response(await history.usage(_who(request), *times))


def invite_or_sign_out(dashboard: Inviting | None, request: Request) -> Response:
    """A code for the dashboard, for whoever may use this server; or the end of his pages."""
    if dashboard is None:
        raise errors.no_dashboard()
    reader = _reader(request)
    if request.method == "POST":
        return json_response(dashboard.invite(*reader), 201)
    dashboard.sign_out(*reader)
    return json_response(success())


def _reader(request: Request) -> tuple[str, int | None]:
    """By what the dashboard knows who asks."""
    person = request.person
    if person is None:
        own = account_of_uid(os.geteuid())
        return (OWNER if own is None else own.name), None
    if request.uid is None:
        why = "who signs in comes through the Unix socket: pages would outlive a token"
        raise errors.ApiError(403, "Forbidden", why)
    return person.name, person.uid


def _who(request: Request) -> str:
    return "" if request.person is None else request.person.name


def _expect_there(store: Store, target: Target) -> None:
    if store.get(target.key) is None:
        raise errors.not_found(target.resource, target.name)
