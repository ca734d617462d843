"""get and manage tokens for kubectl and other clients

For a server that serves all accounts of this machine. Without a word after it: print
a token for an hour, in the form in which kubectl and client libraries ask for one
(that is how the kubeconfig of this machine works; nobody has to type it). `create`
makes one with a name that holds longer, for clients elsewhere: it is printed once
and can't be shown again. `list` shows yours, `revoke` ends one: what was opened with
it is cut within a minute.

examples:
  makeway token
  makeway token create --ttl 30d --name ci
  makeway token list
  makeway token revoke ci

exit codes:
  0  done     1  the server refused     2  wrong usage, no such server here
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from makeway.cli.command import RequestRefused, UsageError
from makeway.local_socket import NoAnswer, Refused, ask_locally, system_socket
from makeway.system.kubeconfig import EXEC_VERSION

DEFAULT_TTL = "30d"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=tuple(_ACTIONS), default="get")
    parser.add_argument("names", metavar="NAME", nargs="*", help="of tokens to revoke")
    parser.add_argument("--name", help="of the token to create")
    parser.add_argument("--ttl", metavar="SPAN", help=f"how long it holds (default: {DEFAULT_TTL})")
    parser.add_argument(
        "--all", action="store_true", help="list: of all accounts (admins); revoke: all of yours"
    )
    parser.add_argument("--account", help="revoke: of another account (admins)")


def run(arguments: argparse.Namespace) -> int:
    if arguments.names and arguments.action != "revoke":
        raise UsageError(f"token {arguments.action} takes no NAME; write --name to create one")
    return _ACTIONS[arguments.action](arguments)


def ask(method: str, url: str, body: Any = None) -> dict[str, Any]:
    """What the server for all accounts of this machine answers."""
    found: dict[str, Any] = json.loads(ask_text(method, url, body))
    return found


def ask_text(method: str, url: str, body: Any = None) -> str:
    socket = system_socket()
    if not socket.is_socket():
        text = f"{socket} is not there: no server for all accounts runs on this machine"
        raise UsageError(f"{text} (`sudo makeway up --system` starts one)")
    try:
        return ask_locally(socket, method, url, body)
    except Refused as error:
        raise RequestRefused(str(error)) from None
    except NoAnswer as error:
        raise UsageError(f"no answer from {error}") from None


def _get(_: argparse.Namespace) -> int:
    made = ask("POST", "/tokens", {})
    status = {"token": made["token"], "expirationTimestamp": made["expires"]}
    print(json.dumps({"apiVersion": EXEC_VERSION, "kind": "ExecCredential", "status": status}))
    return 0


def _create(arguments: argparse.Namespace) -> int:
    from makeway.cli.spans import span_of

    if not arguments.name:
        raise UsageError("give the token a name: makeway token create --name ci")
    ttl_s = span_of("--ttl", arguments.ttl or DEFAULT_TTL)
    made = ask("POST", "/tokens", {"name": arguments.name, "ttlSeconds": ttl_s})
    print(made["token"])
    return 0


def _list(arguments: argparse.Namespace) -> int:
    from makeway.cli.tables import print_table

    found = ask("GET", "/tokens?all=true" if arguments.all else "/tokens")["items"]
    head = ("ACCOUNT", "NAME", "MADE", "EXPIRES", "LAST USED")
    print_table(head, [_row(token) for token in found])
    return 0


def _row(token: Mapping[str, Any]) -> list[str]:
    return [
        str(token[key] or "never") for key in ("account", "name", "made", "expires", "lastUsed")
    ]


def _revoke(arguments: argparse.Namespace) -> int:
    if bool(arguments.names) == arguments.all:
        raise UsageError("name the tokens to revoke, or write --all")
    if arguments.all:
        ask("DELETE", "/tokens")
        print("all tokens revoked")
    whose = f"?account={quote(arguments.account)}" if arguments.account else ""
    for name in arguments.names:
        ask("DELETE", f"/tokens/{quote(name, safe='')}{whose}")
        print(f"token {name} revoked")
    return 0


_ACTIONS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "get": _get,
    "create": _create,
    "list": _list,
    "revoke": _revoke,
}
