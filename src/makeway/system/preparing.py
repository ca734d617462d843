"""What has to be there before a Makeway for every account can start; done by root, every time."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import makeway
from makeway.accounts import Account, account_named
from makeway.system.kubeconfig import write_for_all
from makeway.system.modes import weak_spot
from makeway.system.paths import Paths

PLACES = ("/usr/sbin", "/sbin", "/usr/bin", "/bin")
SOURCE = Path(makeway.__file__).parents[1]


class NotPrepared(Exception):
    """Why it can't start; the text is for the administrator."""


def check_modes(paths: Paths) -> None:
    """Refuse to run as root what another than root could change."""
    concerned = [
        Path(sys.executable),
        # `python -m` puts the folder there in which root stands
        *(Path(folder) for folder in sys.path if folder not in ("", os.getcwd())),
        SOURCE / "makeway",
        *(path for path in (paths.settings, paths.nodes, paths.configuration) if path.exists()),
    ]
    if why := weak_spot(concerned):
        raise NotPrepared(
            f"{why}; root would run or read it, so it must be root's alone: "
            "`makeway service install` makes a folder for Makeway that is"
        )


def server_account(name: str) -> tuple[Account, bool]:
    """The account that the server runs as, and whether it was made now."""
    found = account_named(name)
    if found is not None:
        if found.uid == 0:
            raise NotPrepared(f"serverAccount: {name} is root; name an account without rights")
        return found, False
    _make_account(name)
    made = account_named(name)
    if made is None:
        raise NotPrepared(f"serverAccount: {name} was made, and is not there")
    return made, True


def _make_account(name: str) -> None:
    program = shutil.which("useradd", path=":".join(PLACES))
    if program is None:
        raise NotPrepared(f"there is no account {name}, and no useradd to make it")
    command = [program, "--system", "--user-group", "--no-create-home"]
    command += ["--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotPrepared(f"there is no account {name}, and useradd says: {done.stderr.strip()}")


def check_reach(server: Account) -> None:
    """The server runs the same program as root does, and has to get there."""
    for path in (Path(sys.executable), SOURCE / "makeway"):
        for one in {*path.parents, path, path.resolve(), *path.resolve().parents}:
            if not _may_pass(one, server):
                raise NotPrepared(
                    f"{one} can't be entered by account {server.name}, as which the server runs; "
                    "`makeway service install` makes a folder for Makeway that can"
                )


def _may_pass(path: Path, account: Account) -> bool:
    found = path.stat()
    if found.st_uid == account.uid:
        return bool(found.st_mode & stat.S_IXUSR)
    if found.st_gid == account.gid:
        return bool(found.st_mode & stat.S_IXGRP)
    return bool(found.st_mode & stat.S_IXOTH)


def check_root(command: str) -> None:
    if os.geteuid() != 0:
        raise NotPrepared(
            f"this is for the whole machine, and needs root: `sudo makeway {command}`"
        )


def make_folders(paths: Paths, server: Account) -> None:
    """Each as it has to be; where one is not, it is put right, or refused if it isn't root's."""
    for path, gid, mode in _folders(paths, server):
        path.mkdir(parents=True, exist_ok=True, mode=0o755)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            if os.fstat(descriptor).st_uid != 0:
                raise NotPrepared(f"{path} is not root's; move it away")
            os.fchown(descriptor, 0, gid)
            os.fchmod(descriptor, mode)
        finally:
            os.close(descriptor)
    _make_data(paths.data, server)


def _folders(paths: Paths, server: Account) -> Iterator[tuple[Path, int, int]]:
    yield paths.etc, 0, 0o755
    yield paths.state, 0, 0o711
    # The server may put its socket there; the sticky bit keeps it from what is root's.
    yield paths.run, server.gid, stat.S_ISVTX | 0o775
    yield paths.starter_run, server.gid, 0o750


def _make_data(path: Path, server: Account) -> None:
    path.mkdir(exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(descriptor).st_uid not in (0, server.uid):
            raise NotPrepared(
                f"{path} is not the server's; move it away, or give it to {server.name}"
            )
        os.fchown(descriptor, server.uid, server.gid)
        os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)


def take_over(named: Path, kept: Path) -> None:
    """Keep a copy of a file that a flag names, for every start from now on."""
    write_for_all(kept, named.read_text(encoding="utf-8"))
