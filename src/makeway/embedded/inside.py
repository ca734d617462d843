"""A client of the server in its own process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from makeway.client import Client
from makeway.client.transport import Call, InProcessTransport
from makeway.server.app import App
from makeway.server.messages import Request


def client_in_process(
    app: App, *, manager: str = "makeway", uid: int | None = None, account: str = ""
) -> Client:
    """A client that calls the server's handler directly, with the rights of an account if one is
    named, else with all."""

    async def handle(call: Call) -> tuple[int, Mapping[str, str], bytes | AsyncIterator[bytes]]:
        response = await app.handle(
            Request(
                method=call.method,
                path=call.path,
                query=call.query,
                headers={name.lower(): value for name, value in call.headers.items()},
                body=call.body,
                is_trusted=uid is None,
                uid=uid,
                account=account,
            )
        )
        headers: dict[str, str] = {"content-type": response.content_type}
        for name, value in response.headers:
            key = name.lower()
            headers[key] = f"{headers[key]}, {value}" if key in headers else value
        return response.code, headers, response.body

    return Client(InProcessTransport(handle), manager=manager)
