"""From a request to its answer: access and routes."""

import hmac
import logging
import os
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from makeway.api.arrays import ArrayError, expanded, parse_indexes
from makeway.api.configuration import Configuration
from makeway.api.kinds import BY_PATH, JOBS, NAMESPACES, PODS
from makeway.disk import Disk
from makeway.history.archive import Archive
from makeway.logs import Fields
from makeway.server import discovery, errors, health, insight, messages, openapi, past, usage
from makeway.server.collector import Collector
from makeway.server.commits import Committer, Flush
from makeway.server.errors import ApiError, bad_request
from makeway.server.evictions import evict
from makeway.server.insight import Forecasts, Insight, Inviting, Remembering
from makeway.server.limits import check_values
from makeway.server.logs import FileLogs, container_of, waiting
from makeway.server.messages import (
    Request,
    Response,
    bearer_of,
    decode,
    expect_plain,
    json_response,
)
from makeway.server.objects import Outcome, Target
from makeway.server.options import (
    Options,
    read_binding,
    read_body,
    read_delete_options,
    read_eviction,
    read_options,
)
from makeway.server.past import Past
from makeway.server.patch import APPLY_PATCH, MERGE_PATCH, patch_types
from makeway.server.people import Directory, People, for_people
from makeway.server.reads import Reads
from makeway.server.reception import Reception
from makeway.server.reviews import answer_review
from makeway.server.streams import SUBRESOURCES as STREAMED
from makeway.server.streams import Streams
from makeway.server.usage import Usage
from makeway.server.verbs import Verbs
from makeway.server.views import view_of
from makeway.server.worker import AT_ONCE_BYTES, Worker
from makeway.store import Store, StoreError
from makeway.watchdog import Watchdog

log = logging.getLogger("makeway.server")

ARRAY_MAX_BYTES = 256 * 1024 * 1024  # of all Jobs of an array
IN_FLIGHT_MAX = 400  # requests that are being answered, without watches and logs
_OPEN_PATHS = (*health.PATHS, "version")
_SEGMENT = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.:]*[A-Za-z0-9])?", re.ASCII)
ORPHAN_WARNING = (
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
        logs: FileLogs | None = None,
        chance: random.Random | None = None,
        flush: Flush | None = None,
        disk: Disk | None = None,
        configuration: Configuration | None = None,
        archive: Archive | None = None,
        people: People | None = None,
        directory: Directory | None = None,
    ) -> None:
        """Without `logs`, nobody here runs pods; without `archive`, what is gone is gone; without
        `people`, one token may do everything.

        Uids and generated names come from `chance`; nobody can guess them unless it is given.
        """
        self.store, self.clock = store, clock
        self._token = token.encode()
        self._logs, self._disk = logs, disk
        self._past: Past | None = None
        if archive is not None and logs is not None:
            self._past = Past(store, archive, logs, clock)
        self.streams = Streams(logs)
        self.committer = Committer(store, flush)
        self.reads = Reads(store, clock)
        self.usage = Usage(store, self.reads)
        self.worker = Worker()
        configuration = configuration or Configuration()
        if people is not None:
            configuration = for_people(configuration)
        self.verbs = Verbs(
            store,
            self.committer,
            clock,
            chance or random.SystemRandom(),
            self.worker,
            configuration,
        )
        self.collector = Collector(store, self.verbs, clock)
        self._reception: Reception | None = None
        if people is not None:
            self.verbs.around.per_gpu = people.per_gpu
            directory = directory or Directory(people.closed)
            self._reception = Reception(people, directory, self.verbs, clock)
        self.insight: Insight | None = None  # None: nobody schedules here
        self.history: Remembering | None = None  # None: nothing is written down
        self.forecasts: Forecasts | None = None  # None: nobody makes any
        self.dashboard: Inviting | None = None  # None: there are no pages
        self.watchdog = Watchdog(self.committer.pulse, self.collector.pulse, self.collector.expiry)
        self._in_flight = 0

    @property
    def is_shared(self) -> bool:
        """Whether several people share this server."""
        return self._reception is not None

    async def start(self) -> None:
        self.committer.start()
        for name in NAMESPACES_AT_START:
            target = Target(NAMESPACES, "v1", "", name)
            if self.store.get(target.key) is None:
                await self.verbs.create(target, {"metadata": {"name": name}}, Options())
        if self._reception is not None:
            await self._reception.start()
        self.collector.start()

    async def stop(self) -> None:
        self.reads.end_watches()
        await self.collector.stop()
        await self.committer.stop()
        self.worker.stop()
        if self._reception is not None:
            self._reception.close()

    # The way in

    async def handle(self, request: Request) -> Response:
        try:
            return await self._handle(request)
        except ApiError as error:
            return messages.problem(error)
        except RecursionError:
            return messages.problem(bad_request("the body of the request is nested too deeply"))
        except MemoryError:
            log.warning(Fields(method=request.method, path=request.path, memory="none left"))
            return messages.problem(errors.no_memory())
        except Exception:
            # The outermost line: a bug of ours must not take others' requests down.
            log.exception(Fields(method=request.method, path=request.path))
            return messages.problem(errors.internal("see the log of the server"))

    async def _handle(self, request: Request) -> Response:
        segments = _segments(request.path)
        head = segments[0] if segments else ""
        if head not in _OPEN_PATHS and not request.is_trusted:
            if self._reception is not None:
                return await self._reception.attend(request, segments, self._serve)
            if not self.is_authenticated(request.headers, request.uid):
                raise errors.unauthorized()
        return await self._serve(request, segments)

    async def _serve(self, request: Request, segments: list[str]) -> Response:
        if self._in_flight >= IN_FLIGHT_MAX:
            raise errors.too_many_requests("Too many requests, please try again later.")
        self._in_flight += 1
        try:
            return await self._route(await self._read(request), segments)
        finally:
            self._in_flight -= 1

    async def _read(self, request: Request) -> Request:
        """The request with its body parsed, if that is large: YAML takes its time."""
        size = len(request.body)
        if "yaml" in request.content_type and b"*" in request.body:
            size = max(size, AT_ONCE_BYTES + 1)  # aliases make much of a small text
        if size <= AT_ONCE_BYTES:
            return request
        is_patch = request.method == "PATCH"

        def read() -> Any:
            kind = request.content_type
            parsed = messages.parse(request.body, kind) if is_patch else read_body(request)
            if not request.is_trusted:
                check_values(parsed)
            return parsed

        return replace(request, parsed=await self.worker.do(size, read))

    def is_authenticated(self, headers: Mapping[str, str], uid: int | None = None) -> bool:
        """Whether a request with these headers (names in lower case) comes from somebody known."""
        if self._reception is not None:
            return self._reception.knows(headers, uid)
        if uid is not None:  # at our own socket, where the kernel says who calls
            return uid == os.geteuid()
        given = bearer_of(headers).encode("utf-8", "surrogateescape")
        return bool(given) and hmac.compare_digest(given, self._token)

    async def _route(self, request: Request, segments: list[str]) -> Response:
        match segments:
            case ["api", version, *rest] if rest:
                return await self._resource(request, "", version, rest)
            case ["apis", group, version, *rest] if (
                rest and group == insight.GROUP and version in insight.VERSIONS
            ):
                return insight.pending(self.insight, request, rest)
            case ["apis", group, version, *rest] if rest and (group, version) == insight.OWN:
                return insight.at_a_glance(self.insight, request, rest)
            case ["apis", usage.GROUP, usage.VERSION, *rest] if rest:
                return await self.usage.answer(request, rest)
            case ["apis", "makeway.dev", "v1", *scope, "forecasts"] if request.method == "GET":
                return insight.all_forecasts(self.forecasts, scope)
            case ["apis", "makeway.dev", "v1", "usage"] if request.method == "GET":
                return await insight.past_usage(self.history, request)
            case ["apis", group, version, *rest] if rest:
                return await self._resource(request, group, version, rest)
            case _:
                return await self._beside_resources(request, segments)

    async def _beside_resources(self, request: Request, segments: list[str]) -> Response:
        if self._reception is not None and request.person is not None:
            match segments:
                case ["tokens", *rest]:
                    return await self._reception.token_desk.answer(request, request.person, rest)
                case ["grants", *rest]:
                    return await self._reception.grants.answer(request, request.person, rest)
                case ["audit"] if request.method == "GET":
                    return self._reception.answer_audit(request)
        if request.method == "POST" and segments == ["backup"]:
            return await self._backup(request)
        if request.method == "POST" and segments == ["diff"]:
            return insight.difference(self.insight, request)
        if request.method in ("POST", "DELETE") and segments == ["dashboard"]:
            return insight.invite_or_sign_out(self.dashboard, request)
        if request.method != "GET":
            is_known = segments[:1] in (["api"], ["apis"])
            raise errors.method_not_allowed() if is_known else errors.no_such_path()
        match segments:
            case []:
                return json_response(
                    {"paths": ["/api", "/apis", "/healthz", "/openapi/v3", "/version"]}
                )
            case ["healthz" | "livez" | "readyz" as asked, *only]:
                return health.answer(
                    asked,
                    only,
                    self.watchdog,
                    is_scheduling=self.insight is None or self.insight.is_ready,
                    is_verbose="verbose" in request.query,
                )
            case ["metrics"] if self.insight is not None:
                return Response(
                    body=self.insight.metrics().encode(),
                    content_type="text/plain; version=0.0.4; charset=utf-8",
                )
            case ["openapi", *path]:
                return openapi.answer(path)
            case _:
                return discovery.answer(request, segments)

    async def _backup(self, request: Request) -> Response:
        """Copy the database to a file on this machine, which must not be there yet."""
        asked = read_body(request)
        path = asked.get("path") if isinstance(asked, dict) else None
        if not isinstance(path, str) or not Path(path).is_absolute():
            raise bad_request("path: write the absolute path of a file that is not there yet")
        try:
            await self.committer.backup(Path(path))
        except StoreError as error:
            raise errors.write_failed(str(error)) from None
        return json_response(messages.success())

    # Objects

    async def _resource(
        self, request: Request, group: str, version: str, rest: list[str]
    ) -> Response:
        for review in discovery.REVIEWS:
            if (review.group, *review.versions, review.plural) == (group, version, *rest):
                if request.method != "POST":
                    raise errors.method_not_allowed()
                expect_plain(request)
                access = None if self._reception is None else self._reception.access
                answered = answer_review(review, read_body(request), request.person, access)
                return json_response(answered, 201)
        namespace, rest = self._namespace(group, rest)
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
        if self._past and resource is JOBS and subresource in past.SUBRESOURCES:
            return await self._past.of_job(request, target)
        if subresource:
            return await self._subresource(request, target)
        return await self._object(request, target)

    def _namespace(self, group: str, rest: list[str]) -> tuple[str | None, list[str]]:
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
            case "GET" if resource is JOBS and self._past and request.flag("gone"):
                return self._past.gone(target.namespace)
            case "GET":
                view = view_of(request, resource, target.version)
                if request.flag("watch"):
                    return self.reads.watch(request, view, target.namespace)
                return await self.reads.listing(request, view, target.namespace)
            case "POST":
                if resource.is_namespaced and namespace is None:
                    raise errors.method_not_allowed()
                self._expect_room(request)
                if resource is JOBS and "array" in request.query:
                    return await self._create_array(request, target)
                options, is_asked = read_options(request), request.flag("preview")
                if is_asked and not options.is_dry_run:
                    raise bad_request("preview: goes with dryRun=All")
                outcome = await self.verbs.create(target, read_body(request), options)
                if is_asked:
                    return insight.preview(self.insight, decode(outcome.body))
                return self._answer(request, target, outcome)
            case "DELETE" if "deletecollection" in discovery.verbs_of(resource):
                return await self._delete_all(request, target)
            case _:
                raise errors.method_not_allowed()

    async def _create_array(self, request: Request, target: Target) -> Response:
        """One Job for each index that the query names, all or none; answers their metadata."""
        document = read_body(request)
        try:
            jobs = expanded(document, parse_indexes(request.query["array"]))
        except ArrayError as error:
            raise bad_request(f"array: {error}") from None
        except (KeyError, TypeError, AttributeError):
            raise bad_request("array: the body is no Job with a name and containers") from None
        if len(jobs) * len(request.body) > ARRAY_MAX_BYTES:
            most = ARRAY_MAX_BYTES // len(request.body)
            raise bad_request(f"array: of a Job this large, at most {most} indexes are taken")
        options, rules = read_options(request), self.verbs.people_rules
        if rules is not None and request.person is not None and not options.is_dry_run:
            options = replace(options, array_number=rules.take_number())
        made = await self.verbs.create_all(target, jobs, options)
        items = [{"metadata": decode(outcome.body)["metadata"]} for outcome in made]
        kind = {"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList"}
        return json_response({**kind, "items": items}, 201)

    def _expect_room(self, request: Request) -> None:
        """With little room left nothing new is taken; what ends, cancels or deletes goes on."""
        if self._disk is not None and not request.is_trusted and (why := self._disk.shortage()):
            raise errors.write_failed(why)

    async def _object(self, request: Request, target: Target) -> Response:
        match request.method:
            case "GET":
                view = view_of(request, target.resource, target.version)
                return self.reads.get(request, view, target.key)
            case "PUT":
                outcome = await self.verbs.replace(
                    target, read_body(request), read_options(request)
                )
            case "PATCH":
                outcome = await self._patch(request, target)
            case "DELETE":
                return await self._delete(request, target)
            case _:
                raise errors.method_not_allowed()
        return self._answer(request, target, outcome)

    async def _delete(self, request: Request, target: Target) -> Response:
        options, warnings = read_delete_options(request), tuple[str, ...]()
        if target.resource is JOBS and not options.propagation:
            options, warnings = replace(options, propagation="Orphan"), (ORPHAN_WARNING,)
        try:
            outcome = await self.verbs.delete(target, options)
        except ApiError as error:
            return replace(messages.problem(error), headers=messages.warning_headers(warnings))
        # A pod is always shown as it was when it went.
        if outcome.is_gone and target.resource is not PODS:
            return replace(
                self._deleted(target, outcome), headers=messages.warning_headers(warnings)
            )
        return self._answer(request, target, replace(outcome, warnings=warnings))

    async def _patch(self, request: Request, target: Target) -> Outcome:
        if request.content_type != APPLY_PATCH and request.query.get("force"):
            why = "Forbidden: may not be specified for non-apply patch"
            raise errors.bad_option("PatchOptions", "force", "FieldValueForbidden", why)
        accepted = patch_types(target.resource)
        if request.content_type not in accepted:
            raise errors.unsupported_media_type(accepted)
        patch = request.parsed
        if patch is None:
            patch = messages.parse(request.body, request.content_type)
        return await self.verbs.patch(target, request.content_type, patch, read_options(request))

    async def _subresource(self, request: Request, target: Target) -> Response:
        known = discovery.subresources(target.resource)
        if target.subresource not in known:
            raise errors.no_such_path()
        match target.subresource, request.method:
            case "status", "GET" | "PUT" | "PATCH":
                return await self._object(request, target)
            case "finalize", "PUT":
                wanted = read_body(request)
                spec = wanted.get("spec") if isinstance(wanted, dict) else None
                finalizers = (spec or {}).get("finalizers") or []
                outcome = await self.verbs.finalize(target, [str(name) for name in finalizers])
            case "binding", "POST":
                expect_plain(request)
                await self.verbs.bind(target, read_binding(request, target.name))
                return json_response(messages.created(), 201)
            case "eviction", "POST":
                expect_plain(request)
                await evict(self.verbs, target, read_eviction(request, target.name))
                return json_response(messages.created(), 201)
            case "log", "GET":
                return await self._log(request, target)
            case subresource, "GET" | "POST" if subresource in STREAMED:
                return self.streams.answer(request, self._pod(target), subresource)
            case "explanation", "GET" if "at" in request.query:
                return await insight.past_explanation(
                    self.history, self.store, request, target, is_shared=self.is_shared
                )
            case "explanation", "GET":
                return insight.explanation(self.insight, self.store, target)
            case "forecast", "GET":
                return insight.one_forecast(self.forecasts, self.store, target)
            case "active", "PATCH":
                outcome = await self._set_active(request, target)
            case _:
                raise errors.method_not_allowed()
        return self._answer(request, target, outcome)

    async def _set_active(self, request: Request, target: Target) -> Outcome:
        """Hold a Workload or let it go on: the one thing of it that is its owner's to say."""
        asked = request.parsed
        if asked is None:
            asked = messages.parse(request.body, request.content_type)
        spec = asked.get("spec") if isinstance(asked, dict) else None
        active = spec.get("active") if isinstance(spec, dict) else None
        if not isinstance(active, bool):
            raise bad_request("spec.active: write true or false")
        whole = replace(target, subresource="")
        patch = {"spec": {"active": active}}
        return await self.verbs.patch(whole, MERGE_PATCH, patch, read_options(request))

    def _pod(self, target: Target) -> Any:
        record = self.store.get(target.key)
        if record is None:
            raise errors.not_found(PODS, target.name)
        return decode(record.body)

    async def _log(self, request: Request, target: Target) -> Response:
        pod = self._pod(target)
        if self._logs is None:
            raise waiting(pod, container_of(pod, request))
        return Response(body=await self._logs.read(pod, request), content_type="text/plain")

    async def _delete_all(self, request: Request, target: Target) -> Response:
        options = read_delete_options(request)
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

    # Answers

    def _answer(self, request: Request, target: Target, outcome: Outcome) -> Response:
        view = view_of(request, target.resource, target.version)
        return Response(
            code=201 if outcome.is_new else 200,
            body=view.one(outcome.body, self.clock()),
            headers=messages.warning_headers(outcome.warnings),
        )

    def _deleted(self, target: Target, outcome: Outcome) -> Response:
        uid = decode(outcome.body)["metadata"]["uid"]
        return json_response(
            messages.success({**errors.of(target.resource, target.name), "uid": uid})
        )


def _segments(path: str) -> list[str]:
    """The parts of a path; anything but plain names is refused."""
    parts = [unquote(part) for part in path.split("/") if part]
    if len(parts) > 12 or any(part != "-" and not _SEGMENT.fullmatch(part) for part in parts):
        raise errors.no_such_path()
    return parts
