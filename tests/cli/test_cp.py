"""What a job sends is unpacked where it belongs, and nowhere else."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from makeway.cli.cp import _unpack


@pytest.fixture(params=["as Python has it", "before 3.11.4"], autouse=True)
def python(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "before 3.11.4":
        monkeypatch.delattr(tarfile, "data_filter", raising=False)


def archive(*members: tarfile.TarInfo, content: bytes = b"") -> tarfile.TarFile:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as made:
        for member in members:
            member.size = len(content) if member.isfile() else 0
            made.addfile(member, io.BytesIO(content))
    file.seek(0)
    return tarfile.open(fileobj=file)


def test_a_file_is_ours_and_has_no_more_rights_than_it_needs(tmp_path: Path) -> None:
    member = tarfile.TarInfo("model")
    member.mode, member.uid = 0o4777, 12345
    with archive(member, content=b"weights") as sent:
        _unpack(sent, "model", tmp_path / "here")

    assert (tmp_path / "here").read_bytes() == b"weights"
    assert (tmp_path / "here").stat().st_mode & 0o7777 == 0o755
    assert (tmp_path / "here").stat().st_uid == tmp_path.stat().st_uid


@pytest.mark.parametrize("name", ["../outside", "out/../../outside"])
def test_nothing_is_written_elsewhere(tmp_path: Path, name: str) -> None:
    with archive(tarfile.TarInfo(name)) as sent, pytest.raises(tarfile.TarError):
        _unpack(sent, "out", tmp_path / "here")
    assert not (tmp_path / "outside").exists()


def test_no_link_leads_elsewhere(tmp_path: Path) -> None:
    link = tarfile.TarInfo("out")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc"
    with archive(link) as sent, pytest.raises(tarfile.TarError):
        _unpack(sent, "out", tmp_path / "here")
