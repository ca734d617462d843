"""The kubeconfig for everybody, as a login shell and as the command hand it on."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
from pathlib import Path

import pytest

from makeway.client.kubeconfig import read_kubeconfig
from makeway.system.kubeconfig import (
    kubeconfig_for_all,
    profile_for,
    with_namespace,
    write_for_all,
)


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    path = tmp_path / "kubeconfig"
    (tmp_path / "ca.crt").write_text("a certificate")
    text = kubeconfig_for_all(747, tmp_path / "ca.crt", tmp_path / "api.sock")
    write_for_all(path, text)
    return path


def logged_in(kubeconfig: Path, **variables: str) -> str:
    """$KUBECONFIG after the profile was read."""
    script = f'{profile_for(kubeconfig)}\nprintf %s "$KUBECONFIG"'
    environment = {"PATH": os.environ["PATH"], **variables}
    command = ["sh", "-eu", "-c", script]
    return subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True
    ).stdout


def test_everybody_can_read_it_and_it_has_no_secret(kubeconfig: Path) -> None:
    assert kubeconfig.stat().st_mode & 0o777 == 0o644
    access = read_kubeconfig(kubeconfig)
    assert (access.address, access.token, access.is_for_all) == ("https://127.0.0.1:747", "", True)


def test_a_login_begins_in_the_accounts_namespace(kubeconfig: Path, tmp_path: Path) -> None:
    own = tmp_path / "run"
    own.mkdir()
    name = pwd.getpwuid(os.getuid()).pw_name
    path = Path(logged_in(kubeconfig, XDG_RUNTIME_DIR=str(own)))
    assert path == own / "makeway.kubeconfig"
    assert read_kubeconfig(path).namespace == name
    assert json.loads(path.read_text()) == json.loads(with_namespace(kubeconfig.read_text(), name))


def test_without_a_folder_of_its_own_a_login_has_the_one_for_all(kubeconfig: Path) -> None:
    assert logged_in(kubeconfig) == str(kubeconfig)
    assert logged_in(kubeconfig, XDG_RUNTIME_DIR="/nowhere/at/all") == str(kubeconfig)


def test_who_has_chosen_another_keeps_it(kubeconfig: Path) -> None:
    assert logged_in(kubeconfig, KUBECONFIG="mine") == "mine"


def test_where_there_is_none_nothing_is_said(tmp_path: Path) -> None:
    script = f'{profile_for(tmp_path / "none")}\nprintf %s "${{KUBECONFIG:-nothing}}"'
    done = subprocess.run(["sh", "-eu", "-c", script], env={}, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "nothing")
