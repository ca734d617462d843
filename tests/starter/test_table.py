"""A namespace runs as the account that the account database gives it, once and for all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from makeway.accounts import Account
from makeway.runner.host import Unwelcome
from makeway.starter.table import Rules, Table, login_defaults
from tests.harness.accounts import accounts, change_accounts

RULES = Rules(uid_min=1000, path="/usr/bin", limits={"nofile": 512})


@pytest.fixture(scope="module")
def ann() -> Iterator[Account]:
    with accounts("mwtann") as [made]:
        yield made


def refusal(table: Table, namespace: str) -> str:
    with pytest.raises(Unwelcome) as raised:
        table.owner_of(namespace)
    return f"{raised.value.reason}: {raised.value}"


def test_the_account_of_that_name(ann: Account, tmp_path: Path) -> None:
    owner = Table(tmp_path / "t", RULES).owner_of(ann.name)

    assert owner.dropped() == {
        "uid": ann.uid,
        "gid": ann.gid,
        "groups": [ann.gid],
        "limits": {"nofile": 512},
        "umask": 0o022,
        "no_new_privileges": False,
    }
    assert owner.environment() == {
        "HOME": ann.home,
        "USER": ann.name,
        "LOGNAME": ann.name,
        "SHELL": "/bin/sh",
        "PATH": "/usr/bin",
    }


def test_who_is_no_person_runs_nothing(ann: Account, tmp_path: Path) -> None:
    table = Table(tmp_path / "t", RULES)

    assert refusal(table, "root") == (
        "AccountRefused: account root may not run jobs: its uid 0 is below 1000"
    )
    assert "is below 1000" in refusal(table, "daemon")
    assert "no login shell" in refusal(table, "nobody")
    assert refusal(table, "nobody-has-it").startswith("NoAccount")
    assert refusal(table, f"u-{ann.uid}").startswith("NoAccount")  # she has her own name
    never = Table(tmp_path / "t", Rules(never=(ann.uid,)))
    assert "it is the server's" in refusal(never, ann.name)


def test_root_runs_what_its_own_settings_allow(tmp_path: Path) -> None:
    owner = Table(tmp_path / "t", Rules(allowed=("root",))).owner_of("root")

    assert owner.dropped()["uid"] == 0


def test_a_locked_account_starts_nothing_more(ann: Account, tmp_path: Path) -> None:
    table = Table(tmp_path / "t", RULES)
    table.owner_of(ann.name)
    change_accounts("usermod", "--expiredate", "1", ann.name)
    try:
        assert "it has expired" in refusal(table, ann.name)
    finally:
        change_accounts("usermod", "--expiredate", "", ann.name)


def test_another_account_never_inherits_a_namespace(tmp_path: Path) -> None:
    with accounts("mwtold") as [old]:
        Table(tmp_path / "t", RULES).owner_of(old.name)
        written = (tmp_path / "t").read_text()
        (tmp_path / "was").write_text(written.replace(str(old.uid), "1234"))
        moved = refusal(Table(tmp_path / "was", RULES), old.name)
    gone = refusal(Table(tmp_path / "t", RULES), old.name)

    name = f"namespace {old.name} is of account {old.name}"
    assert moved == f"AccountGone: {name} with uid 1234, which has uid {old.uid} now"
    assert gone == f"AccountGone: {name} with uid {old.uid}, which is gone"
    assert (tmp_path / "t").stat().st_mode & 0o777 == 0o600


def test_a_number_stands_for_a_name_that_is_none_of_a_namespace(tmp_path: Path) -> None:
    with accounts("mw_t.") as [odd]:
        table = Table(tmp_path / "t", RULES)

        assert table.owner_of(f"u-{odd.uid}").account.name == odd.name
        with pytest.raises(Unwelcome):
            table.owner_of(odd.name)


def test_the_machine_says_from_which_uid_on_people_are(tmp_path: Path) -> None:
    path = tmp_path / "login.defs"
    path.write_text("# x\nUID_MIN\t\t 500\nENV_PATH\tPATH=/opt/bin:/bin\nUMASK 027\n#UMASK 000\n")

    assert login_defaults(path) == Rules(uid_min=500, path="/opt/bin:/bin", umask=0o027)
    assert login_defaults(tmp_path / "none") == Rules()
