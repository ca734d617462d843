"""The server's end of the starter's socket: orders, refusals, news; the starter may go away."""

from __future__ import annotations

import asyncio
import errno
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from makeway.clocks import SteadyClock
from makeway.runner.host import PodState, Program, RunOrder, Unwelcome
from makeway.runner.remote import RemoteHost
from makeway.runner.states import document_of

Answer = dict[str, Any]
ORDER = RunOrder(uid="p1", namespace="ann", containers=(Program(name="main", argv=("true",)),))
AHEAD_S = 3600.0  # the starter's time, before ours


class Starter:
    """Answers as it is told to, in the order of the questions; a thread per connection."""

    def __init__(self, answers: list[Answer], pods: list[PodState]) -> None:
        self._answers, self._pods = answers, pods
        self.asked: list[str] = []
        self.connections: list[socket.socket] = []

    def serve(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self._hear, args=(connection,), daemon=True).start()

    def _hear(self, connection: socket.socket) -> None:
        for line in connection.makefile("rb"):
            self.asked.append(json.loads(line)["do"])
            if self.asked[-1] != "look":
                say(connection, self._answers.pop(0))
                continue
            head = {"offset_s": SteadyClock().offset_s + AHEAD_S, "revision": 7, "unlimited": ""}
            say(connection, head | {"count": len(self._pods)}, *map(told, self._pods))


def say(connection: socket.socket, *answers: Answer) -> None:
    connection.sendall(b"".join(json.dumps(answer).encode() + b"\n" for answer in answers))


def told(state: PodState) -> Answer:
    known = {"uid": state.uid, "node": state.node, "devices": {"g": [1]}, "supervisor": 0}
    return document_of(state) | known


@contextmanager
def starter_at(path: Path, *answers: Answer, pods: tuple[PodState, ...] = ()) -> Iterator[Starter]:
    starter = Starter(list(answers), list(pods))
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(str(path))
    listening.listen()
    threading.Thread(target=starter.serve, args=(listening,), daemon=True).start()
    try:
        yield starter
    finally:
        for one in (listening, *starter.connections):
            one.shutdown(socket.SHUT_RDWR)
            one.close()
        path.unlink()


def test_an_order_is_done_refused_for_ever_or_for_now(tmp_path: Path) -> None:
    path = tmp_path / "sock"
    never = {"unwelcome": "AccountGone", "message": "she left"}
    later = {"errno": errno.ENOSPC, "message": "full"}
    with starter_at(path, never, later, {"done": True}) as starter:
        host = RemoteHost(path, SteadyClock())
        with pytest.raises(Unwelcome, match="she left") as refused:
            host.start(ORDER)
        assert refused.value.reason == "AccountGone"
        with pytest.raises(OSError, match="full"):
            host.start(ORDER)
        assert host.states() == {}
        host.start(ORDER)
        assert list(host.states()) == ["p1"]
        host.start(ORDER)  # it is known: nobody is asked
        assert starter.asked == ["look", "start", "start", "start"]
    with pytest.raises(OSError, match="does not answer"):
        host.stop("p1", 1.0)


def test_states_come_by_themselves_and_again_after_the_starter_was_away(tmp_path: Path) -> None:
    path, changed = tmp_path / "sock", list[str]()
    begun = PodState(uid="p1", node="n", devices={"g": (1,)}, began_at=5000.0)
    over = PodState(uid="p1", node="n", devices={"g": (1,)}, began_at=5000.0, is_over=True)

    async def story() -> None:
        with starter_at(path, {"done": True}, pods=(begun,)) as starter:
            host = RemoteHost(path, SteadyClock())
            assert host.revision == 7
            assert host.states()["p1"].devices == {"g": (1,)}
            assert host.states()["p1"].began_at == pytest.approx(5000.0 - AHEAD_S)  # in our time
            host.watch(changed.append)
            host.follow(lambda: ["ann"])
            say(starter.connections[0], told(PodState(uid="p2", node="n")), {"beat": True})
            await until(lambda: changed == ["p2"])
            assert starter.asked == ["look", "keep"]
        with starter_at(path, {"done": True}, pods=(over,)) as starter:
            await until(lambda: sorted(changed) == ["p1", "p2", "p2"])
            assert starter.asked == ["look", "keep"]  # which namespaces there are, anew
            assert host.states()["p1"].is_over
            assert "p2" not in host.states()
            host.close()

    asyncio.run(story())


async def until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)
