"""How lists look: aligned, coloured only where a terminal wants it."""

from __future__ import annotations

import pytest

from makeway.cli import tables
from makeway.cli.spans import span_text
from makeway.cli.tables import (
    Cell,
    Column,
    aligned,
    cut_to,
    fitted,
    print_table,
    width_of,
)
from makeway.cli.terminal import pen_for
from makeway.cli.wide_tables import print_wide_table

ROWS = [[Cell("train", "green"), Cell("1")], [Cell("x"), Cell("22")]]


def test_columns_are_aligned_and_plain_in_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["NAME", "ID"], ROWS)

    assert capsys.readouterr().out == "NAME    ID\ntrain   1\nx       22\n"


def test_colour_takes_no_room(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tables, "pen_of_output", lambda: pen_for(True, "utf-8", {"TERM": "xterm"}))

    print_table(["NAME", "ID"], ROWS)

    assert capsys.readouterr().out.splitlines()[1] == "\x1b[32mtrain\x1b[0m   1"


def test_numbers_are_flush_right_behind_the_first_column() -> None:
    assert [*aligned([["queue", "jobs"], ["a", "12"]], gap=" ", are_numbers=True)] == [
        "queue jobs",
        "a       12",
    ]


@pytest.mark.parametrize(
    ("text", "width"), [("train", 5), ("訓練", 4), ("épreuve", 7), ("e\u0301", 1)]
)
def test_width_is_what_the_terminal_shows(text: str, width: int) -> None:
    assert width_of(text) == width


def test_wide_characters_keep_columns_aligned() -> None:
    assert [*aligned([["訓練", "1"], ["x", "2"]])] == ["訓練   1", "x      2"]


COLUMNS = (
    Column("ID"),
    Column("NAME", least=6),
    Column("USER", is_dull=True, goes=1),
    Column("REASON", least=8),
)
LINES = [["1", "train-resnet", "ann", "needs 4 GPUs, 1 free"], ["2", "eval", "ann", ""]]


@pytest.mark.parametrize(
    ("width", "first"),
    [
        (None, "1   train-resnet  ann   needs 4 GPUs, 1 free"),
        (44, "1   train-resnet  ann   needs 4 GPUs, 1 free"),
        (43, "1   train-resnet  needs 4 GPUs, 1 free"),  # everybody is ann
        (34, "1   train-r…  needs 4 GPUs, 1 free"),
        (24, "1   train…  needs 4 GPU…"),
    ],
)
def test_a_table_fits_its_terminal(width: int | None, first: str) -> None:
    lines = [*aligned(fitted(COLUMNS, LINES, width), gap="  ")]

    assert lines[1] == first
    assert width is None or max(map(width_of, lines)) <= width


def test_a_column_that_tells_something_goes_only_where_nothing_else_helps() -> None:
    lines = [LINES[0], ["2", "eval", "bob", ""]]

    assert "USER" in fitted(COLUMNS, lines, 40)[0]
    assert "USER" not in fitted(COLUMNS, lines, 20)[0]


def test_wide_characters_are_cut_by_what_the_terminal_shows() -> None:
    assert cut_to("訓練する", 5) == "訓練…"
    assert cut_to("訓練する", 8) == "訓練する"


def test_no_color_is_respected() -> None:
    assert not pen_for(True, "utf-8", {"NO_COLOR": "1"}).has_colour


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, ""), (0.4, "0s"), (61, "1m1s"), (3600, "1h"), (93784, "1d2h"), (-5, "0s")],
)
def test_spans(seconds: float | None, text: str) -> None:
    assert span_text(seconds) == text


# --- tables of many figures ---

WIDE = ("queue", "jobs", "mean wait", "p95 wait", "turnaround")
FIGURES = (("a-queue-with-a-long-name", "12", "10.5m", "55.0m", "88.4m"),)


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (
            64,
            "queue                     jobs  mean wait  p95 wait  turnaround\n"
            "a-queue-with-a-long-name    12      10.5m     55.0m       88.4m\n",
        ),
        (
            54,
            "                                 mean    p95   turn-\n"
            "queue                     jobs   wait   wait  around\n"
            "a-queue-with-a-long-name    12  10.5m  55.0m   88.4m\n",
        ),
        (
            37,
            "                  mean    p95   turn-\n"
            "queue      jobs   wait   wait  around\n"
            "a-queue-…    12  10.5m  55.0m   88.4m\n",
        ),
        (
            35,
            "                             mean\n"
            "queue                 jobs   wait\n"
            "a-queue-with-a-long…    12  10.5m\n"
            "\n"
            "                        p95   turn-\n"
            "queue                  wait  around\n"
            "a-queue-with-a-long…  55.0m   88.4m\n",
        ),
    ],
    ids=["as it is", "stacked heads", "cut names", "folded"],
)
def test_a_table_of_figures_takes_what_room_there_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int, shown: str
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    print_wide_table(WIDE, FIGURES, beside_least=9, indent="")

    assert capsys.readouterr().out == shown
