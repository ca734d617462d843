"""have systemd run Makeway for every account: install, uninstall, status

Install Makeway as a service of this machine, for every account. A copy of it that
is root's alone goes to /opt/makeway, with a command for everybody; systemd gets two
services (the starter, which runs jobs as their accounts and is root, and the server,
which may do nothing else) and a socket that holds the port. Settings and data stay
when it is uninstalled, and jobs that run go on.

examples:
  sudo makeway service install
  makeway service install --dry-run      # print the units, change nothing
  makeway service status
  sudo makeway service uninstall

exit codes:
  0  done, or it runs     1  it does not run (status)     2  it can't be done, and why
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
from pathlib import Path

from makeway.cli.command import UsageError
from makeway.cli.down import holder_of
from makeway.system.installing import check_ours, install_into
from makeway.system.kubeconfig import profile_for
from makeway.system.paths import Paths
from makeway.system.preparing import NotPrepared, check_root, make_folders, server_account
from makeway.system.settings import BadSettings, read_settings
from makeway.system.units import SERVER, SOCKET, STARTER, units

SYSTEMD = Path("/run/systemd/system")  # is there exactly where systemd runs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("install", "uninstall", "status"))
    parser.add_argument("--dry-run", action="store_true", help="print the units, change nothing")
    parser.add_argument(
        "--prefix",
        type=Path,
        default=Path("/opt/makeway"),
        metavar="DIR",
        help="where the copy goes (default: /opt/makeway)",
    )
    parser.add_argument(
        "--root",
        type=Path,
        default=Path("/"),
        metavar="DIR",
        help="the folder where etc, var, run and usr are (default: /)",
    )


def run(arguments: argparse.Namespace) -> int:
    paths = Paths(arguments.root.resolve())
    try:
        match arguments.action:
            case "install" if arguments.dry_run:
                return _show(paths, arguments.prefix)
            case "install":
                return _install(paths, arguments.prefix)
            case "uninstall":
                return _uninstall(paths, arguments.prefix, is_tried=arguments.dry_run)
            case _:
                return _status(paths)
    except (BadSettings, NotPrepared) as error:
        raise UsageError(str(error)) from None


def _show(paths: Paths, prefix: Path) -> int:
    texts = units(paths, read_settings(paths.settings), prefix / "bin" / "python")
    for name, text in texts.items():
        print(f"# {_unit_folder(paths) / name}\n{text}")
    return 0


def _unit_folder(paths: Paths) -> Path:
    return paths.root / "etc/systemd/system"


def _command(paths: Paths) -> Path:
    return paths.root / "usr/local/bin/makeway"


def _profile(paths: Paths) -> Path:
    return paths.root / "etc/profile.d/makeway.sh"


def _install(paths: Paths, prefix: Path) -> int:
    check_root("service install")
    settings = read_settings(paths.settings)
    python = install_into(prefix)
    server, is_new = server_account(settings.server_account)
    if is_new:
        print(f"made the account {server.name}, as which the server runs")
    make_folders(paths, server)
    for name, text in units(paths, settings, python).items():
        _write(_unit_folder(paths) / name, text)
    _write(_profile(paths), profile_for(paths.kubeconfig))
    command = f'#!/bin/sh\nexec {python} -P -m makeway.cli.main "$@"\n'
    _write(prefix / "bin" / "makeway", command, mode=0o755)
    if not _command(paths).exists():
        _command(paths).parent.mkdir(parents=True, exist_ok=True)
        _command(paths).symlink_to(prefix / "bin" / "makeway")
    print(
        f"Makeway is in {prefix}; its settings are in {paths.settings}, its data in {paths.state}"
    )
    return _start(paths)


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    path.unlink(missing_ok=True)
    path.write_text(text)
    path.chmod(mode)


def _start(paths: Paths) -> int:
    if not _is_systemd(paths):
        print("systemd does not run here; start it with `makeway up --system --detach`")
        return 0
    _systemctl("daemon-reload")
    _systemctl("enable", SOCKET, STARTER, SERVER)
    _systemctl("stop", SERVER)  # under a service that runs, a socket can't take other ports
    _systemctl("restart", SOCKET, STARTER, SERVER)
    print("it runs, and starts with the machine; `makeway service status` tells how it is")
    return 0


def _is_systemd(paths: Paths) -> bool:
    return paths.root == Path("/") and SYSTEMD.is_dir()


def _systemctl(*words: str) -> None:
    done = subprocess.run(["systemctl", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise UsageError(f"systemctl {' '.join(words)}: {done.stderr.strip()}")


def _uninstall(paths: Paths, prefix: Path, *, is_tried: bool) -> int:
    files = [_unit_folder(paths) / name for name in (STARTER, SERVER, SOCKET)]
    files += [_profile(paths)]
    if _command(paths).is_symlink() and _command(paths).readlink() == prefix / "bin" / "makeway":
        files.append(_command(paths))
    found = [path for path in files if path.exists() or path.is_symlink()]
    if is_tried:
        print(*(f"would remove {path}" for path in (*found, prefix) if path.exists()), sep="\n")
        return 0
    check_root("service uninstall")
    check_ours(prefix)
    if _is_systemd(paths) and found:
        _systemctl("disable", "--now", SERVER, STARTER, SOCKET)
    for path in found:
        path.unlink()
    if prefix.exists():
        shutil.rmtree(prefix)
    if _is_systemd(paths):
        _systemctl("daemon-reload")
    print(f"removed; {paths.etc} and {paths.state} stay, and jobs that run go on")
    return 0


def _status(paths: Paths) -> int:
    settings = read_settings(paths.settings)
    for name in (STARTER, SERVER, SOCKET):
        path = _unit_folder(paths) / name
        print(f"{name}: {path if path.exists() else 'not installed'}")
    is_there = _answers(paths.socket)
    print(f"{paths.socket}: {'answers' if is_there else 'does not answer'}")
    if os.geteuid() == 0:  # others don't see that
        for name, folder in (("starter", paths.starter_run), ("server", paths.data)):
            pid = holder_of(folder)
            print(f"{name}: {'does not run' if pid is None else f'runs, pid {pid}'}")
    print(f"settings: {paths.settings}, port {settings.port}, account {settings.server_account}")
    return 0 if is_there else 1


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        return connection.connect_ex(str(path)) == 0
