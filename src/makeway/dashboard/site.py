"""The dashboard's own server: pages, sign-in, the stream of rows, and what readers ask and do.

It listens on loopback, in plain http, and answers only to names of the loopback address: a page of
somewhere else whose name was pointed here is not let in. Nothing but the pages themselves is told
without a session, which goes in a header of its own that no other site can send.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any

import orjson

from makeway.api.kinds import NAMESPACES
from makeway.api.times import parse_time
from makeway.client import ApiError, Client, Unavailable
from makeway.dashboard.actions import Doing, WrongAction
from makeway.dashboard.bearers import Bearers, token_in
from makeway.dashboard.details import details_of, output_of
from makeway.dashboard.feed import Feed
from makeway.dashboard.figures import (
    Seen,
    jobs_document,
    namespaces_of,
    preemptions_document,
)
from makeway.dashboard.files import Files
from makeway.dashboard.lives import UNKNOWN_LIFE, namespaces_in, without_others
from makeway.dashboard.past import SPANS_S, NoJournal, Past
from makeway.dashboard.questions import WrongQuestion, answers_to
from makeway.dashboard.sight import EVERYWHERE, Sight
from makeway.dashboard.signing_in import Codes, Reader, Session, Sessions
from makeway.dashboard.signing_out import Ended
from makeway.dashboard.turns import TooMany, Turns
from makeway.dashboard.units import Unit
from makeway.journal.over_time import Course, Parts
from makeway.logs import Fields
from makeway.server.messages import Request, Response

log = logging.getLogger("makeway.dashboard")

SESSION, CODE = "makeway-session", "makeway-code"  # headers
STREAMS_MAX, STREAMS_OF_ONE = 500, 50
SIGHTS_MAX = 1000
NO_JOURNAL = "no journal is written (--no-journal; of a controller, --journal)"
_HOSTS = frozenset(("127.0.0.1", "localhost", "[::1]"))
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.:]{0,251}[A-Za-z0-9])?")
_PAGES = frozenset(("", "jobs", "queues", "history", "what-if"))
_POLICY = "; ".join(
    (
        *("default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:"),
        *("connect-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"),
    )
)
HEADERS = (
    ("Content-Security-Policy", _POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)
FRESH = ("Cache-Control", "no-store")


class Refused(Exception):
    """An answer of another kind than was hoped for."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code, self.why = code, why


class Site:
    """What is served. `feed` follows the control plane, term by term."""

    def __init__(
        self,
        key: bytes,
        clock: Callable[[], float],
        client_of: Callable[[Reader], Client],
        past: Past | None = None,
        *,
        shows_names: bool = True,
        keeps_cancelled: bool = True,
        bearers: Bearers | None = None,
        ended: Ended | None = None,
    ) -> None:
        """`client_of` makes a client with the rights of a reader; without `past`, nothing is known
        of what was.

        `shows_names`: of jobs, to others. `keeps_cancelled`: whoever runs jobs ends one that says
        it is cancelled; else it is deleted. With `bearers`, readers show a token of theirs instead
        of a session of ours. `ended` has the sessions that were ended before.
        """
        self._client_of, self._clock, self._past = client_of, clock, past
        self._key, self._shows_names, self._keeps_cancelled = key, shows_names, keeps_cancelled
        self._bearers = bearers
        self._sights: dict[Reader, Sight] = {}  # who looked last at the end
        self._codes, self._sessions = Codes(clock), Sessions(key, clock, ended)
        self._files = Files()
        self._feed: Feed | None = None
        self._streams: Counter[Reader] = Counter()
        self._turns = Turns()
        self.port = 0  # once it listens

    def follow(self, feed: Feed | None) -> None:
        """Show what this one tells from now on."""
        if self._feed is not None:
            self._feed.end()
        self._feed = feed

    def invite(self, name: str, uid: int | None) -> dict[str, Any]:
        """Where the pages are, and a code that lets a reader in, once."""
        code = self._codes.issue(Reader(name, uid))
        return {"address": f"http://127.0.0.1:{self.port}", "code": code}

    def sign_out(self, name: str, uid: int | None) -> None:
        """All pages that a reader has open, wherever."""
        reader = Reader(name, uid)
        self._codes.forget(reader)
        self._sessions.end_all(reader)

    def is_authenticated(self, headers: Mapping[str, str], uid: int | None = None) -> bool:
        """As far as can be said at once: whether a token is good, the API server says."""
        if self._bearers is not None:
            return bool(token_in(headers))
        return self._session(headers) is not None

    async def handle(self, request: Request) -> Response:
        try:
            answer = await self._route(request)
        except Refused as refusal:
            answer = _problem(refusal.code, refusal.why)
        except (WrongAction, WrongQuestion) as error:
            answer = _problem(400, str(error))
        except NoJournal as error:
            answer = _problem(404, str(error))
        except TooMany as error:
            answer = _problem(503, str(error))
        except ApiError as error:
            answer = _problem(error.code, error.message)
        except Unavailable as error:
            answer = _problem(503, str(error))
        except Exception:
            # The outermost line: a bug of ours is one answer that fails.
            log.exception(Fields(method=request.method, path=request.path))
            answer = _problem(500, "a bug of Makeway; see the log of the server")
        return replace(answer, headers=(*HEADERS, *answer.headers))

    async def _route(self, request: Request) -> Response:
        expect_known_host(request)
        head, *rest = request.path.strip("/").split("/")
        if head != "api":
            return self._file(request, head, rest)
        expect_own_origin(request)
        if (request.method, rest) == ("POST", ["session"]):
            return self._sign_in(request)
        session = await self._who(request.headers)
        if session is None:
            raise Refused(401, "sign in: `makeway dashboard` opens this page with a code")
        match request.method, rest:
            case "DELETE", ["session"] if self._bearers is None:
                self._sessions.end(session)
                return _json({})
            case "GET", ["stream"]:
                return await self._stream(session)
            case "GET", ["job"]:
                return await self._job(session, request.query)
            case "GET", ["output"]:
                return await self._output(session, request.query)
            case "GET", ["life"]:
                return await self._life(session, request.query)
            case "GET", ["history"]:
                return await self._history(session, request.query)
            case "GET", ["history", "jobs" | "preemptions" as what]:
                async with self._turns.turn(session.reader):
                    return await self._made_of(session, request.query, what)
            case "POST", ["action"]:
                return await self._act(session, request)
            case "POST", ["what-if"]:
                return await self._what_if(session, request)
        raise Refused(404, "there is nothing of that name")

    # Pages

    def _file(self, request: Request, head: str, rest: list[str]) -> Response:
        if request.method not in ("GET", "HEAD"):
            raise Refused(405, "pages are only read")
        name = rest[0] if head == "assets" and len(rest) == 1 else ""
        found = self._files.find(name or ("page.html" if head in _PAGES else ""))
        if found is None:
            raise Refused(404, "there is no such page")
        caching = (("Cache-Control", "no-cache"), ("ETag", found.tag))
        if request.headers.get("if-none-match") == found.tag:
            return Response(code=304, content_type=found.content_type, headers=caching)
        return Response(body=found.body, content_type=found.content_type, headers=caching)

    # Who reads

    async def _who(self, headers: Mapping[str, str]) -> Session | None:
        return await self._bearers.session(headers) if self._bearers else self._session(headers)

    def _session(self, headers: Mapping[str, str]) -> Session | None:
        given = headers.get(SESSION, "")
        return self._sessions.read(given) if given else None

    def _sign_in(self, request: Request) -> Response:
        reader = self._codes.redeem(request.headers.get(CODE, ""))
        if reader is None:
            raise Refused(401, "this code was used or is too old; ask for another")
        return _json({"session": self._sessions.issue(reader), "reader": reader.name})

    # What is told

    async def _stream(self, session: Session) -> Response:
        if self._streams.total() >= STREAMS_MAX:
            raise Refused(503, f"{STREAMS_MAX} pages are open already")
        if self._streams[session.reader] >= STREAMS_OF_ONE and not self._is_alone(session.reader):
            raise Refused(503, f"{STREAMS_OF_ONE} pages of yours are open already")
        sight = await self._sight_of(session.reader)
        feed = self._feed
        if feed is None:
            raise Refused(503, "the scheduler is not ready")
        hello = {"reader": session.reader.name, "session": self._sessions.renewed(session)}
        lines = self._counted(session, feed.stream(hello, sight))
        return Response(body=lines, content_type="application/x-ndjson", headers=(FRESH,))

    def _is_alone(self, reader: Reader) -> bool:
        """Nobody else could read here, so nobody is kept from it by one who reads much."""
        return self._bearers is None and reader.uid is None

    async def _sight_of(self, reader: Reader) -> Sight | None:
        """What a reader sees; None: everything. Refused if he is let in no longer."""
        if self._bearers is not None:
            return self._bearers.sight(reader)
        if reader.uid is None:
            return None
        sight = self._kept_sight(reader)
        await sight.begin()
        return sight

    def _kept_sight(self, reader: Reader) -> Sight:
        """One for all pages of a reader."""
        mask = None if self._shows_names else self._mask
        found = self._sights.pop(reader, None) or Sight(self._client_of(reader), self._clock, mask)
        self._sights[reader] = found
        while len(self._sights) > SIGHTS_MAX:
            del self._sights[next(iter(self._sights))]
        return found

    def _mask(self, name: str) -> str:
        """The same for the same name, and nobody can tell of which."""
        return f"hidden-{hmac.digest(self._key, name.encode(), 'sha256')[:8].hex()}"

    async def _counted(self, session: Session, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        self._streams[session.reader] += 1
        try:
            async for line in self._while_signed_in(session, lines):
                yield line
        finally:
            self._streams[session.reader] -= 1
            self._streams += Counter()  # who has none is forgotten

    async def _while_signed_in(
        self, session: Session, pieces: AsyncIterator[bytes]
    ) -> AsyncIterator[bytes]:
        """A stream of rows beats, so it is over soon after its reader has signed out."""
        try:
            async for piece in pieces:
                if self._sessions.is_over(session):
                    return
                yield piece
        finally:
            await asyncio.shield(_close(pieces))

    async def _job(self, session: Session, query: Mapping[str, str]) -> Response:
        unit, workload = _unit(query.get("key", "")), _name_or_none(query.get("workload", ""))
        return _json(await details_of(self._client_of(session.reader), unit, workload))

    async def _output(self, session: Session, query: Mapping[str, str]) -> Response:
        namespace, pod, container = (
            _name(query.get(part, "")) for part in ("namespace", "pod", "container")
        )
        client = self._client_of(session.reader)
        pieces = output_of(client, namespace, pod, container, follows="follow" in query)
        first = await anext(pieces, b"")  # a refusal comes before the first piece
        text = "text/plain; charset=utf-8"
        body = self._while_signed_in(session, _with_first(first, pieces))
        return Response(body=body, content_type=text, headers=(FRESH,))

    async def _life(self, session: Session, query: Mapping[str, str]) -> Response:
        namespace, name = _name(query.get("namespace", "")), _name(query.get("name", ""))
        sight = await self._sight_of(session.reader)
        if sight is not None and not await sight.seen_of((namespace,)):
            raise Refused(403, f"you may not list workloads in namespace {namespace}")
        found = await self._journal().life(namespace, name)
        if session.reader.uid is not None:
            found = await self._of_this_owner(session.reader, namespace, found)
        if sight is not None and (self._bearers is not None or not self._shows_names):
            seen = await sight.seen_of(namespaces_in(found))
            found = without_others(found, seen.__contains__)
        return _json(found)

    async def _of_this_owner(
        self, reader: Reader, namespace: str, found: dict[str, Any]
    ) -> dict[str, Any]:
        since = await self._made_at(reader, namespace)
        is_older = found["created"] is not None and found["created"] < since
        return UNKNOWN_LIFE if is_older else found

    async def _made_at(self, reader: Reader, namespace: str) -> float:
        """Who has a namespace is not told of its last owner."""
        try:
            made = await self._client_of(reader).get(NAMESPACES, namespace)
        except ApiError as error:
            if error.code not in (403, 404):
                raise
            return inf  # it is gone, or not his to look at
        return parse_time(made["metadata"]["creationTimestamp"])

    async def _history(self, session: Session, query: Mapping[str, str]) -> Response:
        sight = await self._sight_of(session.reader)
        spans = {f"{span_s:g}": span_s for span_s in SPANS_S}
        span_s = spans.get(query.get("span", ""))
        if span_s is None:
            raise Refused(400, f"span: write one of {', '.join(spans)} (seconds)")
        past = self._journal()
        told = await past.course(span_s)
        seen = Seen(await self._figures_seen(sight, told.course))
        return Response(body=await past.document(told, seen), headers=(FRESH,))

    async def _made_of(self, session: Session, query: Mapping[str, str], what: str) -> Response:
        """The jobs, or preemptions, that figures of the history are made of."""
        sight = await self._sight_of(session.reader)
        since, until = _moment(query, "since"), _moment(query, "until")
        if not 0 < until - since <= SPANS_S[-1] + 1:
            raise Refused(400, f"until: write a moment after since, {SPANS_S[-1]:g} s at most")
        past = self._journal()
        parts = await past.parts(since, until)
        figures = await self._figures_seen(sight, parts)
        seen = Seen(figures, await self._names_seen(session.reader, sight, parts))
        user, queue, by = (query.get(name, "") for name in ("user", "queue", "by"))
        preemptor, victim = (query.get(name, "") for name in ("preemptor", "victim"))
        if what == "jobs":
            make = partial(jobs_document, parts, user, queue, by, seen)
        else:
            make = partial(preemptions_document, parts, preemptor, victim, seen)
        return _json(await past.work(make))

    def _journal(self) -> Past:
        if self._past is None:
            raise Refused(404, NO_JOURNAL)
        return self._past

    # Of the past, a reader sees what he sees of now.

    async def _figures_seen(
        self, sight: Sight | None, ledger: Course | Parts
    ) -> frozenset[str] | None:
        if sight is None or self._bearers is None:  # on a machine they are everybody's
            return None
        return await sight.seen_of(namespaces_of(ledger))

    async def _names_seen(
        self, reader: Reader, sight: Sight | None, ledger: Course | Parts
    ) -> dict[str, float] | None:
        if sight is None or (self._bearers is None and self._shows_names):
            return None
        own = await sight.seen_of(namespaces_of(ledger))
        if self._bearers is not None:
            return dict.fromkeys(own, 0.0)
        if sight.sees(EVERYWHERE):
            return None
        return {name: await self._made_at(reader, name) for name in own}

    # What is done

    async def _what_if(self, session: Session, request: Request) -> Response:
        text, namespace = _words(request, "text", "namespace")
        found = await answers_to(self._client_of(session.reader), text, _name(namespace))
        return _json({"answers": found})

    async def _act(self, session: Session, request: Request) -> Response:
        key, workload, action, value = _words(request, "key", "workload", "action", "value")
        doing = Doing(
            self._client_of(session.reader), session.reader.name, keeps=self._keeps_cancelled
        )
        await doing.act(_unit(key), _name_or_none(workload), action, value)
        log.info(Fields(reader=session.reader.name, action=action, job=key))
        return _json({})


def expect_known_host(request: Request) -> None:
    host, _, port = request.headers.get("host", "").rpartition(":")
    if not port.isdecimal():
        host = request.headers.get("host", "")
    if host.lower() not in _HOSTS:
        raise Refused(421, "this name is not ours; open 127.0.0.1 or localhost")


def expect_own_origin(request: Request) -> None:
    """Browsers tell of which site a page is; what is no browser tells nothing."""
    origin = request.headers.get("origin")
    if origin is not None and origin != f"http://{request.headers.get('host', '')}":
        raise Refused(403, "pages of other sites are not answered")


def _words(request: Request, *names: str) -> list[str]:
    """Texts of the body; one that is missing is empty."""
    try:
        asked = orjson.loads(request.body)
        return [str(asked.get(name) or "") for name in names]
    except (orjson.JSONDecodeError, AttributeError):
        raise Refused(400, f"write an object with {', '.join(names)}") from None


def _unit(key: str) -> Unit:
    parts = key.split("/")
    if len(parts) != 3 or not all(map(_NAME.fullmatch, parts)):
        raise Refused(400, f"{key[:100]!r} names no job")
    return Unit(*parts)


def _name(text: str) -> str:
    """A name that may become a part of an address."""
    if not _NAME.fullmatch(text):
        raise Refused(400, f"{text[:100]!r} is no name")
    return text


def _moment(query: Mapping[str, str], name: str) -> float:
    text = query.get(name, "")
    if not re.fullmatch(r"[0-9]{1,11}(\.[0-9]{1,6})?", text):
        raise Refused(400, f"{name}: {text[:40]!r} is no moment; write seconds since 1970")
    return float(round(float(text)))  # each other moment would be another reading of the journal


def _name_or_none(text: str) -> str:
    return _name(text) if text else ""


def _json(document: Mapping[str, Any]) -> Response:
    return Response(body=orjson.dumps(document), headers=(FRESH,))


def _problem(code: int, why: str) -> Response:
    return Response(code=code, body=orjson.dumps({"message": why}), headers=(FRESH,))


async def _close(lines: AsyncIterator[bytes]) -> None:
    aclose = getattr(lines, "aclose", None)
    if aclose is not None:
        await aclose()


async def _with_first(first: bytes, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    try:
        yield first
        async for piece in pieces:
            yield piece
    finally:
        await _close(pieces)
