"""`makeway top` without a terminal: what is drawn, and what the keys do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from makeway.cli.tables import width_of
from makeway.cli.top_screen import News, Screen, Wish, drawn, pressed

NOTHING: dict[str, Any] = {"runSeconds": None, "until": None, "heldBy": None, "reason": None}
PLACE = {"namespace": "default", "queue": "vision", "priority": 0, "waitSeconds": 60.0}


def row(number: int, name: str, user: str, status: str, **more: Any) -> dict[str, Any]:
    own = {"id": number, "name": name, "submittedBy": user, "status": status}
    when = {"createdAt": f"2026-01-01T00:00:{number:02}Z"}
    return NOTHING | PLACE | own | when | {"gpus": 1, "gpuIndexes": []} | more


ROWS = [
    row(1, "waits", "bob", "pending", reason="needs 4 GPUs, 1 free", gpus=4),
    row(2, "runs", "ann", "running", runSeconds=90.0, gpus=2, gpuIndexes=[0, 1]),
    row(3, "訓練", "ann", "pending", reason="behind 1 job"),
]
GPUS = [
    {"node": "box", "id": index, "user": user, "name": name, "why": why, "state": state}
    for index, user, name, why, state in [
        (0, "ann", "runs", None, "held"),
        (1, "ann", "runs", None, "held"),
        (2, None, None, "drained", "drained"),
        (3, None, None, None, "free"),
    ]
]
SCREEN = Screen(news=News(rows=ROWS, gpus=GPUS))


def text(screen: Screen, width: int = 80, height: int = 12) -> list[str]:
    return ["".join(cell.text for cell in line).rstrip() for line in drawn(screen, width, height)]


def press(screen: Screen, *keys: str) -> tuple[Screen, Wish | None]:
    wish = None
    for key in keys:
        screen, wish = pressed(screen, key, 12)
    return screen, wish


def test_jobs_gpus_and_keys_are_on_one_screen() -> None:
    lines = text(SCREEN)

    assert lines[0].split() == ["makeway", "2", "pending", "1", "running", "by", "status"]
    assert lines[1] == "GPUs 2 of 4: 0-1 ann, 2 drained, 3 free"
    assert lines[4].startswith("2   runs")  # who runs comes first
    assert lines[-1].startswith("q quit")
    assert len(lines) == 12


@pytest.mark.parametrize("width", [20, 40, 80, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(width_of, text(SCREEN, width))) <= width


def test_a_job_is_chosen_and_explained_and_the_list_comes_back() -> None:
    screen, wish = press(SCREEN, "down", "e")
    assert wish == Wish(verb="explain", key="default/waits")

    reading = replace(screen, text=tuple(f"line {number}" for number in range(30)))
    assert text(reading)[0] == "line 0"
    further, _ = press(reading, "page down", "down")
    assert text(further)[0] == "line 11"
    assert text(press(further, "end")[0])[10] == "line 29"
    assert text(press(further, "q")[0])[0].startswith("makeway")


def test_the_chosen_job_stays_chosen_when_others_come_and_go() -> None:
    screen, _ = press(SCREEN, "down", "down")
    fewer = replace(screen, news=News(rows=ROWS[2:]))

    assert press(fewer, "l")[1] == Wish(verb="log", key="default/訓練")


def test_a_filter_is_typed_kept_and_dropped() -> None:
    screen, _ = press(SCREEN, "/", "x", "backspace", *"ANN", "enter")

    assert [line.split()[1] for line in text(screen)[4:6]] == ["runs", "訓練"]
    assert "filter: ANN" in text(screen)[0]
    assert len([line for line in text(press(screen, "escape")[0])[4:-1] if line]) == 3


def test_cancelling_asks_first() -> None:
    asked, wish = press(SCREEN, "c")

    assert wish is None
    assert text(asked)[-1] == "cancel default/runs? y: yes, any other key: no"
    assert press(asked, "n") == (SCREEN, None)
    assert press(asked, "y")[1] == Wish(verb="cancel", key="default/runs")


def test_sorting_goes_round() -> None:
    by_user, _ = press(SCREEN, "s", "s")

    assert "by user" in text(by_user)[0]
    assert text(by_user)[4].split()[:2] == ["2", "runs"]
    assert "by status" in text(press(by_user, "s", "s", "s")[0])[0]


def test_what_the_server_can_not_say_is_told() -> None:
    gone = replace(SCREEN, news=replace(SCREEN.news, error="no answer; is `makeway up` running?"))

    assert text(gone)[1] == "no answer; is `makeway up` running?"
    assert text(Screen())[0].split() == ["makeway", "no", "jobs", "by", "status"]
