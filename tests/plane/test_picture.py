"""The picture: objects decoded once, changes with a before and an after, indexes."""

from __future__ import annotations

from typing import Any

import pytest

from makeway.api.codec import Decoded, decode
from makeway.api.kinds import PODS
from makeway.client.client import Document
from makeway.plane.picture import WARM_MAX, Change, Object, Picture
from makeway.plane.writes import Key


def pod(name: str, revision: int, team: str = "", phase: str = "Pending") -> Document:
    labels = {"team": team} if team else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "lab",
            "uid": f"uid-{name}",
            "resourceVersion": str(revision),
            "labels": labels,
        },
        "status": {"phase": phase},
    }


def by_team(found: Object) -> tuple[str, str] | None:
    """What is kept of a pod is its phase."""
    team = found.view.metadata.labels.get("team")
    return None if team is None else (team, found.view.status.phase)


def take(picture: Picture, document: Document) -> Change:
    change = picture.take(PODS, document)
    assert change is not None
    return change


def test_a_change_tells_what_was_and_what_is() -> None:
    picture = Picture()

    first = take(picture, pod("a", 1))
    second = take(picture, pod("a", 2, phase="Running"))
    last = picture.lose(PODS, Key("lab", "a"), 3)

    assert (first.old, second.old) == (None, first.new)
    assert second.new is not None
    assert second.new.view.status.phase == "Running"
    assert last == Change(PODS, Key("lab", "a"), second.new, None)


@pytest.mark.parametrize("revision", [1, 2], ids=["older", "the same"])
def test_what_is_not_newer_is_no_change(revision: int) -> None:
    picture = Picture()
    take(picture, pod("a", 2))

    assert picture.take(PODS, pod("a", revision)) is None


def test_an_answer_from_before_its_end_does_not_bring_an_object_back() -> None:
    picture = Picture()
    take(picture, pod("a", 2))
    picture.lose(PODS, Key("lab", "a"), 3)

    assert picture.take(PODS, pod("a", 3)) is None
    assert not picture.has(PODS, Key("lab", "a"))


def test_all_who_look_at_a_change_share_one_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[Document] = []

    def counted(document: Document) -> Decoded[Any]:
        decoded.append(document)
        return decode(document)

    monkeypatch.setattr("makeway.plane.picture.decode", counted)
    picture = Picture()
    for _ in range(3):
        picture.index(PODS, by_team)

    change = take(picture, pod("a", 1, team="red"))
    found = picture.find(PODS, Key("lab", "a"))

    assert found is not None
    assert found is change.new
    assert found.view.metadata.name == "a"
    assert len(decoded) == 1


def test_an_object_that_went_cold_reads_as_before() -> None:
    picture = Picture()
    first = take(picture, pod("a", 1, team="red")).new
    assert first is not None
    before = first.document, first.view
    for number in range(WARM_MAX + 1):
        take(picture, pod(f"other-{number}", number + 2))

    assert (first.document, first.view) == before
    assert first.document is not before[0]


def test_an_object_that_was_kept_twice_is_not_lost_while_it_is_read() -> None:
    """It is the oldest that is kept, and went cold, when it is read and kept once more."""
    picture = Picture()
    found = take(picture, pod("a", 1)).new
    assert found is not None
    found.hold()
    found.let_go()
    for number in range(WARM_MAX - 1):
        take(picture, pod(f"other-{number}", 2))

    assert found.document == pod("a", 1)
    assert found.document == pod("a", 1)


def test_an_index_follows_an_object_from_group_to_group() -> None:
    picture = Picture()
    teams = picture.index(PODS, by_team)
    take(picture, pod("b", 1, team="red"))
    take(picture, pod("a", 2, team="red", phase="Running"))
    take(picture, pod("c", 3))

    assert teams.items("red") == [(Key("lab", "a"), "Running"), (Key("lab", "b"), "Pending")]

    change = take(picture, pod("a", 4, team="blue", phase="Running"))
    assert list(teams.touched(change)) == ["red", "blue"]
    assert (teams.values("red"), teams.values("blue")) == (["Pending"], ["Running"])

    picture.lose(PODS, Key("lab", "b"), 5)
    assert not teams.has("red")


def test_a_group_is_touched_only_when_what_is_kept_has_changed() -> None:
    picture = Picture()
    teams = picture.index(PODS, by_team)
    take(picture, pod("a", 1, team="red"))

    change = take(picture, pod("a", 2, team="red"))

    assert (list(teams.touched(change)), list(teams.groups(change))) == ([], ["red"])


def test_an_index_that_is_declared_late_knows_what_is_there() -> None:
    picture = Picture()
    take(picture, pod("a", 1, team="red"))

    assert picture.index(PODS, by_team).keys("red") == [Key("lab", "a")]
