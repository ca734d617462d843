"""run Makeway on this machine: queues, jobs as local processes, a Kubernetes-style API

Run jobs on this machine: queues with quota decide who runs, jobs run as local
processes, and a Kubernetes-compatible API on the loopback address takes and
shows it all. In the foreground until Ctrl-C or SIGTERM, or detached. Everything
lies in one folder: the database, the certificate, the token and a kubeconfig
that only you can read, what jobs print. Jobs that run go on when Makeway stops,
and are found again when it is back.

examples:
  makeway up
  makeway up --detach && makeway submit -- python train.py
  makeway up --nodes nodes.yaml          # try a cluster of your own making
  makeway up --config kueue-config.yaml  # fair sharing, waitForPodsReady, ...
  KUBECONFIG=$(makeway kubeconfig --path) kubectl get queues -A
  sudo makeway up --system --detach      # for every account: jobs run as who submits them

exit codes:
  0  stopped by a signal, or ready in the background
  2  the folder is in use or damaged, the port is taken, a file has errors
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from makeway.api.errors import in_words
from makeway.cli.command import UsageError, add_log_options, announce
from makeway.cli.journal_options import DAYS, SIZE, add_limits, limits_of
from makeway.client.folder import default_folder
from makeway.local_socket import system_socket
from makeway.notify import keep_notifying, notify
from makeway.system.sharing import is_shared

DEFAULT_PORT = 7475  # fixed, since clients keep what they know of a server by its port
SYSTEM_PORT = 747  # below 1024: no account can sit on it while Makeway is away
LOG_LEVEL, LOG_FORMAT = "warning", "text"
# Requests leave little garbage in cycles; the default of 700 walks young objects far too often.
GC_THRESHOLDS = (20_000, 20, 50)
CONFIG_NAME = "config.yaml"  # in the data folder, used when --config names no other
LOG_NAME = "makeway.log"  # in the data folder, when detached
READY_MAX_S = 30.0
KEPT_DAYS = 30.0
SHOWN_LINES = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="where everything is kept (default: $MAKEWAY_DATA_DIR, or makeway in the data home)",
    )
    parser.add_argument(
        "--system",
        action="store_true",
        help="as root: serve every account of this machine, each job as the account that submits "
        "it; everything lies in system folders, and what other flags say is kept there",
    )
    parser.add_argument(
        "--part",
        choices=("starter", "server"),
        help="with --system, for service managers: run one of its two processes alone",
    )
    parser.add_argument(
        "--root",
        type=Path,
        metavar="DIR",
        help="with --system: the folder where etc, var and run are (default: /)",
    )
    parser.add_argument("--listen-fd", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--dashboard-fd", type=int, help=argparse.SUPPRESS)
    parser.add_argument(
        "--port",
        type=int,
        help="port on the loopback address; 0 takes a free one "
        f"(default: {DEFAULT_PORT}; with --system: {SYSTEM_PORT})",
    )
    parser.add_argument(
        "--nodes",
        type=Path,
        metavar="FILE",
        help="Node objects to run on, in YAML, instead of the detected machine; all run here",
    )
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help=f"a Configuration, as Kueue has it (default: {CONFIG_NAME} in the data folder)",
    )
    parser.add_argument(
        "--detach", action="store_true", help="go to the background once it is ready"
    )
    parser.add_argument(
        "--insecure-http",
        action="store_true",
        help="plain http instead of TLS; kubectl sends no token then, so only Python clients work",
    )
    parser.add_argument(
        "--log-file",
        type=Path,
        metavar="FILE",
        help="log there instead of to standard error; put aside at 10 MiB, 4 old ones are kept "
        f"(default when detached: {LOG_NAME} in the data folder)",
    )
    parser.add_argument(
        "--keep-days",
        type=float,
        metavar="DAYS",
        help=f"how long the folders and the output of ended pods are kept (default: {KEPT_DAYS:g})",
    )
    parser.add_argument(
        "--keep-size",
        metavar="SIZE",
        help="how much of that, with the output of running pods, is kept, such as 5Gi; the oldest "
        "goes first (default: a tenth of the disk, at most 20Gi)",
    )
    parser.add_argument(
        "--share-gpus",
        action="store_true",
        help="hand out the machine's GPUs though a Makeway for every account does so, too",
    )
    parser.add_argument(
        "--dashboard-port",
        type=int,
        metavar="PORT",
        help="port of the dashboard, see `makeway dashboard` (default: the one after --port, or a "
        "free one if that is taken)",
    )
    parser.add_argument("--no-dashboard", action="store_true", help="serve no dashboard")
    parser.add_argument(
        "--no-limits",
        action="store_true",
        help="let jobs use more memory and CPU than they asked for",
    )
    parser.add_argument(
        "--no-journal",
        action="store_true",
        help="write down nothing of what is decided: no `makeway why`, `report` or `replay`",
    )
    add_limits(parser)
    add_log_options(parser, default=LOG_LEVEL)
    # With --system, what was said before holds.
    parser.set_defaults(log_level=None, log_format=None, journal_days=None, journal_size=None)


def run(arguments: argparse.Namespace) -> int:
    for option in ("port", "dashboard_port"):
        port = getattr(arguments, option)
        if port is not None and not 0 <= port <= 65535:
            name = option.replace("_", "-")
            raise UsageError(f"--{name} {port}: not a port; write 0 to 65535")
    if arguments.keep_days is not None and not arguments.keep_days > 0:
        raise UsageError(f"--keep-days {arguments.keep_days:g}: write a number of days above 0")
    if arguments.system:
        from makeway.cli import system

        return system.run(arguments)
    for name in ("part", "root"):
        if getattr(arguments, name) is not None:
            raise UsageError(f"--{name} goes with --system")
    arguments.port = DEFAULT_PORT if arguments.port is None else arguments.port
    arguments.keep_days = KEPT_DAYS if arguments.keep_days is None else arguments.keep_days
    arguments.journal_days = DAYS if arguments.journal_days is None else arguments.journal_days
    arguments.journal_size = arguments.journal_size or SIZE
    arguments.log_level = arguments.log_level or LOG_LEVEL
    arguments.log_format = arguments.log_format or LOG_FORMAT
    folder = arguments.data_dir or default_folder()
    if arguments.detach:
        return detach(folder, arguments)
    # Importing the server takes a third of a second; no other command should pay for that.
    from makeway.embedded.settings import Settings
    from makeway.logs import set_up

    set_up(arguments.log_level, arguments.log_format, path=arguments.log_file)
    settings = Settings(
        port=arguments.port,
        is_insecure=arguments.insecure_http,
        configuration=read_configuration(folder, arguments.config),
        nodes=() if arguments.nodes is None else read_nodes(arguments.nodes),
        has_gpus=arguments.share_gpus or not _is_served_by_others(),
        is_reaper=True,
        has_limits=not arguments.no_limits,
        kept_days=arguments.keep_days,
        kept_bytes=None if arguments.keep_size is None else read_size(arguments.keep_size),
        has_dashboard=not arguments.no_dashboard,
        dashboard_port=arguments.dashboard_port,
        journal=None if arguments.no_journal else limits_of(arguments),
    )
    return serve_folder(folder, settings)


def serve_folder(folder: Path, settings: Any) -> int:
    """In the foreground, until somebody tells us to end."""
    from makeway.embedded.settings import CannotServe

    gc.set_threshold(*GC_THRESHOLDS)
    # A watch is an open file; most systems allow more open files than they give at first.
    _, files_max = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files_max, files_max))
    try:
        asyncio.run(_serve(folder, settings))
    except CannotServe as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        why = in_words(error)
        raise UsageError(f"can't serve {folder} on port {settings.port}: {why}") from None
    return 0


async def _serve(folder: Path, settings: Any) -> None:
    from makeway.embedded.serving import serve

    stop = stop_signal()
    async with serve(folder, settings) as running:
        said = [f"makeway is ready on {running.address}", f"  {_for_whom(running, settings)}"]
        said += [] if settings.system else [f"  {line}" for line in _of_one_account(settings)]
        if running.unlimited:
            said.append(f"  limits of jobs don't hold here: {running.unlimited}")
        announce(*said)
        notify("READY=1")
        alive = asyncio.ensure_future(keep_notifying())
        await stop.wait()
        alive.cancel()
    announce("makeway has stopped; jobs that run go on")


def _for_whom(running: Any, settings: Any) -> str:
    if settings.system is not None:
        return "it serves every account of this machine; jobs run as who submits them"
    return f"export KUBECONFIG={running.kubeconfig}"


def _is_served_by_others() -> bool:
    """Whether a Makeway for every account answers on this machine."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        return connection.connect_ex(str(system_socket())) == 0


def _of_one_account(settings: Any) -> list[str]:
    """What to say where more people than one may expect to be served."""
    said = []
    if os.geteuid() == 0:
        said.append("every job runs as root; `makeway up --system` runs it as who submits it")
    elif is_shared():
        said.append("it serves your account alone; for all: sudo makeway up --system")
    if not settings.has_gpus and not settings.nodes:
        said.append("it offers no GPUs: the Makeway for every account does; or use --share-gpus")
    return said


def stop_signal() -> asyncio.Event:
    """Set when somebody tells us to end, by SIGTERM or Ctrl-C."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


def read_size(text: str, option: str = "--keep-size") -> int:
    from makeway.api.quantity import QuantityError, amount

    try:
        size = amount("memory", text)
    except QuantityError:
        size = -1
    if size < 0:
        raise UsageError(f"{option} {text}: not a size; write one such as 5Gi")
    return size


def read_configuration(folder: Path, named: Path | None) -> Any:
    """The Configuration of a file; without one, what holds when nothing is said."""
    from makeway.api.configuration import Configuration

    path = named or folder / CONFIG_NAME
    if named is None and not path.exists():
        return Configuration()
    views = [view for _, view in _read(path)]
    found = [view for view in views if isinstance(view, Configuration)]
    if len(found) != 1 or len(views) != 1:
        raise UsageError(f"{path}: write one object of kind Configuration")
    return found[0]


def read_nodes(path: Path) -> tuple[dict[str, Any], ...]:
    from makeway.api.batch import Node

    found = _read(path)
    for document, view in found:
        if not isinstance(view, Node):
            raise UsageError(f"{path}: {document.get('kind')} is no Node; write nodes only")
    if not found:
        raise UsageError(f"{path}: there is no node in it")
    return tuple(document for document, _ in found)


def _read(path: Path) -> list[tuple[dict[str, Any], Any]]:
    """The objects of a file; UsageError with all that is wrong with them."""
    from makeway.cli.check import check_texts

    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} can't be read: {in_words(error)}") from None
    report = check_texts((_unwrapped(str(path), text),))
    if report.errors:
        raise UsageError("\n".join(map(str, report.errors)))
    for finding in report.warnings:  # what does nothing should not look as if it did
        print(f"warning: {finding}", file=sys.stderr, flush=True)
    return [(dict(manifest.document), view) for manifest, view in report.readable]


def _unwrapped(source: str, text: str) -> tuple[str, str]:
    """Where a configuration stands, and its text; Kueue ships it as the file of a ConfigMap."""
    from makeway.api.manifests import read_manifests

    found = [manifest.document for manifest in read_manifests(text, source).manifests]
    if len(found) != 1 or found[0].get("kind") != "ConfigMap":
        return source, text
    data = found[0].get("data")
    files = list(data.items()) if isinstance(data, Mapping) else []
    if len(files) != 1 or not isinstance(files[0][1], str):
        raise UsageError(f"{source}: data: write one file, the Configuration")
    return f"{source}: {files[0][0]}", files[0][1]


# --- in the background ---


def detach(folder: Path, arguments: argparse.Namespace) -> int:
    """Start another makeway up, and come back when it is ready."""
    read_configuration(folder, arguments.config)  # its warnings are for whoever starts it
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    command = [sys.executable, "-m", "makeway.cli.main", "up", "--data-dir", str(folder)]
    command += ["--port", str(arguments.port), "--log-level", arguments.log_level]
    log_path = arguments.log_file or folder / LOG_NAME
    command += ["--log-format", arguments.log_format, "--log-file", str(log_path.resolve())]
    for name, path in (("--nodes", arguments.nodes), ("--config", arguments.config)):
        command += [] if path is None else [name, str(path.resolve())]
    command += ["--keep-days", f"{arguments.keep_days:g}"]
    command += [] if arguments.keep_size is None else ["--keep-size", arguments.keep_size]
    command += ["--journal-days", f"{arguments.journal_days:g}"]
    command += ["--journal-size", arguments.journal_size]
    command += ["--no-journal"] if arguments.no_journal else []
    command += ["--insecure-http"] if arguments.insecure_http else []
    command += ["--share-gpus"] if arguments.share_gpus else []
    command += ["--no-dashboard"] if arguments.no_dashboard else []
    if arguments.dashboard_port is not None:
        command += ["--dashboard-port", str(arguments.dashboard_port)]
    command += ["--no-limits"] if arguments.no_limits else []
    start_in_background(command, log_path)
    print(f"  log: {log_path}; stop it with: makeway down")
    return 0


def start_in_background(command: list[str], log_path: Path) -> None:
    """Start a makeway up, and come back when it is ready, with what it says then."""
    with open(os.open(log_path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600), "ab") as log:
        begins_at = log.tell()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
        )
    print(*_wait_until_ready(process, log_path, begins_at), sep="\n")


def _wait_until_ready(process: subprocess.Popen[bytes], path: Path, begins_at: int) -> list[str]:
    """The lines with which it says that it is ready."""
    deadline = time.monotonic() + READY_MAX_S
    while True:
        lines = path.read_bytes()[begins_at:].decode("utf-8", "replace").splitlines()
        for number, line in enumerate(lines):
            if line.startswith("makeway is ready") and len(lines) > number + 1:
                return lines[number:]
        if process.poll() is not None:
            raise UsageError("\n".join(lines[-SHOWN_LINES:]).removeprefix("makeway: "))
        if time.monotonic() > deadline:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)
            raise UsageError(f"it was not ready within {READY_MAX_S:.0f} s; see {path}")
        time.sleep(0.05)
