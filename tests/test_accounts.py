"""Who has an account on this machine, where its objects live, and who is not let in."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from makeway.accounts import (
    Account,
    account_named,
    account_of_uid,
    closed_accounts,
    groups_of,
    namespace_of,
    why_no_shell,
)


def account(name: str, uid: int = 1005, shell: str = "/bin/sh") -> Account:
    return Account(name, uid, uid, f"/home/{name}", shell)


@pytest.mark.parametrize(
    ("name", "namespace"),
    [
        ("ada", "ada"),
        ("ada-2", "ada-2"),
        ("a" * 63, "a" * 63),
        ("a" * 64, "u-1005"),
        ("Ada", "u-1005"),
        ("ada.l", "u-1005"),
        ("ada_l", "u-1005"),
        ("ada@lab", "u-1005"),
        ("ada-", "u-1005"),
        ("default", "u-1005"),
        ("kube-system", "u-1005"),
        ("makeway", "u-1005"),
        ("makeway2", "u-1005"),
        ("u-1007", "u-1005"),  # somebody else's, whose name is none for a namespace
        ("u-ada", "u-ada"),
    ],
)
def test_a_namespace_is_called_as_its_account_where_it_can_be(name: str, namespace: str) -> None:
    assert namespace_of(account(name)) == namespace


def test_accounts_are_found_by_name_and_by_uid() -> None:
    root = account_named("root")
    assert root is not None
    assert (root.uid, root.home) == (0, "/root")
    assert account_of_uid(0) == root
    assert "root" in groups_of(root)
    assert account_named("nobody-has-this-name") is None
    assert account_named("a\0b") is None
    assert account_of_uid(2**40) is None


def test_an_account_without_a_login_shell_is_told() -> None:
    assert why_no_shell(account("ada")) == ""
    assert "/usr/sbin/nologin" in why_no_shell(account("daemon", shell="/usr/sbin/nologin"))
    assert "no login shell" in why_no_shell(account("ada", shell="/bin/false"))
    assert "no login shell" in why_no_shell(account("ada", shell="/no/such/shell"))


def test_locked_and_expired_accounts_are_closed(tmp_path: Path) -> None:
    today = int(time.time() // 86400)
    shadow = tmp_path / "shadow"
    shadow.write_text(
        "ada:$y$j9T$x:20000:0:99999:7:::\n"
        "locked:!$y$j9T$x:20000:0:99999:7:::\n"
        "withkey:!:20000:0:99999:7:::\n"
        "daemon:*:20000:0:99999:7:::\n"
        f"today:$y$j9T$x:20000:0:99999:7::{today}:\n"
        f"tomorrow:$y$j9T$x:20000:0:99999:7::{today + 1}:\n"
        "short:!$y$x\n"
    )
    assert closed_accounts(shadow) == {
        "locked": "it is locked",
        "today": "it has expired",
        "short": "it is locked",
    }
