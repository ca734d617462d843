"""`makeway up`: the embedded control plane, in the foreground."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import resource
import signal
from pathlib import Path

from makeway.cli.command import Command, Trouble
from makeway.client.kubeconfig import default_folder

DEFAULT_PORT = 7475  # clients keep what they know of a server by its port, so it stays the same
# Requests leave little garbage in cycles; the default of 700 walks young objects far too often.
GC_THRESHOLDS = (20_000, 20, 50)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="where everything is kept (default: $MAKEWAY_DATA_DIR, or makeway in the data home)",
    )
    parser.add_argument(
        "--port",
        type=int,
        default=DEFAULT_PORT,
        help=f"port on the loopback address; 0 takes a free one (default: {DEFAULT_PORT})",
    )
    parser.add_argument(
        "--insecure-http",
        action="store_true",
        help="plain http instead of TLS; kubectl sends no token then, so only Python clients work",
    )


def run(arguments: argparse.Namespace) -> int:
    if not 0 <= arguments.port <= 65535:
        raise Trouble(f"--port {arguments.port}: not a port; write 0 to 65535")
    logging.basicConfig(
        level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    # The server takes a third of a second to import; no other command should pay for it.
    from makeway.embedded import CannotServe

    folder = arguments.data_dir or default_folder()
    gc.set_threshold(*GC_THRESHOLDS)
    # A watch is an open file; most systems allow more of them than they give at first.
    _, files_max = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files_max, files_max))
    try:
        asyncio.run(_serve(folder, arguments.port, arguments.insecure_http))
    except CannotServe as error:
        raise Trouble(str(error)) from None
    except OSError as error:
        raise Trouble(f"can't serve {folder} on port {arguments.port}: {error}") from None
    return 0


async def _serve(folder: Path, port: int, is_insecure: bool) -> None:
    from makeway.embedded import Settings, serve

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with serve(folder, Settings(port=port, is_insecure=is_insecure)) as running:
        print(f"makeway is ready on {running.address}", flush=True)
        print(f"  export KUBECONFIG={running.kubeconfig}", flush=True)
        await stop.wait()
    print("makeway has stopped", flush=True)


COMMAND = Command(
    name="up",
    summary="run Makeway on this machine: a Kubernetes-compatible API on a file",
    description="""\
Serve a Kubernetes-compatible API on the loopback address, in the foreground,
until Ctrl-C or SIGTERM. Everything lies in one folder: the database, the
certificate, the token and a kubeconfig that only you can read. Point kubectl or
any Kubernetes client at that kubeconfig, or use makeway's own commands, which
find it by themselves.
""",
    examples="""\
examples:
  makeway up
  makeway up --data-dir /srv/makeway --port 0
  KUBECONFIG=$(makeway kubeconfig --path) kubectl get queues -A

exit codes:
  0  stopped by a signal     2  the folder is in use or damaged, the port is taken
""",
    add_arguments=add_arguments,
    run=run,
)
