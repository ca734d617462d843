"""What containers printed is served as kubectl asks for it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from makeway.server.errors import ApiError
from makeway.server.logs import FileLogs
from makeway.server.messages import Request

POD = {"metadata": {"name": "talks", "uid": "u1"}, "spec": {"containers": [{"name": "main"}]}}
T0 = 1_700_000_000  # 2023-11-14T22:13:20Z


class Talk:
    """A container's log that a test writes, at times that it chooses."""

    def __init__(self, folder: Path, name: str = "main") -> None:
        self.folder = folder
        self._base = folder / "u1" / name
        self._base.parent.mkdir(exist_ok=True)

    def prints(self, text: str, at: float) -> None:
        log, times = self._base.with_suffix(".log"), self._base.with_suffix(".times")
        place = log.stat().st_size if log.exists() else 0
        with times.open("ab") as file:
            file.write(place.to_bytes(8, "little") + int(at * 1e9).to_bytes(8, "little"))
        with log.open("ab") as file:
            file.write(text.encode())

    def ends(self) -> None:
        self._base.with_suffix(".ended").touch()

    def shown(self, **query: str) -> str:
        return asyncio.run(self.read(**query))

    async def read(self, **query: str) -> str:
        return b"".join([piece async for piece in await self.pieces(**query)]).decode()

    async def pieces(self, **query: str) -> AsyncIterator[bytes]:
        request = Request(method="GET", path="", query=query, headers={})
        answer = await FileLogs(self.folder, lambda: T0 + 100.0).read(POD, request)
        assert not isinstance(answer, bytes)
        return answer


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    talk = Talk(tmp_path)
    talk.prints("one\n", T0)
    talk.prints("two\nthree\n", T0 + 60.5)
    return talk


@pytest.mark.parametrize(
    ("lines", "shown"),
    [
        ("0", ""),
        ("1", "three\n"),
        ("2", "two\nthree\n"),
        ("3", "one\ntwo\nthree\n"),
        ("9", "one\ntwo\nthree\n"),
    ],
)
def test_the_last_lines(talk: Talk, lines: str, shown: str) -> None:
    assert talk.shown(tailLines=lines) == shown


def test_the_last_line_may_be_unfinished_and_longer_than_what_is_read_at_once(talk: Talk) -> None:
    talk.prints("x" * 200_000, T0 + 61)

    assert talk.shown(tailLines="1") == "x" * 200_000
    assert talk.shown(tailLines="2").startswith("three\nx")


def test_each_line_with_its_time(talk: Talk) -> None:
    assert talk.shown(timestamps="true") == (
        "2023-11-14T22:13:20.000000Z one\n"
        "2023-11-14T22:14:20.500000Z two\n"
        "2023-11-14T22:14:20.500000Z three\n"
    )


def test_a_line_printed_in_pieces_has_the_time_of_its_beginning(talk: Talk) -> None:
    talk.prints("fo", T0 + 70)
    talk.prints("ur\nfive\n", T0 + 80)

    assert talk.shown(timestamps="true", tailLines="2") == (
        "2023-11-14T22:14:30.000000Z four\n2023-11-14T22:14:40.000000Z five\n"
    )


@pytest.mark.parametrize(
    "query",
    [{"sinceSeconds": "50"}, {"sinceTime": "2023-11-14T22:14:00Z"}],
    ids=["seconds", "time"],
)
def test_only_what_is_new_enough(talk: Talk, query: dict[str, str]) -> None:
    assert talk.shown(**query) == "two\nthree\n"
    assert talk.shown(**query, tailLines="1") == "three\n"


def test_nothing_is_new_enough(talk: Talk) -> None:
    assert talk.shown(sinceSeconds="1") == ""


def test_no_more_than_so_many_bytes(talk: Talk) -> None:
    assert talk.shown(limitBytes="6") == "one\ntw"


def test_following_ends_with_the_container(talk: Talk) -> None:
    async def story() -> str:
        following = asyncio.create_task(talk.read(follow="true", timestamps="true", tailLines="0"))
        await asyncio.sleep(0.05)
        talk.prints("four\n", T0 + 90)
        talk.ends()
        return await asyncio.wait_for(following, 60)

    assert asyncio.run(story()) == "2023-11-14T22:14:50.000000Z four\n"


def test_following_ends_when_another_run_takes_the_place(talk: Talk) -> None:
    async def story() -> str:
        following = asyncio.create_task(talk.read(follow="true"))
        await asyncio.sleep(0.05)
        for kind in ("log", "times"):
            path = talk.folder / "u1" / f"main.{kind}"
            path.rename(path.with_suffix(f".previous.{kind}"))
        talk.prints("again\n", T0 + 99)
        return await asyncio.wait_for(following, 60)

    assert asyncio.run(story()) == "one\ntwo\nthree\n"
    assert talk.shown(previous="true", timestamps="true").startswith("2023-11-14T22:13:20")
    assert talk.shown() == "again\n"


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ({"previous": "true"}, "previous terminated container"),
        ({"sinceTime": "yesterday"}, "is not a time"),
        ({"sinceTime": "2023-11-14T22:14:00Z", "sinceSeconds": "1"}, "at most one"),
        ({"container": "other"}, "is not valid"),
    ],
)
def test_what_makes_no_sense_is_refused(talk: Talk, query: dict[str, Any], why: str) -> None:
    with pytest.raises(ApiError, match=why):
        talk.shown(**query)


def test_a_pod_that_failed_before_it_printed_anything_says_why(tmp_path: Path) -> None:
    status = {"phase": "Failed", "reason": "ContainerCannotRun", "message": "it has no command"}
    request = Request(method="GET", path="", query={}, headers={})

    with pytest.raises(ApiError, match="the pod failed: ContainerCannotRun: it has no command"):
        asyncio.run(FileLogs(tmp_path).read({**POD, "status": status}, request))
    with pytest.raises(ApiError, match="is waiting to start"):
        asyncio.run(FileLogs(tmp_path).read(POD, request))
