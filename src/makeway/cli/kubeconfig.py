"""print the kubeconfig of the server on this machine

Print the kubeconfig that `makeway up` has written, with the server's address, its
certificate and the token. Whoever has it may do everything on that server. Where a
server serves all accounts of the machine, print one without a secret, in which your
own namespace is the default.

examples:
  export KUBECONFIG=$(makeway kubeconfig --path)
  makeway kubeconfig > ~/.kube/makeway

exit codes:
  0  printed     2  no server has run on this data folder
"""

from __future__ import annotations

import argparse
from pathlib import Path

from makeway.cli import connect
from makeway.cli.command import UsageError
from makeway.local_socket import system_socket
from makeway.system.kubeconfig import with_namespace
from makeway.system.paths import Paths


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="data folder of `makeway up`")
    parser.add_argument("--path", action="store_true", help="print where it is, not what it says")


def run(arguments: argparse.Namespace) -> int:
    if arguments.data_dir is None and (shared := connect.shared_access()) is not None:
        return _print_shared(arguments, shared.namespace)
    path = connect.own_kubeconfig(arguments)
    print(path if arguments.path else path.read_text(), end="\n" if arguments.path else "")
    return 0


def _print_shared(arguments: argparse.Namespace, namespace: str) -> int:
    """Of the server for all accounts, whose folders lie below the same root as its socket."""
    path = Paths(system_socket().parents[2]).kubeconfig
    try:
        text = with_namespace(path.read_text(), namespace)
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}") from None
    print(path if arguments.path else text, end="\n" if arguments.path else "")
    return 0
