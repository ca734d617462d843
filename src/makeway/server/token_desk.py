"""Where people get tokens, see theirs and give them back: the path `/tokens`."""

from __future__ import annotations

from typing import Any

from makeway.server import errors
from makeway.server.errors import ApiError, bad_request
from makeway.server.messages import Request, Response, json_response, success
from makeway.server.options import read_body
from makeway.server.people import Person
from makeway.server.tokens import Tokens


class TokenDesk:
    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    async def answer(self, request: Request, person: Person, rest: list[str]) -> Response:
        match request.method, rest:
            case "GET", []:
                return self._list(request, person)
            case "POST", []:
                return await self._make(request, person)
            case "DELETE", []:
                count = await self._tokens.revoke_all(person.uid)
                return json_response(success({"revoked": count}))
            case "DELETE", [name]:
                return await self._revoke(request, person, name)
        raise errors.method_not_allowed()

    def _list(self, request: Request, person: Person) -> Response:
        wants_all = request.flag("all")
        if wants_all and not person.is_admin:
            raise ApiError(403, "Forbidden", "tokens of others are shown to admins only")
        rows = [token.as_row() for token in self._tokens.of(None if wants_all else person.uid)]
        return json_response({"items": rows})

    async def _make(self, request: Request, person: Person) -> Response:
        if request.uid is None:
            why = "tokens are made through the Unix socket only, not with another token"
            raise ApiError(403, "Forbidden", why)
        asked = read_body(request) if request.body else {}
        if not isinstance(asked, dict):
            raise bad_request("the body of the request is not an object")
        name, ttl_s = asked.get("name") or "", asked.get("ttlSeconds")
        if not name:
            secret, token = self._tokens.lend(person)
        elif isinstance(name, str) and isinstance(ttl_s, int | float):
            secret, token = await self._tokens.create(person, name, float(ttl_s))
        else:
            raise bad_request("write name, a text, and ttlSeconds, a number")
        made: dict[str, Any] = {**token.as_row(), "token": secret}
        return json_response(made, 201)

    async def _revoke(self, request: Request, person: Person, name: str) -> Response:
        owner = request.query.get("account") or person.name
        if owner != person.name and not person.is_admin:
            raise ApiError(403, "Forbidden", "tokens of others are revoked by admins only")
        uids = {token.uid for token in self._tokens.of(None) if token.account == owner}
        gone = [await self._tokens.revoke(uid, name) for uid in uids]
        if not any(gone):
            raise ApiError(404, "NotFound", f'token "{name}" of {owner} not found')
        return json_response(success())
