"""open the dashboard in a browser, signed in

Open the pages of `makeway up` in a browser: the machine, queues, jobs, and why each of
them waits. The address has a code that works once, within a minute; the page gets a
session of its own for it, which is good for nothing but the dashboard. With a job, its
page is opened. The server listens on this machine alone; from another one, forward its
port with ssh -L and open the address that --print shows. --sign-out ends all pages that you
have open, wherever; a page of its own has a button for that.

Of a cluster (--kubeconfig), the leading controller's pages are brought to a port of this
machine for as long as the command runs; they show and do what the token of the kubeconfig
may (exec, OIDC, static). A kubeconfig with a certificate has none: name a ServiceAccount.

examples:
  makeway dashboard
  makeway dashboard 12
  makeway dashboard --print
  makeway dashboard --sign-out
  makeway dashboard --kubeconfig ~/.kube/config --context staging
  makeway dashboard --kubeconfig ~/.kube/config --service-account team/viewer

exit codes:
  0  opened, printed or signed out     1  the server has no dashboard, no such job     2  no server
"""

from __future__ import annotations

import argparse
import sys
import webbrowser

from makeway.cli import connect
from makeway.cli.command import UsageError
from makeway.cli.references import HELP, find_target
from makeway.client import Client

HOME = "makeway-system"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", nargs="?", help=HELP)
    parser.add_argument(
        "--print", action="store_true", dest="only_prints", help="print the address, open nothing"
    )
    parser.add_argument("--sign-out", action="store_true", help="end all pages of yours")
    connect.add_arguments(parser)
    cluster = parser.add_argument_group("of a cluster")
    cluster.add_argument("--context", default="", help="of the kubeconfig (default: its current)")
    cluster.add_argument(
        "--service-account",
        metavar="[NAMESPACE/]NAME",
        default="",
        help="whose rights the pages have, by tokens that are made for it (default: your own)",
    )
    cluster.add_argument(
        "--controller-namespace", metavar="NAMESPACE", default=HOME, help=f"(default: {HOME})"
    )
    cluster.add_argument(
        "--port", type=int, metavar="PORT", help="of this machine (default: a free one)"
    )


def run(arguments: argparse.Namespace) -> int:
    is_own = connect.is_own(arguments)
    if not is_own and arguments.port is not None and not 0 <= arguments.port <= 65535:
        raise UsageError(f"--port {arguments.port}: not a port; write 0 to 65535")
    for option in ("port", "service_account"):
        if is_own and getattr(arguments, option):
            raise UsageError(f"--{option.replace('_', '-')} is for clusters; see --kubeconfig")
    if arguments.sign_out and (not is_own or arguments.job):
        why = "no job is named" if is_own else "pages of a cluster end with the command"
        raise UsageError(f"--sign-out: {why}")

    async def story(client: Client, namespace: str) -> int:
        if arguments.sign_out:
            await client.sign_out()
            print("All your pages are signed out.")
            return 0
        page = await _page(client, namespace, arguments.job)
        if not is_own:
            return await _of_cluster(client, page, arguments)
        invitation = await client.invitation()
        _open(f"{invitation['address']}{page}#{invitation['code']}", arguments)
        return 0

    return connect.converse(arguments, story)


async def _page(client: Client, namespace: str, job: str | None) -> str:
    if job is None:
        return "/"
    target = await find_target(client, namespace, job)
    return f"/jobs/{target.kind}/{target.namespace}/{target.name}"


def _open(address: str, arguments: argparse.Namespace) -> None:
    print(address, flush=True)
    if not arguments.only_prints and sys.stdout.isatty():
        webbrowser.open(address)


async def _of_cluster(client: Client, page: str, arguments: argparse.Namespace) -> int:
    """Until somebody ends it."""
    from makeway.cli.cluster_dashboard import relayed
    from makeway.cli.up import stop_signal

    access, stop = connect.find_access(arguments), stop_signal()
    home, account = arguments.controller_namespace, arguments.service_account
    async with relayed(client, access, home, account, arguments.port or 0) as (relay, port):
        _open(f"http://127.0.0.1:{port}{page}#{relay.code()}", arguments)
        print("forwarding until you end this (Ctrl-C)", file=sys.stderr, flush=True)
        await stop.wait()
    return 0
