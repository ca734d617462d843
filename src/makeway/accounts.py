"""Accounts of this machine as its own database tells them: who, which groups, and who is closed.

Standard library only: the part of Makeway that runs as root reads this, too. All of it may wait for
a directory service, so who serves others asks in a thread.
"""

from __future__ import annotations

import grp
import os
import pwd
import re
import time
from dataclasses import dataclass
from pathlib import Path

SHADOW = Path("/etc/shadow")
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
# Names that a namespace has for another reason; `u-1000` is what others are called.
_RESERVED = re.compile(r"default|kube-.*|makeway.*|u-[0-9]+", re.ASCII)
_NO_SHELLS = frozenset({"nologin", "false", "true", "sync", "halt", "shutdown"})
_DAY_S = 86400


@dataclass(frozen=True, slots=True)
class Account:
    name: str
    uid: int
    gid: int
    home: str
    shell: str


def account_named(name: str) -> Account | None:
    """The account of that name, None if there is none."""
    try:
        return _account(pwd.getpwnam(name))
    except (KeyError, ValueError):  # a name with a NUL is nobody's
        return None


def account_of_uid(uid: int) -> Account | None:
    """The account with that uid, None if there is none."""
    try:
        return _account(pwd.getpwuid(uid))
    except (KeyError, OverflowError):
        return None


def _account(entry: pwd.struct_passwd) -> Account:
    shell = entry.pw_shell or "/bin/sh"  # passwd(5)
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, entry.pw_dir, shell)


def namespace_of(account: Account) -> str:
    """The namespace where the account's objects live, and whose pods run as the account."""
    name = account.name
    if _DNS_LABEL.fullmatch(name) and not _RESERVED.fullmatch(name):
        return name
    return f"u-{account.uid}"


def groups_of(account: Account) -> tuple[str, ...]:
    """Names of the account's groups, in order; a group without a name has none here."""
    names = set()
    for gid in os.getgrouplist(account.name, account.gid):
        try:
            names.add(grp.getgrgid(gid).gr_name)
        except KeyError:
            continue
    return tuple(sorted(names))


def why_no_shell(account: Account) -> str:
    """Why nobody can log in with the account's shell; empty if one can."""
    shell = Path(account.shell)
    if shell.name in _NO_SHELLS or not os.access(shell, os.X_OK):
        return f"its shell {shell} is no login shell"
    return ""


def closed_accounts(shadow: Path = SHADOW) -> dict[str, str]:
    """Accounts that are locked or have expired, each with why; root alone can read that.

    An account that has no password at all is not locked: its owner comes with a key.
    """
    closed = {}
    for line in shadow.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        name, password, *rest = line.split(":")
        if why := _why_closed(password, rest[5] if len(rest) > 5 else ""):
            closed[name] = why
    return closed


def _why_closed(password: str, expires: str) -> str:
    if expires.isdecimal() and time.time() >= int(expires) * _DAY_S:
        return "it has expired"
    if password.startswith("!") and password.strip("!*"):
        return "it is locked"
    return ""
