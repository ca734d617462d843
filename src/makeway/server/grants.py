"""Letting others look at what is one's own: a RoleBinding that the server writes for its owner."""

from __future__ import annotations

import asyncio

from makeway.api.kinds import ROLE_BINDINGS
from makeway.server import errors, rbac
from makeway.server.errors import ApiError, bad_request
from makeway.server.messages import Request, Response, decode, json_response, success
from makeway.server.objects import Target
from makeway.server.options import DeleteOptions, Options, read_body
from makeway.server.people import Directory, Person
from makeway.server.roles import VIEW
from makeway.server.verbs import Verbs

_PREFIX = "makeway-grant-"


class Grants:
    def __init__(self, verbs: Verbs, directory: Directory) -> None:
        self._verbs, self._directory = verbs, directory

    async def answer(self, request: Request, person: Person, rest: list[str]) -> Response:
        match request.method, rest:
            case "GET", []:
                return json_response({"items": self._granted(person)})
            case "POST", []:
                return await self._grant(request, person)
            case "DELETE", [account]:
                return await self._take_back(person, account)
        raise errors.method_not_allowed()

    def _granted(self, person: Person) -> list[str]:
        found = self._verbs.store.scan(ROLE_BINDINGS.full_name, person.namespace)
        return [
            str(subject["name"])
            for record in found
            if record.key.name.startswith(_PREFIX)
            for subject in decode(record.body).get("subjects") or ()
        ]

    async def _grant(self, request: Request, person: Person) -> Response:
        asked = read_body(request)
        account = asked.get("account") if isinstance(asked, dict) else None
        if not isinstance(account, str) or not account:
            raise bad_request("account: name the account that may look")
        if not await asyncio.to_thread(self._directory.has, account):
            raise ApiError(404, "NotFound", f"there is no account {account[:80]} on this machine")
        binding = {
            "metadata": {"name": _PREFIX + account},
            "roleRef": {"apiGroup": rbac.GROUP, "kind": "ClusterRole", "name": VIEW},
            "subjects": [{"apiGroup": rbac.GROUP, "kind": "User", "name": account}],
        }
        try:
            await self._verbs.create(_target(person, account), binding, Options(is_trusted=True))
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
        return json_response(success(), 201)

    async def _take_back(self, person: Person, account: str) -> Response:
        if account not in self._granted(person):
            raise ApiError(404, "NotFound", f"{account} has not been let look")
        await self._verbs.delete(_target(person, account), DeleteOptions())
        return json_response(success())


def _target(person: Person, account: str) -> Target:
    return Target(ROLE_BINDINGS, "v1", person.namespace, _PREFIX + account)
