"""print the kubeconfig of the server on this machine

Print the kubeconfig that `makeway up` has written, with the server's address, its
certificate and the token. Whoever has it may do everything on that server.

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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="data folder of `makeway up`")
    parser.add_argument("--path", action="store_true", help="print where it is, not what it says")


def run(arguments: argparse.Namespace) -> int:
    path = connect.own_kubeconfig(arguments)
    print(path if arguments.path else path.read_text(), end="\n" if arguments.path else "")
    return 0
