"""One evaluation of label selectors, for queues, budgets, nodes, queries and evictions."""

import pytest

from makeway.api.meta import LabelSelector, SelectorRequirement
from makeway.selectors import Requirement, all_hold
from makeway.server.selectors import label_selector

LABELS = {"app": "a", "size": "12", "empty": "", "odd": "1_0"}


@pytest.mark.parametrize(
    ("requirement", "holds"),
    [
        (Requirement("app", "In", ("a", "b")), True),
        (Requirement("app", "In", ("b",)), False),
        (Requirement("none", "In", ("a",)), False),
        (Requirement("app", "NotIn", ("b",)), True),
        (Requirement("app", "NotIn", ("a",)), False),
        (Requirement("none", "NotIn", ("a",)), True),
        (Requirement("empty", "Exists"), True),
        (Requirement("none", "Exists"), False),
        (Requirement("empty", "DoesNotExist"), False),
        (Requirement("none", "DoesNotExist"), True),
        (Requirement("size", "Gt", ("9",)), True),
        (Requirement("size", "Gt", ("12",)), False),
        (Requirement("size", "Lt", ("+13",)), True),
        (Requirement("app", "Gt", ("0",)), False),
        (Requirement("odd", "Gt", ("0",)), False),
        (Requirement("none", "Lt", ("1",)), False),
        (Requirement("size", "Gt"), False),
        (Requirement("app", "Like", ("a",)), False),
    ],
    ids=str,
)
def test_a_requirement_holds_as_in_kubernetes(requirement: Requirement, holds: bool) -> None:
    assert requirement.holds(LABELS) is holds


def test_a_selector_without_requirements_matches_everything() -> None:
    assert all_hold((), {})
    assert LabelSelector().matches({})
    assert label_selector("") is None


def test_labels_and_expressions_must_all_hold() -> None:
    unless_a = SelectorRequirement(key="app", operator="NotIn", values=("a",))

    assert LabelSelector(match_labels={"app": "a"}).matches(LABELS)
    assert not LabelSelector(match_labels={"app": "a", "size": "1"}).matches(LABELS)
    assert not LabelSelector(match_labels={"app": "a"}, match_expressions=(unless_a,)).matches(
        LABELS
    )


@pytest.mark.parametrize(
    ("query", "matches"),
    [
        ("app in (a, b),size", True),
        ("app notin (a)", False),
        ("app=a,size!=12", False),
        ("!none,size>9,size<13", True),
    ],
)
def test_a_query_says_the_same_in_other_words(query: str, matches: bool) -> None:
    selected = label_selector(query)

    assert selected is not None
    assert selected({"metadata": {"labels": LABELS}}) is matches
