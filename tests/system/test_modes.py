"""What root runs must be root's alone, up to the root folder and down to the last file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from makeway.system.modes import weak_spot
from tests import prerequisites
from tests.harness.accounts import open_folder

NOBODY = 65534


@pytest.fixture
def folder() -> Iterator[Path]:
    prerequisites.root()
    with open_folder() as made:
        (made / "package" / "inner").mkdir(parents=True)
        (made / "package" / "inner" / "code.py").write_text("")
        (made / "link").symlink_to(made / "package")
        yield made


def give_to_group(path: Path, gid: int) -> None:
    os.chown(path, 0, gid)
    path.chmod(0o775)


def test_what_is_roots_is_fine_though_its_folder_lies_in_tmp(folder: Path) -> None:
    (folder / "circle").symlink_to(folder / "circle")

    assert weak_spot([folder / "package", folder / "link", folder / "circle", folder / "x"]) == ""


@pytest.mark.parametrize(
    ("weaken", "named"),
    [
        (lambda f: (f / "package/inner/code.py").chmod(0o666), "package/inner/code.py can be"),
        (lambda f: (f / "package/inner").chmod(0o777), "package/inner can be written by everybody"),
        (lambda f: os.chown(f / "package", NOBODY, 0), f"package belongs to uid {NOBODY}"),
        (lambda f: os.chown(f / "link", NOBODY, 0, follow_symlinks=False), "link belongs to"),
        (lambda f: f.chmod(0o777), "can be written by everybody"),
        (
            lambda f: give_to_group(f / "package", NOBODY),
            f"package can be written by group {NOBODY}",
        ),
    ],
    ids=["file", "folder", "owner", "link", "parent", "group"],
)
def test_what_another_could_change_is_named(
    folder: Path, weaken: Callable[[Path], object], named: str
) -> None:
    weaken(folder)

    assert named in weak_spot([folder / "link"])
