"""The service: units that systemd accepts, and a copy of Makeway that root may run."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from makeway.cli import system
from makeway.cli.main import main
from makeway.system.modes import weak_spot
from makeway.system.paths import Paths
from makeway.system.settings import SystemSettings
from makeway.system.units import SERVER, SOCKET, STARTER, units
from tests import prerequisites
from tests.harness.accounts import accounts, open_folder

FREE = 800  # a descriptor that nobody has


def fields(text: str) -> list[str]:
    return [line for line in text.splitlines() if "=" in line]


def test_jobs_inherit_nothing_of_the_starters_unit_that_would_harm_them() -> None:
    texts = units(Paths(), SystemSettings(port=700), Path("/opt/makeway/bin/python"))
    starter, server = fields(texts[STARTER]), fields(texts[SERVER])

    for wanted in ("KillMode=process", "Delegate=yes", "OOMPolicy=continue", "TasksMax=infinity"):
        assert wanted in starter
    harmful = ("Protect", "Private", "NoNewPrivileges", "SystemCall", "Restrict", "User=", "Cap")
    assert not [line for line in starter if line.startswith(harmful)]
    for wanted in (
        "User=makeway",
        "NoNewPrivileges=yes",
        "CapabilityBoundingSet=",
        "WatchdogSec=60",
    ):
        assert wanted in server
    ports = [line for line in fields(texts[SOCKET]) if line.startswith("ListenStream=")]
    assert ports == ["ListenStream=127.0.0.1:700", "ListenStream=127.0.0.1:701"]


def test_systemd_hands_over_the_ports_in_the_order_of_the_unit() -> None:
    texts = units(Paths(), SystemSettings(dashboard_port=900), Path("/opt/makeway/bin/python"))
    assert texts[SOCKET].index("127.0.0.1:747") < texts[SOCKET].index("127.0.0.1:900")
    without = units(Paths(), SystemSettings(dashboard=False), Path("/opt/makeway/bin/python"))
    assert without[SOCKET].count("ListenStream=") == 1


@pytest.mark.parametrize("count", [0, 1, 2])
def test_the_server_takes_the_ports_that_systemd_holds(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    for number, one in enumerate(held, FREE):
        os.dup2(one.fileno(), number)
    monkeypatch.setattr(system, "SYSTEMD_SOCKET", FREE)
    monkeypatch.setenv("LISTEN_PID", str(os.getpid()))
    monkeypatch.setenv("LISTEN_FDS", str(count))

    found = [one for one in system.given_sockets(None, None) if one is not None]

    assert [one.getsockname() for one in found] == [one.getsockname() for one in held]
    for one in (*found, *held):
        one.close()


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    program = prerequisites.program("systemd-analyze")
    settings = SystemSettings(server_account="daemon")  # one that is there
    for name, text in units(Paths(), settings, Path(sys.executable)).items():
        (tmp_path / name).write_text(text)
    files = [str(tmp_path / name) for name in (STARTER, SERVER, SOCKET)]
    done = subprocess.run([program, "verify", "--man=no", *files], capture_output=True, text=True)

    ours = [line for line in done.stderr.splitlines() if "makeway" in line]
    assert (done.returncode, ours) == (0, [])


def test_a_dry_run_prints_the_units_and_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["service", "install", "--dry-run", "--root", str(tmp_path)]) == 0

    said = capsys.readouterr().out
    assert f"# {tmp_path}/etc/systemd/system/{STARTER}" in said
    assert f"/opt/makeway/bin/python -P -m makeway.cli.main up --system --root {tmp_path}" in said
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def installed() -> Iterator[tuple[Path, str]]:
    with accounts("mwinst") as [server], open_folder() as root:
        (root / "etc/makeway").mkdir(parents=True)
        (root / "etc/makeway/settings.yaml").write_text(f"serverAccount: {server.pw_name}\n")
        prefix = ["--root", str(root), "--prefix", str(root / "opt/makeway")]
        assert main(["service", "install", *prefix]) == 0
        yield root, server.pw_name
        assert main(["service", "uninstall", *prefix]) == 0
        left = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
        assert left == ["etc/makeway/settings.yaml"]


def test_what_was_installed_is_roots_and_runs_for_every_account(
    installed: tuple[Path, str],
) -> None:
    root, server = installed
    assert weak_spot([root / "opt/makeway"]) == ""

    def makeway(*words: str | Path) -> subprocess.CompletedProcess[str]:
        command = [root / "usr/local/bin/makeway", *words]
        return subprocess.run(
            command, user=server, cwd="/", env={}, capture_output=True, text=True, check=False
        )

    assert makeway("version").stdout.split()[:2] == ["makeway", version("makeway")]
    done = makeway("service", "status", "--root", root)
    assert done.returncode == 1
    assert f"{STARTER}: {root}/etc/systemd/system/{STARTER}" in done.stdout
    assert "does not answer" in done.stdout
