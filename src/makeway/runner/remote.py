"""Pods that a starter runs as root, each as its account: the host of a server that may do nothing.

The starter's socket takes orders and tells states (`makeway.starter.door`). When it is away, what
was known stays known, orders are refused for now, and we come back as soon as it is there.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import logging
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from makeway.clocks import SMALL_STEP_S, SteadyClock
from makeway.logs import Fields
from makeway.runner.calls import NotNow
from makeway.runner.host import PodState, RunOrder, Unwelcome, Wish
from makeway.runner.local import OnChange
from makeway.runner.states import state_of
from makeway.watchdog import Pulse

log = logging.getLogger("makeway.runner")

ANSWER_S = 10.0  # a directory service may have to be asked
WAIT_S = 20.0  # for the starter, when both begin
AGAIN_S = 1.0
BEAT_S = 2.0  # as often it says that it lives
READ_BYTES = 1024 * 1024
JOINING_MAX = 4  # at once; the starter takes few connections


class RemoteHost:
    def __init__(self, path: Path, clock: SteadyClock, wait_s: float = WAIT_S) -> None:
        self._path, self._clock = path, clock
        self._states: dict[str, PodState] = {}
        self.revision = 0  # of the server's objects: the latest of which an order speaks
        self.unlimited = ""  # what of a container's limits can't be held, and why
        self._supervisors: dict[str, int] = {}
        self._joining = asyncio.Semaphore(JOINING_MAX)
        self._orders: socket.socket | None = None
        self._news: socket.socket | None = None
        self._told = _Lines()  # the news
        self._shift_s = 0.0  # from the starter's time to ours
        self._on_change: OnChange | None = None
        self._namespaces: Callable[[], list[str]] | None = None  # None: nobody knows yet
        self._timer: asyncio.TimerHandle | None = None
        self.pulse = Pulse("starter of pods")
        self._wait_for_it(time.monotonic() + wait_s)

    def _wait_for_it(self, until: float) -> None:
        while True:
            try:
                return self._look()
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def states(self) -> Mapping[str, PodState]:
        return self._states

    def supervisors(self) -> dict[str, int]:
        """Of pods that are not over: the process below which all of it runs."""
        return {
            uid: pid
            for uid, pid in self._supervisors.items()
            if uid in self._states and not self._states[uid].is_over
        }

    # Orders

    def start(self, order: RunOrder) -> None:
        if order.uid in self._states:
            return
        self._order({"do": "start", "pod": asdict(order)})
        state = PodState(uid=order.uid, node=order.node, devices=dict(order.devices))
        self._states.setdefault(order.uid, state)

    def stop(self, uid: str, grace_s: float) -> None:
        self._order({"do": "stop", "uid": uid, "grace_s": grace_s})

    def remove(self, uid: str) -> None:
        self._order({"do": "remove", "uid": uid})
        self._states.pop(uid, None)
        self._supervisors.pop(uid, None)

    async def call(self, uid: str, wish: Wish) -> socket.socket:
        """A line to the supervisor of a pod that runs, which has been told a wish."""
        async with self._joining:
            return await asyncio.to_thread(self._join, uid, wish)

    def _join(self, uid: str, wish: Wish) -> socket.socket:
        with self._connected() as connection:
            order = {"do": "exec", "uid": uid, "wish": asdict(wish)}
            connection.sendall(json.dumps(order).encode() + b"\n")
            content, descriptors, _, _ = socket.recv_fds(connection, READ_BYTES, 1)
        if not descriptors:
            answer = json.loads(content) if content else {}
            raise NotNow(answer.get("message") or "the starter does not answer")
        line = socket.socket(fileno=descriptors[0])
        line.setblocking(False)
        return line

    def follow(self, namespaces: Callable[[], list[str]]) -> None:
        """Tell the starter which namespaces there are, now and whenever it comes back: whose the
        others were, it forgets."""
        self._namespaces = namespaces
        self.namespaces_changed()

    def namespaces_changed(self) -> None:
        if self._namespaces is not None:
            with contextlib.suppress(OSError):  # it is away, and is told when it is back
                self._order({"do": "keep", "namespaces": self._namespaces()})

    def _order(self, order: Mapping[str, Any]) -> None:
        """OSError: not now. An answer may get lost: every order may come twice."""
        try:
            if self._orders is None:
                self._orders = self._connected()
            self._orders.sendall(json.dumps(order).encode() + b"\n")
            answer = _Lines().wait(self._orders)  # one, and nothing else comes
        except OSError as error:
            self._hang_up()
            raise OSError(error.errno or errno.EIO, "the starter does not answer") from error
        if "unwelcome" in answer:
            raise Unwelcome(answer["unwelcome"], answer["message"])
        if "errno" in answer:
            raise OSError(answer["errno"], answer["message"])

    def _hang_up(self) -> None:
        if self._orders is not None:
            self._orders.close()
            self._orders = None

    def _connected(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(ANSWER_S)
        try:
            connection.connect(str(self._path))
        except OSError:
            connection.close()
            raise
        return connection

    # News

    def watch(self, on_change: OnChange) -> None:
        """Call with the uid of each pod whose state changes, on the running event loop."""
        self._on_change = on_change
        self._listen()
        self._check()

    def close(self) -> None:
        """Stop watching; what runs goes on."""
        if self._timer is not None:
            self._timer.cancel()
        self._stop_listening()
        self._hang_up()

    def _look(self) -> None:
        """Have all states told, and each that changes from now on."""
        news = self._connected()
        try:
            news.sendall(b'{"do": "look"}\n')
            lines = _Lines()
            told = lines.wait(news)
            shift_s = self._clock.offset_s - told["offset_s"]
            self._shift_s = shift_s if abs(shift_s) > SMALL_STEP_S else 0.0
            self.revision = max(self.revision, told["revision"])
            self.unlimited = told["unlimited"]
            found = [self._state(lines.wait(news)) for _ in range(told["count"])]
        except (OSError, ValueError, KeyError, TypeError):
            news.close()
            raise
        news.setblocking(False)
        self._news, self._told = news, lines
        before, self._states = self._states, {state.uid: state for state in found}
        for uid in [
            uid for uid in {**before, **self._states} if before.get(uid) != self._states.get(uid)
        ]:
            self._tell(uid)
        self.pulse.rest(BEAT_S)

    def _state(self, told: Mapping[str, Any]) -> PodState:
        devices = {name: tuple(indexes) for name, indexes in told["devices"].items()}
        self._supervisors[told["uid"]] = told["supervisor"]
        known = PodState(uid=told["uid"], node=told["node"], devices=devices)
        return state_of(known, told, self._shift_s)

    def _tell(self, uid: str) -> None:
        if self._on_change is not None:
            self._on_change(uid)

    def _listen(self) -> None:
        assert self._news is not None
        asyncio.get_running_loop().add_reader(self._news, self._take_in)
        self._hear_all()

    def _stop_listening(self) -> None:
        if self._news is not None:
            asyncio.get_running_loop().remove_reader(self._news)
            self._news.close()
            self._news = None

    def _take_in(self) -> None:
        assert self._news is not None
        try:
            piece = self._news.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if not piece:
            log.error(Fields(starter="gone", hint="pods go on; it is looked for again"))
            self._stop_listening()
            self._hang_up()
            return
        self.pulse.rest(BEAT_S)
        self._told.add(piece)
        self._hear_all()

    def _hear_all(self) -> None:
        for told in self._told:
            self._hear(told)

    def _hear(self, told: Mapping[str, Any]) -> None:
        if "uid" not in told:
            return
        state = self._state(told)
        if self._states.get(state.uid) != state:
            self._states[state.uid] = state
            self._tell(state.uid)

    def _check(self) -> None:
        """Come back to a starter that was away."""
        if self._news is None:
            with contextlib.suppress(OSError):
                self._look()
                self._listen()
                self.namespaces_changed()
                log.warning(Fields(starter="is back"))
        self._timer = asyncio.get_running_loop().call_later(AGAIN_S, self._check)


class _Lines:
    """What comes from a connection, line by line."""

    def __init__(self) -> None:
        self._whole: deque[bytes] = deque()
        self._rest = b""  # of a line that didn't come whole

    def add(self, piece: bytes) -> None:
        *lines, self._rest = (self._rest + piece).split(b"\n")
        self._whole.extend(lines)

    def __iter__(self) -> Iterator[Any]:
        """What is whole by now."""
        while self._whole:
            yield json.loads(self._whole.popleft())

    def wait(self, connection: socket.socket) -> Any:
        """The next one."""
        while not self._whole:
            if not (piece := connection.recv(READ_BYTES)):
                raise ConnectionResetError(errno.ECONNRESET, "the starter is gone")
            self.add(piece)
        return json.loads(self._whole.popleft())
