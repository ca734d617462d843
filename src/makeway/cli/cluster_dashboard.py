"""`makeway dashboard` of a cluster: pages that the leading controller serves inside of its pod,
at a port of this machine while the command runs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator

from makeway.api.kinds import Resource
from makeway.api.times import parse_time
from makeway.cli.command import RequestRefused, UsageError
from makeway.cli.leader import leader_in
from makeway.client import ApiError, Client, Unavailable
from makeway.client.credentials import Credential, CredentialError, Fixed, Source
from makeway.client.forwarding import Forward
from makeway.client.http import HttpTransport, Trust
from makeway.client.kubeconfig import Access
from makeway.client.transport import Call, Unreachable
from makeway.dashboard.relay import Relay
from makeway.deploy.installation import DASHBOARD_PORT

TOKEN_S = 3600
RENEWED_BEFORE_S = 300.0
_ACCOUNTS = Resource("v1", "serviceaccounts", "ServiceAccount", is_namespaced=True)


class AccountTokens:
    """Tokens of a ServiceAccount, made one after the other by who may make them."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self._client, self._key = client, (namespace, name)
        self._held, self._until = Credential(), float("-inf")

    async def current(self) -> Credential:
        if time.time() >= self._until - RENEWED_BEFORE_S:
            request = {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": TOKEN_S},
            }
            try:
                made = await self._client.post(_ACCOUNTS, self._key, "token", request)
            except ApiError as error:
                raise CredentialError(f"{'/'.join(self._key)}: no token: {error}") from None
            self._held = Credential(token=made["status"]["token"])
            self._until = parse_time(made["status"]["expirationTimestamp"])
        return self._held

    def refuse(self, refused: Credential) -> bool:
        self._until = float("-inf")
        return True


async def token_source(client: Client, access: Access, account: str) -> Source:
    """Where tokens come from that tell the controller who reads."""
    if account:
        namespace, slash, name = account.partition("/")
        if not slash:
            namespace, name = access.namespace, account
        return AccountTokens(client, namespace, name)
    source = access.source or Fixed(Credential(token=access.token))
    try:
        shown = await source.current()
    except CredentialError as error:
        raise UsageError(str(error)) from None
    if not shown.token:
        has = "shows a certificate" if shown.certificate else "has no credentials"
        raise UsageError(
            f"{access.address}: the kubeconfig {has}, and the pages need a token; name a "
            "ServiceAccount whose rights they are to have: --service-account NAMESPACE/NAME"
        )
    return source


@contextlib.asynccontextmanager
async def relayed(
    client: Client, access: Access, home: str, account: str, port: int
) -> AsyncIterator[tuple[Relay, int]]:
    """What browsers ask on a port of this machine, while the context lasts; and that port."""
    source = await token_source(client, access, account)
    outer = access.transport()
    assert isinstance(outer, HttpTransport)

    async def find_leader() -> str:
        try:
            return await leader_in(client, home)
        except (RequestRefused, ApiError, Unavailable) as error:
            raise Unreachable(str(error)) from None

    await leader_in(client, home)
    forward = Forward(outer, home, find_leader, DASHBOARD_PORT)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(outer.close)
        socket = await stack.enter_async_context(forward.listening())
        inner = HttpTransport(f"unix:{socket}", source=source, trust=Trust())
        stack.push_async_callback(inner.close)
        await _expect_pages(inner, forward, home)
        relay = Relay(inner, lambda: forward.problem, time.time)
        try:
            bound = await stack.enter_async_context(relay.listening(port))
        except OSError as error:
            raise UsageError(f"--port {port}: {error.strerror}") from None
        yield relay, bound


async def _expect_pages(transport: HttpTransport, forward: Forward, home: str) -> None:
    try:
        async with transport.send(Call(method="GET", path="/")) as answer:
            await answer.body()
    except Unreachable as error:
        why = forward.problem or str(error)
        raise RequestRefused(
            f"the controller's pages can't be reached: {why}; you need `get` on leases and "
            f"`get` and `create` on pods/portforward in namespace {home}"
        ) from None
    if answer.code != 200:
        raise RequestRefused(f"the controller answered {answer.code} instead of its pages")
