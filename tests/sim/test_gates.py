"""Feature gates of the engine may be turned on and off, to see what they do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from makeway.cli.main import main
from makeway.engine.model import Config
from makeway.sim import SimulationError, simulate
from makeway.sim.report import as_data
from tests.sim.worlds import HOUR, MINUTE, cluster, flavor, job, play, queue, run, settings, trace

# b runs 6 of 8, two of them borrowed. a's own job of 4 waits, and so does one of 2 in b. When 2
# come free, b borrows them again, unless owners come first.
LAB = (flavor("f"), queue("a", cohort="lab", f=4), queue("b", cohort="lab", f=4))
JOBS = (
    *(job("long", on="b", gpus=4, run=5 * HOUR), job("short", on="b", gpus=2, run=HOUR)),
    job("other", on="b", gpus=2, run=2 * HOUR),
    *(job("own", on="a", gpus=4, at=MINUTE), job("more", on="b", gpus=2, at=2 * MINUTE)),
)
CONFIGURATION = """\
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
featureGates: {OwnersFirst: false}
"""


def starts(*documents: str) -> list[float | None]:
    result = play((*LAB, *documents), *JOBS)
    return [run(result, name).first_run_at for name in ("own", "more")]


OWNER_FIRST = [2 * HOUR, 2 * HOUR + MINUTE]
BORROWER_FIRST = [2 * HOUR, HOUR]


def test_without_a_word_the_gates_are_those_of_production() -> None:
    assert cluster(*LAB).config == Config()
    assert starts() == OWNER_FIRST


def test_gates_stand_in_the_configuration_or_in_the_settings_which_count_first() -> None:
    assert starts(CONFIGURATION) == BORROWER_FIRST
    assert starts(settings("featureGates: {OwnersFirst: false}")) == BORROWER_FIRST
    assert starts(CONFIGURATION, settings("featureGates: {OwnersFirst: true}")) == OWNER_FIRST


def test_gates_may_be_given_with_the_call() -> None:
    queues = cluster(*LAB)

    without = simulate(queues, trace(JOBS), gates={"OwnersFirst": False})
    again = simulate(queues, trace(JOBS))

    assert run(without, "more").first_run_at == HOUR
    assert run(again, "more").first_run_at == OWNER_FIRST[1]
    assert without.label == "test.yaml with OwnersFirst=false"
    assert as_data(without)["configuration"]["gates"] == {"OwnersFirst": False}
    assert as_data(again)["configuration"]["gates"] == {}


def test_an_unknown_gate_is_refused_with_its_place() -> None:
    with pytest.raises(SimulationError, match=r"spec.featureGates.OwnersLast: is not a known gate"):
        cluster(*LAB, settings("featureGates: {OwnersLast: true}"))
    with pytest.raises(SimulationError, match=r"OwnersLast: is not a known gate; write .*Owners"):
        simulate(cluster(*LAB), trace(JOBS), gates={"OwnersLast": True})


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "queues.yaml").write_text("---\n".join(LAB))
    lines = [f"{j.name},{j.queue},{j.submit_s},{j.run_s},{j.amounts[0][1]}\n" for j in JOBS]
    (tmp_path / "jobs.csv").write_text("".join(["name,queue,submit,run,gpus\n", *lines]))
    return tmp_path


def command(*more: str) -> int:
    return main(["simulate", "-f", "queues.yaml", "--trace", "jobs.csv", "-o", "json", *more])


def test_the_same_queues_are_compared_with_and_without(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("--compare-gates", "OwnersFirst=false") == 0

    data = json.loads(capsys.readouterr().out)
    waits = [side["waits"]["byQueue"]["b"]["longest"] for side in data["runs"]]
    assert waits == [2 * HOUR - MINUTE, HOUR - 2 * MINUTE]


def test_gates_of_the_command_line_count_for_all_sides(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else what a knob does would be mixed with what the gate does."""
    turn = ("--compare", "simulation.termination=0s", "--compare-gates", "HoldForPreemptor=false")
    assert command("--gates", "OwnersFirst=false", *turn) == 0

    data = json.loads(capsys.readouterr().out)
    first, second = (side["configuration"]["gates"] for side in data["runs"])
    assert (first["OwnersFirst"], second["OwnersFirst"]) == (False, False)
    assert second == {**first, "HoldForPreemptor": False}


def test_gates_that_are_given_twice_count_both(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("--gates", "HoldForPreemptor=true", "--gates", "PreemptionBackoff=false")
    others = ("--compare-gates", "OwnersFirst=false", "--compare-gates", "HoldForPreemptor=false")
    assert command(*asked, *others) == 0

    gates = [run["configuration"]["gates"] for run in json.loads(capsys.readouterr().out)["runs"]]
    assert gates == [
        {"HoldForPreemptor": True, "PreemptionBackoff": False},
        {"HoldForPreemptor": False, "PreemptionBackoff": False, "OwnersFirst": False},
    ]


def test_gates_of_the_command_line_count_for_the_first_run(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("--gates", "OwnersFirst=false,HoldForPreemptor=true") == 0

    data = json.loads(capsys.readouterr().out)
    assert data["configuration"]["gates"] == {"OwnersFirst": False, "HoldForPreemptor": True}
    assert data["waits"]["byQueue"]["b"]["longest"] == HOUR - 2 * MINUTE


@pytest.mark.parametrize(
    ("gates", "error"),
    [
        ("OwnersFirst", "--gates OwnersFirst: write OwnersFirst=true or OwnersFirst=false"),
        ("OwnersFirst=no", "--gates OwnersFirst=no: write OwnersFirst=true or"),
        ("Owners=true", "Owners: is not a known gate; write "),
    ],
)
def test_a_mistake_is_one_line(
    files: Path, capsys: pytest.CaptureFixture[str], gates: str, error: str
) -> None:
    assert command("--gates", gates) == 2

    assert capsys.readouterr().err.startswith(f"makeway: {error}")
