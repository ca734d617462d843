"""Requests and responses, whatever carries them; and JSON, which is what they carry."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson

from makeway.api.manifests import read_manifests
from makeway.api.times import TimeError, parse_time
from makeway.server.errors import ApiError, bad_request, not_acceptable
from makeway.server.people import Person

JSON = "application/json"
BODY_MAX_BYTES = 3 * 1024 * 1024
_TRUE = frozenset(("1", "t", "T", "true", "True", "TRUE"))
_FALSE = frozenset(("", "0", "f", "F", "false", "False", "FALSE"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    method: str
    path: str  # still with its percent signs
    query: Mapping[str, str]  # of a key that stands twice, the first
    headers: Mapping[str, str]  # names in lower case
    body: bytes = b""
    is_trusted: bool = False  # comes from this very process, so needs no token
    uid: int | None = None  # of who is at the other end, where the kernel vouches for it
    account: str = ""  # whose uid that was when our own pages let him in; empty: he comes himself
    person: Person | None = None  # who that is, once it is known; None: one account has it all
    may_create: bool = True  # what is applied and not there
    parsed: Any = None  # the body, if it was read already
    pairs: tuple[tuple[str, str], ...] = ()  # the query as it came, with keys that stand twice

    def flag(self, name: str) -> bool:
        value = self.query.get(name, "")
        if value in _TRUE:
            return True
        if value not in _FALSE:
            raise bad_request(f"{name}: {value[:50]!r} is not a boolean")
        return False

    def all(self, name: str) -> list[str]:
        """All values of a key that may stand more than once."""
        return [value for key, value in self.pairs if key == name]

    def number(self, name: str) -> int | None:
        """A whole number, None if it is not given."""
        value = self.query.get(name, "")
        if not value:
            return None
        if not value.isascii() or not value.isdecimal() or len(value) > 18:
            raise bad_request(f"{name}: {value[:50]!r} is not a whole number")
        return int(value)

    def moment(self, name: str) -> float:
        """A point in time, in seconds since 1970."""
        value = self.query.get(name, "")
        try:
            return parse_time(value)
        except TimeError:
            why = f"{name}: {value[:50]!r} is no time such as 2026-03-01T14:05:00Z"
            raise bad_request(why) from None

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class Messages(Protocol):
    """A WebSocket, whoever holds it."""

    async def receive(self) -> bytes | None:
        """The next message; None: the client is gone."""

    async def send(self, message: bytes) -> None:
        """As soon as the client takes it."""


@dataclass(frozen=True, slots=True)
class Talk:
    """An answer that goes to and fro; the WebSocket is closed when it returns."""

    protocol: str
    run: Callable[[Messages], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    code: int = 200
    body: bytes | AsyncIterator[bytes] = b""
    content_type: str = JSON
    has_lines: bool = False  # pieces of the body are whole lines, each of which says something
    headers: tuple[tuple[str, str], ...] = field(default=())
    talk: Talk | None = None  # set: the client has asked for a WebSocket, and gets it


def json_response(value: Any, code: int = 200) -> Response:
    return Response(code=code, body=encode(value))


def encode(value: Any) -> bytes:
    return orjson.dumps(value)


def decode(body: bytes) -> Any:
    """A document that we have written ourselves."""
    return orjson.loads(body)


def accepted(request: Request) -> Iterator[tuple[str, Mapping[str, str]]]:
    """What the client is content with, best first: kinds of media, each with its parameters."""
    for part in request.headers.get("accept", "").split(","):
        kind, *parameters = [piece.strip() for piece in part.split(";")]
        yield kind, dict(p.split("=", 1) for p in parameters if "=" in p)


def is_json(kind: str) -> bool:
    return kind in (JSON, "*/*", "application/*", "")


def expect_plain(request: Request) -> None:
    """Refuse a client that wants as a Table, say, what is nothing but itself."""
    if all("as" in words for _, words in accepted(request)):
        raise not_acceptable([JSON])


def parse(body: bytes, content_type: str = "") -> Any:
    """A document that a client has written, in JSON or (where it says so) YAML."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if "yaml" not in content_type:
            parse_error = f"couldn't get version/kind; json parse error: {error}"
            why = parse_error if body else "the body of the request is empty"
            raise bad_request(why) from None
    found = read_manifests(body.decode("utf-8", "replace"), "body")
    if found.troubles or len(found.manifests) != 1:
        why = str(found.troubles[0]) if found.troubles else "it is not one document"
        raise bad_request(f"error decoding YAML: {why}")
    try:
        return orjson.loads(orjson.dumps(found.manifests[0].document))
    except TypeError as error:  # a number that JSON has no room for
        raise bad_request(f"error decoding YAML: {error}") from None


def bearer_of(headers: Mapping[str, str]) -> str:
    """The token that headers (names in lower case) carry; empty if none."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def problem(error: ApiError) -> Response:
    headers: tuple[tuple[str, str], ...] = ()
    seconds = (error.details or {}).get("retryAfterSeconds")
    if seconds is not None:
        headers = (("Retry-After", str(seconds)),)
    return Response(code=error.code, body=encode(error.status()), headers=headers)


def success(details: Mapping[str, Any] | None = None) -> dict[str, Any]:
    status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}}
    status["status"] = "Success"
    if details:
        status["details"] = dict(details)
    return status


def created() -> dict[str, Any]:
    return {**success(), "code": 201}


def warning_headers(warnings: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    return tuple(("Warning", f'299 - "{_quoted(text)}"') for text in warnings[:20])


def _quoted(text: str) -> str:
    """Text for a Warning header: one line of ASCII."""
    plain = text.encode("ascii", "backslashreplace").decode().replace("\\", "\\\\")
    return re.sub(r"[\x00-\x1f\x7f]", " ", plain.replace('"', '\\"'))[:500]
