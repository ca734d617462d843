"""The tutorial for a lab: every command of the page, as root and as six accounts.

Names of accounts and groups get our pid, so that nobody else's are touched; systemd is no process 1
here, so the page's other way to start is taken. Eight GPUs are declared.
"""

from __future__ import annotations

import os
import pwd
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.harness.accounts import (
    SystemUp,
    account_files_locked,
    accounts,
    open_folder,
    python_for_all,
)
from tests.harness.process import end_pods

PAGE = Path(__file__).parents[2] / "docs" / "gpu-box.md"
PEOPLE, GROUPS = ("ann", "ben", "cem", "dora", "eli", "fay"), ("vision", "speech")
OURS = {name: f"{name}{os.getpid()}" for name in (*PEOPLE, *GROUPS)}
NODES = """
apiVersion: v1
kind: Node
metadata: {name: box}
status: {allocatable: {cpu: "32", memory: 256Gi, nvidia.com/gpu: "8", pods: "200"}}
"""
_PROMPT = re.compile(r"(?:(#)|([a-z]+)\$) (.+)")
_OUR_NAMES = re.compile(rf"\b({'|'.join(OURS)})\b")
_CHANGES_ACCOUNTS = ("groupadd", "for who in")
_LOOKS = ("makeway logs", "makeway share", "makeway explain")


class Step(NamedTuple):
    who: str  # empty: root
    command: str
    expected: str  # a pattern


def steps(page: str) -> Iterator[Step]:
    for block in re.findall(r"^```console\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        found: tuple[str, str] | None = None
        lines: list[str] = []
        for line in [*block.splitlines(), None]:
            prompt = None if line is None else _PROMPT.fullmatch(line)
            if line is not None and prompt is None:
                lines.append(line)
                continue
            if found is not None:
                yield Step(*found, _pattern(lines))
            if prompt is not None:
                found, lines = (prompt[2] or "", prompt[3]), []


def _pattern(lines: list[str]) -> str:
    return re.escape(" ".join(" ".join(lines).split())).replace("…", ".*")


class Box:
    def __init__(self, up: SystemUp) -> None:
        self._up = up
        (up.root / "etc/makeway/nodes.yaml").write_text(NODES)
        with up.settings.open("a") as settings:
            settings.write("port: 0\n")
        command = up.root / "bin" / "makeway"
        command.parent.mkdir(mode=0o755)
        command.write_text(f'#!/bin/sh\nexec {up.python} -m makeway.cli.main "$@"\n')
        command.chmod(0o755)

    def take(self, step: Step) -> None:
        """As the page says; what only looks may have to look again."""
        until = time.monotonic() + (30.0 if step.command.startswith(_LOOKS) else 0.0)
        while not re.fullmatch(step.expected, said := self._says(step), re.DOTALL):
            assert time.monotonic() < until, (step, said)
            time.sleep(0.2)

    def _says(self, step: Step) -> str:
        """What is printed, in the page's names and with single blanks."""
        command = _OUR_NAMES.sub(lambda found: OURS[found[1]], step.command)
        if command.startswith("makeway up --system"):
            command += f" --root {self._up.root}"
        if step.command.startswith(_CHANGES_ACCOUNTS):
            with account_files_locked():
                said = self._run("root", command)
        else:
            said = self._run(OURS.get(step.who, "root"), command)
        return " ".join(said.replace(str(os.getpid()), "").split())

    def _run(self, who: str, command: str) -> str:
        account = pwd.getpwnam(who)
        return subprocess.run(
            ["/bin/sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
            cwd=account.pw_dir,
            env={
                "PATH": f"{self._up.root}/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "HOME": account.pw_dir,
                "MAKEWAY_SOCKET": str(self._up.socket),
            },
            user=account.pw_uid,
            group=account.pw_gid,
            extra_groups=os.getgrouplist(who, account.pw_gid),
        ).stdout


@pytest.fixture
def box() -> Iterator[Box]:
    with accounts("mwbox", system=True) as [server], open_folder() as folder:
        up = SystemUp(folder, python_for_all(folder / "python"), server.pw_name)
        try:
            yield Box(up)
        finally:
            up.makeway("down", "--system", "--root", str(up.root))
            end_pods(up.state)
            _remove_people()


def _remove_people() -> None:
    with account_files_locked():
        for name in PEOPLE:
            subprocess.run(["userdel", "--force", "--remove", OURS[name]], capture_output=True)
        for name in GROUPS:
            subprocess.run(["groupdel", OURS[name]], capture_output=True)


def test_six_people_share_a_box_as_the_page_says(box: Box) -> None:
    found = list(steps(PAGE.read_text(encoding="utf-8")))
    assert {step.who for step in found} == {"", *PEOPLE}
    for step in found:
        box.take(step)
