"""Conditions in a document's list."""

from __future__ import annotations

from makeway.controller.conditions import (
    conditions_of,
    true_types,
    with_condition,
    without_condition,
)

READY = {
    "type": "Ready",
    "status": "True",
    "reason": "Started",
    "message": "all there",
    "lastTransitionTime": "1970-01-01T00:00:10Z",
}


def test_an_object_that_says_nothing_of_itself_has_no_conditions() -> None:
    assert conditions_of({"status": {"conditions": [READY]}}) == [READY]
    assert conditions_of({"status": {"conditions": None}}) == []
    assert conditions_of({"status": None}) == conditions_of({}) == []


def test_only_what_is_said_to_be_true_holds() -> None:
    full, odd = {"type": "Full", "status": "False"}, {"type": "Odd"}

    assert true_types([READY, full, odd, {}]) == {"Ready"}


def test_a_new_condition_comes_last_with_the_time_of_now() -> None:
    conditions = with_condition([READY], "Full", "False", "Empty", "nothing yet", 20.0, 3)

    assert conditions[0] == READY
    assert conditions[1] == {
        "type": "Full",
        "status": "False",
        "reason": "Empty",
        "message": "nothing yet",
        "lastTransitionTime": "1970-01-01T00:00:20Z",
        "observedGeneration": 3,
    }


def test_what_a_server_shows_beside_is_nothing_new() -> None:
    shown = {**READY, "lastProbeTime": None}

    assert with_condition([shown], "Ready", "True", "Started", "all there", 20.0) == [shown]


def test_another_reason_leaves_the_time_of_transition() -> None:
    conditions = with_condition([READY], "Ready", "True", "Recovered", "back again", 20.0)

    assert conditions[0]["reason"] == "Recovered"
    assert conditions[0]["lastTransitionTime"] == "1970-01-01T00:00:10Z"


def test_another_status_moves_the_time_of_transition() -> None:
    conditions = with_condition([READY], "Ready", "False", "Lost", "one is gone", 20.0)

    assert conditions == [
        {
            "type": "Ready",
            "status": "False",
            "reason": "Lost",
            "message": "one is gone",
            "lastTransitionTime": "1970-01-01T00:00:20Z",
        }
    ]


def test_setting_what_is_already_there_changes_nothing() -> None:
    assert with_condition([READY], "Ready", "True", "Started", "all there", 20.0) == [READY]


def test_a_condition_can_be_taken_away() -> None:
    assert without_condition([READY], "Ready") == []
    assert without_condition([READY], "Full") == [READY]
