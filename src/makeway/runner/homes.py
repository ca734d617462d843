"""Where a pod lives: the folder that is its own, the variables of whom it runs as, and who that is.

Pods of one account live as whoever started Makeway. Those of many have homes that root makes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from makeway.runner.host import RunOrder

_FROM_MAKEWAY = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "SHELL", "TZ")


@dataclass(frozen=True, slots=True)
class Home:
    folder: Path  # of `scratch` and `volumes`
    environment: Mapping[str, str]  # what every process of the pod has
    owner: Mapping[str, Any] | None = None  # whom to become, as `drop` reads it; None: nobody else


class Homes(Protocol):
    folder: Path  # of all homes, each named by the pod's uid

    def settle(self, order: RunOrder) -> Home:
        """Make a pod's home; Unwelcome if it can't have one."""


class OwnHomes:
    """Homes of the account that we run as."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def settle(self, order: RunOrder) -> Home:
        home = self.folder / order.uid
        made = (
            "scratch",
            "volumes",
            *(f"volumes/{n}" for n, at in order.volumes.items() if not at),
        )
        for name in made:
            (home / name).mkdir(exist_ok=True, mode=0o700)
        return Home(home, base_environment())


def base_environment() -> dict[str, str]:
    """A place to live and to find programs, and no secrets of ours."""
    found = {name: os.environ[name] for name in _FROM_MAKEWAY if name in os.environ}
    return {"PATH": os.defpath, **found}
