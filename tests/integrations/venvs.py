"""Programs of others in virtual environments of their own, beside the checkout's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / ".venv-integrations"
PROGRAMS = Path(__file__).parent / "programs"
INSTALL_TIMEOUT_S = 900.0


class Venv:
    """Made by the first test that needs it, and kept."""

    def __init__(self, name: str, *packages: str) -> None:
        self.folder = FOLDER / name
        stamp = self.folder / ".installed"
        wanted = "\n".join(packages)
        if not stamp.exists() or stamp.read_text() != wanted:
            self._install(packages)
            stamp.write_text(wanted)

    def _install(self, packages: tuple[str, ...]) -> None:
        python = str(self.folder / "bin" / "python")
        pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
        for command in ([sys.executable, "-m", "venv", str(self.folder)], [*pip, *packages]):
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S
            )
            if done.returncode:
                last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
                pytest.skip(f"{self.folder.name} can't be installed: {last}")

    def environment(self, **more: str) -> dict[str, str]:
        return {**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}", **more}

    def command(self, *words: str) -> list[str]:
        return [str(self.folder / "bin" / words[0]), *words[1:]]

    def program(self, name: str, *words: str) -> list[str]:
        return self.command("python", str(PROGRAMS / name), *words)
