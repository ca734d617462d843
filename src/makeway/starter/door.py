"""The socket at which the server gives its orders: who may come, what is understood, the answers.

One order is one line of JSON, and so is its answer; `look` is answered with the states of all pods,
and then with each that changes. Only the server's account, and root, are heard: the folder keeps
others out, and the kernel says who is at the other end.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
import struct
from collections.abc import Collection
from pathlib import Path
from typing import Any

from makeway.clocks import SteadyClock
from makeway.logs import Fields
from makeway.runner.host import PodState, Unwelcome
from makeway.runner.local import LocalHost
from makeway.runner.states import document_of
from makeway.starter.homes import AccountHomes
from makeway.starter.orders import BadOrder, checked, checked_name, checked_wish, seconds
from makeway.starter.table import Table

log = logging.getLogger("makeway.starter")

ORDER_MAX_BYTES = 32 * 1024 * 1024
CONNECTIONS_MAX = 16
BEAT_EVERY_S = 2.0  # who looks is told that we live
BEHIND_MAX_BYTES = 64 * 1024 * 1024  # of news that the server didn't take; then it has to come anew
_CREDENTIALS = struct.Struct("3i")  # unix(7): pid, uid, gid

Answer = dict[str, Any]


class Door:
    def __init__(
        self,
        host: LocalHost,
        homes: AccountHomes,
        table: Table,
        clock: SteadyClock,
        welcome: Collection[int],
    ) -> None:
        """`welcome` are the uids that may give orders."""
        self._host, self._homes, self._table = host, homes, table
        self._clock, self._welcome = clock, welcome
        self._connections = 0
        self._looking: set[asyncio.StreamWriter] = set()
        self._starting = asyncio.Lock()

    async def open(self, path: Path, gid: int) -> asyncio.Server:
        """Listen in a folder that is root's."""
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(str(path))
        os.chown(path, 0, gid)
        os.chmod(path, 0o660)
        return await asyncio.start_unix_server(self._serve, sock=listening, limit=ORDER_MAX_BYTES)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            uid = _peer(writer)
            if uid in self._welcome and self._connections <= CONNECTIONS_MAX:
                await self._hear(reader, writer)
            else:
                log.warning(Fields(peer_uid=uid, connections=self._connections, heard="false"))
        except (OSError, ValueError) as error:  # the server went away, or sent too much
            log.info(Fields(connection="lost", error=error))
        finally:
            self._connections -= 1
            self._looking.discard(writer)
            writer.close()

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            for answer in await self._answers(line, writer):
                _say(writer, answer)
            await writer.drain()

    async def _answers(self, line: bytes, writer: asyncio.StreamWriter) -> list[Answer]:
        try:
            order = json.loads(line)
            if not isinstance(order, dict):
                raise BadOrder("no order")
            if order.get("do") == "look":
                return self._look(writer)
            if order.get("do") == "exec":
                await self._join(order, writer)
                return []
            await self._carry_out(order)
            return [{"done": True}]
        except Unwelcome as refusal:
            log.warning(Fields(refused=refusal.reason, why=refusal))
            return [{"unwelcome": refusal.reason, "message": str(refusal)}]
        except (BadOrder, ValueError, RecursionError) as error:
            log.error(Fields(order="bad", why=error))
            return [
                {"unwelcome": "BadOrder", "message": f"the starter does not understand: {error}"}
            ]
        except OSError as error:
            return [{"errno": error.errno or 0, "message": error.strerror or str(error)}]

    async def _carry_out(self, order: dict[str, Any]) -> None:
        match order.get("do"):
            case "start":
                await self._start(order.get("pod"))
            case "stop":
                self._host.stop(checked_name(order.get("uid")), seconds(order.get("grace_s")))
            case "remove":
                self._remove(checked_name(order.get("uid")))
            case "keep":
                await self._keep(order.get("namespaces"))
            case _:
                raise BadOrder(f"do {order.get('do')!r}")

    async def _start(self, document: object) -> None:
        order = checked(document)
        if order.uid in self._host.states():
            return
        async with self._starting:  # a directory service may take its time; the others are served
            owner = await asyncio.to_thread(self._table.owner_of, order.namespace)
        self._homes.expect(order.uid, owner)
        self._host.start(order)
        fields = Fields(pod_uid=order.uid, account=owner.account.name, uid=owner.account.uid)
        log.info(fields)

    async def _join(self, order: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        """Answered with a line to the pod's supervisor, as a descriptor."""
        uid, wish = checked_name(order.get("uid")), checked_wish(order.get("wish"))
        account = self._host.account_of(uid)
        if account is None:
            raise Unwelcome("NotRunning", "the pod does not run")
        await asyncio.to_thread(self._table.check, account)
        with await self._host.call(uid, wish) as line:
            # Nothing waits to be sent: who orders waits for each answer.
            here = writer.get_extra_info("socket").fileno()
            with socket.socket(fileno=os.dup(here)) as connection:
                socket.send_fds(connection, [b'{"done": true}\n'], [line.fileno()])
        log.info(Fields(pod_uid=uid, joined=wish.do, uid=account))

    def _remove(self, uid: str) -> None:
        state = self._host.states().get(uid)
        if state is not None and not state.is_over:
            raise BadOrder(f"{uid} is not over")
        self._host.remove(uid)

    async def _keep(self, namespaces: object) -> None:
        if not isinstance(namespaces, list):
            raise BadOrder("namespaces are no list")
        kept = set(map(checked_name, namespaces))
        async with self._starting:
            self._table.keep(kept)

    # News

    def _look(self, writer: asyncio.StreamWriter) -> list[Answer]:
        self._looking.add(writer)
        pods = [self._told(state) for state in self._host.states().values()]
        told = {
            "offset_s": self._clock.offset_s,
            "revision": self._host.revision,
            "unlimited": self._host.unlimited,
            "count": len(pods),
        }
        return [told, *pods]

    def noticed(self, uid: str) -> None:
        state = self._host.states().get(uid)
        if state is not None:
            self._tell(self._told(state))

    def _told(self, state: PodState) -> Answer:
        return document_of(state) | {
            "uid": state.uid,
            "node": state.node,
            "devices": {name: list(indexes) for name, indexes in state.devices.items()},
            "supervisor": self._host.supervisors().get(state.uid, 0),
        }

    async def beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_EVERY_S)
            self._tell({"beat": True})

    def _tell(self, news: Answer) -> None:
        for writer in list(self._looking):
            if writer.transport.get_write_buffer_size() > BEHIND_MAX_BYTES:
                self._looking.discard(writer)
                writer.transport.abort()
            else:
                _say(writer, news)


def _say(writer: asyncio.StreamWriter, answer: Answer) -> None:
    writer.write(json.dumps(answer).encode() + b"\n")


def _peer(writer: asyncio.StreamWriter) -> int:
    """The uid at the other end when it connected, as the kernel knows it."""
    connection = writer.get_extra_info("socket")
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(found)
    return int(uid)
