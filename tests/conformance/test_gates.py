"""What gates of our own change in recorded answers has a reason each time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import gates
from tests.conformance.__main__ import main
from tests.conformance.gate_report import (
    gate_report,
    lines_of,
    name_of,
    parse_gates,
    read_figures,
)
from tests.conformance.gates import Rule, differences_of
from tests.conformance.runner import read_scenarios, scenario_files
from tests.conformance.test_recorded import OWN, scenario
from tests.prerequisites import IS_THOROUGH, shared_path

STRIDE = 12 if IS_THOROUGH else 48  # `python -m tests.conformance --gates each` takes all of them
OWNERS_FIRST = {"OwnersFirst": True}
HOLDING = {"HoldForPreemptor": True}


@pytest.fixture(scope="module")
def sample() -> Sequence[Mapping[str, Any]]:
    paths = scenario_files([shared_path("conformance")])
    return [found for path in paths for found in islice(read_scenarios(path), 0, None, STRIDE)]


@pytest.mark.parametrize("on", parse_gates("each"), ids=name_of)
def test_every_difference_with_a_gate_on_has_a_reason(
    sample: Sequence[Mapping[str, Any]], on: dict[str, bool]
) -> None:
    report = gate_report(sample, on)

    assert report.total > 50
    assert not report.unexplained, "\n".join(report.unexplained[:3])
    known = read_figures()[name_of(on)]["rules"]
    assert {rule.name for rule in report.heads} <= known.keys(), "write the figures anew"


def test_a_borrower_is_told_that_it_waits_for_the_owner() -> None:
    """The guest wants 6 of 8; the owner, who waits for 3 of its own 4, comes first."""
    differences = differences_of(scenario("own-borrow-and-reclaim"), OWNERS_FIRST)

    assert differences.rules == {Rule.OTHER_WAIT: 1}
    assert not differences.is_decided_otherwise


def test_gates_that_are_off_change_nothing() -> None:
    assert not differences_of(scenario("own-borrow-and-reclaim"), {"OwnersFirst": False})


def test_a_difference_without_a_reason_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(gates.RULES, "OwnersFirst", lambda _: None)

    report = gate_report([scenario("own-borrow-and-reclaim")], OWNERS_FIRST)

    (line,) = report.unexplained
    assert line.startswith("own-borrow-and-reclaim, cycle 2, both, ns/guest: ")
    assert "1 differences are not explained" in list(lines_of(report))[-1]


def test_the_command_tells_how_many_differ(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(OWN / "own.jsonl"), "--gates", "OwnersFirst=true"]) == 0

    first, second = capsys.readouterr().out.splitlines()
    assert first == (
        "OwnersFirst: 1 of 3 scenarios differ, 0 in who is admitted or preempted, "
        "0 in further cycles"
    )
    assert second == f"      1 scenarios     1 heads  {Rule.OTHER_WAIT.value}"


@pytest.mark.parametrize("text", ["OwnersLast=true", "OwnersFirst", "OwnersFirst=maybe"])
def test_a_gate_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(SystemExit):
        main([str(OWN / "own.jsonl"), "--gates", text])


def test_no_scenario_is_no_success(tmp_path: Path) -> None:
    assert main([str(tmp_path), "--gates", "each"]) == 1
