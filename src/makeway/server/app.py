"""From a request to its answer: access, routes, and the options of each verb."""

import hmac
import logging
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from makeway.logs import Fields
from makeway.server import discovery, errors, openapi
from makeway.server.collector import Collector
from makeway.server.commits import Committer, Flush
from makeway.server.errors import ApiError, bad_request
from makeway.server.insight import VISIBILITY_GROUP, VISIBILITY_VERSIONS, Insight, pending
from makeway.server.kinds import BUDGETS, BY_PATH, JOBS, NAMESPACES, PODS
from makeway.server.logs import Logs, NoLogs
from makeway.server.messages import JSON, Request, Response, decode, encode, parse, problem
from makeway.server.objects import Binding, DeleteOptions, Options, Outcome, Target
from makeway.server.protobuf import PROTOBUF, decode_protobuf
from makeway.server.reads import Reads, view_of
from makeway.server.reviews import answer_review
from makeway.server.verbs import APPLY_PATCH, MERGE_PATCH, Verbs
from makeway.store import Store

log = logging.getLogger("makeway.server")

VERSION = "v1.32.4"  # of the protocol; clients compare it with their own
IN_FLIGHT_MAX = 400  # requests that are being answered, without watches and logs
_OPEN_PATHS = ("healthz", "livez", "readyz", "version")
_SEGMENT = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.:]*[A-Za-z0-9])?", re.ASCII)
PODS_STAY = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background "
    "to remove them or set propagationPolicy=Orphan to suppress this warning"
)
NAMESPACES_AT_START = ("default", "kube-node-lease", "kube-system")


class App:
    """Answers requests on one store."""

    def __init__(
        self,
        store: Store,
        *,
        token: str,
        clock: Callable[[], float],
        logs: Logs | None = None,
        chance: random.Random | None = None,
        flush: Flush | None = None,
    ) -> None:
        """Uids and generated names come from `chance`; nobody can guess them unless it is given."""
        self.store, self.clock = store, clock
        self._token = token.encode()
        self._logs = logs or NoLogs()
        self.committer = Committer(store, flush)
        self.reads = Reads(store, clock)
        self.verbs = Verbs(store, self.committer, clock, chance or random.SystemRandom())
        self.collector = Collector(store, self.verbs, clock)
        self.insight: Insight | None = None  # None: nobody schedules here
        self._in_flight = 0

    async def start(self) -> None:
        self.committer.start()
        for name in NAMESPACES_AT_START:
            target = Target(NAMESPACES, "v1", "", name)
            if self.store.get(target.key) is None:
                await self.verbs.create(target, {"metadata": {"name": name}}, Options())
        self.collector.start()

    async def stop(self) -> None:
        self.reads.end_watches()
        await self.collector.stop()
        await self.committer.stop()

    # The way in

    async def handle(self, request: Request) -> Response:
        try:
            return await self._handle(request)
        except ApiError as error:
            return problem(error)
        except RecursionError:
            return problem(bad_request("the body of the request is nested too deeply"))
        except Exception:
            # The outermost line: a bug of ours must not take others' requests down.
            log.exception(Fields(method=request.method, path=request.path))
            return problem(errors.internal("see the log of the server"))

    async def _handle(self, request: Request) -> Response:
        segments = _segments(request.path)
        head = segments[0] if segments else ""
        if (
            head not in _OPEN_PATHS
            and not request.is_trusted
            and not self.is_known(request.headers)
        ):
            raise errors.unauthorized()
        if self._in_flight >= IN_FLIGHT_MAX:
            raise errors.too_many_requests("Too many requests, please try again later.")
        self._in_flight += 1
        try:
            return await self._route(request, segments)
        finally:
            self._in_flight -= 1

    def is_known(self, headers: Mapping[str, str]) -> bool:
        """Whether a request with these headers (names in lower case) carries the token."""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        given = token.strip().encode("utf-8", "surrogateescape")
        return scheme.lower() == "bearer" and hmac.compare_digest(given, self._token)

    async def _route(self, request: Request, segments: list[str]) -> Response:
        match segments:
            case ["api", version, *rest] if rest:
                return await self._resource(request, "", version, rest)
            case ["apis", group, version, *rest] if (
                rest and group == VISIBILITY_GROUP and version in VISIBILITY_VERSIONS
            ):
                return pending(self.insight, request, rest)
            case ["apis", group, version, *rest] if rest:
                return await self._resource(request, group, version, rest)
        if request.method != "GET":
            is_known = segments[:1] in (["api"], ["apis"])
            raise errors.method_not_allowed() if is_known else errors.no_such_path()
        match segments:
            case []:
                return _json({"paths": ["/api", "/apis", "/healthz", "/openapi/v3", "/version"]})
            case ["healthz" | "livez" | "readyz" as asked, *_]:
                return self._health(asked)
            case ["metrics"] if self.insight is not None:
                return Response(
                    body=self.insight.metrics().encode(),
                    content_type="text/plain; version=0.0.4; charset=utf-8",
                )
            case ["version"]:
                return _json(_version())
            case ["api"]:
                address = request.headers.get("host", "")
                return self._discovery(request, [""], discovery.api_versions(address))
            case ["apis"]:
                groups = [group for group in discovery.group_versions() if group]
                return self._discovery(request, groups, discovery.group_list())
            case ["api", version] if version in discovery.group_versions()[""]:
                return _json(discovery.resource_list("", version))
            case ["apis", group] if group and group in discovery.group_versions():
                return _json({"kind": "APIGroup", "apiVersion": "v1", **discovery.group(group)})
            case ["apis", group, version] if version in discovery.group_versions().get(group, ()):
                return _json(discovery.resource_list(group, version))
            case ["openapi", "v2"]:
                # Zero bytes are an empty protobuf message, which is all that kubectl needs of it.
                return Response(
                    content_type="application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
                )
            case ["openapi", "v3"]:
                return Response(body=openapi.index())
            case ["openapi", "v3", "api", version] if version in discovery.group_versions()[""]:
                return _kept(openapi.document("", version))
            case ["openapi", "v3", "apis", group, version] if (
                group and version in discovery.group_versions().get(group, ())
            ):
                return _kept(openapi.document(group, version))
            case _:
                raise errors.no_such_path()

    def _health(self, asked: str) -> Response:
        plain = "text/plain; charset=utf-8"
        if asked == "readyz" and self.insight is not None and not self.insight.is_ready:
            return Response(code=500, body=b"[-]scheduling is not ready yet", content_type=plain)
        return Response(body=b"ok", content_type=plain)

    def _discovery(
        self, request: Request, groups: list[str], legacy: Mapping[str, Any]
    ) -> Response:
        accepted = request.headers.get("accept", "").replace(" ", "")
        for version in ("v2", "v2beta1"):
            if f"g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList" in accepted:
                return Response(
                    body=encode(discovery.aggregated(groups, version)),
                    content_type=discovery.AGGREGATED.format(version),
                )
        return _json(legacy)

    # Objects

    async def _resource(
        self, request: Request, group: str, version: str, rest: list[str]
    ) -> Response:
        for review_group, review_version, kind, plural in discovery.REVIEWS:
            if (group, version, rest) == (review_group, review_version, [plural]):
                if request.method != "POST":
                    raise errors.method_not_allowed()
                return _json(answer_review(kind, self._body(request)), 201)
        namespace, rest = self._namespace(group, version, rest)
        if not rest:
            raise errors.no_such_path()
        resource = BY_PATH.get((group, version, rest[0]))
        if resource is None or len(rest) > 3:
            raise errors.no_such_path()
        if namespace is not None and not resource.is_namespaced:
            raise errors.no_such_path()
        name = rest[1] if len(rest) > 1 else ""
        subresource = rest[2] if len(rest) > 2 else ""
        target = Target(resource, version, namespace or "", name, subresource)
        if not name:
            return await self._collection(request, target, namespace)
        if resource.is_namespaced and namespace is None:
            raise errors.no_such_path()
        if subresource:
            return await self._subresource(request, target)
        return await self._object(request, target)

    def _namespace(self, group: str, version: str, rest: list[str]) -> tuple[str | None, list[str]]:
        """Take the namespace off a path; None if it names none."""
        is_own = len(rest) == 3 and rest[2] in discovery.subresources(NAMESPACES)
        if rest[0] != "namespaces" or len(rest) < 3 or (group == "" and is_own):
            return None, rest
        return rest[1], rest[2:]

    async def _collection(
        self, request: Request, target: Target, namespace: str | None
    ) -> Response:
        resource = target.resource
        match request.method:
            case "GET":
                view = view_of(request, resource, target.version)
                if request.flag("watch"):
                    return self.reads.watch(request, view, target.namespace)
                return await self.reads.listing(request, view, target.namespace)
            case "POST":
                if resource.is_namespaced and namespace is None:
                    raise errors.method_not_allowed()
                outcome = await self.verbs.create(target, self._body(request), _options(request))
                return self._answer(request, target, outcome)
            case "DELETE" if "deletecollection" in resource.verbs:
                return await self._delete_all(request, target)
            case _:
                raise errors.method_not_allowed()

    async def _object(self, request: Request, target: Target) -> Response:
        match request.method:
            case "GET":
                view = view_of(request, target.resource, target.version)
                return self.reads.get(request, view, target.key)
            case "PUT":
                outcome = await self.verbs.replace(target, self._body(request), _options(request))
            case "PATCH":
                outcome = await self._patch(request, target)
            case "DELETE":
                return await self._delete(request, target)
            case _:
                raise errors.method_not_allowed()
        return self._answer(request, target, outcome)

    async def _delete(self, request: Request, target: Target) -> Response:
        options, warnings = self._delete_options(request), tuple[str, ...]()
        if target.resource is JOBS and not options.propagation:
            options, warnings = replace(options, propagation="Orphan"), (PODS_STAY,)
        try:
            outcome = await self.verbs.delete(target, options)
        except ApiError as error:
            return replace(problem(error), headers=_warned(warnings))
        # A pod is always shown as it was when it went.
        if outcome.is_gone and target.resource is not PODS:
            return replace(self._deleted(target, outcome), headers=_warned(warnings))
        return self._answer(request, target, replace(outcome, warnings=warnings))

    async def _patch(self, request: Request, target: Target) -> Outcome:
        if request.content_type != APPLY_PATCH and request.query.get("force"):
            why = "Forbidden: may not be specified for non-apply patch"
            raise errors.bad_option("PatchOptions", "force", "FieldValueForbidden", why)
        self.verbs.check_patch_type(target.resource, request.content_type)
        patch = parse(request.body, request.content_type)
        return await self.verbs.patch(target, request.content_type, patch, _options(request))

    async def _subresource(self, request: Request, target: Target) -> Response:
        known = discovery.subresources(target.resource)
        if target.subresource not in known:
            raise errors.no_such_path()
        match target.subresource, request.method:
            case "status", "GET":
                view = view_of(request, target.resource, target.version)
                return self.reads.get(request, view, target.key)
            case "status", "PUT":
                outcome = await self.verbs.replace(target, self._body(request), _options(request))
            case "status", "PATCH":
                outcome = await self._patch(request, target)
            case "finalize", "PUT":
                wanted = self._body(request)
                spec = wanted.get("spec") if isinstance(wanted, dict) else None
                finalizers = (spec or {}).get("finalizers") or []
                outcome = await self.verbs.finalize(target, [str(name) for name in finalizers])
            case "binding", "POST":
                await self.verbs.bind(target, _binding(self._body(request), target.name))
                return _json(_created(), 201)
            case "eviction", "POST":
                return await self._evict(request, target)
            case "log", "GET":
                return await self._log(request, target)
            case "explanation", "GET":
                return self._explanation(target)
            case _:
                raise errors.method_not_allowed()
        return self._answer(request, target, outcome)

    def _explanation(self, target: Target) -> Response:
        if self.store.get(target.key) is None:
            raise errors.not_found(target.resource, target.name)
        found = self.insight and self.insight.explain(target.namespace, target.name)
        if not found:
            raise errors.no_such_path()
        return _json(found)

    async def _evict(self, request: Request, target: Target) -> Response:
        body = self._body(request) if request.body else {}
        asked = body.get("deleteOptions") if isinstance(body, dict) else None
        options = _delete_options(request, asked if isinstance(asked, dict) else {})
        if self.store.latest(target.key) is None:
            raise errors.not_found(PODS, target.name)
        if isinstance(body, dict) and _name_of(body) not in ("", target.name):
            raise bad_request("name in URL does not match name in Eviction object")
        budgets = self._budgets_of(target)
        await self.verbs.delete(target, options)
        if not options.is_dry_run:
            for budget in budgets:
                await self._use_budget(budget)
        return _json(_created(), 201)

    async def _use_budget(self, budget: Mapping[str, Any]) -> None:
        """Count an eviction until the budget's controller counts again."""
        metadata, left = budget["metadata"], budget["status"]["disruptionsAllowed"] - 1
        target = Target(BUDGETS, "v1", metadata["namespace"], metadata["name"], "status")
        patch = {"status": {"disruptionsAllowed": left}}
        await self.verbs.patch(target, MERGE_PATCH, patch, Options())

    def _budgets_of(self, target: Target) -> list[Mapping[str, Any]]:
        """The budgets that an eviction uses up; refused if one forbids it, as its status says."""
        record = self.store.latest(target.key)
        if record is None:
            raise errors.not_found(PODS, target.name)
        pod = decode(record.body)
        if (pod.get("status") or {}).get("phase") in ("Pending", "Succeeded", "Failed"):
            return []  # nothing runs that could be disrupted
        used = list[Mapping[str, Any]]()
        labels = pod["metadata"].get("labels") or {}
        for found in self.store.scan("poddisruptionbudgets.policy", target.namespace):
            budget = decode(found.body)
            wanted = ((budget.get("spec") or {}).get("selector") or {}).get("matchLabels")
            if not wanted or any(labels.get(k) != v for k, v in wanted.items()):
                continue
            if (budget.get("status") or {}).get("disruptionsAllowed", 0) <= 0:
                raise errors.budget_spent(budget)
            used.append(budget)
        return used

    async def _log(self, request: Request, target: Target) -> Response:
        record = self.store.get(target.key)
        if record is None:
            raise errors.not_found(PODS, target.name)
        body = await self._logs.read(decode(record.body), request)
        return Response(body=body, content_type="text/plain")

    async def _delete_all(self, request: Request, target: Target) -> Response:
        options = self._delete_options(request)
        view = view_of(request, target.resource, target.version)
        found = await self.reads.listing(request, view, target.namespace)
        for key in await self.reads.keys(request, target.resource, target.namespace):
            one = Target(target.resource, target.version, key.namespace, key.name)
            try:
                await self.verbs.delete(one, options)
            except ApiError as error:
                if error.code != 404:
                    raise
        return found

    # Bodies and answers

    def _body(self, request: Request) -> Any:
        match request.content_type:
            case "" | "application/json" | "application/yaml":
                return parse(request.body, request.content_type)
            case "application/vnd.kubernetes.protobuf":
                return decode_protobuf(request.body)
            case _:
                raise errors.unsupported_media_type([JSON, "application/yaml", PROTOBUF])

    def _delete_options(self, request: Request) -> DeleteOptions:
        body = self._body(request) if request.body.strip() else {}
        if not isinstance(body, dict):
            raise bad_request("DeleteOptions is not an object")
        return _delete_options(request, body)

    def _answer(self, request: Request, target: Target, outcome: Outcome) -> Response:
        view = view_of(request, target.resource, target.version)
        return Response(
            code=201 if outcome.is_new else 200,
            body=view.one(outcome.body, self.clock()),
            headers=_warned(outcome.warnings),
        )

    def _deleted(self, target: Target, outcome: Outcome) -> Response:
        uid = decode(outcome.body)["metadata"]["uid"]
        details = {
            "name": target.name,
            "group": target.resource.group,
            "kind": target.resource.plural,
            "uid": uid,
        }
        return _json(_success({key: value for key, value in details.items() if value}))


def _segments(path: str) -> list[str]:
    """The parts of a path; anything but plain names is refused."""
    parts = [unquote(part) for part in path.split("/") if part]
    if len(parts) > 12 or any(part != "-" and not _SEGMENT.fullmatch(part) for part in parts):
        raise errors.no_such_path()
    return parts


def _json(value: Any, code: int = 200) -> Response:
    return Response(code=code, body=encode(value))


def _kept(body: bytes) -> Response:
    headers = (
        ("Cache-Control", "public, immutable"),
        ("Expires", "Fri, 01 Jan 2100 00:00:00 GMT"),
    )
    return Response(body=body, headers=headers)


def _version() -> dict[str, str]:
    _, major, minor = VERSION.rpartition(".")[0].replace("v", ".").split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "makeway",
        "platform": "",
    }


def _success(details: Mapping[str, Any] | None = None) -> dict[str, Any]:
    status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}}
    status["status"] = "Success"
    if details:
        status["details"] = dict(details)
    return status


def _created() -> dict[str, Any]:
    return {**_success(), "code": 201}


def _name_of(body: Mapping[str, Any]) -> str:
    metadata = body.get("metadata")
    return str(metadata.get("name") or "") if isinstance(metadata, dict) else ""


def _binding(body: Any, pod: str) -> Binding:
    """What is to be bound to which node; refused if it is about another pod or no node."""
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


def _warned(warnings: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    return tuple(("Warning", f'299 - "{_quoted(text)}"') for text in warnings[:20])


def _quoted(text: str) -> str:
    """Text for a Warning header: one line of ASCII."""
    plain = text.encode("ascii", "backslashreplace").decode().replace("\\", "\\\\")
    return re.sub(r"[\x00-\x1f\x7f]", " ", plain.replace('"', '\\"'))[:500]


def _options(request: Request) -> Options:
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
