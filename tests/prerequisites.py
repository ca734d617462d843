"""What a test needs of the machine: without it the test is skipped, in CI it fails.

And how much of it: whatever is tried at random or by the thousand is tried more often by
`make test-samples`.
"""

import importlib
import os
import shutil
from pathlib import Path
from typing import Any, NoReturn

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"
IS_CI = os.environ.get("CI") == "true"
# How many times slower a machine may be than the one on which the promises were measured.
SLOWNESS = float(os.environ.get("MAKEWAY_SLOWNESS", "4"))
IS_THOROUGH = os.environ.get("MAKEWAY_SAMPLES") == "all"


def samples(count: int) -> int:
    """So many where somebody wants all of them, every day an eighth."""
    return count if IS_THOROUGH else -(-count // 8)


def missing(reason: str) -> NoReturn:
    """Skip the test; in CI fail it, as there it has to run."""
    if IS_CI:
        pytest.fail(reason)
    pytest.skip(reason)


def library(name: str) -> Any:
    """A library that is only here to be tested with; in CI it has to be there."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        missing(f"{name} is not installed")


def root() -> None:
    """Root, and programs to make accounts with."""
    if os.geteuid() != 0:
        missing("this needs root: it makes accounts, and runs jobs as them")
    program("useradd"), program("userdel")


def program(*names: str) -> str:
    """Return the path of the first of these programs that is installed."""
    found = next(filter(None, map(shutil.which, names)), None)
    return found or missing(f"{names[0]} is not installed")


def shared_path(name: str) -> Path:
    """Return the path of a file that lies beside the checkout and is not to be copied into it."""
    path = SHARED / name
    if os.environ.get("MAKEWAY_WITHOUT_SHARED"):  # of a public host, which has none of them
        pytest.skip("files beside the checkout are not to be looked for")
    return path if path.exists() else missing(f"{path} is not there: it lies beside the checkout")
