"""The real control plane with faults; many more worlds: `python -m tests.simulation`."""

import pytest

from tests.prerequisites import samples
from tests.simulation.play import QUIET, play
from tests.simulation.worlds import MIDDLE, SMALL, TINY


@pytest.mark.parametrize("seed", range(samples(24)))
def test_a_tiny_world_survives_all_faults(seed: int) -> None:
    played = play(seed, size=TINY)

    assert not played.violations, played.report()
    assert played.troubles["late"]


@pytest.mark.parametrize("seed", range(samples(8)))
def test_a_small_world_survives_all_faults(seed: int) -> None:
    played = play(seed, size=SMALL)

    assert not played.violations, played.report()


def test_a_world_of_many_queues_comes_to_its_end_without_faults() -> None:
    played = play(0, size=MIDDLE, chaos=QUIET)

    assert not played.violations, played.report()
    assert not played.troubles


def test_the_same_seed_gives_the_same_history() -> None:
    histories = [play(seed, size=TINY).history for seed in (4, 4, 5)]

    assert histories[0] == histories[1] != histories[2]
