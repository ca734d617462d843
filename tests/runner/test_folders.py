"""Folders that others may write into are counted and deleted, and nothing that links lead to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from makeway.runner.folders import discard, empty, make_owned, tree_bytes


@pytest.fixture
def trash(tmp_path: Path) -> Path:
    (tmp_path / "trash").mkdir()
    return tmp_path / "trash"


def test_what_is_thrown_away_goes_however_deep_and_links_lead_nowhere(
    tmp_path: Path, trash: Path
) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("kept")
    here = os.getcwd()
    (tmp_path / "thrown").mkdir()
    os.chdir(tmp_path / "thrown")
    try:
        for _ in range(1500):
            os.symlink(tmp_path / "precious", "link")
            Path("file").write_text("x")
            os.mkdir("below")
            os.chdir("below")
        os.mkfifo("pipe")
    finally:
        os.chdir(here)
    discard(tmp_path / "thrown", trash)
    discard(tmp_path / "never was", trash)
    empty(trash)

    assert list(trash.iterdir()) == []
    assert (tmp_path / "precious" / "file").read_text() == "kept"


def test_a_link_that_is_thrown_away_goes_itself(tmp_path: Path, trash: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    discard(tmp_path / "link", trash)
    empty(trash)

    assert (tmp_path / "precious").is_dir()
    assert list(trash.iterdir()) == []


def test_bytes_are_counted_of_files_that_are_really_there(tmp_path: Path) -> None:
    (tmp_path / "counted" / "below").mkdir(parents=True)
    (tmp_path / "elsewhere").write_bytes(b"x" * 2**20)
    (tmp_path / "counted" / "below" / "file").write_bytes(b"x" * 2**16)
    (tmp_path / "counted" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "counted" / "circle").symlink_to(tmp_path / "counted")

    assert 2**16 <= tree_bytes(tmp_path / "counted") < 2**17
    assert tree_bytes(tmp_path / "none") == 0
    (tmp_path / "to counted").symlink_to(tmp_path / "counted")
    assert tree_bytes(tmp_path / "to counted") == 0


def test_a_folder_is_never_given_away_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir(mode=0o700)
    (tmp_path / "planted").symlink_to(tmp_path / "precious")

    with pytest.raises(NotADirectoryError):
        make_owned(tmp_path / "planted", os.getuid(), os.getgid(), 0o777)
    assert (tmp_path / "precious").stat().st_mode & 0o777 == 0o700
