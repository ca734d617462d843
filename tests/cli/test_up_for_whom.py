"""An ordinary `makeway up` says whom it serves where others may expect more; nobody need listen."""

from __future__ import annotations

from pathlib import Path

import pytest

from makeway.cli import up
from makeway.embedded.settings import Settings
from tests.harness.process import running


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


def test_it_serves_and_stops_though_nobody_reads_what_it_says(tmp_path: Path) -> None:
    """As in `makeway up | head -1`: the reader of its first line is gone."""
    with running(tmp_path / "data") as served:
        assert served.process is not None
        assert served.process.stdout is not None
        served.process.stdout.close()

        assert served.stop() == 0
    assert "roken pipe" not in (tmp_path / "data.log").read_text()
