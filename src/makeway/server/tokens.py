"""Tokens that stand for an account where its kernel can't: on the TLS port.

What is kept of a token is its SHA-256: who reads the database can't come in with what he finds.
Tokens for an hour are handed out by the thousand (one for each call of kubectl) and live in memory;
those with a name live in the database. Both are made through the Unix socket only, so a stolen one
can't be made into another.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from makeway.api.times import format_time
from makeway.server import errors
from makeway.server.commits import Committer
from makeway.server.errors import ApiError, bad_request
from makeway.server.messages import decode, encode
from makeway.server.people import Person
from makeway.store import Conflict, Key, Store, WriteFailed

KIND = "accesstokens.makeway.dev"  # in the store; served by no path of objects
LENT_S = 3600.0
LENT_MAX = 1000  # of one account at once; the oldest makes room
NAMED_MAX = 100  # of one account
TTL_MAX_S = 366 * 86400
NOTED_EVERY_S = 600.0  # the last use of a token is written down no more often
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?", re.ASCII)
_PREFIX = "mw-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    account: str
    uid: int
    name: str  # empty: lent for an hour
    digest: str
    made: float
    expires: float
    last_used: float | None = None

    @property
    def key(self) -> Key:
        return Key(KIND, str(self.uid), self.name)

    def as_row(self) -> dict[str, Any]:
        used = self.last_used
        return {
            "account": self.account,
            "name": self.name,
            "made": format_time(int(self.made)),
            "expires": format_time(int(self.expires)),
            "lastUsed": None if used is None else format_time(int(used)),
        }


class Tokens:
    def __init__(self, store: Store, committer: Committer, clock: Callable[[], float]) -> None:
        self._store, self._committer, self._clock = store, committer, clock
        self._by_digest: dict[str, Token] = {}  # oldest first
        self._noted: dict[str, float] = {}  # when the last use of a named one was written
        for record in store.scan(KIND):
            token = Token(**decode(record.body))
            self._by_digest[token.digest] = token

    def find(self, secret: str) -> Token | None:
        """The token with that text, if it still holds."""
        token = self._by_digest.get(_digest(secret))
        if token is None or token.expires <= self._clock():
            return None
        return token

    def lend(self, person: Person) -> tuple[str, Token]:
        """A token for an hour, and what is known of it."""
        lent = [token for token in self._by_digest.values() if not token.name]
        for old in lent:
            if old.expires <= self._clock():
                del self._by_digest[old.digest]
        own = [t for t in self._by_digest.values() if not t.name and t.uid == person.uid]
        for old in own[: len(own) - LENT_MAX + 1]:
            del self._by_digest[old.digest]
        return self._made(person, "", LENT_S)

    async def create(self, person: Person, name: str, ttl_s: float) -> tuple[str, Token]:
        if not _NAME.fullmatch(name):
            raise bad_request(f"name: {name[:80]!r}: write small letters, digits and hyphens")
        if not 0 < ttl_s <= TTL_MAX_S:
            raise bad_request(f"ttlSeconds: write a number up to {TTL_MAX_S}, which is a year")
        own = self.of(person.uid)
        if any(token.name == name for token in own):
            why = f'token "{name}" already exists; revoke it first, or take another name'
            raise ApiError(409, "AlreadyExists", why)
        if len(own) >= NAMED_MAX:
            raise ApiError(403, "Forbidden", f"an account has at most {NAMED_MAX} tokens")
        secret, token = self._made(person, name, ttl_s)
        try:
            await self._write(token)
        except ApiError:
            del self._by_digest[token.digest]
            raise
        return secret, token

    def of(self, uid: int | None) -> list[Token]:
        """The named tokens of an account; None: of all."""
        return [
            token for token in self._by_digest.values() if token.name and uid in (None, token.uid)
        ]

    async def revoke(self, uid: int, name: str) -> bool:
        """Whether there was one of that name; from now on it opens nothing."""
        for token in self.of(uid):
            if token.name == name:
                await self._remove(token)
                return True
        return False

    async def revoke_all(self, uid: int) -> int:
        """Also those that were lent; how many there were."""
        own = [token for token in self._by_digest.values() if token.uid == uid]
        for token in own:
            await self._remove(token)
        return len(own)

    async def used(self, token: Token) -> None:
        """Note that somebody came with it."""
        if token.digest not in self._by_digest:
            return  # it was revoked meanwhile, and stays so
        now = self._clock()
        noted = replace(token, last_used=now)
        self._by_digest[token.digest] = noted
        if token.name and now - self._noted.get(token.digest, 0.0) >= NOTED_EVERY_S:
            self._noted[token.digest] = now
            await self._write(noted)

    def _made(self, person: Person, name: str, ttl_s: float) -> tuple[str, Token]:
        secret, now = _PREFIX + secrets.token_urlsafe(32), self._clock()
        token = Token(
            account=person.name,
            uid=person.uid,
            name=name,
            digest=_digest(secret),
            made=now,
            expires=now + ttl_s,
        )
        self._by_digest[token.digest] = token
        return secret, token

    async def _write(self, token: Token, *, is_deletion: bool = False) -> None:
        found = self._store.latest(token.key)
        if is_deletion and found is None:
            return
        revision = 0 if found is None else found.revision
        try:
            await self._committer.write(
                token.key, revision, lambda _: encode(asdict(token)), is_deletion=is_deletion
            )
        except WriteFailed as failure:
            raise errors.write_failed(str(failure)) from None
        except Conflict:
            return  # somebody else has noted the same

    async def _remove(self, token: Token) -> None:
        self._by_digest.pop(token.digest, None)
        if token.name:
            await self._write(token, is_deletion=True)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
