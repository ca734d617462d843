"""A server reads its journal for people who can't: in another process, one question at a time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from makeway.embedded.historian import Historian
from makeway.journal.file import NAME
from makeway.server.errors import ApiError
from tests.journal.test_story_page import ONE, tell

AT = ONE + 3900.0  # 14:05


def refused(code: int, why: str) -> Any:
    return pytest.raises(ApiError, match=why, check=lambda error: error.code == code)


def test_it_tells_what_was_since_a_namespace_is_somebodys(tmp_path: Path) -> None:
    async def story() -> None:
        tell(tmp_path)
        historian = Historian(tmp_path / NAME)
        told = await historian.why("ada", "default", "train-asr", AT, ONE)
        assert told["metadata"] == {"namespace": "default", "name": "train-asr"}
        assert "had to make way for default/train-seg" in " ".join(told["lines"])
        with refused(404, "there was no job"):  # it was there before the namespace was ada's
            await historian.why("ada", "default", "train-asr", AT, ONE + 1)
        booked = (await historian.usage("ada", ONE, AT))["items"]
        assert {item["user"] for item in booked} == {"default"}
        assert sum(item["preempted"] for item in booked if item["queue"] == "speech") == 1

    asyncio.run(story())


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("no journal" * 100)
    with refused(500, "nobody can tell of the past: .*is damaged"):
        asyncio.run(Historian(tmp_path / NAME).usage("ada", ONE, AT))


def test_who_asks_waits_for_his_answer_before_he_asks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def story() -> None:
        historian, may_answer = Historian(tmp_path / NAME), asyncio.Event()
        loop = asyncio.get_running_loop()

        def answer(question: dict[str, Any]) -> dict[str, Any]:
            asked.append(question["kind"])
            asyncio.run_coroutine_threadsafe(may_answer.wait(), loop).result(30)
            return {"items": []}

        monkeypatch.setattr(historian, "_ask", answer)
        first = asyncio.ensure_future(historian.usage("ada", ONE, AT))
        while not asked:
            await asyncio.sleep(0.01)
        with refused(429, "one question about the past at a time"):
            await historian.usage("ada", ONE, AT)
        other = asyncio.ensure_future(historian.usage("bob", ONE, AT))
        await asyncio.sleep(0)
        assert len(asked) == 1  # bob's turn comes after hers
        may_answer.set()
        assert await first == await other == {"items": []}

    asyncio.run(story())


def test_a_server_that_stops_waits_for_no_answer(tmp_path: Path) -> None:
    async def story() -> None:
        tell(tmp_path)
        historian = Historian(tmp_path / NAME)
        asking = asyncio.ensure_future(historian.usage("ada", ONE, AT))
        await asyncio.sleep(0.05)
        historian.stop()
        with refused(500, "it ended with -9"):
            await asking

    asyncio.run(story())
