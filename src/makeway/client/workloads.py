"""Holding a Workload and letting it go on, whoever may write the rest of it."""

from __future__ import annotations

from makeway.api.kinds import WORKLOADS
from makeway.client.client import ApiError, Client


async def set_active(client: Client, name: str, namespace: str, *, is_active: bool) -> None:
    """Where people share a server, a Workload is not theirs to write, but for this."""
    patch = {"spec": {"active": is_active}}
    try:
        await client.patch(WORKLOADS, name, namespace, patch=patch)
    except ApiError as error:
        if not error.is_forbidden:
            raise
        try:
            await client.patch(WORKLOADS, name, namespace, patch=patch, subresource="active")
        except ApiError as other:
            raise error if other.may_lack_path else other from None
