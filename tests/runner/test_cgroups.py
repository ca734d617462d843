"""Limits are set where the system lets us, and said to be ignored where it doesn't.

The files of a cgroup are plain files here: the machine of a test may have none that it can change.
"""

import logging
import os
from pathlib import Path

import pytest

from makeway.runner.cgroups import Cgroups


def test_a_container_with_limits_gets_a_cgroup_of_its_own(tmp_path: Path) -> None:
    own = tmp_path / "user" / "app"
    own.mkdir(parents=True)
    (tmp_path / "cgroup.controllers").write_text("cpu memory")
    cgroups = Cgroups.detect(tmp_path, "0::/user/app\n")

    group = Path(cgroups.make("u1", "main", 2**30, 1500))

    assert (own / "makeway" / "cgroup.procs").read_text() == str(os.getpid())
    assert group.parent == own
    assert (group / "memory.max").read_text() == str(2**30)
    assert (group / "cpu.max").read_text() == "150000 100000"
    assert cgroups.make("u1", "free", None, None) == ""


def test_without_cgroups_limits_are_said_to_be_ignored_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cgroups = Cgroups.detect(tmp_path, "4:memory:/\n")
    with caplog.at_level(logging.WARNING):
        made = [cgroups.make(uid, "main", 2**30, 1500) for uid in ("u1", "u2")]

    assert made == ["", ""]
    assert caplog.text.count("limits=ignored") == 1
