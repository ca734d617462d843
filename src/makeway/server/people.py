"""Many people on one server: who is behind a request, by what the machine knows of accounts.

Who somebody is comes from the kernel (the uid at the other end of a Unix socket) or from a token
that was handed out there. Name, groups and whether the account is open come from the account
database, never from the client, and are asked for again after a minute.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

from makeway.accounts import (
    Account,
    account_named,
    account_of_uid,
    closed_accounts,
    groups_of,
    namespace_of,
    why_no_shell,
)
from makeway.api.configuration import AdmissionFairSharing, Configuration
from makeway.server import errors
from makeway.server.errors import ApiError

KNOWN_FOR_S = 60.0
LOOKUP_MAX_S = 10.0  # a directory service may be away
LOOKUPS_AT_ONCE = 4
ROOT = 0
# What was used a week ago counts half; a GPU counts as much as ten cores or 100 GiB.
THE_PAST = AdmissionFairSharing(
    usage_half_life_time=7 * 86_400.0,
    resource_weights={"cpu": Fraction(1, 10), "memory": Fraction(1, 100 * 2**30)},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    """How a server serves all accounts of a machine; without it, it serves one."""

    socket: Path  # where people come in, in a folder that no account can write to
    ca: Path  # where the certificate is put by which clients know the server
    audit: Path  # where it is written down who did what
    admin_groups: tuple[str, ...] = ()  # whose members may do everything; root always may
    show_names: bool = True  # of jobs, to others
    requests_per_s: float = 50.0  # of one account
    unfinished_max: int = 10_000  # jobs of one account, and pods, that have not ended
    # What containers get with each of their GPUs, of what they don't ask for themselves.
    per_gpu: Mapping[str, Fraction] = field(default_factory=dict)
    closed: Path | None = None  # where root notes who is locked; None: /etc/shadow can be read here


def for_people(configuration: Configuration) -> Configuration:
    """Where several share a machine nobody runs anything past the queues, whatever it says; what
    they used lately counts, unless it says how."""
    past = configuration.admission_fair_sharing or THE_PAST
    return replace(configuration, manage_jobs_without_queue_name=True, admission_fair_sharing=past)


@dataclass(frozen=True, slots=True)
class Person:
    """Whoever is behind a request."""

    name: str
    uid: int
    groups: tuple[str, ...]
    namespace: str  # his own
    is_admin: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """What the account database says of somebody."""

    account: Account
    groups: tuple[str, ...]
    why_closed: str  # empty: he is let in


class Directory:
    """The accounts of this machine. Its answers may take their time."""

    def __init__(self, closed: Path | None = None) -> None:
        self._closed = closed

    def of_uid(self, uid: int) -> Entry | None:
        return self._entry(account_of_uid(uid))

    def has(self, name: str) -> bool:
        return account_named(name) is not None

    def _entry(self, account: Account | None) -> Entry | None:
        if account is None:
            return None
        why = why_no_shell(account) or self._noted().get(account.name, "")
        # Whoever is root already has nothing to gain here, and has to get in to mend things.
        return Entry(account, groups_of(account), "" if account.uid == ROOT else why)

    def _noted(self) -> dict[str, str]:
        if self._closed is None:
            return closed_accounts()
        noted: dict[str, str] = json.loads(self._closed.read_text())
        return noted


class Acquaintances:
    """Persons by uid, asked for in a thread and remembered for a minute."""

    def __init__(
        self, directory: Directory, admin_groups: tuple[str, ...], clock: Callable[[], float]
    ) -> None:
        self._directory, self._admins, self._clock = directory, frozenset(admin_groups), clock
        self._known: dict[int, tuple[float, Entry | None]] = {}  # since when
        self._asked: dict[int, asyncio.Task[Entry | None]] = {}
        self._threads = ThreadPoolExecutor(LOOKUPS_AT_ONCE, "accounts")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def of_uid(self, uid: int) -> Person:
        """The person with that uid; ApiError if there is none, or none that is let in."""
        entry = await self._entry(uid)
        if entry is None:
            raise _unknown(f"uid {uid} has no account on this machine")
        if entry.why_closed:
            raise _unknown(f"account {entry.account.name} is refused: {entry.why_closed}")
        return self._person(entry)

    async def holder(self, name: str, uid: int) -> Person:
        """Whom a token was made for, if that is still the same account."""
        person = await self.of_uid(uid)
        if person.name != name:
            raise _unknown(f"uid {uid} is no longer the account {name}")
        return person

    def _person(self, entry: Entry) -> Person:
        account = entry.account
        is_admin = account.uid == ROOT or not self._admins.isdisjoint(entry.groups)
        return Person(account.name, account.uid, entry.groups, namespace_of(account), is_admin)

    async def _entry(self, uid: int) -> Entry | None:
        since, entry = self._known.get(uid, (float("-inf"), None))
        if self._clock() - since < KNOWN_FOR_S:
            return entry
        asked = self._asked.get(uid)
        if asked is None:
            asked = asyncio.get_running_loop().create_task(self._ask(uid))
            self._asked[uid] = asked
            asked.add_done_callback(lambda _: self._asked.pop(uid, None))
        try:
            async with asyncio.timeout(LOOKUP_MAX_S):
                return await asyncio.shield(asked)
        except (TimeoutError, OSError, ValueError) as error:
            raise errors.unavailable(f"the account database does not answer: {error}") from None

    async def _ask(self, uid: int) -> Entry | None:
        loop = asyncio.get_running_loop()
        entry = await loop.run_in_executor(self._threads, self._directory.of_uid, uid)
        self._known[uid] = (self._clock(), entry)
        return entry


def _unknown(why: str) -> ApiError:
    return ApiError(401, "Unauthorized", f"Unauthorized: {why}")
