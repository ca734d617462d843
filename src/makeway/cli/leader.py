"""Asking the leading controller of a cluster, inside of its pod.

It answers there alone unless it was installed with --expose-metrics; a port of the pod is forwarded
to ask it, as `kubectl port-forward` does. Who may not forward asks through the API server's proxy,
which comes second: where the network lets nobody in, that takes long to fail.
"""

from __future__ import annotations

from makeway.api.kinds import LEASES, PODS
from makeway.cli.command import RequestRefused
from makeway.client import ApiError, Client, NotFound, Unavailable
from makeway.client.client import Document
from makeway.client.credentials import Credential, Fixed
from makeway.client.http import HttpTransport, Trust
from makeway.deploy.installation import LEASE, PORT, Site

RIGHTS = "`get` on leases, `get` and `create` on pods/portforward in namespace"


async def leader_in(client: Client, namespace: str) -> str:
    """The pod of the replica that leads."""
    try:
        lease = await client.get(LEASES, LEASE, namespace)
    except NotFound:
        raise RequestRefused(
            f"no Makeway leads in namespace {namespace}: there is no Lease {LEASE} "
            "(--controller-namespace names another)"
        ) from None
    pod, _, _ = str(lease["spec"].get("holderIdentity") or "").partition("_")
    if not pod:
        raise RequestRefused(f"no controller leads at this moment (Lease {namespace}/{LEASE})")
    return pod


async def ask_leader(client: Client, path: str, document: Document | None = None) -> Document:
    """What it answers to a GET, or to a POST if there is a document."""
    home = Site().namespace
    pod = await leader_in(client, home)
    answer = await _forwarded(client, home, pod, path, document)
    if answer is None:
        proxy = PODS.path(home, f"{pod}:{PORT}", f"proxy/{path}")
        answer = await client.ask(proxy, document)
    return answer


async def told_by_leader(client: Client, path: str, document: Document) -> Document:
    """The same for commands that can do nothing else; RequestRefused if it can't be asked."""
    try:
        return await ask_leader(client, path, document)
    except (ApiError, Unavailable) as error:
        if _is_its_own(error):
            raise RequestRefused(str(error)) from None
        raise RequestRefused(
            f"the server itself does not know, and the controller could not be asked: {error}; "
            f"you need {RIGHTS} {Site().namespace}"
        ) from None


def _is_its_own(error: ApiError | Unavailable) -> bool:
    """Whether the controller has answered so, and not the API server that should ask it."""
    return isinstance(error, ApiError) and error.code < 500 and not error.may_lack_path


async def _forwarded(
    client: Client, home: str, pod: str, path: str, document: Document | None
) -> Document | None:
    """None: the port can't be forwarded, or nobody answers there."""
    if not isinstance(client.transport, HttpTransport):
        return None
    from makeway.client.forwarding import Forward

    async def find_pod() -> str:
        return pod

    async with Forward(client.transport, home, find_pod, PORT).listening() as socket:
        nobody = Fixed(Credential())  # it asks for no token, and is shown none
        inside = Client(HttpTransport(f"unix:{socket}", source=nobody, trust=Trust()), attempts=1)
        try:
            return await inside.ask(f"/{path}", document)
        except Unavailable:
            return None
        finally:
            await inside.close()
