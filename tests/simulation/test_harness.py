"""The harness finds what is wrong: planted flaws are found, and toys without one pass."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from makeway.plane.picture import Picture
from makeway.runner.host import Host
from makeway.runner.pods import PodRunner
from tests.simulation.planes import toys
from tests.simulation.play import QUIET, Assembled, Plane, Played, play
from tests.simulation.toys import ToyBinder, ToyJobs, ToyQueue
from tests.simulation.worlds import PLAIN, World


def flawed(**flaw: bool) -> Plane:
    """The toys, one of them with a flaw: the name of its owner stands first."""

    def plane(picture: Picture, host: Host, world: World) -> Assembled:
        pods = PodRunner(picture, host, world.nodes)
        deciding = (
            ToyQueue(
                picture,
                counts_assumed=flaw.get("queue_counts_assumed", True),
                wakes_others=flaw.get("queue_wakes_others", True),
            ),
            ToyBinder(picture, counts_assumed=flaw.get("binder_counts_assumed", True)),
        )
        jobs = ToyJobs(picture, has_fixed_names=flaw.get("jobs_have_fixed_names", True))
        return Assembled(deciding=deciding, running=(jobs, pods), noticed=pods.noticed)

    return plane


def first_failure(plane: Plane, seeds: range = range(40)) -> Played:
    for seed in seeds:
        played = play(seed, plane, size=PLAIN, is_lending=False)
        if played.violations:
            return played
    raise AssertionError("nothing was found")


@pytest.mark.parametrize("seed", range(15))
def test_toys_without_a_flaw_survive_all_faults(seed: int) -> None:
    played = play(seed, toys, size=PLAIN, is_lending=False)

    assert not played.violations, played.report()
    assert played.troubles["late"]


def test_without_faults_nothing_goes_wrong_at_all() -> None:
    played = play(3, toys, size=PLAIN, chaos=QUIET, is_lending=False)

    assert not played.violations, played.report()
    assert not played.troubles


@pytest.mark.parametrize(
    ("flaw", "found"),
    [
        ("queue_counts_assumed", "more"),
        ("queue_wakes_others", "never comes to an end"),
        ("jobs_have_fixed_names", "twice at once"),
        ("binder_counts_assumed", "its pods ask for"),
    ],
)
def test_a_planted_flaw_is_found(flaw: str, found: str) -> None:
    played = first_failure(flawed(**{flaw: False}))

    assert any(found in violation for violation in played.violations), played.report()
    assert f"--seed {played.seed}" in played.report()


def test_the_same_seed_gives_the_same_history() -> None:
    histories = [play(seed, toys, size=PLAIN, is_lending=False).history for seed in (5, 5, 6)]

    assert histories[0] == histories[1] != histories[2]


def test_the_history_does_not_depend_on_the_process() -> None:
    """Text hashes differently in every process: whoever walks a set of names is found here."""
    command = [sys.executable, "-m", "tests.simulation", "--seed", "5", "--size", "tiny"]
    said = {
        subprocess.run(
            command,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()[0]
        for hash_seed in ("1", "2")
    }

    assert len(said) == 1
