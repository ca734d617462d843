"""The planner's questions in docs/what-if.md: each command answers what the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from makeway.cli.main import main

PAGE = (Path(__file__).parents[2] / "docs" / "what-if.md").read_text(encoding="utf-8")
BLOCK = re.compile(
    r"^## (.*?)$.*?^```console\n\$ (.*?)(?<!\\)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
FILE = re.compile(r"^```yaml\n# (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
QUESTIONS = BLOCK.findall(PAGE)


def test_the_page_has_its_questions() -> None:
    assert len(QUESTIONS) == 13


@pytest.mark.parametrize(
    ("command", "answer"), [one[1:] for one in QUESTIONS], ids=[one[0] for one in QUESTIONS]
)
def test_a_question_has_the_answer_of_the_page(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    answer: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILE.findall(PAGE):
        (tmp_path / name).write_text(text)

    assert main(shlex.split(command.replace("\\\n", " "))[1:]) == 0

    said = iter(capsys.readouterr().out.splitlines())
    for line in answer.splitlines():
        assert line == "..." or line.rstrip() in said, f"{line} is not there, or not in this order"
