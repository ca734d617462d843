"""Asking the leading controller of a cluster, through the API server's proxy to its pod."""

from __future__ import annotations

from makeway.api.kinds import LEASES, PODS
from makeway.cli.command import RequestRefused
from makeway.client import ApiError, Client, Unavailable
from makeway.client.client import Document
from makeway.deploy.installation import LEASE, PORT, Site


async def ask_leader(client: Client, path: str, document: Document) -> Document:
    """What it answers to a question that has a body; RequestRefused if it can't be asked."""
    home = Site().namespace
    try:
        lease = await client.get(LEASES, LEASE, home)
        pod, _, _ = str(lease["spec"].get("holderIdentity") or "").partition("_")
        return await client.post(PODS, (home, f"{pod}:{PORT}"), f"proxy/{path}", document)
    except (ApiError, Unavailable) as error:
        raise RequestRefused(
            f"the server itself does not know, and the controller could not be asked: {error}; "
            f"`kubectl -n {home} port-forward deployment/{LEASE} {PORT}` lets you, by POST to "
            f"http://127.0.0.1:{PORT}/{path}"
        ) from None
