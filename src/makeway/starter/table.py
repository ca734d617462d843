"""Which account a namespace runs as: root's own table, and never what an order says.

A namespace gets its account at first contact, from the account database, by the same rule by which
the server names it. From then on it is that account's, by name and uid, until the namespace is
deleted: if the name is gone or has another uid, nothing more is started there.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from makeway.accounts import (
    Account,
    account_named,
    account_of_uid,
    closed_accounts,
    namespace_of,
    why_no_shell,
)
from makeway.runner.host import Unwelcome
from makeway.runner.processes import read_or_none, write_whole

LOGIN_DEFS = Path("/etc/login.defs")
UID_MIN = 1000
PATH = "/usr/local/bin:/usr/bin:/bin"
UMASK = 0o022
_NUMBERED = re.compile(r"u-([0-9]{1,10})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Who may run something, and how; from root's own settings."""

    uid_min: int = UID_MIN
    path: str = PATH
    umask: int = UMASK
    allowed: Collection[str] = ()  # accounts that run all the same, though their uid is low
    never: Collection[int] = ()  # uids that never run anything: the server's
    limits: Mapping[str, int] | None = None  # soft ones, by the names of `dropping`
    no_new_privileges: bool = False

    def why_not(self, account: Account) -> str:
        """Why an account may not run anything; empty if it may."""
        if account.uid in self.never:
            return "it is the server's"
        if account.uid < self.uid_min and account.name not in self.allowed:
            return f"its uid {account.uid} is below {self.uid_min}"
        return why_no_shell(account) or closed_accounts().get(account.name, "")


@dataclass(frozen=True, slots=True)
class Owner:
    """An account, and all of its groups when we asked."""

    account: Account
    groups: tuple[int, ...]
    rules: Rules

    def dropped(self, shell: Mapping[str, int]) -> dict[str, Any]:
        """Whom to become, as `drop` reads it, with what the account's shell allowed itself."""
        umask = shell.get("umask", self.rules.umask)
        return {
            "uid": self.account.uid,
            "gid": self.account.gid,
            "groups": list(self.groups),
            "limits": {**(self.rules.limits or {}), **shell},
            "umask": umask if 0 <= umask <= 0o777 else self.rules.umask,
            "no_new_privileges": self.rules.no_new_privileges,
        }

    def environment(self) -> dict[str, str]:
        """As a login shell would begin; nothing of it is root's or the server's."""
        account = self.account
        return {
            "HOME": account.home,
            "USER": account.name,
            "LOGNAME": account.name,
            "SHELL": account.shell,
            "PATH": self.rules.path,
        }


class Table:
    def __init__(self, path: Path, rules: Rules) -> None:
        self._path, self._rules = path, rules
        written = read_or_none(str(path))
        # namespace -> name and uid; written by us alone, so that it is as we wrote it
        self._known: dict[str, tuple[str, int]] = {
            namespace: (name, uid)
            for namespace, (name, uid) in (json.loads(written) if written else {}).items()
        }

    def owner_of(self, namespace: str) -> Owner:
        """May wait for a directory service. Unwelcome: nothing may run there."""
        known = self._known.get(namespace)
        account = _account_of(namespace) if known is None else account_named(known[0])
        if known is not None and (account is None or account.uid != known[1]):
            now = "is gone" if account is None else f"has uid {account.uid} now"
            message = (
                f"namespace {namespace} is of account {known[0]} with uid {known[1]}, which {now}"
            )
            raise Unwelcome("AccountGone", message)
        if account is None:
            raise Unwelcome("NoAccount", f"namespace {namespace} is of no account of this machine")
        if why := self._rules.why_not(account):
            raise Unwelcome("AccountRefused", f"account {account.name} may not run jobs: {why}")
        if known is None:
            self._note(namespace, account)
        groups = os.getgrouplist(account.name, account.gid)
        return Owner(account, tuple(dict.fromkeys((account.gid, *groups))), self._rules)

    def check(self, uid: int) -> None:
        """Unwelcome: in what runs as this uid nothing more may be begun."""
        account = account_of_uid(uid)
        known_now = list(self._known.values())  # another thread may add one
        names = {name for name, known in known_now if known == uid}
        if account is None or account.name not in names:
            raise Unwelcome("AccountGone", f"the account with uid {uid} is gone")
        if why := self._rules.why_not(account):
            raise Unwelcome("AccountRefused", f"account {account.name} may not run jobs: {why}")

    def keep(self, namespaces: Collection[str]) -> None:
        """Forget whose the others were: they are no more, and who gets such a name next is new."""
        left = {name: whose for name, whose in self._known.items() if name in namespaces}
        if left != self._known:
            self._known = left
            self._write()

    def _note(self, namespace: str, account: Account) -> None:
        self._known[namespace] = (account.name, account.uid)
        self._write()

    def _write(self) -> None:
        write_whole(str(self._path), json.dumps(self._known).encode(), durably=True)


def _account_of(namespace: str) -> Account | None:
    numbered = _NUMBERED.fullmatch(namespace)
    account = account_of_uid(int(numbered[1])) if numbered else account_named(namespace)
    return account if account is not None and namespace_of(account) == namespace else None


def login_defaults(path: Path = LOGIN_DEFS) -> Rules:
    """What the machine says of logins: from which uid on people are, where programs lie, umask."""
    said: dict[str, str] = {}
    for line in (read_or_none(str(path)) or b"").decode(errors="replace").splitlines():
        name, *value = line.split(maxsplit=1)[:2] or [""]
        if value and not name.startswith("#"):
            said[name] = value[0].strip()
    return Rules(
        uid_min=_number(said.get("UID_MIN", ""), 10, UID_MIN),
        path=said.get("ENV_PATH", "").removeprefix("PATH=") or PATH,
        umask=_number(said.get("UMASK", ""), 8, UMASK),
    )


def _number(text: str, base: int, otherwise: int) -> int:
    try:
        return int(text, base)
    except ValueError:
        return otherwise
