"""Invented worlds, examined seed by seed.

Apart from the command, which is not imported by the processes it starts: what they are to do has to
lie in a module that is.
"""

from __future__ import annotations

from tests.laws.examining import Verdict, examine, examine_asking
from tests.laws.figures import Figures
from tests.laws.gates import without
from tests.laws.judging import JudgedPlayer
from tests.laws.random_worlds import STORIES
from tests.laws.story import Story

ASKED_EVERY = 16  # stories between two that are played with and without questions


def examine_seeds(size: str, off: tuple[str, ...], seeds: range) -> Figures:
    figures = Figures()
    for seed in seeds:
        story = without(STORIES[size](seed), *off)
        name = f"--seeds {seed}:{seed + 1} --size {size}"
        figures.add(name, story, _examined(story, seed))
        if seed % ASKED_EVERY == 0 and (asked := examine_asking(story)) is not None:
            figures.add_finding(name, story, asked)
    return figures


def _examined(story: Story, seed: int) -> Verdict:
    """Fresh engines are asked at the last rest, and at one on the way."""
    last = len(story.steps) - 1
    return examine(JudgedPlayer(story), {last, seed % (last + 1)}.__contains__)
