"""The known circles: found without the gates, ended or slowed down with them."""

from __future__ import annotations

import pytest

from tests.laws.examining import examine
from tests.laws.gates import BACKSTOP, KEEPERS, without
from tests.laws.judging import JudgedPlayer
from tests.laws.known import ENDED_BY_OWNERS_FIRST, LEFT_TO_THE_BACKSTOP
from tests.laws.playing import Law
from tests.laws.story import Story

KNOWN = {**ENDED_BY_OWNERS_FIRST, **LEFT_TO_THE_BACKSTOP}


def each(stories: dict[str, Story]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("story", stories.values(), ids=stories)


@each(KNOWN)
def test_without_the_gates_it_goes_round_and_the_checker_sees_it(story: Story) -> None:
    verdict = examine(JudgedPlayer(without(story, *KEEPERS)))
    assert verdict.finding is not None
    assert verdict.finding.law == Law.CIRCLE
    assert verdict.finding.round


@each(ENDED_BY_OWNERS_FIRST)
def test_owners_first_ends_it(story: Story) -> None:
    assert examine(JudgedPlayer(without(story, *BACKSTOP))).finding is None


@each(KNOWN)
def test_with_all_gates_no_law_is_broken(story: Story) -> None:
    """At most it goes round at the pace that the backstop allows."""
    assert examine(JudgedPlayer(story)).finding is None
