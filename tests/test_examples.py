"""Every example is checked and played, and does what its first lines promise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from makeway.api.batch import Namespace
from makeway.api.intake import take_in
from makeway.api.manifests import read_manifests
from makeway.api.queueing import (
    ClusterQueue,
    Cohort,
    LocalQueue,
    ResourceFlavor,
    Workload,
    WorkloadPriorityClass,
)
from makeway.cli.check import check_texts
from makeway.cli.main import COMMANDS
from makeway.engine import events as ev
from makeway.engine.decisions import Admit, Decision, Evict, Preempt, Wait
from makeway.engine.engine import Engine
from makeway.engine.model import EvictionReason, WorkloadKey
from makeway.translate.queues import changed
from makeway.translate.workloads import status_of, workload_of

EXAMPLES = Path(__file__).parents[1] / "examples"
FILES = sorted(EXAMPLES.glob("*.yaml"))


class World:
    """Plays a file: workloads come in at their times, whoever is evicted lets go at once."""

    def __init__(self, name: str) -> None:
        self.engine = Engine()
        self.now = 0.0
        self.arrivals: list[Workload] = []
        path = EXAMPLES / name
        for manifest in read_manifests(path.read_text(), name).manifests:
            match take_in(manifest.document).object:
                case Workload() as workload:
                    self.arrivals.append(workload)
                case WorkloadPriorityClass():
                    pass
                case (
                    ResourceFlavor() | ClusterQueue() | Cohort() | LocalQueue() | Namespace()
                ) as view:
                    self.engine.apply(changed(view))
                case other:
                    raise AssertionError(other)

    def arrive(self) -> list[Decision]:
        """Everything that is decided while the workloads of the file come in."""
        decisions: list[Decision] = []
        for workload in self.arrivals:
            assert workload.metadata.creation_timestamp is not None
            self.now = workload.metadata.creation_timestamp
            status = status_of(workload)
            self.engine.apply(ev.WorkloadSeen(workload_of(workload), status))
            decisions += self.decide()
        return decisions

    def wait(self, seconds: float) -> list[Decision]:
        self.now += seconds
        return self.decide()

    def decide(self) -> list[Decision]:
        decisions: list[Decision] = []
        while True:
            cycle = self.engine.run_cycle(self.now)
            decisions += cycle.decisions
            gone = [d.workload for d in cycle.decisions if isinstance(d, Evict)]
            for decision in cycle.decisions:
                if isinstance(decision, Preempt):
                    gone += [victim.workload for victim in decision.victims]
            for key in gone:
                self.engine.apply(ev.PodsGone(key))
            if not gone and cycle.next_at != self.now:
                return decisions


def admitted(decisions: list[Decision]) -> list[tuple[WorkloadKey, tuple[str, ...]]]:
    return [(d.workload, d.assignment.flavors()) for d in decisions if isinstance(d, Admit)]


def waiting(decisions: list[Decision]) -> set[WorkloadKey]:
    return {d.workload for d in decisions if isinstance(d, Wait)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_an_example_is_right_and_fully_supported(path: Path) -> None:
    report = check_texts([(path.name, path.read_text())])

    assert (report.errors, report.warnings) == ([], [])
    assert report.objects


def test_every_example_is_listed() -> None:
    listing = (EXAMPLES / "README.md").read_text()

    for path in [*FILES, *EXAMPLES.glob("*.py")]:
        assert f"({path.name})" in listing


def test_one_team_borrows_and_a_latecomer_waits() -> None:
    decisions = World("01-queues.yaml").arrive()

    assert admitted(decisions) == [
        ("vision/render", ("default",)),
        ("speech/index", ("default",)),
    ]
    assert waiting(decisions) == {"speech/align"}


def test_a_flavor_that_does_not_start_in_time_is_left_behind() -> None:
    world = World("02-fallbacks.yaml")

    assert admitted(world.arrive()) == [("train/fine-tune", ("reservation",))]
    fallback = world.wait(600)

    assert [d.reason for d in fallback if isinstance(d, Evict)] == [EvictionReason.FLAVOR_FALLBACK]
    assert admitted(fallback) == [("train/fine-tune", ("spot",))]


def test_the_urgent_takes_the_place_of_the_less_important() -> None:
    decisions = World("03-priorities.yaml").arrive()

    preemptions = [d for d in decisions if isinstance(d, Preempt)]
    assert [(d.preemptor, d.victims[0].workload) for d in preemptions] == [
        ("prod/hotfix", "prod/nightly")
    ]
    assert [key for key, _ in admitted(decisions)] == ["prod/nightly", "prod/hotfix"]


def test_limits_in_a_tree_hold_though_there_is_plenty() -> None:
    decisions = World("04-cohort-tree.yaml").arrive()

    assert [key for key, _ in admitted(decisions)] == ["serving/batch"]
    assert waiting(decisions) == {"serving/more"}


def test_the_loop_in_python_runs() -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "engine_loop.py")],
        capture_output=True,
        text=True,
        check=True,
    )

    assert "admitted vision/render" in done.stdout
    after = done.stdout.split("--- render has finished")[1]
    assert "admitted speech/align" in after


def test_the_demo_points_to_examples_that_are_there() -> None:
    from makeway.cli.demo import CLOSING

    for word in CLOSING.split():
        if word.startswith(("examples/", "src/")):
            assert (EXAMPLES.parent / word).exists(), word
    assert "check" in {command.name for command in COMMANDS}
