"""Where people are received who share one server: who comes, with what, and whether he may."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cache

from makeway.api.kinds import CLUSTER_ROLES, WORKLOADS
from makeway.server import errors, others, streams
from makeway.server.access import Access, Ask, ask_of
from makeway.server.audit import Audit
from makeway.server.errors import ApiError
from makeway.server.grants import Grants
from makeway.server.membership import Membership
from makeway.server.messages import Request, Response, bearer_of, decode
from makeway.server.objects import Target
from makeway.server.options import Options
from makeway.server.people import Acquaintances, Directory, People, Person
from makeway.server.people_rules import PeopleRules
from makeway.server.rates import Rates
from makeway.server.roles import AUTO_UPDATE, built_in_roles
from makeway.server.token_desk import TokenDesk
from makeway.server.tokens import Tokens
from makeway.server.verbs import Verbs
from makeway.server.welcome import Welcome

STREAM_CHECKED_EVERY_S = 20.0  # whether who reads a stream still may
REVIEWS_GROUP = "authorization.k8s.io"
AUDIT_LINES = 100  # shown unless more are asked for

Serve = Callable[[Request, list[str]], Awaitable[Response]]


class Reception:
    def __init__(
        self,
        people: People,
        directory: Directory,
        verbs: Verbs,
        clock: Callable[[], float],
    ) -> None:
        self.people, self._verbs = people, verbs
        self._acquaintances = Acquaintances(directory, people.admin_groups, clock)
        self._tokens = Tokens(verbs.store, verbs.committer, clock)
        self.access = Access(verbs.store)
        self._welcome = Welcome(verbs)
        self._membership = Membership(verbs)
        self.grants, self.token_desk = Grants(verbs, directory), TokenDesk(self._tokens)
        self._rates = Rates(people.requests_per_s, clock)
        self._audit = Audit(people.audit, clock)
        verbs.people_rules = PeopleRules(verbs.store, self.access, people.unfinished_max)

    async def start(self) -> None:
        """Have the roles that everything else builds on, as this version knows them."""
        for role in built_in_roles():
            target = Target(CLUSTER_ROLES, "v1", "", role["metadata"]["name"])
            found = self._verbs.store.get(target.key)
            if found is None:
                await self._verbs.create(target, role, Options(is_trusted=True))
                continue
            annotations = decode(found.body)["metadata"].get("annotations") or {}
            if annotations.get(AUTO_UPDATE) != "false":
                await self._verbs.replace(target, role, Options(is_trusted=True))

    def close(self) -> None:
        self._acquaintances.close()
        self._audit.close()

    def knows(self, headers: Mapping[str, str], uid: int | None) -> bool:
        """Whether somebody stands behind a request, before anybody asks who."""
        return uid is not None or self._tokens.find(bearer_of(headers)) is not None

    async def attend(self, request: Request, segments: list[str], serve: Serve) -> Response:
        """The answer to a request, if the person behind it may have one; written down, too."""
        person, ask = await self._person(request), ask_of(request, segments)
        code, name = 500, ""
        try:
            with self._counted(request, person, ask):
                await self._welcome.settle(person)
                await self._membership.keep(person)
                self.access.check(person, ask)
                may_create = ask.verb != "patch" or self._may_create(person, ask)
                known = replace(request, person=person, may_create=may_create)
                response = await serve(known, segments)
            if ask.group == others.GROUP and ask.verb == "list" and not person.is_admin:
                response = self._cut_down(person, request, response)
            code, name = response.code, _name_of_new(response)
            return self._guarded(known, ask, response)
        except ApiError as error:
            code = error.code
            raise
        finally:
            self._audit.note(person, ask, code, name)

    def _counted(self, request: Request, person: Person, ask: Ask) -> AbstractContextManager[None]:
        """Our own pages ask for each namespace whether their reader may look into it."""
        is_ours = bool(request.account) and ask.group == REVIEWS_GROUP
        return contextlib.nullcontext() if is_ours else self._rates.counted(person.uid)

    def _cut_down(self, person: Person, request: Request, response: Response) -> Response:
        """Rows of jobs as a person may see them: in full where he may list the Workloads."""

        def sees(namespace: str) -> bool:
            kind = {"group": WORKLOADS.group, "resource": WORKLOADS.plural}
            return self.access.allows(person, Ask(verb="list", namespace=namespace, **kind))

        return others.for_reader(
            response,
            cache(sees),
            shows_names=self.people.show_names,
            by_name="name" in request.query,
        )

    def _may_create(self, person: Person, ask: Ask) -> bool:
        return self.access.allows(person, replace(ask, verb="create"))

    async def _person(self, request: Request) -> Person:
        if request.uid is not None and request.account:
            return await self._acquaintances.holder(request.account, request.uid)
        if request.uid is not None:
            return await self._acquaintances.of_uid(request.uid)
        token = self._tokens.find(bearer_of(request.headers))
        if token is None:
            raise errors.unauthorized()
        person = await self._acquaintances.holder(token.account, token.uid)
        await self._tokens.used(token)
        return person

    def _guarded(self, request: Request, ask: Ask, response: Response) -> Response:
        """A stream that ends when who reads it may no longer."""
        if isinstance(response.body, bytes) and response.talk is None:
            return response

        async def is_welcome() -> bool:
            try:
                self.access.check(await self._person(request), ask)
            except ApiError as error:
                return error.code == 503  # nobody knows; who was let in may stay
            return True

        if response.talk is not None:
            return replace(
                response, talk=streams.guarded(response.talk, is_welcome, STREAM_CHECKED_EVERY_S)
            )
        assert not isinstance(response.body, bytes)
        return replace(response, body=_while(is_welcome, response.body))

    def answer_audit(self, request: Request) -> Response:
        """What was done, for those who may know."""
        lines = self._audit.last(request.number("lines") or AUDIT_LINES)
        return Response(body=lines.encode(), content_type="text/plain")


def _name_of_new(response: Response) -> str:
    """What a request has made, as it may not have said the name itself."""
    if response.code != 201 or not isinstance(response.body, bytes):
        return ""
    made = decode(response.body)
    return str((made.get("metadata") or {}).get("name") or made.get("name") or "")


async def _while(
    is_welcome: Callable[[], Awaitable[bool]], pieces: AsyncIterator[bytes]
) -> AsyncIterator[bytes]:
    """The pieces, until there are no more or the reader has lost his welcome."""
    loop = asyncio.get_running_loop()
    checked = loop.time()
    coming = asyncio.ensure_future(anext(pieces, None))
    try:
        while True:
            await asyncio.wait({coming}, timeout=STREAM_CHECKED_EVERY_S)
            if loop.time() - checked >= STREAM_CHECKED_EVERY_S:
                checked = loop.time()
                if not await is_welcome():
                    return
            if not coming.done():
                continue
            piece = coming.result()
            if piece is None:
                return
            yield piece
            coming = asyncio.ensure_future(anext(pieces, None))
    finally:
        coming.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await coming
        aclose = getattr(pieces, "aclose", None)
        if aclose is not None:
            await aclose()
