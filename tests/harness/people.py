"""A server for several people, in this process: who calls is said, not asked of a kernel."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from makeway.accounts import Account
from makeway.client import Client
from makeway.embedded.inside import client_in_process
from makeway.server.app import App
from makeway.server.messages import Response
from makeway.server.people import Directory, Entry, People
from makeway.store import Store
from tests.server.harness import JSON, START, decoded, play_on, request

Document = dict[str, Any]


class Accounts(Directory):
    """Accounts that the test makes, locks and removes."""

    def __init__(self, *entries: Entry) -> None:
        super().__init__()
        self.entries = {entry.account.uid: entry for entry in entries}

    def has(self, name: str) -> bool:
        return any(entry.account.name == name for entry in self.entries.values())

    def of_uid(self, uid: int) -> Entry | None:
        return self.entries.get(uid)


def entry(name: str, uid: int, *groups: str, why_closed: str = "") -> Entry:
    account = Account(name, uid, uid, f"/home/{name}", "/bin/sh")
    return Entry(account, tuple(sorted({name, *groups})), why_closed)


ROOT, ADA, BOB, EVE, GRACE = 0, 1001, 1002, 1003, 1010
LAB = (
    entry("root", ROOT),
    entry("ada", ADA, "vision"),
    entry("bob", BOB, "speech"),
    entry("eve", EVE, why_closed="it is locked"),
    entry("grace", GRACE, "wheel"),  # of the admins' group
)


class Lab:
    """A server that ada, bob and their admins share; eve's account is locked."""

    def __init__(self, folder: Path, *, people: Mapping[str, Any] | None = None) -> None:
        self.now = START
        self.accounts = Accounts(*LAB)
        self.store = Store(folder / "makeway.db")
        settings = People(
            socket=folder / "api.sock",
            ca=folder / "ca.crt",
            audit=folder / "audit.log",
            admin_groups=("wheel",),
            **(people or {}),
        )
        self.app = App(
            self.store,
            token="",
            clock=lambda: self.now,
            people=settings,
            directory=self.accounts,
        )
        self.client: Client = client_in_process(self.app)  # as the controller

    async def send(
        self,
        who: int | str,
        method: str,
        url: str,
        body: Any = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> Response:
        """A request of a uid, through the socket, or with a token."""
        caller: dict[str, Any] = {"token": who} if isinstance(who, str) else {"uid": who}
        return await self.app.handle(request(method, url, body, content_type, accept, **caller))

    async def json(
        self, who: int | str, method: str, url: str, *more: Any, code: int = 0, **named: Any
    ) -> Any:
        return decoded(await self.send(who, method, url, *more, **named), code)


def play(folder: Path, story: Callable[[Lab], Awaitable[None]], **named: Any) -> None:
    """Run a story in a lab."""
    play_on(lambda: Lab(folder, **named), story)
