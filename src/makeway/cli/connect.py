"""Finding the server, and talking to it from a command."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from makeway.cli.command import Refusal, Trouble
from makeway.client import ApiError, Client, NotFound, Resource, Unavailable
from makeway.client.kubeconfig import (
    CLUSTER,
    Access,
    KubeconfigError,
    default_folder,
    kubeconfig_in,
    read_kubeconfig,
)
from makeway.client.transport import Unreachable

EXIT_REFUSED = 1
ATTEMPTS = 3  # somebody sits and waits
NAME_MAX = 253

Story = Callable[[Client, str], Awaitable[int]]  # the text is the namespace


def add_arguments(parser: argparse.ArgumentParser, *, has_namespace: bool = True) -> None:
    if has_namespace:
        parser.add_argument("-n", "--namespace", help="namespace (default: the kubeconfig's)")
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="server to talk to (default: $KUBECONFIG if it names Makeway, else the data folder's)",
    )
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="data folder of `makeway up`")


def find_access(arguments: argparse.Namespace) -> Access:
    """The server that was named, or Makeway's own."""
    try:
        if arguments.kubeconfig is not None:
            return read_kubeconfig(arguments.kubeconfig)
        if arguments.data_dir is None:
            for name in os.environ.get("KUBECONFIG", "").split(os.pathsep):
                if name and Path(name).exists():
                    access = read_kubeconfig(Path(name))
                    if access.cluster == CLUSTER:
                        return access
        return read_kubeconfig(own_kubeconfig(arguments))
    except KubeconfigError as error:
        raise Trouble(str(error)) from None


def own_kubeconfig(arguments: argparse.Namespace) -> Path:
    path = kubeconfig_in(arguments.data_dir or default_folder())
    if not path.exists():
        raise Trouble(f"{path} is not there; start a server with `makeway up`, or name one")
    return path


def converse(arguments: argparse.Namespace, story: Story) -> int:
    """Run a command's part with a client; refusals become a line and exit code 1."""
    access = find_access(arguments)
    namespace = getattr(arguments, "namespace", None) or access.namespace
    if not is_name(namespace):
        raise Trouble(f"{namespace!r} can't be the name of a namespace")
    # What the client logs about its attempts is for servers; a user gets a sentence in the end.
    logging.getLogger("makeway").addHandler(logging.NullHandler())

    async def run() -> int:
        client = Client(access.transport(), attempts=ATTEMPTS)
        try:
            return await story(client, namespace)
        finally:
            await client.close()

    try:
        return asyncio.run(run())
    except ApiError as error:
        reason = f" ({error.reason})" if error.reason else ""
        print(f"makeway: error from the server{reason}: {error}", file=sys.stderr)
        return EXIT_REFUSED
    except UnicodeEncodeError as error:
        raise Trouble(f"{error.object!r} is not text in UTF-8") from None
    except (Unavailable, Unreachable) as error:
        raise Trouble(f"no answer from {access.address}: {error}; is `makeway up` running?") from (
            None
        )


def show_warnings(client: Client) -> None:
    for text in dict.fromkeys(client.warnings):
        print(f"warning: {text}", file=sys.stderr)
    client.warnings.clear()


async def find_target(client: Client, words: list[str]) -> tuple[Resource, list[str]]:
    """What a user means by `KIND NAME...` or `KIND/NAME`."""
    if not words:
        raise Trouble("name a kind, for example: makeway get jobs")
    kind, slash, name = words[0].partition("/")
    if slash:
        rest = words[1:]
        if any(not word.startswith(f"{kind}/") for word in rest):
            raise Trouble("write either KIND NAME... or KIND/NAME..., of one kind")
        names = [name, *(w.partition("/")[2] for w in rest)]
    else:
        names = words[1:]
    for word in names:
        if not is_name(word):
            raise Refusal(f"{word!r} can't be the name of an object")
    return await client.find_resource(kind), names


def is_name(text: str) -> bool:
    """Could an object have this name? What could not never becomes part of an address, where an
    empty name would mean all objects."""
    return (
        0 < len(text) <= NAME_MAX
        and all(c.isascii() and (c.isalnum() or c in "-.:_") for c in text)
        and text not in (".", "..")
    )


def written(resource: Resource, name: str) -> str:
    """An object as kubectl names it: job.batch/train"""
    kind = f"{resource.singular}.{resource.group}" if resource.group else resource.singular
    return f"{kind}/{name}"


async def is_there(client: Client, resource: Resource, name: str, namespace: str) -> bool:
    try:
        await client.get(resource, name, namespace)
    except NotFound:
        return False
    return True
