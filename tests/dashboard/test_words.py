"""The pages have the same words for the status of a job as everybody else."""

from __future__ import annotations

import json
import re
from importlib.resources import files

from makeway.translate import job_state

PARTS = (files("makeway.dashboard") / "assets" / "parts.js").read_text()
OPEN = {
    *(job_state.HELD, job_state.PENDING, job_state.RESERVED, job_state.ADMITTED),
    *(job_state.RUNNING, job_state.EVICTING, job_state.SUSPENDED, job_state.ENDING),
}


def words(name: str) -> set[str]:
    (found,) = re.findall(rf"^export const {name} = (\[.*\]);$", PARTS, re.MULTILINE)
    return set(json.loads(found))


def test_whatever_has_ended_is_counted_so() -> None:
    assert words("ENDED") == job_state.ENDED
    assert words("WAITING") | words("RUNNING") == OPEN


def test_every_status_has_its_mark() -> None:
    (marks,) = re.findall(r"^const MARKS = \{\n(.*?)^\};$", PARTS, re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"^  (\w+):", marks, re.MULTILINE)) == OPEN | job_state.ENDED
