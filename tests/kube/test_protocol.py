"""One protocol suite for two servers.

Every story is told to the embedded server, and with `make test-kube` to a real one; both have to
answer as a real one answered when it was recorded, but for the differences that are meant.
"""

from pathlib import Path

import pytest

from tests.harness.served import Served
from tests.kube.comparison import (
    Difference,
    compare,
    not_meant,
    read_deliberate,
    read_golden,
)
from tests.kube.plane import Plane
from tests.kube.stories import STORIES
from tests.kube.telling import tell
from tests.prerequisites import missing, program

DELIBERATE = read_deliberate()
_met: dict[str, list[Difference]] = {}  # what differed on the embedded server, by story


@pytest.mark.parametrize("story", STORIES)
def test_the_embedded_server_answers_like_a_real_one(
    story: str, embedded: Served, tmp_path: Path
) -> None:
    if STORIES[story].needs_kubectl:
        program("kubectl")
    transcript = tell(story, embedded.access, embedded.kubeconfig, tmp_path)
    _met[story] = compare(story, read_golden(story), transcript)
    found = not_meant(_met[story], DELIBERATE)
    assert not found, "\n".join(map(str, found))


def test_every_difference_that_is_meant_is_met() -> None:
    if set(_met) != set(STORIES):
        missing("not all stories were told by this process")
    met = [difference.place for found in _met.values() for difference in found]
    for difference in DELIBERATE:
        for pattern in difference.places:
            assert any(difference.covers(place, pattern) for place in met), pattern


@pytest.mark.kube
@pytest.mark.parametrize("story", STORIES)
def test_a_real_server_answers_as_recorded(story: str, bare_plane: Plane, tmp_path: Path) -> None:
    if STORIES[story].needs_kubectl:
        program("kubectl")
    transcript = tell(story, bare_plane.access, bare_plane.kubeconfig, tmp_path)
    found = compare(story, read_golden(story), transcript)
    assert not found, "\n".join(map(str, found))
