"""A job's life from the journal: to whom it lost its place, by reference, also when it is gone."""

from __future__ import annotations

from pathlib import Path

from makeway.dashboard.lives import life_in, namespaces_in, without_others
from makeway.journal.past import Name
from tests.harness.engine import DEFAULT
from tests.journal.test_ledger import HOUR_S, taken_back


def test_who_took_whose_place_is_a_reference_on_both_sides(tmp_path: Path) -> None:
    lab = taken_back(tmp_path)
    journal = lab.journal()
    victim = life_in(journal, Name(DEFAULT, "train"), lab.now)
    preemptor = life_in(journal, Name(DEFAULT, "eval"), lab.now)  # it was deleted

    told = [
        (entry["kind"], [other["name"] for other in entry["others"]])
        for entry in victim["happened"]
    ]
    assert told == [("came", []), ("admitted", []), ("preempted", ["eval"]), ("let go", [])]
    kinds = [entry["kind"] for entry in preemptor["happened"]]
    assert kinds == ["came", "preempts", "admitted", "finished", "deleted"]
    preempts, admitted = preemptor["happened"][1:3]
    assert [other["workload"] for other in preempts["others"]] == [victim["workload"]]
    assert admitted["at"] - preempts["at"] == 60.0
    assert preempts["at"] - victim["created"] == 2 * HOUR_S


def test_who_may_not_know_the_other_is_told_that_there_was_one(tmp_path: Path) -> None:
    lab = taken_back(tmp_path)
    life = life_in(lab.journal(), Name(DEFAULT, "train"), lab.now)

    assert namespaces_in(life) == {DEFAULT}
    hidden = without_others(life, lambda other: other != DEFAULT)

    assert "eval" not in str(hidden)
    assert [entry["kind"] for entry in hidden["happened"]][2] == "preempted"
    assert without_others(life, lambda _: True) == life


def test_of_whom_nothing_was_written_nothing_is_told(tmp_path: Path) -> None:
    journal = taken_back(tmp_path).journal()

    assert life_in(journal, Name("nowhere", "nobody"), 0.0)["happened"] == []
