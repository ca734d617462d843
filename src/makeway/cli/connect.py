"""Finding the server, and talking to it from a command."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from makeway.cli.command import RequestRefused, UsageError
from makeway.client import ApiError, Client, Unavailable
from makeway.client.folder import FOLDER_VARIABLE, default_folder, kubeconfig_in, socket_in
from makeway.client.local import LocalTransport, drive, pause
from makeway.client.transport import Answer, Call, Transport, Unreachable

if TYPE_CHECKING:  # a command that asks this machine one question does without these
    from makeway.api.resource import Resource
    from makeway.client.kubeconfig import Access

EXIT_REFUSED = 1
ATTEMPTS = 3  # few, since a user sits and waits
NAME_MAX = 253

Story = Callable[[Client, str], Coroutine[Any, Any, int]]  # the text is the namespace


def add_arguments(parser: argparse.ArgumentParser, *, has_namespace: bool = True) -> None:
    if has_namespace:
        parser.add_argument("-n", "--namespace", help="namespace (default: the kubeconfig's)")
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="server to talk to (default: $KUBECONFIG if it names Makeway, else this machine's for "
        "all accounts if there is one, else the data folder's)",
    )
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="data folder of `makeway up`")


def find_access(arguments: argparse.Namespace) -> Access:
    """The server that was named, or Makeway's own."""
    from makeway.client.kubeconfig import KubeconfigError, read_kubeconfig

    try:
        if arguments.kubeconfig is not None:
            return read_kubeconfig(arguments.kubeconfig, getattr(arguments, "context", ""))
        if arguments.data_dir is None:
            if (chosen := _chosen_access()) is not None and not chosen.is_for_all:
                return chosen
            if (shared := shared_access()) is not None:
                return shared
            if chosen is not None:
                return chosen
        return read_kubeconfig(own_kubeconfig(arguments))
    except KubeconfigError as error:
        raise UsageError(str(error)) from None


def is_own(arguments: argparse.Namespace) -> bool:
    """Whether a `makeway up` is talked to, and not a cluster of others."""
    if _local_socket(arguments) is not None:
        return True
    from makeway.client.kubeconfig import CLUSTER

    return find_access(arguments).cluster == CLUSTER


def _chosen_access() -> Access | None:
    """The Makeway that $KUBECONFIG names; None if it names none."""
    from makeway.client.kubeconfig import CLUSTER, read_kubeconfig

    for name in os.environ.get("KUBECONFIG", "").split(os.pathsep):
        if name and Path(name).exists():
            access = read_kubeconfig(Path(name))
            if access.cluster == CLUSTER:
                return access
    return None


def shared_access() -> Access | None:
    """The server for all accounts; None if there is none, or a folder of one's own is named."""
    from makeway.client.kubeconfig import access_by_socket
    from makeway.local_socket import system_socket

    if FOLDER_VARIABLE in os.environ:
        return None
    path = system_socket()
    return access_by_socket(path, _own_namespace()) if path.is_socket() else None


def is_for_all() -> bool:
    """Whether commands talk to the server for all accounts where no other is named."""
    chosen = _chosen_access()
    return shared_access() is not None if chosen is None else chosen.is_for_all


def _own_namespace() -> str:
    from makeway.accounts import account_of_uid, namespace_of

    account = account_of_uid(os.getuid())
    return "default" if account is None else namespace_of(account)


def _local_socket(arguments: argparse.Namespace) -> tuple[Path, str] | None:
    """Where this machine's server listens for its own account, and the namespace there.

    None: another server is meant, or there is no such socket. In the order of `find_access`.
    """
    if arguments.kubeconfig is not None:
        return None
    folder = arguments.data_dir
    named = [name for name in os.environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    if folder is None and named:
        folder = Path(named[0]).parent
        if len(named) > 1 or kubeconfig_in(folder) != Path(named[0]):
            return None
    if folder is None and FOLDER_VARIABLE not in os.environ:
        from makeway.local_socket import system_socket

        if (shared := system_socket()).is_socket():
            return shared, _own_namespace()
    found = socket_in(folder or default_folder())
    return (found, "default") if found.is_socket() else None


def own_kubeconfig(arguments: argparse.Namespace) -> Path:
    path = kubeconfig_in(arguments.data_dir or default_folder())
    if not path.exists():
        raise UsageError(
            f"{path} is not there; start a server with `makeway up`, or name a cluster: "
            "--kubeconfig FILE"
        )
    return path


class StayingTransport:
    """For commands that stay: a server that went away is waited for, and found where it returns.

    A server that is started again may have another port; its kubeconfig tells.
    """

    def __init__(self, arguments: argparse.Namespace, access: Access) -> None:
        self._arguments, self._access = arguments, access
        self._current = access.transport()
        self._left: list[Transport] = []  # transports to earlier addresses
        self._has_answered = False  # the server has, since it last went away

    @contextlib.asynccontextmanager
    async def send(self, call: Call) -> AsyncIterator[Answer]:
        try:
            async with self._current.send(call) as answer:
                self._has_answered = True
                yield answer
        except Unreachable:
            self._look_again()
            raise

    async def close(self) -> None:
        for transport in (self._current, *self._left):
            await transport.close()

    def _look_again(self) -> None:
        if self._has_answered:
            self._has_answered = False
            text = f"makeway: no answer from {self._access.address}, trying again"
            print(text, file=sys.stderr, flush=True)
        try:
            found = find_access(self._arguments)
        except UsageError:
            return  # a kubeconfig is written when the server is back
        known = self._access
        if (found.address, found.ca, found.token) != (known.address, known.ca, known.token):
            self._left.append(self._current)
            self._access, self._current = found, found.transport()


def converse(
    arguments: argparse.Namespace, story: Story, *, stays: bool = False, is_quick: bool = False
) -> int:
    """Run a command's part with a client; refusals become a line and exit code 1.

    A command that `stays` goes on when the server has gone away and come back. One that `is_quick`
    asks a few questions one after the other: on this machine it needs no event loop.
    """
    local = _local_socket(arguments) if is_quick and not stays else None
    if local is not None:
        with contextlib.suppress(_NotThere):
            return _converse_locally(arguments, story, *local)
    import asyncio
    import logging

    access = find_access(arguments)
    # What the client logs about attempts is for servers; a user gets a sentence in the end.
    logging.getLogger("makeway").addHandler(logging.NullHandler())

    async def run() -> int:
        transport = StayingTransport(arguments, access) if stays else access.transport()
        client = Client(transport, attempts=ATTEMPTS)
        try:
            return await story(client, chosen_namespace(arguments, access.namespace))
        finally:
            await client.close()

    return _told(lambda: asyncio.run(run()), access.address)


def is_up(arguments: argparse.Namespace) -> bool:
    """Whether the server of this machine answers, or of the data folder that is named."""
    found = _local_socket(arguments)
    if found is None:
        return False
    try:
        _expect_somebody(found[0])
    except _NotThere:
        return False
    return True


class _NotThere(Exception):
    """Nobody answers at the socket: left behind by a server that was killed."""


def _converse_locally(
    arguments: argparse.Namespace, story: Story, path: Path, own_namespace: str
) -> int:
    client = Client(LocalTransport(str(path)), attempts=ATTEMPTS, sleep=pause)
    _expect_somebody(path)
    namespace = chosen_namespace(arguments, own_namespace)
    return _told(lambda: drive(story(client, namespace)), str(path))


def _expect_somebody(path: Path) -> None:
    import socket

    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as connection:
        try:
            connection.connect(str(path))
        except OSError as error:
            raise _NotThere from error


def chosen_namespace(arguments: argparse.Namespace, own: str) -> str:
    """The namespace that was named, or else this one."""
    namespace = getattr(arguments, "namespace", None) or own
    if not is_name(namespace):
        raise UsageError(f"{namespace!r} can't be the name of a namespace")
    return namespace


def _told(work: Callable[[], int], address: str) -> int:
    try:
        return work()
    except ApiError as error:
        reason = f" ({error.reason})" if error.reason else ""
        print(f"makeway: error from the server{reason}: {error}", file=sys.stderr)
        return EXIT_REFUSED
    except UnicodeEncodeError as error:
        raise UsageError(f"{error.object!r} is not text in UTF-8") from None
    except (Unavailable, Unreachable) as error:
        if isinstance(error.__cause__, ApiError):
            print(f"makeway: the server can't answer: {error}", file=sys.stderr)
            return EXIT_REFUSED
        why = str(error).removeprefix(f"{address}: ")
        text = f"no answer from {address}: {why}; is `makeway up` running?"
        raise UsageError(text) from None


def show_warnings(client: Client) -> None:
    for text in dict.fromkeys(client.warnings):
        print(f"warning: {text}", file=sys.stderr)
    client.warnings.clear()


async def find_target(client: Client, words: list[str]) -> tuple[Resource, list[str]]:
    """What a user means by `KIND NAME...` or `KIND/NAME`."""
    if not words:
        raise UsageError("name a kind, for example: makeway get jobs")
    kind, slash, name = words[0].partition("/")
    if slash:
        rest = words[1:]
        if any(not word.startswith(f"{kind}/") for word in rest):
            raise UsageError("write either KIND NAME... or KIND/NAME..., of one kind")
        names = [name, *(w.partition("/")[2] for w in rest)]
    else:
        names = words[1:]
    for word in names:
        if not is_name(word):
            raise RequestRefused(f"{word!r} can't be the name of an object")
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
