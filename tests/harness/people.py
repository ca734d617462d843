"""A server for several people, in this process: who calls is said, not asked of a kernel."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import orjson

from makeway.accounts import Account
from makeway.client import Client
from makeway.embedded import client_in_process
from makeway.server.app import App
from makeway.server.messages import Request, Response
from makeway.server.people import Directory, Entry, People
from makeway.store import Store

Document = dict[str, Any]
START = 1_700_000_000.0
JSON = "application/json"


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
        parts = urlsplit(url)
        headers = {"content-type": content_type, "accept": accept}
        if isinstance(who, str):
            headers["authorization"] = f"Bearer {who}"
        raw = body if isinstance(body, bytes) else b"" if body is None else orjson.dumps(body)
        return await self.app.handle(
            Request(
                method=method,
                path=parts.path,
                query=dict(parse_qsl(parts.query, keep_blank_values=True)),
                headers=headers,
                body=raw,
                uid=who if isinstance(who, int) else None,
            )
        )

    async def json(
        self, who: int | str, method: str, url: str, *more: Any, code: int = 0, **named: Any
    ) -> Any:
        """The decoded answer, whose code must be `code`, or any good one."""
        response = await self.send(who, method, url, *more, **named)
        assert isinstance(response.body, bytes)
        decoded = orjson.loads(response.body)
        assert response.code == code if code else response.code < 300, (response.code, decoded)
        return decoded


def play(folder: Path, story: Callable[[Lab], Awaitable[None]], **named: Any) -> None:
    """Run a story in a lab."""

    async def run() -> None:
        lab = Lab(folder, **named)
        await lab.app.start()
        try:
            await story(lab)
        finally:
            await lab.app.stop()
            lab.store.close()

    asyncio.run(asyncio.wait_for(run(), 60))
