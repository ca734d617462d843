"""run the queues of a Kubernetes cluster

Run the queues of a Kubernetes cluster: suspend Jobs that name a queue, admit
them when there is quota, stop them when others have a better right to it, and
place pods whose schedulerName is makeway, gangs as a whole. Needs the CRDs that
`makeway install` brings. Of several replicas one leads; the others stand by and take over
within seconds when it stops, or some 15 seconds after it has vanished.
Which kinds the server has (gangs, disruption budgets) is looked at when it
starts, and not again.

examples:
  makeway controller                                  # in a pod
  makeway controller --kubeconfig ~/.kube/config --context staging
  makeway controller --config kueue-config.yaml --metrics-address 0.0.0.0:8080
  curl 127.0.0.1:8080/explain/default/job-train-1a2b3 # why does it wait?

exit codes:
  0  stopped by a signal
  2  a file has errors, the address is taken, the server lacks a kind or a right
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import os
import socket
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from makeway.cli.command import UsageError, add_log_options, announce
from makeway.cli.journal_options import add_limits, limits_of
from makeway.cli.up import GC_THRESHOLDS, read_configuration, stop_signal
from makeway.client.kubeconfig import Access, KubeconfigError, access_in_cluster, read_kubeconfig

if TYPE_CHECKING:
    from makeway.api.configuration import Configuration
    from makeway.cluster.controller import Controller, Settings

LEASE_NAME = "makeway-controller"
ADDRESS = "127.0.0.1:8080"
DASHBOARD_PORT = 8082


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="server to work for (default: $KUBECONFIG, the cluster around this pod, or "
        "~/.kube/config)",
    )
    parser.add_argument("--context", default="", help="of the kubeconfig (default: its current)")
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="a Configuration, as Kueue has it"
    )
    parser.add_argument(
        "--lease-namespace",
        metavar="NAMESPACE",
        help="of the Lease by which replicas agree who leads (default: the pod's or kubeconfig's)",
    )
    parser.add_argument(
        "--lease-name", metavar="NAME", default=LEASE_NAME, help=f"(default: {LEASE_NAME})"
    )
    parser.add_argument(
        "--no-leader-election",
        action="store_true",
        help="lead without asking; right only if there is no other replica",
    )
    parser.add_argument(
        "--scheduler-name",
        metavar="NAME",
        default="makeway",
        help="place pods with this schedulerName on nodes (default: makeway)",
    )
    parser.add_argument(
        "--no-placing", action="store_true", help="queues only: leave nodes to other schedulers"
    )
    parser.add_argument(
        "--health-address",
        metavar="HOST:PORT",
        help="where to answer /healthz and /readyz besides, and nothing else (default: nowhere)",
    )
    parser.add_argument(
        "--metrics-address",
        metavar="HOST:PORT",
        default=ADDRESS,
        help="where to answer /healthz, /readyz, /metrics, /explain, /preview, /diff; plain HTTP, "
        f"without a password (default: {ADDRESS})",
    )
    parser.add_argument(
        "--dashboard-port",
        type=int,
        metavar="PORT",
        help="on loopback, for `makeway dashboard`, which forwards it (default: "
        f"{DASHBOARD_PORT}, or a free one if that is taken)",
    )
    parser.add_argument("--no-dashboard", action="store_true", help="serve no dashboard")
    parser.add_argument(
        "--journal",
        type=Path,
        metavar="FILE",
        help="write down what is decided, on a volume of this replica's own (default: nowhere)",
    )
    add_limits(parser)
    add_log_options(parser, default="info")


def run(arguments: argparse.Namespace) -> int:
    port = arguments.dashboard_port
    if port is not None and not 0 <= port <= 65535:
        raise UsageError(f"--dashboard-port {port}: not a port; write 0 to 65535")
    windows = [read_address(arguments.metrics_address, "--metrics-address")]
    if arguments.health_address is not None:
        windows.append(read_address(arguments.health_address, "--health-address"))
    from makeway.cluster.controller import CannotControl
    from makeway.logs import set_up

    set_up(arguments.log_level, arguments.log_format)
    configuration = _configuration(arguments)
    access = find_access(arguments)
    settings = read_settings(arguments, access, configuration)
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        asyncio.run(_control(access, settings, windows, arguments))
    except CannotControl as error:
        raise UsageError(f"{access.address}: {error}") from None
    return 0


def _configuration(arguments: argparse.Namespace) -> Configuration:
    from makeway.api.configuration import Configuration

    if arguments.config is None:
        return Configuration()
    found = read_configuration(arguments.config.parent, arguments.config)
    assert isinstance(found, Configuration), found
    return found


def read_settings(
    arguments: argparse.Namespace, access: Access, configuration: Configuration
) -> Settings:
    from makeway.cluster.controller import Settings
    from makeway.plane.writes import Key

    lease = Key(arguments.lease_namespace or access.namespace, arguments.lease_name)
    return Settings(
        configuration=configuration,
        scheduler="" if arguments.no_placing else arguments.scheduler_name,
        lease=None if arguments.no_leader_election else lease,
        identity=f"{socket.gethostname()}_{uuid.uuid4()}",
        journal=arguments.journal,
        journal_limits=limits_of(arguments),
    )


def find_access(arguments: argparse.Namespace) -> Access:
    """The server that was named, the one around us, or the one that kubectl would talk to."""
    named: Path | None = arguments.kubeconfig
    if named is None:
        paths = os.environ.get("KUBECONFIG", "").split(os.pathsep)
        named = next((Path(path) for path in paths if path and Path(path).exists()), None)
    try:
        if named is None:
            around = access_in_cluster(os.environ)
            if around is not None:
                return around
        return read_kubeconfig(named or Path.home() / ".kube" / "config", arguments.context)
    except KubeconfigError as error:
        raise UsageError(str(error)) from None


class Address(NamedTuple):
    option: str
    host: str
    port: int


def read_address(text: str, option: str) -> Address:
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdecimal()) or int(port) > 65535:
        raise UsageError(f"{option} {text}: write HOST:PORT, as {ADDRESS}")
    return Address(option, host.strip("[]"), int(port))


async def _control(
    access: Access,
    settings: Settings,
    addresses: Sequence[Address],
    arguments: argparse.Namespace,
) -> None:
    """The first address is for all that is told, a second one for probes only."""
    from makeway.cluster.controller import Controller
    from makeway.cluster.window import Window

    stop, controller = stop_signal(), Controller(access.transport, settings)
    async with contextlib.AsyncExitStack() as stack:
        bound, shown = 0, ""
        if not arguments.no_dashboard:
            port = await _opened(stack, controller, access, settings.configuration, arguments)
            shown = f"dashboard on 127.0.0.1:{port}; "
        for place in reversed(addresses):
            window = Window(controller, place.host, place.port, is_whole=place is addresses[0])
            stack.push_async_callback(window.close)
            try:
                bound = await window.open()
            except OSError as error:
                where = f"{place.option} {place.host}:{place.port}"
                raise UsageError(f"{where}: {error.strerror}") from None
        host = addresses[0].host
        where = f"{shown}health and metrics on {host}:{bound}"
        announce(f"makeway controls {access.address}; {where}")
        await controller.run(stop)
    announce("makeway has stopped; jobs that run go on")


async def _opened(
    stack: contextlib.AsyncExitStack,
    controller: Controller,
    access: Access,
    configuration: Configuration,
    arguments: argparse.Namespace,
) -> int:
    """Serve the dashboard until the stack ends; its port."""
    from makeway.cluster.pages import pages

    port: int | None = arguments.dashboard_port
    kept = (configuration, arguments.journal)
    served = pages(controller, access, *kept, port, DASHBOARD_PORT, time.time)
    try:
        return (await stack.enter_async_context(served)).port
    except OSError as error:
        raise UsageError(f"--dashboard-port {port}: {error.strerror}") from None
