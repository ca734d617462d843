"""`makeway up --system`: root prepares, then two processes serve every account of the machine.

The starter runs as root and starts pods under their accounts. The server runs as an account of its
own, without rights. Here both are started and kept up; under a service manager each is its own
unit (`--part`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any

from makeway.accounts import Account
from makeway.api.errors import in_words
from makeway.backoff import backoff_s
from makeway.cli import up
from makeway.cli.command import UsageError, announce
from makeway.cli.journal_options import DAYS, SIZE, limits_from
from makeway.logs import Fields
from makeway.system.kubeconfig import kubeconfig_for_all, write_for_all
from makeway.system.paths import Paths
from makeway.system.preparing import (
    SOURCE,
    NotPrepared,
    check_modes,
    check_reach,
    check_root,
    make_folders,
    server_account,
    take_over,
)
from makeway.system.settings import (
    BadSettings,
    SystemSettings,
    pages_port,
    read_settings,
    remember,
)

log = logging.getLogger("makeway.system")

HOST, BACKLOG = "127.0.0.1", 512
USAGE = 2  # a process that ends so has said why it can't start: to try again is of no use
AGAIN_S, AGAIN_MAX_S = 1.0, 30.0
LASTED_S = 60.0  # who ran so long had begun well
SYSTEMD_SOCKET = 3  # sd_listen_fds(3)
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
BOOT = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from makeway.starter.main import main; main(sys.argv[2])"
)
_REFUSED = {  # flags that have no meaning here
    "data_dir": "everything lies in system folders; --root names another place for all of them",
    "log_file": "the log goes to standard error, or with --detach to /var/lib/makeway/starter.log",
}
_KEPT = ("port", "dashboard_port", "keep_size", "journal_size", "log_level", "log_format")
_KEPT_DAYS = ("keep_days", "journal_days")


def run(arguments: argparse.Namespace) -> int:
    paths = Paths((arguments.root or Path("/")).resolve())
    for name, why in _REFUSED.items():
        if getattr(arguments, name) is not None:
            raise UsageError(f"--{name.replace('_', '-')} with --system: {why}")
    if arguments.insecure_http:
        raise UsageError("--insecure-http is for one account; tokens of many go over TLS")
    try:
        if arguments.part == "server":
            given = given_sockets(arguments.listen_fd, arguments.dashboard_fd)
            return _serve(paths, read_settings(paths.settings), *given)
        return _run_as_root(paths, arguments)
    except (BadSettings, NotPrepared) as error:
        raise UsageError(str(error)) from None


def _run_as_root(paths: Paths, arguments: argparse.Namespace) -> int:
    check_root("up --system")
    check_modes(paths)
    paths.etc.mkdir(parents=True, exist_ok=True, mode=0o755)
    settings = remember(paths.settings, read_settings(paths.settings), _said(arguments))
    for named, kept in ((arguments.nodes, paths.nodes), (arguments.config, paths.configuration)):
        if named is not None:
            _check_and_take_over(named, kept)
    server, is_new = server_account(settings.server_account)
    if is_new:
        announce(f"made the account {server.name}, as which the server runs")
    check_reach(server)
    make_folders(paths, server)
    if arguments.detach:
        command = [sys.executable, "-P", "-m", "makeway.cli.main", "up", "--system"]
        up.start_in_background([*command, "--root", str(paths.root)], paths.starter_log)
        print(f"  log: {paths.starter_log}; stop it with: makeway down --system", flush=True)
        return 0
    if arguments.part == "starter":
        _write_kubeconfig(paths, settings.port)
        command = starter_command(paths, settings, server)
        os.execve(command[0], command, {"PATH": PATH, **_of_service_manager()})
    return asyncio.run(_keep_both(paths, settings, server))


def _of_service_manager() -> dict[str, str]:
    return {name: os.environ[name] for name in ("NOTIFY_SOCKET",) if name in os.environ}


def _said(arguments: argparse.Namespace) -> dict[str, Any]:
    said = {
        name: getattr(arguments, name) for name in _KEPT if getattr(arguments, name) is not None
    }
    for name in _KEPT_DAYS:
        if (days := getattr(arguments, name)) is not None:
            said[name] = Fraction(str(days))
    said |= {"enforce_limits": False} if arguments.no_limits else {}
    said |= {"journal": False} if arguments.no_journal else {}
    said |= {} if arguments.dashboard_port is None else {"dashboard": True}
    said |= {"dashboard": False} if arguments.no_dashboard else {}
    # What is wrong must not be kept.
    up.read_size(arguments.keep_size or "1G")
    limits_from(arguments.journal_days or DAYS, arguments.journal_size or SIZE)
    return said


def _check_and_take_over(named: Path, kept: Path) -> None:
    (up.read_nodes(named) if kept.name == "nodes.yaml" else up.read_configuration(kept, named))
    take_over(named, kept)
    announce(f"{named} is kept as {kept}: change that from now on")


def _journal(settings: SystemSettings) -> Any:
    """How much of what was decided is kept; None: nothing."""
    if not settings.journal:
        return None
    days = DAYS if settings.journal_days is None else float(settings.journal_days)
    return limits_from(days, settings.journal_size or SIZE)


def starter_command(paths: Paths, settings: SystemSettings, server: Account) -> list[str]:
    told = {
        "state": str(paths.state),
        "run": str(paths.starter_run),
        "server_uid": server.uid,
        "server_gid": server.gid,
        "allowed": list(settings.allow_accounts),
        "uid_min": settings.uid_min,
        "ulimits": {n: v for n, v in asdict(settings.ulimits).items() if v is not None},
        "has_limits": settings.enforce_limits,
        "pids_max": settings.pids_per_pod,
        "account_pids_max": settings.pids_per_account,
        "guards_gpus": settings.guard_gpus,
        "mounts": settings.mount_volumes,
        "no_new_privileges": settings.no_new_privileges,
        "kept_days": float(settings.keep_days),
        "kept_bytes": up.read_size(settings.keep_size) if settings.keep_size else None,
        "log_level": settings.log_level,
        "log_format": settings.log_format,
    }
    return [sys.executable, "-I", "-S", "-c", BOOT, str(SOURCE), json.dumps(told)]


# --- both processes, kept up ---


async def _keep_both(paths: Paths, settings: SystemSettings, server: Account) -> int:
    """Until one is told to end, or we are; jobs go on in either case."""
    listening = _listening(settings.port)
    api_port = listening.getsockname()[1]
    _write_kubeconfig(paths, api_port)
    serving = [sys.executable, "-P", "-m", "makeway.cli.main", "up", "--system", "--part", "server"]
    serving += ["--root", str(paths.root), "--listen-fd", str(listening.fileno())]
    given = [listening]
    if (port := pages_port(settings, api_port)) is not None:
        given.append(_listening(port, "; --dashboard-port names another, --no-dashboard none"))
        serving += ["--dashboard-fd", str(given[1].fileno())]
    rights = {"user": server.uid, "group": server.gid, "extra_groups": [server.gid]}
    stopping = asyncio.ensure_future(up.stop_signal().wait())
    both = [
        asyncio.ensure_future(_kept(starter_command(paths, settings, server))),
        asyncio.ensure_future(_kept(serving, pass_fds=[one.fileno() for one in given], **rights)),
    ]
    await asyncio.wait([stopping, *both], return_when=asyncio.FIRST_COMPLETED)
    codes = [task.result() for task in both if task.done()]
    for task in reversed(both):  # the server first, as it gives the orders
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return max(codes, default=0)


def _write_kubeconfig(paths: Paths, port: int) -> None:
    write_for_all(paths.kubeconfig, kubeconfig_for_all(port, paths.ca, paths.socket))


def _listening(port: int, hint: str = "") -> socket.socket:
    """Made by root, for the server: that may use no port below 1024."""
    try:
        return socket.create_server((HOST, port), backlog=BACKLOG)
    except OSError as error:
        raise UsageError(f"can't listen on port {port}: {in_words(error)}{hint}") from None


async def _kept(command: Sequence[str], **how: Any) -> int:
    """Run a process, and again if it fails; its exit code if it ends well, or can't start."""
    failures = 0
    while True:
        began_at = time.monotonic()
        process = await asyncio.create_subprocess_exec(*command, env={"PATH": PATH}, cwd="/", **how)
        try:
            code = await process.wait()
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()
        if code in (0, USAGE):
            return code
        failures = 1 if time.monotonic() - began_at > LASTED_S else failures + 1
        await asyncio.sleep(backoff_s(failures, AGAIN_S, AGAIN_MAX_S))


# --- the server ---


def _serve(
    paths: Paths,
    settings: SystemSettings,
    listening: socket.socket | None,
    for_pages: socket.socket | None,
) -> int:
    """As the server's account; without sockets of root's, on a port that it may use."""
    from makeway.embedded.settings import Settings, System
    from makeway.logs import set_up
    from makeway.server.people import People

    if os.geteuid() == 0:
        raise UsageError(f"--part server: run it as account {settings.server_account}, not as root")
    set_up(settings.log_level, settings.log_format)
    if settings.dashboard and for_pages is None:
        log.warning(Fields(dashboard="is not served", why="no port was opened for it by root"))
    configuration = paths.configuration if paths.configuration.exists() else None
    serving = Settings(
        port=settings.port,
        configuration=up.read_configuration(paths.data, configuration),
        nodes=up.read_nodes(paths.nodes) if paths.nodes.exists() else (),
        journal=_journal(settings),
        listening=listening,
        has_dashboard=settings.dashboard and for_pages is not None,
        dashboard_listening=for_pages,
        system=System(starter=paths.starter_socket, logs=paths.logs),
        people=People(
            socket=paths.socket,
            ca=paths.ca,
            audit=paths.data / "audit.log",
            admin_groups=settings.admin_groups,
            show_names=settings.show_names,
            requests_per_s=settings.requests_per_second,
            unfinished_max=settings.unfinished_jobs,
            per_gpu={n: v for n, v in asdict(settings.per_gpu).items() if v is not None},
            closed=paths.closed,
        ),
    )
    return up.serve_folder(paths.data, serving)


def given_sockets(*descriptors: int | None) -> list[socket.socket | None]:
    """Of the API and of the dashboard, from root or from systemd, which has them in the order of
    its unit; None: there is none."""
    if descriptors[0] is None and os.environ.get("LISTEN_PID") == str(os.getpid()):
        count = int(os.environ.get("LISTEN_FDS", "0"))
        descriptors = tuple(SYSTEMD_SOCKET + i if i < count else None for i in range(2))
    return [None if number is None else socket.socket(fileno=number) for number in descriptors]
