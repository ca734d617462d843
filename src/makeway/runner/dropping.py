"""From root to an account, for good: the steps of a child between fork and exec, in their order.

The child of a supervisor that runs as root has entered its cgroups before. Nothing of the account
counts here: who it is stands in the order, which root wrote. As long as the child has not become
another program, Linux lets the account neither trace it nor look into it.
"""

from __future__ import annotations

import ctypes
import os
import resource

from makeway.runner.mounting import with_right_to_mount
from makeway.runner.processes import die_with_parent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_C = ctypes.CDLL(None, use_errno=True)
_SET_NO_NEW_PRIVS = 38  # prctl(2)
_KEYCTL = {"x86_64": 250, "aarch64": 219}  # syscall(2)
_JOIN_SESSION_KEYRING = 1
_CAPABILITIES = (b"CapInh:", b"CapPrm:", b"CapEff:", b"CapAmb:")
LIMITS = {
    "core": resource.RLIMIT_CORE,
    "memlock": resource.RLIMIT_MEMLOCK,
    "nofile": resource.RLIMIT_NOFILE,
    "nproc": resource.RLIMIT_NPROC,
    "stack": resource.RLIMIT_STACK,
}


class NotDropped(Exception):
    """Something of root is left: nothing may be run."""


def drop(
    owner: dict[str, Any],
    parent: int,
    kept: int = 2,
    arrange: Callable[[], None] | None = None,
) -> None:
    """Become the owner; of the descriptors above 2, `kept` stays.

    Who has something to arrange does so as the owner, who may mount that long.
    """
    uid, gid, groups = owner["uid"], owner["gid"], owner["groups"]
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("0")  # a supervisor may be spared, what it runs is not
    limit(owner["limits"])
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    if arrange is None:
        os.setresuid(uid, uid, uid)
    else:
        with_right_to_mount(lambda: os.setresuid(uid, uid, uid), arrange)
    _check(uid, gid, groups)
    if owner["no_new_privileges"] or arrange is not None:
        _C.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _leave_keyring()
    os.umask(owner["umask"])
    die_with_parent(parent)  # setresuid has undone what was asked for before
    os.closerange(3, kept)
    os.closerange(max(kept, 2) + 1, os.sysconf("SC_OPEN_MAX"))


def limit(limits: dict[str, int]) -> None:
    """Set soft limits, never above the hard ones, which stay; what we don't know is left out."""
    for name, soft in limits.items():
        if name in LIMITS:
            _, hard = resource.getrlimit(LIMITS[name])
            is_high = soft < 0 or (hard != resource.RLIM_INFINITY and soft > hard)
            resource.setrlimit(LIMITS[name], (hard if is_high else soft, hard))


def _check(uid: int, gid: int, groups: list[int]) -> None:
    if os.getresuid() != (uid, uid, uid) or os.getresgid() != (gid, gid, gid):
        raise NotDropped(f"uids {os.getresuid()}, gids {os.getresgid()}")
    if set(os.getgroups()) != set(groups):
        raise NotDropped(f"groups {os.getgroups()}")
    if uid != 0:
        _check_nothing_is_regained()


def _check_nothing_is_regained() -> None:
    try:
        os.setresuid(-1, 0, -1)
    except PermissionError:
        pass
    else:
        raise NotDropped("root can be had again")
    with open("/proc/self/status", "rb") as file:
        for line in file:
            if line.startswith(_CAPABILITIES) and int(line.split()[1], 16):
                raise NotDropped(line.strip().decode())


def _leave_keyring() -> None:
    """Keys of whoever started us are no business of the account's, nor those of other pods."""
    number = _KEYCTL.get(os.uname().machine)
    if number is not None:
        _C.syscall(number, _JOIN_SESSION_KEYRING, 0)
