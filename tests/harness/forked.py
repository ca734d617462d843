"""Commands in processes of their own, forked from one that has loaded `makeway up`.

To load it takes most of the time that its start takes. Whoever forks has no threads and nothing
of the test's; what is forked has the variables of the test and no open file but its output.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

from makeway.cli.main import main

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.harness.loaded"])


class Forked:
    """As much of `subprocess.Popen` as its users need: what is printed, its end, signals."""

    def __init__(self, words: Sequence[str], log: Path) -> None:
        reading, writing = _FORKS.Pipe(duplex=False)
        self._process = _FORKS.Process(
            target=_run, args=(tuple(words), dict(os.environ), writing, log), daemon=True
        )
        self._process.start()
        writing.close()
        self.stdout = os.fdopen(os.dup(reading.fileno()))
        reading.close()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def send_signal(self, how: signal.Signals) -> None:
        if self._process.is_alive():
            os.kill(self.pid, how)

    def wait(self, timeout: float) -> int:
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout)
        return code


def _run(words: Sequence[str], variables: dict[str, str], output: Connection, log: Path) -> None:
    os.environ.clear()
    os.environ.update(variables)
    os.dup2(output.fileno(), sys.stdout.fileno())
    output.close()
    with open(log, "ab") as file:
        os.dup2(file.fileno(), sys.stderr.fileno())
    sys.exit(main(words))
