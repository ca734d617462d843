"""Who of several leads, agreed upon by a Lease.

The leader renews the Lease; the others watch it stand still. Times in it come from the clock of
whoever wrote it, so nobody compares them with its own: a Lease may be taken when it has not
changed for its duration since *we* saw it change. The leader stops `LEASE_S - RENEW_MAX_S` before
the others may take over, counted from when it asked for its last renewal, not from the answer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import NamedTuple

from makeway.api.kinds import LEASES
from makeway.client.client import ApiError, Client, Conflict, Document, NotFound, Sleep, Unavailable
from makeway.logs import Fields
from makeway.plane.writes import Key

log = logging.getLogger("makeway.election")

LEASE_S = 15
RENEW_MAX_S = 10.0  # without a renewal for that long, the leader stops
ATTEMPT_MAX_S = 5.0
RETRY_S = 2.0

Clock = Callable[[], float]


class _Seen(NamedTuple):
    lease: Document
    since: float  # by our own timer, when it was first seen like this


class Election:
    def __init__(
        self,
        client: Client,
        key: Key,
        identity: str,
        *,
        clock: Clock = time.time,
        timer: Clock = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """`client` should ask once and not retry: what matters here is to know in time."""
        self._client, self._key, self._identity = client, key, identity
        self._clock, self._timer, self._sleep = clock, timer, sleep
        self._seen: _Seen | None = None
        self._renewed_at = float("-inf")  # when the last renewal that worked was asked for

    @property
    def is_leader(self) -> bool:
        """Whether nobody else can lead by now; asked before every write."""
        return self._left_s() > 0

    @property
    def holder(self) -> str:
        """Who led when we last looked; empty if nobody did."""
        return "" if self._seen is None else _holder(self._seen.lease)

    async def acquire(self) -> None:
        """Wait until we lead."""
        while not await self._attempt(ATTEMPT_MAX_S):
            await self._sleep(RETRY_S)
        log.info(Fields(lease=self._key, holder=self._identity))

    async def keep(self) -> None:
        """Renew, and come back when that has failed for too long or somebody else leads."""
        while self.is_leader:
            await self._sleep(min(RETRY_S, self._left_s()))
            if not await self._attempt(self._left_s()) and self.holder not in ("", self._identity):
                break
        self._renewed_at = float("-inf")
        log.warning(Fields(lease=self._key, lost_to=self.holder or "nobody"))

    async def release(self) -> None:
        """Let somebody else lead at once. Nothing may be written any more when this is called."""
        was_leader, self._renewed_at = self.is_leader, float("-inf")
        if not was_leader or self._seen is None:
            return
        try:
            async with asyncio.timeout(RETRY_S):
                await self._give_up(self._seen.lease)
        except (ApiError, Unavailable, TimeoutError) as error:
            log.warning(Fields(lease=self._key, release="failed", error=error))

    async def _give_up(self, lease: Document) -> None:
        try:
            await self._write(lease, holder="")
        except Conflict:  # perhaps by a renewal of ours, the answer to which we did not wait for
            lease = await self._client.get(LEASES, self._key.name, self._key.namespace)
            if _holder(lease) == self._identity:
                await self._write(lease, holder="")

    def _left_s(self) -> float:
        """How long we lead without another renewal."""
        return self._renewed_at + RENEW_MAX_S - self._timer()

    async def _attempt(self, within_s: float) -> bool:
        """Take or renew the Lease, if we may; False if we don't have it then."""
        began = self._timer()
        try:
            async with asyncio.timeout(min(ATTEMPT_MAX_S, within_s)):
                has_it = await self._take(began)
        except (ApiError, Unavailable, TimeoutError) as error:
            if isinstance(error, Conflict):
                self._seen = None  # somebody was quicker, or we missed the answer: look again
            log.warning(Fields(lease=self._key, error=str(error) or "no answer in time"))
            return False
        if has_it:
            self._renewed_at = began
        return has_it

    async def _take(self, now: float) -> bool:
        """While we lead we know the Lease and write it right away; else look at it first."""
        if self._seen is None or _holder(self._seen.lease) != self._identity:
            try:
                self._look(await self._client.get(LEASES, self._key.name, self._key.namespace))
            except NotFound:
                await self._create()
                return True
        assert self._seen is not None
        lease, since = self._seen
        lease_s = float((lease.get("spec") or {}).get("leaseDurationSeconds") or LEASE_S)
        if _holder(lease) not in ("", self._identity) and now < since + lease_s:
            return False
        await self._write(lease, holder=self._identity)
        return True

    def _look(self, lease: Document) -> None:
        known = self._seen
        is_same = known is not None and known.lease.get("spec") == lease.get("spec")
        self._seen = _Seen(lease, known.since if known and is_same else self._timer())

    async def _create(self) -> None:
        lease = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self._key.name, "namespace": self._key.namespace},
            "spec": {
                **self._spec(self._identity),
                "acquireTime": self._now(),
                "leaseTransitions": 0,
            },
        }
        self._seen = _Seen(await self._client.create(LEASES, lease), self._timer())

    async def _write(self, lease: Document, *, holder: str) -> None:
        """Write it as we last saw it; Conflict if it has changed since."""
        spec = {**(lease.get("spec") or {}), **self._spec(holder)}
        if holder and _holder(lease) != holder:
            spec["acquireTime"] = spec["renewTime"]
            spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + 1
        written = await self._client.replace(LEASES, {**lease, "spec": spec})
        self._seen = _Seen(written, self._timer())

    def _spec(self, holder: str) -> Document:
        return {
            "holderIdentity": holder,
            "leaseDurationSeconds": LEASE_S if holder else 1,
            "renewTime": self._now(),
        }

    def _now(self) -> str:
        """As Leases want it: with all six digits of a fraction, even if they are zeros."""
        now = self._clock()
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
        return f"{seconds}.{int(now % 1 * 1_000_000):06}Z"


def _holder(lease: Document) -> str:
    return str((lease.get("spec") or {}).get("holderIdentity") or "")
