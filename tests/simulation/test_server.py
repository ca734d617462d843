"""The simulated surroundings of the server: its disk, its deaths, the road to it."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from makeway.api.kinds import JOBS, PODS
from makeway.client.client import ApiError, NotFound, Unavailable
from tests.harness.documents import job, pod
from tests.simulation.clock import WallClock, run
from tests.simulation.faults import NO_FAULTS, FaultRates, Faults
from tests.simulation.observer import JOBS as JOB_KIND
from tests.simulation.observer import Change, Checker, Observer, Truth
from tests.simulation.server import Server

DEFAULT = "default"


def new_server(folder: Path, faults: Faults, observer: Observer) -> Server:
    chance = Random(1)
    return Server(folder / "db", clock=WallClock(), chance=chance, faults=faults, observer=observer)


def test_a_write_whose_answer_is_lost_has_happened(tmp_path: Path) -> None:
    async def story() -> str:
        server = new_server(tmp_path, Faults(Random(1)), Observer())
        await server.start()
        unlucky = server.client(Faults(Random(1), FaultRates(lost_after=1.0)))
        with pytest.raises(Unavailable):
            await unlucky.create(JOBS, job("train"), namespace=DEFAULT)
        found = await server.client().get(JOBS, "train", DEFAULT)
        return str(found["metadata"]["name"])

    assert run(story(), seed=1) == "train"


def test_what_was_confirmed_outlives_the_server(tmp_path: Path) -> None:
    observer = Observer()

    async def story() -> None:
        server = new_server(tmp_path, Faults(Random(1)), observer)
        await server.start()
        await server.client().create(JOBS, job("train"), namespace=DEFAULT)
        await server.crash()
        await server.start()
        await server.client().get(JOBS, "train", DEFAULT)

    run(story(), seed=1)
    assert not observer.violations


def test_a_write_on_its_way_dies_with_the_server(tmp_path: Path) -> None:
    async def story() -> None:
        faults = Faults(Random(1))
        server = new_server(tmp_path, faults, Observer())
        await server.start()
        faults.rates = FaultRates(flush_slow=1.0)
        creating = server.client().create(JOBS, job("train"), namespace=DEFAULT)
        writing = asyncio.ensure_future(creating)
        await asyncio.sleep(0)
        await server.crash()
        with pytest.raises(Unavailable):
            await writing
        faults.rates = NO_FAULTS
        await server.start()
        with pytest.raises(NotFound):
            await server.client().get(JOBS, "train", DEFAULT)

    run(story(), seed=1)


class FullOnce(Checker):
    """Fills the disk at the very moment of a change."""

    def __init__(
        self, faults: Faults, is_the_moment: Callable[[Change], bool], *, is_slow: bool = False
    ) -> None:
        self._faults, self._is_the_moment = faults, is_the_moment
        self._rates = FaultRates(flush_fails=1.0, flush_slow=float(is_slow))

    def saw(self, change: Change, truth: Truth) -> Iterator[str]:
        if self._is_the_moment(change):
            self._faults.rates = self._rates
        yield from ()


def test_a_dependent_goes_though_the_disk_was_full_when_its_owner_went(tmp_path: Path) -> None:
    async def story() -> None:
        faults = Faults(Random(1))
        full = FullOnce(faults, lambda change: change.kind == JOB_KIND and change.after is None)
        server = new_server(tmp_path, faults, Observer([full]))
        await server.start()
        user = server.client()
        owner = await user.create(JOBS, job("train"), namespace=DEFAULT)
        reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "train"}
        dependent = pod("train-0")
        dependent["metadata"]["ownerReferences"] = [{**reference, "uid": owner["metadata"]["uid"]}]
        await user.create(PODS, dependent, namespace=DEFAULT)
        await user.delete(JOBS, "train", DEFAULT)
        await asyncio.sleep(3)
        assert faults.troubles["flush_fails"], "the disk was never asked"
        faults.rates = NO_FAULTS
        await asyncio.sleep(3)
        with pytest.raises(NotFound):
            await user.get(PODS, "train-0", DEFAULT)

    run(story(), seed=1)


@pytest.mark.parametrize("is_slow", [False, True])
def test_a_pod_goes_though_the_disk_was_full_between_its_last_two_writes(
    tmp_path: Path, is_slow: bool
) -> None:
    """Watchers see it leave before it is gone, so these are two."""

    def is_leaving(change: Change) -> bool:
        return "deletionTimestamp" in str(change.after)

    async def story() -> None:
        faults = Faults(Random(1))
        full = FullOnce(faults, is_leaving, is_slow=is_slow)
        server = new_server(tmp_path, faults, Observer([full]))
        await server.start()
        user = server.client()
        await user.create(PODS, pod("train-0"), namespace=DEFAULT)
        with pytest.raises(ApiError):
            await user.delete(PODS, "train-0", DEFAULT, grace_s=0)
        faults.rates = NO_FAULTS
        await asyncio.sleep(5)
        with pytest.raises(NotFound):
            await user.get(PODS, "train-0", DEFAULT)

    run(story(), seed=1)
