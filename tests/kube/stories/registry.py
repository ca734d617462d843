"""Where stories are written down."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.kube.story_client import StoryClient

Tell = Callable[[StoryClient], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Told:
    tell: Tell
    needs_kubectl: bool


STORIES: dict[str, Told] = {}


def story(tell: Tell) -> Tell:
    return _add(tell, needs_kubectl=False)


def kubectl_story(tell: Tell) -> Tell:
    return _add(tell, needs_kubectl=True)


def _add(tell: Tell, *, needs_kubectl: bool) -> Tell:
    name = tell.__name__
    assert name not in STORIES, f"{name}: two stories of this name"
    STORIES[name] = Told(tell, needs_kubectl)
    return tell
