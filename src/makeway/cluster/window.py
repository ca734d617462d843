"""What a controller in a cluster tells over HTTP: that it lives, what it counts, why who waits, and
what would become of whom.

Plain HTTP without any right to show: whoever reaches the address may read. So what it tells of
queues and Workloads is answered on loopback unless somebody says otherwise, for `kubectl
port-forward`; probes have an address of their own, where nothing else is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson
from aiohttp import web

from makeway.cluster.controller import Controller
from makeway.controller.previews import NotPreviewed, Previews
from makeway.controller.visibility import PENDING_MAX, Visibility

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SHUTDOWN_TIMEOUT_S = 2.0
NUMBER_MAX_DIGITS = 9
_STANDS_BY = "this replica stands by; another one leads"
_VISIBILITY = "/apis/visibility.kueue.x-k8s.io/{version:v1beta1|v1beta2}"

Found = Mapping[str, Any] | None


class Window:
    def __init__(
        self, controller: Controller, host: str, port: int, *, is_whole: bool = True
    ) -> None:
        """Without being whole, it tells only whether the controller lives and is ready."""
        self._controller, self._host, self._port = controller, host, port
        self._is_whole = is_whole
        self._runner: web.AppRunner | None = None

    async def open(self) -> int:
        """Listen, and return the port; OSError if that can't be."""
        app = web.Application()
        app.add_routes([*self._probed(), *(self._told() if self._is_whole else ())])
        self._runner = web.AppRunner(
            app, access_log=None, handle_signals=False, shutdown_timeout=SHUTDOWN_TIMEOUT_S
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host, self._port).start()
        return int(self._runner.addresses[0][1])

    def _probed(self) -> list[web.RouteDef]:
        return [
            web.get("/healthz", self._healthz),
            web.get("/livez", self._healthz),
            web.get("/readyz", self._readyz),
        ]

    def _told(self) -> list[web.RouteDef]:
        of_local = "namespaces/{namespace}/localqueues/{name}/pendingworkloads"
        return [
            web.get("/metrics", self._metrics),
            web.get("/explain/{namespace}/{name}", self._explain),
            web.post("/preview", self._preview),
            web.post("/diff", self._difference),
            web.get(f"{_VISIBILITY}/clusterqueues/{{name}}/pendingworkloads", self._queue),
            web.get(f"{_VISIBILITY}/{of_local}", self._local_queue),
        ]

    async def close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _healthz(self, request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _readyz(self, request: web.Request) -> web.Response:
        unready = self._controller.unready
        return web.Response(text=unready or "ok", status=503 if unready else 200)

    async def _metrics(self, request: web.Request) -> web.Response:
        body = self._controller.metrics().encode()
        return web.Response(body=body, headers={"Content-Type": METRICS_TYPE})

    async def _explain(self, request: web.Request) -> web.Response:
        named = request.match_info
        return self._answer(lambda v: v.explain(named["namespace"], named["name"]))

    async def _preview(self, request: web.Request) -> web.Response:
        """Of a Job or Workload that is complete, as a dry run of its creation has it."""
        return await self._would_be(request, lambda previews, asked: previews.preview(asked))

    async def _difference(self, request: web.Request) -> web.Response:
        return await self._would_be(
            request, lambda previews, asked: previews.difference(asked.get("items") or ())
        )

    async def _would_be(
        self, request: web.Request, ask: Callable[[Previews, Mapping[str, Any]], Found]
    ) -> web.Response:
        previews = self._controller.previews
        if previews is None:
            return _refusal(503, "ServiceUnavailable", _STANDS_BY)
        try:
            asked = orjson.loads(await request.read())
            if not isinstance(asked, dict) or not isinstance(asked.get("metadata", {}), dict):
                raise NotPreviewed("write an object")
            return _json(ask(previews, asked) or {}, 200)
        except (NotPreviewed, orjson.JSONDecodeError) as error:
            return _refusal(400, "BadRequest", str(error))

    async def _queue(self, request: web.Request) -> web.Response:
        name, part = request.match_info["name"], _part(request)
        return self._answer(lambda v: v.pending_in_queue(name, *part))

    async def _local_queue(self, request: web.Request) -> web.Response:
        named, part = request.match_info, _part(request)
        namespace, name = named["namespace"], named["name"]
        return self._answer(lambda v: v.pending_in_local_queue(namespace, name, *part))

    def _answer(self, ask: Callable[[Visibility], Found]) -> web.Response:
        visibility = self._controller.visibility
        if visibility is None:
            return _refusal(503, "ServiceUnavailable", _STANDS_BY)
        found = ask(visibility)
        if found is None:
            return _refusal(404, "NotFound", "there is no such workload or queue")
        return _json(found, 200)


def _part(request: web.Request) -> tuple[int, int]:
    """Which of those who wait are asked for: how many to leave out, and how many to show."""
    return _number(request, "offset", 0), _number(request, "limit", PENDING_MAX)


def _number(request: web.Request, name: str, default: int) -> int:
    text = request.query.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) <= NUMBER_MAX_DIGITS):
        message = f"{name}={text[:20]}: write a number"
        raise web.HTTPBadRequest(text=message)
    return int(text)


def _refusal(code: int, reason: str, message: str) -> web.Response:
    status = {"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure"}
    return _json({**status, "message": message, "reason": reason, "code": code}, code)


def _json(document: Mapping[str, Any], code: int) -> web.Response:
    return web.Response(
        body=orjson.dumps(document), status=code, content_type="application/json", charset="utf-8"
    )
