"""Files that lie beside the checkout and are not to be copied into it."""

import os
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


def shared_path(name: str) -> Path:
    """Return the path of a shared file; without it the test is skipped, in CI it fails."""
    path = SHARED / name
    if not path.exists():
        reason = f"{path} is not there: {name} lies beside the checkout, not in it"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return path
