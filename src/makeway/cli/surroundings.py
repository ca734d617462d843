"""What a job takes along from where it is submitted: directory, environment, revision, user."""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

GIT_TIMEOUT_S = 2.0
# Variables of this terminal or session, and variables that the runner gives to the job.
_LEFT_BEHIND = re.compile(
    r"_|SHLVL|PWD|OLDPWD|TERM|TERM_.*|COLUMNS|LINES|PS\d|TMUX.*|STY|WINDOW|WINDOWID"
    r"|DISPLAY|WAYLAND_DISPLAY|XAUTHORITY|SSH_.*|DBUS_.*|XDG_SESSION_.*|GPG_TTY|TTY"
    r"|CUDA_VISIBLE_DEVICES|JOB_COMPLETION_INDEX"
    r"|MAKEWAY_(JOB_.*|ARRAY_.*|ATTEMPT|LAST_END|POD_UID|VOLUME_.*)"
)
_LIMITS = {
    "core": resource.RLIMIT_CORE,
    "memlock": resource.RLIMIT_MEMLOCK,
    "nofile": resource.RLIMIT_NOFILE,
    "nproc": resource.RLIMIT_NPROC,
    "stack": resource.RLIMIT_STACK,
}
_VARIABLE = re.compile(r"[A-Za-z_.-][A-Za-z0-9_.-]*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    directory: str
    is_where_it_runs: bool = True  # the directory is there, too; not on a cluster
    user: str = ""  # empty: the system does not know
    limits: str = ""  # umask and soft limits, as the annotation has them; empty: as the runner does
    revision: str = ""  # the commit of the git checkout; empty: there is none
    environment: Mapping[str, str] = field(default_factory=dict)


def shell_limits() -> str:
    """The umask and the soft limits that we have; a job of ours gets them, too."""
    umask = os.umask(0o077)
    os.umask(umask)
    soft = {name: resource.getrlimit(which)[0] for name, which in _LIMITS.items()}
    words = (f"{name}={'unlimited' if n < 0 else n}" for name, n in soft.items())
    return " ".join((f"umask={umask:03o}", *words))


def captured(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that a job gets: all but the session's and what no object can hold."""
    return {
        name: value
        for name, value in sorted(environment.items())
        if not _LEFT_BEHIND.fullmatch(name) and _VARIABLE.fullmatch(name) and _is_text(value)
    }


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:  # bytes that are not UTF-8
        return False
    return True


def git_revision(directory: Path) -> str:
    """`<commit>`, or `<commit>-dirty` with changes on top; empty outside a checkout."""
    if "GIT_DIR" not in os.environ and not _is_in_checkout(directory):
        return ""
    import subprocess  # not every folder is a checkout, and it takes its time

    command = ["git", "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=GIT_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _is_in_checkout(directory: Path) -> bool:
    return any((folder / ".git").exists() for folder in (directory, *directory.parents))
