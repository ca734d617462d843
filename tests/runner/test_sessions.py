"""Programs that others start in a pod, without a server in between."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from makeway.runner.calls import NotNow
from makeway.runner.sessions import PIPE, SESSIONS_MAX
from makeway.runner.visits import Visit, Visits
from tests.runner.harness import UID, Machine, machine_in, order, shell, wait_for

Story = Callable[[Visits, Machine], Coroutine[Any, Any, None]]


def play(folder: Path, script: str, story: Story, **more: str) -> None:
    """With a pod that prints `here` and goes on."""
    with machine_in(folder) as machine:
        machine.host.start(order(shell(f"echo here; {script}"), **more))
        machine.printed("here")
        machine.state()
        asyncio.run(story(Visits(machine.host.call), machine))


async def begun(visits: Visits, *argv: str) -> Visit:
    return await visits.execute(UID, "main", [*argv], is_terminal=False, has_input=False)


async def all_of(visit: Visit, name: str = "output") -> bytes:
    pieces = []
    while piece := await visit.read(name):
        pieces.append(piece)
    return b"".join(pieces)


def test_a_program_ends_with_its_container_and_not_with_the_pod(tmp_path: Path) -> None:
    """The container is started anew, and can be joined again."""
    script = (
        "[ -e done ] && exec sleep 99; while [ ! -e go ]; do sleep 0.02; done; touch done; exit 1"
    )

    async def story(visits: Visits, machine: Machine) -> None:
        visit = await begun(visits, "sleep", "99")
        (tmp_path / "pods" / UID / "scratch" / "go").touch()
        assert await visit.code() == 137
        visit.close()

        wait_for(lambda: machine.container().restarts == 1)
        again = await begun(visits, "echo", "again")
        assert (await all_of(again), await again.code()) == (b"again\n", 0)
        again.close()

    play(tmp_path, script, story, restart_policy="OnFailure")


def test_so_many_join_at_once_and_no_more(tmp_path: Path) -> None:
    async def story(visits: Visits, machine: Machine) -> None:
        joined = [await begun(visits, "cat", "/dev/zero") for _ in range(SESSIONS_MAX)]
        with pytest.raises(NotNow, match=f"the pod has {SESSIONS_MAX} sessions already"):
            await begun(visits, "true")

        joined.pop().close()
        await asyncio.sleep(0)
        while True:  # until the one that was hung up on is gone
            try:
                last = await begun(visits, "true")
                break
            except NotNow:
                await asyncio.sleep(0.02)
        assert await last.code() == 0
        for visit in (last, *joined):
            visit.close()

    play(tmp_path, "sleep 99", story)


def test_nobody_joins_a_container_whose_first_process_has_ended(tmp_path: Path) -> None:
    """Others have the rest of the grace; who joined would outlive it under a pid of the past."""

    async def story(visits: Visits, machine: Machine) -> None:
        machine.printed("watches")
        machine.host.stop(UID, 60)
        machine.printed("gone")
        with pytest.raises(NotNow, match="container main does not run"):
            await begun(visits, "true")
        machine.host.stop(UID, 0)
        machine.over()

    watch = "while kill -0 $PPID; do sleep 0.02; done 2> /dev/null; echo gone"
    play(tmp_path, f"sh -c 'trap \"\" TERM; echo watches; {watch}; sleep 99'; :", story)


def test_what_cannot_be_joined_says_why(tmp_path: Path) -> None:
    async def story(visits: Visits, machine: Machine) -> None:
        with pytest.raises(NotNow, match="container other does not run"):
            await visits.execute(UID, "other", ["true"], is_terminal=False, has_input=False)
        with pytest.raises(NotNow, match="its stdin is not true"):
            await visits.attach(UID, "main")
        with pytest.raises(NotNow, match="no process of the pod listens at port 1"):
            await visits.connect(UID, 1)
        with pytest.raises(NotNow, match="too long"):
            await begun(visits, "echo", "x" * 200_000)
        os.unlink(tmp_path / "pods" / UID / PIPE)
        with pytest.raises(NotNow, match="by an earlier version"):
            await begun(visits, "true")
        with pytest.raises(NotNow, match="does not run"):
            await visits.connect("nobody", 80)

    play(tmp_path, "sleep 99", story)
