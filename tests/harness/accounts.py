"""Accounts made for a test, and commands that run as them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from makeway.accounts import Account, account_named, groups_of
from tests.prerequisites import missing, root

SOURCE = Path(__file__).resolve().parents[2] / "src"


@contextlib.contextmanager
def accounts(*names: str) -> Iterator[list[Account]]:
    """Accounts of these names with homes that are theirs alone, while the context lasts."""
    root()
    made: list[Account] = []
    try:
        for name in names:
            change_accounts("useradd", "--create-home", "--user-group", "--shell", "/bin/sh", name)
            found = account_named(name)
            assert found is not None
            Path(found.home).chmod(0o700)
            made.append(found)
        yield made
    finally:
        for account in made:
            with contextlib.suppress(subprocess.CalledProcessError):
                change_accounts("userdel", "--remove", "--force", account.name)


def change_accounts(*command: str) -> None:
    """One at a time: these programs give up at once where another is at work."""
    with open("/etc/login.defs") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(command, check=True, capture_output=True)


def python_for_all() -> str:
    """A Python of our version that every account may run."""
    own = Path(sys.executable).resolve()
    if all(folder.stat().st_mode & stat.S_IXOTH for folder in own.parents):
        return str(own)
    found = shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin")
    asked = "import sys; print(sys.version_info[:2] == " + repr(tuple(sys.version_info[:2])) + ")"
    if found and subprocess.run([found, "-c", asked], capture_output=True).stdout == b"True\n":
        return found
    return missing("no Python of this version that every account may run")


def install_for_all(folder: Path) -> Path:
    """A folder with a command `makeway` that every account may run."""
    folder.mkdir(mode=0o755)
    libraries = sysconfig.get_paths()["platlib"]
    command = folder / "makeway"
    command.write_text(
        f"#!/bin/sh\nPYTHONPATH={SOURCE}:{libraries} PYTHONDONTWRITEBYTECODE=1 "
        f'exec {python_for_all()} -m makeway.cli.main "$@"\n'
    )
    command.chmod(0o755)
    return folder


class Shell:
    """A terminal of an account."""

    def __init__(self, account: Account, commands: Path, **variables: str) -> None:
        self.account = account
        self._environment = {
            "PATH": f"{commands}:/usr/local/bin:/usr/bin:/bin",
            "HOME": account.home,
            "USER": account.name,
            "LOGNAME": account.name,
            "LANG": "C.UTF-8",
            **variables,
        }

    def answer(self, *command: str, text: str = "") -> tuple[int, str]:
        """The exit code, and what is printed."""
        own = self.account
        done = subprocess.run(
            command,
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            cwd=own.home,
            env=self._environment,
            user=own.uid,
            group=own.gid,
            extra_groups=os.getgrouplist(own.name, own.gid),
            umask=0o022,
        )
        return done.returncode, done.stdout

    def run(self, *command: str, text: str = "", code: int = 0) -> str:
        found, output = self.answer(*command, text=text)
        assert found == code, output
        return output

    @property
    def groups(self) -> tuple[str, ...]:
        return groups_of(self.account)
