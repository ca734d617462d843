"""An ordinary `makeway up` says whom it serves, where others may expect more."""

from __future__ import annotations

import pytest

from makeway.cli import up
from makeway.embedded.settings import Settings


@pytest.mark.parametrize(
    ("uid", "shared", "served", "said"),
    [
        (1000, False, False, []),
        (1000, True, False, ["it serves your account alone; for all: sudo makeway up --system"]),
        (
            0,
            True,
            False,
            ["every job runs as root; `makeway up --system` runs it as who submits it"],
        ),
        (
            1000,
            False,
            True,
            ["it offers no GPUs: the Makeway for every account does; or use --share-gpus"],
        ),
    ],
    ids=["alone", "shared", "root", "served"],
)
def test_it_says_so(
    monkeypatch: pytest.MonkeyPatch, uid: int, shared: bool, served: bool, said: list[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: uid)
    monkeypatch.setattr(up, "is_shared", lambda: shared)

    assert up._of_one_account(Settings(port=0, has_gpus=not served)) == said
