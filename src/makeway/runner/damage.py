"""Files of pods that can't be read: a broken one concerns its pod, and is named."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from makeway.runner.processes import read_or_none

# What reading a damaged file may raise.
WRONG = (ValueError, KeyError, TypeError, AttributeError)


class Damaged(Exception):
    """A file of one pod can't be read."""

    def __init__(self, path: str, why: Exception) -> None:
        super().__init__(f"{path} is damaged: {type(why).__name__} {why}")


@dataclass(frozen=True, slots=True)
class Found:
    """What a data folder tells of pods."""

    count: int
    revision: int  # the latest of which an order speaks
    damages: list[str]  # what is wrong with their files


def pods_in(folder: Path) -> Found:
    count, revision, damages = 0, 0, list[str]()
    for pod in sorted((folder / "pods").glob("*")):
        if not pod.is_dir():
            damages.append(f"{pod} is not a pod's folder; move it away")
            continue
        count += 1
        for name in ("order.json", "state.json"):
            written = read_or_none(str(pod / name))
            try:
                document = {} if written is None else json.loads(written)
                revision = max(revision, document.get("revision", 0))
            except WRONG as error:
                damages.append(str(Damaged(str(pod / name), error)))
    return Found(count, revision, damages)
