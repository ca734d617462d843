"""Who leads, on clocks that the stories set; the Lease lies on a real store."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

from makeway.api.kinds import LEASES
from makeway.client.client import Client
from makeway.client.transport import Answer, Call, Transport, Unreachable
from makeway.embedded.inside import client_in_process
from makeway.plane.election import LEASE_S, RENEW_MAX_S, Election
from makeway.plane.writes import Key
from tests.server.harness import START, Server, play

LEASE = Key("default", "makeway-controller")
YEAR_S = 365 * 86400.0


class Timer:
    """Seconds that pass only when everybody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self._sleepers: list[tuple[float, asyncio.Event]] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        wake = asyncio.Event()
        self._sleepers.append((self.now + seconds, wake))
        await wake.wait()

    async def run(self, *works: Coroutine[Any, Any, None], until: float = 1000.0) -> None:
        """Let them work until one is done, or until then."""
        tasks = [asyncio.ensure_future(work) for work in works]
        while True:
            while len(self._sleepers) < len(tasks) and not any(task.done() for task in tasks):
                await asyncio.sleep(0)
            if any(task.done() for task in tasks) or self.now >= until:
                break
            self._sleepers.sort(key=lambda sleeper: sleeper[0])
            self.now, wake = self._sleepers.pop(0)
            wake.set()
        self._sleepers.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Line:
    """To the server, until the story cuts it."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.is_cut = False
        self.loses_next_answer = False

    @contextlib.asynccontextmanager
    async def send(self, call: Call) -> AsyncIterator[Answer]:
        if self.is_cut:
            raise Unreachable("cut")
        async with self._inner.send(call) as answer:
            if self.loses_next_answer and call.method == "PUT":
                self.loses_next_answer = False
                raise Unreachable("the answer is lost")
            yield answer

    async def close(self) -> None:
        pass


class Replica(Election):
    def __init__(self, server: Server, name: str, timer: Timer, clock_ahead_s: float = 0.0) -> None:
        self.line = Line(client_in_process(server.app).transport)
        super().__init__(
            Client(self.line, attempts=1),
            LEASE,
            name,
            clock=lambda: START + timer.now + clock_ahead_s,
            timer=timer,
            sleep=timer.sleep,
        )


async def holder(server: Server) -> str:
    lease = await server.client.get(LEASES, LEASE.name, LEASE.namespace)
    return str(lease["spec"].get("holderIdentity") or "")


def test_who_comes_first_leads(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        timer = Timer()
        first, second = Replica(server, "a", timer), Replica(server, "b", timer)
        await first.acquire()
        await timer.run(first.keep(), second.acquire(), until=100)
        assert (first.is_leader, second.is_leader, second.holder) == (True, False, "a")

    play(tmp_path, story)


def test_a_lease_that_stands_still_is_taken_whatever_its_times_say(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        timer = Timer()
        await Replica(server, "a", timer, clock_ahead_s=YEAR_S).acquire()  # and vanishes
        second = Replica(server, "b", timer, clock_ahead_s=-YEAR_S)
        await timer.run(second.acquire())
        assert LEASE_S <= timer.now <= LEASE_S + 2
        lease = await server.client.get(LEASES, LEASE.name, LEASE.namespace)
        assert (lease["spec"]["holderIdentity"], lease["spec"]["leaseTransitions"]) == ("b", 1)

    play(tmp_path, story)


def test_a_lease_that_is_renewed_by_a_late_clock_is_left_alone(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        timer = Timer()
        first = Replica(server, "a", timer, clock_ahead_s=-YEAR_S)
        second = Replica(server, "b", timer)
        await first.acquire()
        await timer.run(first.keep(), second.acquire(), until=60)
        assert (first.is_leader, second.is_leader) == (True, False)

    play(tmp_path, story)


def test_what_is_released_is_taken_at_once(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        timer = Timer()
        first, second = Replica(server, "a", timer), Replica(server, "b", timer)
        await first.acquire()
        await first.release()
        assert (first.is_leader, await holder(server)) == (False, "")
        await second.acquire()
        assert (timer.now, await holder(server)) == (0.0, "b")

    play(tmp_path, story)


def test_a_leader_without_a_line_stops_before_another_may_begin(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        timer = Timer()
        leader = Replica(server, "a", timer)
        await leader.acquire()
        leader.line.is_cut = True
        await timer.run(leader.keep())
        assert timer.now == RENEW_MAX_S < LEASE_S
        assert not leader.is_leader

    play(tmp_path, story)


def test_a_leader_that_was_held_up_knows_that_its_time_is_over(tmp_path: Path) -> None:
    """Before it has even tried to renew: this is what keeps late writes back."""

    async def story(server: Server) -> None:
        timer = Timer()
        leader = Replica(server, "a", timer)
        await leader.acquire()
        timer.now += RENEW_MAX_S
        assert not leader.is_leader

    play(tmp_path, story)


def test_a_renewal_whose_answer_is_lost_is_no_reason_to_stop(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        timer = Timer()
        leader = Replica(server, "a", timer)
        await leader.acquire()
        leader.line.loses_next_answer = True
        await timer.run(leader.keep(), until=60)
        assert leader.is_leader

    play(tmp_path, story)


def test_a_leader_that_finds_another_in_its_place_stops(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        timer = Timer()
        leader = Replica(server, "a", timer)
        await leader.acquire()
        taken = {"spec": {"holderIdentity": "b"}}
        await server.client.patch(LEASES, LEASE.name, LEASE.namespace, patch=taken)
        await timer.run(leader.keep())
        assert (leader.is_leader, leader.holder) == (False, "b")
        await leader.release()
        assert await holder(server) == "b"

    play(tmp_path, story)
