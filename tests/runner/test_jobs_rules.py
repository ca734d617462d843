"""The rules that a Job brings along: which failures matter, and when it is enough."""

from __future__ import annotations

from typing import Any

import pytest

from makeway.runner.job_indexes import format_indexes, parse_indexes
from tests.runner.jobs_world import World, indexed, job


@pytest.mark.parametrize(
    ("indexes", "text"),
    [([], ""), ([3], "3"), ([0, 1], "0,1"), ([0, 1, 2], "0-2"), ([9, 1, 3, 4, 5], "1,3-5,9")],
)
def test_indexes_are_written_in_runs_and_read_again(indexes: list[int], text: str) -> None:
    assert format_indexes(indexes) == text
    assert parse_indexes(text, 10) == frozenset(indexes)


def test_indexes_beyond_the_completions_are_passed_over() -> None:
    assert parse_indexes("1,3-9,12", 5) == {1, 3, 4}


@pytest.mark.parametrize("text", ["x", "3-", "-1", "1,,2", "٣", "1" * 5000])
def test_a_success_rule_that_says_nothing_is_never_met(text: str) -> None:
    lab = World(indexed(1, successPolicy={"rules": [{"succeededIndexes": text}]}))
    lab.end(*lab.active())

    assert lab.conditions["Complete"] == "CompletionsReached"


def test_billions_of_indexes_cost_no_more_than_their_pods() -> None:
    policy = {"rules": [{"succeededIndexes": "0-1999999999", "succeededCount": 2}]}
    lab = World(indexed(2_000_000_000, parallelism=2, successPolicy=policy))
    lab.end(*lab.active())

    assert lab.conditions["SuccessCriteriaMet"] == "SuccessPolicy"


def on_exit(action: str, operator: str, *values: int, container: str = "") -> dict[str, Any]:
    codes: dict[str, Any] = {"operator": operator, "values": list(values)}
    if container:
        codes["containerName"] = container
    return {"action": action, "onExitCodes": codes}


def on_condition(action: str, type_: str) -> dict[str, Any]:
    return {"action": action, "onPodConditions": [{"type": type_, "status": "True"}]}


def failed_once(*rules: dict[str, Any], code: int = 1, condition: str = "") -> World:
    """A job of one pod that failed, with six more tries."""
    lab = World(job(podFailurePolicy={"rules": list(rules)}))
    lab.end(*lab.active(), code=code, condition=condition)
    return lab


@pytest.mark.parametrize(
    ("rule", "code", "fails"),
    [
        (on_exit("FailJob", "In", 42), 42, True),
        (on_exit("FailJob", "In", 42), 41, False),
        (on_exit("FailJob", "NotIn", 42), 41, True),
        (on_exit("FailJob", "NotIn", 42), 42, False),
        (on_exit("FailJob", "In", 42, container="main"), 42, True),
        (on_exit("FailJob", "In", 42, container="side"), 42, False),
        (on_exit("FailIndex", "In", 42), 42, False),  # means nothing without a limit per index
        (on_exit("Count", "In", 42), 42, False),
    ],
)
def test_exit_codes_end_a_job_as_its_rules_say(
    rule: dict[str, Any], code: int, fails: bool
) -> None:
    lab = failed_once(rule, code=code)

    assert ("Failed" in lab.conditions) == fails
    assert lab.status["failed"] == 1


def test_a_rule_that_fails_the_job_tells_why() -> None:
    lab = failed_once(on_exit("Count", "In", 1), on_exit("FailJob", "In", 42), code=42)
    (pod,) = lab.pods()

    (_, failed) = lab.status["conditions"]
    assert failed["reason"] == "PodFailurePolicy"
    assert failed["message"] == (
        f"Container main for pod lab/{pod['metadata']['name']} failed with exit code 42 "
        "matching FailJob rule at index 1"
    )


def test_an_ignored_failure_costs_no_try() -> None:
    lab = failed_once(on_condition("Ignore", "DisruptionTarget"), condition="DisruptionTarget")
    assert "failed" not in lab.status
    assert "finalizers" not in lab.pods()[0]["metadata"]

    lab.wait(10)
    assert len(lab.active()) == 1


def test_the_first_rule_that_matches_decides() -> None:
    rules = (on_condition("Ignore", "DisruptionTarget"), on_exit("FailJob", "NotIn", 99))

    assert "Failed" not in failed_once(*rules, condition="DisruptionTarget").conditions
    assert "Failed" in failed_once(*rules).conditions


def test_a_rule_may_give_up_an_index_at_once() -> None:
    policy = {"rules": [on_exit("FailIndex", "In", 42)]}
    lab = World(indexed(2, backoffLimitPerIndex=5, podFailurePolicy=policy))
    lab.end(*lab.active(index=0), code=42)
    lab.wait(1000)

    assert lab.active(index=0) == []
    assert lab.status["failedIndexes"] == "0"


@pytest.mark.parametrize(
    ("rule", "succeeded", "is_met"),
    [
        ({"succeededIndexes": "0"}, [0], True),
        ({"succeededIndexes": "0"}, [1, 2], False),
        ({"succeededIndexes": "0,2-3"}, [0, 2], False),
        ({"succeededIndexes": "0,2-3", "succeededCount": 2}, [0, 2], True),
        ({"succeededCount": 2}, [1], False),
        ({"succeededCount": 2}, [1, 3], True),
    ],
)
def test_a_success_rule_is_met_by_enough_of_its_indexes(
    rule: dict[str, Any], succeeded: list[int], is_met: bool
) -> None:
    lab = World(indexed(4, successPolicy={"rules": [{"succeededCount": 4}, rule]}))
    lab.run()
    for index in succeeded:
        lab.end(*lab.active(index=index))

    assert (lab.conditions == {"SuccessCriteriaMet": "SuccessPolicy"}) == is_met
    assert len(lab.active()) == (0 if is_met else 4 - len(succeeded))


def test_a_job_whose_success_rule_is_met_completes_when_the_others_have_gone() -> None:
    lab = World(indexed(3, successPolicy={"rules": [{"succeededIndexes": "0"}]}))
    lab.run()
    leader, *others = lab.pods()
    lab.end(leader)
    assert lab.status["terminating"] == 2
    lab.end(*others, code=143)

    assert lab.conditions["Complete"] == "SuccessPolicy"
    (message,) = {condition["message"] for condition in lab.status["conditions"]}
    assert message == "Matched rules at index 0"
    assert lab.status["completedIndexes"] == "0"
