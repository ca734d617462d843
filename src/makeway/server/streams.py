"""Clients that join a pod that runs: `kubectl exec`, `attach` and `port-forward`, over WebSockets.

A message's first byte is the number of its stream, as Kubernetes has it: 0 input, 1 output, 2 error
output, 3 how it ended (a Status), 4 the size of the terminal. In version 5, number 255 with that of
a stream says that the client closes it. Nothing is kept here: a program waits for who reads what it
prints, a client for who reads what it sends.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import orjson

from makeway.api.batch import ENDED_PHASES
from makeway.server import errors, port_forward
from makeway.server.errors import ApiError, bad_request
from makeway.server.logs import FileLogs, container_of
from makeway.server.messages import Messages, Request, Response, Talk

INPUT, OUTPUT, ERROR, STATUS, SIZE, CLOSE = 0, 1, 2, 3, 4, 255
V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
TALKS_MAX = 256  # of all clients at once
TALKS_OF_ONE = 64  # of one account that shares the server
NOBODY = -1  # one account has it all
ARGUMENTS_MAX = 10_000
IDLE_S = 0.2  # after a program's end: whoever it leaves behind may hold its output open for long
SUBRESOURCES = ("attach", "exec", "portforward")
_CHANNELS = {"output": OUTPUT, "terminal": OUTPUT, "error": ERROR}


class Process(Protocol):
    """A program that runs in a pod; `close` hangs up on it."""

    @property
    def outputs(self) -> tuple[str, ...]: ...

    async def read(self, name: str) -> bytes: ...

    async def write(self, piece: bytes) -> None: ...

    def close_input(self) -> None: ...

    def resize(self, rows: int, columns: int) -> None: ...

    async def code(self) -> int | None: ...

    def close(self) -> None: ...


class Pods(Protocol):
    """Where pods run. OSError: this one can't be joined, and why."""

    async def execute(
        self,
        uid: str,
        container: str,
        argv: list[str],
        *,
        is_terminal: bool,
        has_input: bool,
    ) -> Process: ...

    async def connect(self, uid: str, port: int) -> socket.socket:
        """To a port at which a process of the pod listens."""

    async def attach(self, uid: str, container: str) -> Process:
        """The container's own input; there is nothing to read, and its end isn't told."""


Work = Callable[[Messages], Coroutine[Any, Any, None]]


class Streams:
    def __init__(self, logs: FileLogs | None) -> None:
        self._logs = logs
        self.pods: Pods | None = None  # None: nobody here runs pods
        self._talks: Counter[int] = Counter()  # by account
        self._ports = port_forward.Room()
        # By account, as long as it has any.
        self._ports_of = weakref.WeakValueDictionary[int, port_forward.Room]()
        self._is_over = asyncio.Event()

    def end(self) -> None:
        """The server goes: everybody is told."""
        self._is_over.set()

    def answer(self, request: Request, pod: Mapping[str, Any], subresource: str) -> Response:
        """A conversation, if the pod runs and the client speaks our language."""
        if self.pods is None:
            raise errors.unavailable("nobody runs pods here")
        who = NOBODY if request.person is None else request.person.uid
        if self._talks.total() >= TALKS_MAX:
            raise errors.too_many_requests(f"{TALKS_MAX} streams are open already")
        if who != NOBODY and self._talks[who] >= TALKS_OF_ONE:
            raise errors.too_many_requests(f"{TALKS_OF_ONE} streams of yours are open already")
        if subresource == "portforward":
            return self._forward(self.pods, request, pod, who)
        container = _running(pod, request, subresource)
        wish = _Wish.of(request, needs_command=subresource == "exec")
        protocol = _chosen(request, (V5, V4))
        uid = pod["metadata"]["uid"]
        if subresource == "exec":
            work: Work = partial(_execute, self.pods, uid, container, wish)
        else:
            work = partial(self._attach, self.pods, pod, container, wish)
        farewell = _status(_failure("the server is shutting down"))
        return _talk(protocol, partial(self._while_up, who, work, farewell))

    def _forward(self, pods: Pods, request: Request, pod: Mapping[str, Any], who: int) -> Response:
        _expect_running(pod, "forward ports of")
        connect = partial(pods.connect, pod["metadata"]["uid"])
        protocol = _chosen(request, (port_forward.SPDY, port_forward.V5, port_forward.V4))
        room = self._room_of(who)
        if protocol == port_forward.SPDY:
            work: Work = partial(port_forward.in_spdy, connect, room)
        else:
            ports = port_forward.ports_of(request)
            work = partial(port_forward.in_channels, connect, room, ports)
        return _talk(protocol, partial(self._while_up, who, work, b""))

    def _room_of(self, who: int) -> port_forward.Room:
        """Nobody can fill alone what is for all accounts."""
        if who == NOBODY:
            return self._ports
        found = self._ports_of.get(who)
        if found is None:
            found = port_forward.Room(port_forward.OF_ONE_MAX, self._ports)
            self._ports_of[who] = found
        return found

    async def _while_up(self, who: int, work: Work, farewell: bytes, messages: Messages) -> None:
        self._talks[who] += 1
        working = asyncio.ensure_future(work(messages))
        over = asyncio.ensure_future(self._is_over.wait())
        try:
            await asyncio.wait((working, over), return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                working.result()
            else:
                await _ended((working,))
                if farewell:
                    await messages.send(farewell)
        finally:
            self._talks[who] -= 1
            await _ended((working, over))

    async def _attach(
        self, pods: Pods, pod: Mapping[str, Any], container: str, wish: _Wish, messages: Messages
    ) -> None:
        """What the container prints from now on; and its input, if it has one."""
        assert self._logs is not None
        process: Process | None = None
        try:
            pieces = self._logs.from_now_on(pod, container)
            if wish.has_input and _has_input(pod, container):
                process = await pods.attach(pod["metadata"]["uid"], container)
        except (OSError, ApiError) as error:
            await messages.send(_status(_failure(f"error attaching to container: {error}")))
            return
        await messages.send(bytes([OUTPUT]))
        showing = asyncio.ensure_future(_show(pieces, messages))
        typing = asyncio.ensure_future(_type(process, messages))
        try:
            await asyncio.wait((showing, typing), return_when=asyncio.FIRST_COMPLETED)
            if showing.done():
                showing.result()
                await messages.send(_status(_SUCCESS))
        finally:
            await _ended((showing, typing))
            if process is not None:
                process.close()


def _talk(protocol: str, run: Callable[[Messages], Awaitable[None]]) -> Response:
    return Response(code=101, talk=Talk(protocol, run))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    argv: list[str]
    has_input: bool
    has_output: bool
    has_error: bool
    is_terminal: bool

    @staticmethod
    def of(request: Request, *, needs_command: bool) -> _Wish:
        is_terminal = request.flag("tty")
        wish = _Wish(
            argv=request.all("command"),
            has_input=request.flag("stdin"),
            has_output=request.flag("stdout"),
            has_error=request.flag("stderr") and not is_terminal,
            is_terminal=is_terminal,
        )
        if not (wish.has_input or wish.has_output or wish.has_error):
            raise bad_request("you must specify at least 1 of stdin, stdout, stderr")
        if needs_command and not (wish.argv and wish.argv[0]):
            raise bad_request("you must specify at least 1 command for the container")
        if len(wish.argv) > ARGUMENTS_MAX or any("\0" in word for word in wish.argv):
            raise bad_request("command: too many words, or a zero byte in one of them")
        return wish

    @property
    def first(self) -> int:
        """The stream on which a client is told that all is set up."""
        if self.has_output:
            return OUTPUT
        return ERROR if self.has_error else STATUS


def _running(pod: Mapping[str, Any], request: Request, what: str) -> str:
    """The container that is meant, which runs."""
    container = container_of(pod, request)
    _expect_running(pod, f"{what} into a container in")
    status, name = pod["status"], pod["metadata"]["name"]
    for part in ("containerStatuses", "initContainerStatuses"):
        for found in status.get(part) or ():
            if found["name"] == container and "running" in (found.get("state") or {}):
                return container
    raise bad_request(f'container "{container}" in pod "{name}" does not run')


def _expect_running(pod: Mapping[str, Any], what: str) -> None:
    phase = (pod.get("status") or {}).get("phase")
    if phase in ENDED_PHASES:
        raise bad_request(f"cannot {what} a completed pod; current phase is {phase}")
    if not (pod.get("spec") or {}).get("nodeName"):
        name = pod["metadata"]["name"]
        raise bad_request(f"pod {name} does not have a host assigned: it waits for its turn")


def _has_input(pod: Mapping[str, Any], container: str) -> bool:
    """A terminal of which nobody said that it takes input has its size all the same."""
    spec = pod["spec"]
    every = (*spec["containers"], *(spec.get("initContainers") or ()))
    return any(c["name"] == container and (c.get("stdin") or c.get("tty")) for c in every)


async def _show(pieces: AsyncIterator[bytes], messages: Messages) -> None:
    async for piece in pieces:
        if piece:
            await messages.send(bytes([OUTPUT]) + piece)


def _chosen(request: Request, known: Iterable[str]) -> str:
    """The first of the client's protocols that we know."""
    headers = request.headers
    is_socket = headers.get("upgrade", "").lower() == "websocket"
    asked = headers.get("sec-websocket-protocol", "") if is_socket else ""
    for name in (word.strip() for word in asked.split(",")):
        if name in known:
            return name
    spoken = "SPDY" if headers.get("upgrade", "").upper().startswith("SPDY") else asked or "none"
    raise bad_request(
        f"this stream takes a WebSocket with the protocol {' or '.join(known)}, the client asked "
        f"for {spoken}; kubectl 1.31 and later does, and so do `makeway exec`, `attach` and "
        "`port-forward`"
    )


# Programs


async def _execute(pods: Pods, uid: str, container: str, wish: _Wish, messages: Messages) -> None:
    try:
        process = await pods.execute(
            uid, container, wish.argv, is_terminal=wish.is_terminal, has_input=wish.has_input
        )
    except OSError as error:
        await messages.send(_status(_failure(f"error executing command in container: {error}")))
        return
    try:
        await messages.send(bytes([wish.first]))
        await _attend(process, wish, messages)
    finally:
        process.close()


async def _attend(process: Process, wish: _Wish, messages: Messages) -> None:
    """Until the program has ended, or the client is gone."""
    wanted = {OUTPUT: wish.has_output, ERROR: wish.has_error}
    printers = [_Printer(process, name, messages, wanted) for name in process.outputs]
    printing = [asyncio.ensure_future(printer.run()) for printer in printers]
    typing = asyncio.ensure_future(_type(process, messages))
    ending = asyncio.ensure_future(process.code())
    try:
        await asyncio.wait((typing, ending), return_when=asyncio.FIRST_COMPLETED)
        if not ending.done():
            return
        while {task for task in printing if not task.done()}:
            await asyncio.wait(printing, timeout=IDLE_S)
            if all(printer.was_idle() for printer in printers):
                break
        await messages.send(_status(_end(ending.result())))
    finally:
        await _ended((*printing, typing, ending))


class _Printer:
    """Passes on one output of a program."""

    def __init__(
        self, process: Process, name: str, messages: Messages, wanted: Mapping[int, bool]
    ) -> None:
        self._process, self._name, self._messages = process, name, messages
        self._channel = _CHANNELS[name]
        self._is_wanted = wanted[self._channel]
        self._is_waiting, self._has_printed = False, False

    async def run(self) -> None:
        while True:
            self._is_waiting = True
            piece = await self._process.read(self._name)
            self._is_waiting, self._has_printed = False, True
            if not piece:
                self._is_waiting = True
                return
            if self._is_wanted:
                await self._messages.send(bytes([self._channel]) + piece)

    def was_idle(self) -> bool:
        """Whether nothing came since this was asked last, and nothing is on its way."""
        was_idle = self._is_waiting and not self._has_printed
        self._has_printed = False
        return was_idle


async def _type(process: Process | None, messages: Messages) -> None:
    """Pass on what the client sends, until it is gone; without a process, to nobody."""
    while (message := await messages.receive()) is not None:
        if process is None:
            continue
        match message[:1], message[1:]:
            case b"\x00", piece:
                await process.write(piece)
            case b"\x04", piece:
                _resize(process, piece)
            case b"\xff", b"\x00":
                process.close_input()


def _resize(process: Process, piece: bytes) -> None:
    with contextlib.suppress(orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        size = orjson.loads(piece)
        rows, columns = int(size["Height"]), int(size["Width"])
        if 0 < rows <= 0xFFFF and 0 < columns <= 0xFFFF:
            process.resize(rows, columns)


async def _ended(tasks: Iterable[asyncio.Future[Any]]) -> None:
    tasks = tuple(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


# How it ended

_SUCCESS: Mapping[str, Any] = {"metadata": {}, "status": "Success"}


def _status(status: Mapping[str, Any]) -> bytes:
    return bytes([STATUS]) + orjson.dumps(status)


def _failure(why: str) -> Mapping[str, Any]:
    return ApiError(500, "InternalError", why).status()


def _end(code: int | None) -> Mapping[str, Any]:
    if code is None:
        return _failure("the container ended, and the command with it")
    if code == 0:
        return _SUCCESS
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


Watching = Callable[[], Awaitable[bool]]


def guarded(talk: Talk, is_welcome: Watching, every_s: float) -> Talk:
    """The same conversation, cut when the client has lost his welcome."""

    async def run(messages: Messages) -> None:
        talking = asyncio.ensure_future(talk.run(messages))
        try:
            while True:
                await asyncio.wait({talking}, timeout=every_s)
                if talking.done():
                    return talking.result()
                if not await is_welcome():
                    return None
        finally:
            await _ended((talking,))

    return Talk(talk.protocol, run)
