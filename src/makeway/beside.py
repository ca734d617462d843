"""Answers of another process, for work that would take a core from everybody here.

One question at a time goes there as bytes, and its answer is JSON. Whoever stops waits for none.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}


class Beside:
    def __init__(
        self,
        module: str,
        *,
        nice: int,
        time_max_s: float,
        spare: Callable[[int], None] | None = None,
    ) -> None:
        """`module` has a `main` that reads the question and writes the answer.

        `spare` is told of each process that is started, so that nobody ends it as a stray.
        """
        self._boot = f"import os; os.nice({nice}); from {module} import main; main()"
        self._time_max_s, self._spare = time_max_s, spare
        self._process: subprocess.Popen[bytes] | None = None
        self._is_stopped = False

    def stop(self) -> None:
        """Who waits for an answer gets none."""
        self._is_stopped = True
        if self._process is not None:
            self._process.kill()

    def ask(self, question: bytes, more: Mapping[str, str] | None = None) -> dict[str, Any]:
        """In a thread, which waits; `more` are variables that the other process needs, too."""
        with subprocess.Popen(
            [sys.executable, "-I", "-c", self._boot],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**ENVIRONMENT, **(more or {})},
            cwd="/",
            start_new_session=True,
        ) as process:
            self._process = process
            if self._spare is not None:
                self._spare(process.pid)
            if self._is_stopped:
                process.kill()
            try:
                answer, trouble = process.communicate(question, self._time_max_s)
            finally:
                self._process = None
                process.kill()
        if process.returncode:
            lines = trouble.decode(errors="replace").strip().splitlines()
            raise ValueError(lines[-1] if lines else f"it ended with {process.returncode}")
        found: dict[str, Any] = json.loads(answer)
        return found
