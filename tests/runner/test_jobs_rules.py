"""The rules that a Job brings along: which failures matter, and when it is enough."""

from __future__ import annotations

from typing import Any

import pytest

from makeway.api.indexes import format_indexes, parse_indexes
from tests.harness.job_pods import JobPodsPlane, indexed, job


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
    plane = JobPodsPlane(indexed(1, successPolicy={"rules": [{"succeededIndexes": text}]}))
    plane.end(*plane.active())

    assert plane.conditions["Complete"] == "CompletionsReached"


def test_billions_of_indexes_cost_no_more_than_their_pods() -> None:
    policy = {"rules": [{"succeededIndexes": "0-1999999999", "succeededCount": 2}]}
    plane = JobPodsPlane(indexed(2_000_000_000, parallelism=2, successPolicy=policy))
    plane.end(*plane.active())

    assert plane.conditions["SuccessCriteriaMet"] == "SuccessPolicy"


def on_exit(action: str, operator: str, *values: int, container: str = "") -> dict[str, Any]:
    codes: dict[str, Any] = {"operator": operator, "values": list(values)}
    if container:
        codes["containerName"] = container
    return {"action": action, "onExitCodes": codes}


def on_condition(action: str, type_: str) -> dict[str, Any]:
    return {"action": action, "onPodConditions": [{"type": type_, "status": "True"}]}


def failed_once(*rules: dict[str, Any], code: int = 1, condition: str = "") -> JobPodsPlane:
    """A job of one pod that failed, with six more tries."""
    plane = JobPodsPlane(job(podFailurePolicy={"rules": list(rules)}))
    plane.end(*plane.active(), code=code, condition=condition)
    return plane


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
    plane = failed_once(rule, code=code)

    assert ("Failed" in plane.conditions) == fails
    assert plane.status["failed"] == 1


def test_a_rule_that_fails_the_job_tells_why() -> None:
    plane = failed_once(on_exit("Count", "In", 1), on_exit("FailJob", "In", 42), code=42)
    (pod,) = plane.pods()

    (_, failed) = plane.status["conditions"]
    assert failed["reason"] == "PodFailurePolicy"
    assert failed["message"] == (
        f"Container main for pod lab/{pod['metadata']['name']} failed with exit code 42 "
        "matching FailJob rule at index 1"
    )


def test_an_ignored_failure_costs_no_try() -> None:
    plane = failed_once(on_condition("Ignore", "DisruptionTarget"), condition="DisruptionTarget")
    assert "failed" not in plane.status
    assert "finalizers" not in plane.pods()[0]["metadata"]

    plane.wait(10)
    assert len(plane.active()) == 1


def test_the_first_rule_that_matches_decides() -> None:
    rules = (on_condition("Ignore", "DisruptionTarget"), on_exit("FailJob", "NotIn", 99))

    assert "Failed" not in failed_once(*rules, condition="DisruptionTarget").conditions
    assert "Failed" in failed_once(*rules).conditions


def test_a_rule_may_give_up_an_index_at_once() -> None:
    policy = {"rules": [on_exit("FailIndex", "In", 42)]}
    plane = JobPodsPlane(indexed(2, backoffLimitPerIndex=5, podFailurePolicy=policy))
    plane.end(*plane.active(index=0), code=42)
    plane.wait(1000)

    assert plane.active(index=0) == []
    assert plane.status["failedIndexes"] == "0"


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
    plane = JobPodsPlane(indexed(4, successPolicy={"rules": [{"succeededCount": 4}, rule]}))
    plane.start()
    for index in succeeded:
        plane.end(*plane.active(index=index))

    assert (plane.conditions == {"SuccessCriteriaMet": "SuccessPolicy"}) == is_met
    assert len(plane.active()) == (0 if is_met else 4 - len(succeeded))


def test_a_job_whose_success_rule_is_met_completes_when_the_others_have_gone() -> None:
    plane = JobPodsPlane(indexed(3, successPolicy={"rules": [{"succeededIndexes": "0"}]}))
    plane.start()
    leader, *others = plane.pods()
    plane.end(leader)
    assert plane.status["terminating"] == 2
    plane.end(*others, code=143)

    assert plane.conditions["Complete"] == "SuccessPolicy"
    (message,) = {condition["message"] for condition in plane.status["conditions"]}
    assert message == "Matched rules at index 0"
    assert plane.status["completedIndexes"] == "0"
