"""Who reads: codes of one use, and the sessions that pages get for them.

A code comes through the API, so whoever has one has shown there who he is. The session that a page
gets for it is good on the dashboard's own port alone. It is signed with a key in the data folder
and names its reader, so that a page goes on when the server was restarted; what the reader may do
is asked anew each time. No cookies: they are not bound to a port, and on a machine that several
people use, another one's web server would be the same site.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable
from typing import NamedTuple

from makeway.dashboard.signing_out import Ended

CODE_S = 60.0
CODES_MAX, CODES_OF_ONE = 1000, 20  # that are open; of one reader no more, lest others lose theirs
SESSION_S = 12 * 3600.0
RENEW_S = 3600.0  # a session older than that is replaced when its page reconnects


class Reader(NamedTuple):
    """Somebody whom the API knows."""

    name: str
    uid: int | None = None  # None: the server is for one account, which may do everything
    token: str = ""  # on a cluster: by what its API server knows him


class Session(NamedTuple):
    reader: Reader
    ends_at: float
    id: str = ""  # the same after it was renewed; empty: not one of ours


class Codes:
    """Codes that nobody has used yet."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        # By digest: the reader, and until when; the oldest first.
        self._open: dict[bytes, tuple[Reader, float]] = {}

    def issue(self, reader: Reader) -> str:
        code = secrets.token_urlsafe(32)
        self._forget_old()
        own = [digest for digest, (whose, _) in self._open.items() if whose == reader]
        if len(own) >= CODES_OF_ONE:
            del self._open[own[0]]
        self._open[_digest(code)] = reader, self._clock() + CODE_S
        return code

    def redeem(self, code: str) -> Reader | None:
        """The reader it was made for, once; None if it was used, is too old, or is no code."""
        self._forget_old()
        found = self._open.pop(_digest(code), None)
        return None if found is None else found[0]

    def forget(self, reader: Reader) -> None:
        """Codes that he has not used."""
        self._open = {code: kept for code, kept in self._open.items() if kept[0] != reader}

    def _forget_old(self) -> None:
        now = self._clock()
        while self._open:
            oldest = next(iter(self._open))
            if self._open[oldest][1] > now and len(self._open) < CODES_MAX:
                return
            del self._open[oldest]


class Sessions:
    def __init__(self, key: bytes, clock: Callable[[], float], ended: Ended | None = None) -> None:
        self._key, self._clock = key, clock
        self._ended = ended or Ended(clock, SESSION_S)

    def issue(self, reader: Reader, id: str = "") -> str:
        """A new one, or the one with this id for longer."""
        ends_at, id = self._clock() + SESSION_S, id or secrets.token_urlsafe(12)
        claim = f"{ends_at:.3f} {id} {_uid(reader)} {reader.name}".encode()
        return f"{_text(claim)}.{_text(self._sign(claim))}"

    def end(self, session: Session) -> None:
        """This one, in all tabs that have it."""
        self._ended.note(_name(session.reader), session.id)

    def end_all(self, reader: Reader) -> None:
        self._ended.note_all(_name(reader))

    def is_over(self, session: Session) -> bool:
        begun_at = session.ends_at - SESSION_S
        return self._ended.has(_name(session.reader), session.id, begun_at)

    def read(self, session: str) -> Session | None:
        """None if it was not made here, or is over."""
        claim_text, _, signature = session.partition(".")
        try:
            claim, signed = _bytes(claim_text), _bytes(signature)
        except ValueError:
            return None
        if not hmac.compare_digest(signed, self._sign(claim)):
            return None
        found = _session(claim)
        if found is None or found.ends_at <= self._clock() or self.is_over(found):
            return None
        return found

    def renewed(self, session: Session) -> str:
        """A new one for a reader whose session gets old; empty while there is no need."""
        age_s = SESSION_S - (session.ends_at - self._clock())
        return self.issue(session.reader, session.id) if age_s > RENEW_S else ""

    def _sign(self, claim: bytes) -> bytes:
        return hmac.digest(self._key, claim, "sha256")


def _session(claim: bytes) -> Session | None:
    """None: it was written by an older version, which had no ids."""
    try:
        ends_at, id, uid, name = claim.decode().split(" ", 3)
        return Session(Reader(name, int(uid) if uid else None), float(ends_at), id)
    except ValueError:
        return None


def _uid(reader: Reader) -> str:
    return "" if reader.uid is None else str(reader.uid)


def _name(reader: Reader) -> str:
    return f"{_uid(reader)} {reader.name}"


def _digest(code: str) -> bytes:
    return hashlib.sha256(code.encode("utf-8", "replace")).digest()


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True)
