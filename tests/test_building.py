"""Who asks for a compiled engine and can't have it hears why, before anything is built."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

SETUP = Path(__file__).parents[1] / "setup.py"


@pytest.mark.parametrize(
    ("wanted", "compiler", "command", "told"),
    [
        ("yes", "true", "bdist_wheel", "'yes' is not a value of this variable; write 1 or 0"),
        ("1", "no-such-cc", "egg_info", "needs a C compiler, and there is no no-such-cc"),
        ("1", "true", "editable_wheel", "can't be edited: install without -e"),
    ],
)
def test_what_keeps_the_engine_from_being_compiled_is_told(
    wanted: str, compiler: str, command: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("setuptools", reason="newer Pythons don't bring it along")
    monkeypatch.setenv("MAKEWAY_COMPILED", wanted)
    monkeypatch.setenv("CC", compiler)
    monkeypatch.setattr(sys, "argv", ["setup.py", command])

    with pytest.raises(SystemExit, match=told):
        runpy.run_path(str(SETUP))
