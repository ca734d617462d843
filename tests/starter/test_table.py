"""A namespace runs as the account that the account database gives it, once and for all."""

from __future__ import annotations

import json
import pwd
from collections.abc import Iterator
from pathlib import Path

import pytest

from makeway.runner.host import Unwelcome
from makeway.starter.table import Rules, Table, login_defaults
from tests.harness.accounts import accounts, change_accounts

RULES = Rules(uid_min=1000, path="/usr/bin", limits={"nofile": 512})


@pytest.fixture(scope="module")
def ann() -> Iterator[pwd.struct_passwd]:
    with accounts("mwtann") as [made]:
        yield made


def refusal(table: Table, namespace: str) -> str:
    with pytest.raises(Unwelcome) as raised:
        table.owner_of(namespace)
    return f"{raised.value.reason}: {raised.value}"


def test_the_account_of_that_name(ann: pwd.struct_passwd, tmp_path: Path) -> None:
    owner = Table(tmp_path / "t", RULES).owner_of(ann.pw_name)

    assert owner.dropped({}) == {
        "uid": ann.pw_uid,
        "gid": ann.pw_gid,
        "groups": [ann.pw_gid],
        "limits": {"nofile": 512},
        "umask": 0o022,
        "no_new_privileges": False,
    }
    of_shell = owner.dropped({"umask": 0o077, "nofile": 99, "core": -1})
    assert (of_shell["umask"], of_shell["limits"]["nofile"]) == (0o077, 99)
    assert owner.dropped({"umask": 0o7777})["umask"] == 0o022
    assert owner.environment() == {
        "HOME": ann.pw_dir,
        "USER": ann.pw_name,
        "LOGNAME": ann.pw_name,
        "SHELL": "/bin/sh",
        "PATH": "/usr/bin",
    }


def test_who_is_no_person_runs_nothing(ann: pwd.struct_passwd, tmp_path: Path) -> None:
    table = Table(tmp_path / "t", RULES)

    assert refusal(table, "root") == (
        "AccountRefused: account root may not run jobs: its uid 0 is below 1000"
    )
    assert "is below 1000" in refusal(table, "daemon")
    assert "no login shell" in refusal(table, "nobody")
    assert refusal(table, "nobody-has-it").startswith("NoAccount")
    assert refusal(table, f"u-{ann.pw_uid}").startswith("NoAccount")  # she has her own name
    never = Table(tmp_path / "t", Rules(never=(ann.pw_uid,)))
    assert "it is the server's" in refusal(never, ann.pw_name)


def test_root_runs_what_its_own_settings_allow(tmp_path: Path) -> None:
    owner = Table(tmp_path / "t", Rules(allowed=("root",))).owner_of("root")

    assert owner.dropped({})["uid"] == 0


def test_a_locked_account_starts_nothing_more(ann: pwd.struct_passwd, tmp_path: Path) -> None:
    table = Table(tmp_path / "t", RULES)
    table.owner_of(ann.pw_name)
    change_accounts("usermod", "--expiredate", "1", ann.pw_name)
    try:
        assert "it has expired" in refusal(table, ann.pw_name)
    finally:
        change_accounts("usermod", "--expiredate", "", ann.pw_name)


def test_another_account_never_inherits_a_namespace(tmp_path: Path) -> None:
    with accounts("mwtold") as [old]:
        Table(tmp_path / "t", RULES).owner_of(old.pw_name)
        written = (tmp_path / "t").read_text()
        (tmp_path / "was").write_text(written.replace(str(old.pw_uid), "1234"))
        moved = refusal(Table(tmp_path / "was", RULES), old.pw_name)
    gone = refusal(Table(tmp_path / "t", RULES), old.pw_name)

    name = f"namespace {old.pw_name} is of account {old.pw_name}"
    assert moved == f"AccountGone: {name} with uid 1234, which has uid {old.pw_uid} now"
    assert gone == f"AccountGone: {name} with uid {old.pw_uid}, which is gone"
    assert (tmp_path / "t").stat().st_mode & 0o777 == 0o600


def test_whose_a_namespace_was_is_forgotten_with_it(tmp_path: Path) -> None:
    with accounts("mwtnew") as [new]:
        (tmp_path / "t").write_text(json.dumps({new.pw_name: ["gone", 1234], "bob": ["bob", 1]}))
        table = Table(tmp_path / "t", RULES)
        table.keep([new.pw_name, "bob"])
        assert refusal(table, new.pw_name).startswith("AccountGone")
        table.keep(["bob"])  # an admin has removed the other

        assert table.owner_of(new.pw_name).account.uid == new.pw_uid
        written = json.loads((tmp_path / "t").read_text())
        assert written == {"bob": ["bob", 1], new.pw_name: [new.pw_name, new.pw_uid]}


def test_a_number_stands_for_a_name_that_is_none_of_a_namespace(tmp_path: Path) -> None:
    with accounts("mw_t.") as [odd]:
        table = Table(tmp_path / "t", RULES)

        assert table.owner_of(f"u-{odd.pw_uid}").account.name == odd.pw_name
        with pytest.raises(Unwelcome):
            table.owner_of(odd.pw_name)


def test_the_machine_says_from_which_uid_on_people_are(tmp_path: Path) -> None:
    path = tmp_path / "login.defs"
    path.write_text("# x\nUID_MIN\t\t 500\nENV_PATH\tPATH=/opt/bin:/bin\nUMASK 027\n#UMASK 000\n")

    assert login_defaults(path) == Rules(uid_min=500, path="/opt/bin:/bin", umask=0o027)
    assert login_defaults(tmp_path / "none") == Rules()
