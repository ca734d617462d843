"""Settings are read with every mistake named, and kept as flags said."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from makeway.system.settings import BadSettings, SystemSettings, read_settings, remember


def test_what_is_remembered_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    assert read_settings(path) == SystemSettings()

    kept = remember(path, SystemSettings(), {"port": 800, "keep_days": Fraction(7)})
    kept = remember(path, read_settings(path), {"allow_accounts": ("backup",)})

    assert read_settings(path) == kept
    assert (kept.port, kept.keep_days, kept.allow_accounts) == (800, Fraction(7), ("backup",))
    assert path.stat().st_mode & 0o777 == 0o644


def test_what_nobody_said_is_not_written(tmp_path: Path) -> None:
    remember(tmp_path / "s", SystemSettings(), {"port": SystemSettings().port})
    assert not (tmp_path / "s").exists()

    remember(tmp_path / "s", SystemSettings(), {"port": 800})
    lines = (tmp_path / "s").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == ["port: 800"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("prot: 80", "prot"),
        ("port: eighty", "port"),
        ("logLevel: loud", "logLevel"),
        ("port: 80\n---\nport: 81", "one document"),
        ("port: [", "settings.yaml"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, text: str, named: str) -> None:
    (tmp_path / "settings.yaml").write_text(text)

    with pytest.raises(BadSettings, match=named) as raised:
        read_settings(tmp_path / "settings.yaml")
    assert "settings.yaml" in str(raised.value)
