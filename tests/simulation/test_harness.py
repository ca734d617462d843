"""The harness finds what is wrong: flaws planted in the real control plane are found."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from makeway.engine import model
from makeway.engine.model import Quota
from makeway.engine.state import ClusterState
from makeway.placement.nodes import NodeTable
from makeway.runner import job_actions
from makeway.runner.jobs import JobPods
from makeway.runner.pods import PodRunner
from tests.simulation.play import Played, play
from tests.simulation.worlds import TINY

WORLDS = 40  # are tried at most, from the seed on that shows the flaw today
Plant = Callable[[pytest.MonkeyPatch], None]


def first_failure(since: int) -> Played:
    for seed in range(since, since + WORLDS):
        played = play(seed, size=TINY)
        if played.violations:
            return played
    raise AssertionError("nothing was found")


def nothing(*_: Any, **__: Any) -> None: ...


def quota_counts_double(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(model, "Quota", lambda nominal, *limits: Quota(2 * nominal, *limits))


def nobody_is_woken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClusterState, "wake", nothing)


def nobody_is_told_of_ends(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PodRunner, "noticed", nothing)


def lost_answers_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """No name collides with one given before, and who is there twice stays."""
    numbers = count()
    patch.setattr(job_actions, "_surplus", lambda *_: ())
    patch.setattr(JobPods, "_note_created", nothing)
    patch.setattr(job_actions, "pod_name", lambda *_: f"pod-{next(numbers)}")


def nodes_are_never_full(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NodeTable, "charge", nothing)


@pytest.mark.parametrize(
    ("plant", "since", "found"),
    [
        (quota_counts_double, 40, "more"),
        (nobody_is_woken, 40, "nobody admits them"),
        (nobody_is_told_of_ends, 40, "never comes to an end"),
        (lost_answers_are_forgotten, 60, "at once"),
        (nodes_are_never_full, 47, "its pods ask for"),
    ],
)
def test_a_planted_flaw_is_found(
    plant: Plant, since: int, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    played = first_failure(since)

    assert any(found in violation for violation in played.violations), played.report()
    assert f"--seed {played.seed}" in played.report()


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
