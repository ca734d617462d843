"""The engine with and without what is to keep the laws."""

from __future__ import annotations

from dataclasses import replace

from tests.laws.story import Story

KEEPERS = ("owners_first", "preemption_backoff")
BACKSTOP = KEEPERS[1:]


def without(story: Story, *gates: str) -> Story:
    """The same story on an engine with these gates off."""
    config = story.world.config
    off = replace(config.gates, **dict.fromkeys(gates, False))
    return story.with_config(replace(config, gates=off))
