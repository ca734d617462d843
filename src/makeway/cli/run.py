"""run a command in this terminal, as soon as there is room for it

Wait in a queue for a place like every job, then run the command here: with this
terminal's input, output and size, Ctrl-C and all; without a terminal, with standard
input, output and error kept apart. It has what it asked for, GPUs above all, and
nobody else gets that meanwhile. It takes the options of `makeway submit` that make
sense for one command; --time-limit and --priority too.

It is not started again: who has to make way for somebody else gets SIGTERM, the time
to save his work (--grace), and a line that says for whom. When this terminal goes
away, the command gets SIGHUP. Ctrl-C while it waits cancels it. What it prints is on
the terminal only; `makeway history` has the rest.

examples:
  makeway run --gpu 1 -- bash
  makeway run --cpu 4 --time-limit 2h -- python -i explore.py
  makeway run -q vision -- ./convert < in.csv > out.csv

exit codes:
  that of the command; 143 when it had to make way or was cancelled, 124 when out of
  time, 130 after Ctrl-C while it waited, 1 no such queue, 2 wrong usage, no server
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import socket
import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from makeway.api.batch import Job
from makeway.api.kinds import JOBS
from makeway.api.labels import CANCELLED_BY, ON_PREEMPTION
from makeway.cli import connect, submit
from makeway.cli.command import EXIT_INTERRUPTED, UsageError
from makeway.cli.creating import Creation
from makeway.cli.following import tell_state, wait_for_end
from makeway.cli.new_job import job_of, made_up_name
from makeway.cli.pairing import Pairing
from makeway.cli.user import user_name
from makeway.cli.views import view_of
from makeway.client import Client
from makeway.client.client import Document
from makeway.translate.job_end import JobEnd
from makeway.translate.job_names import job_text

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
# Options of `submit` that have no meaning for one command in a terminal.
_NOT_HERE = (
    *("array", "follow", "wait", "dry_run", "preview", "hold", "image", "retries", "output"),
    *("parallelism", "completions"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    submit.add_arguments(parser)
    for action in parser._actions:
        if action.dest in _NOT_HERE:
            action.help = argparse.SUPPRESS


def run(arguments: argparse.Namespace) -> int:
    for name in _NOT_HERE:
        if getattr(arguments, name) is not None:
            raise UsageError(f"--{name.replace('_', '-')} is for `makeway submit`")
    if not connect.is_own(arguments):
        raise UsageError("the terminal is here, and the cluster is not; use kubectl")
    command = submit.command_of(arguments)
    with _listening() as (path, listener):
        handover = [sys.executable, "-m", "makeway.cli.handover", str(path), *command]
        job = job_of(arguments, handover)
        _complete(job, arguments, command)

        async def story(client: Client, namespace: str) -> int:
            await submit.look_up(client, namespace, arguments, job)
            forced = bool(arguments.force)
            await submit.refuse_hopeless(client, namespace, job, is_forced=forced)
            (made,) = await Creation(client, namespace, job, None).run(is_own=True)
            return await _attend(client, view_of(Job, made), listener)

        return connect.converse(arguments, story, stays=True)


def _complete(job: Document, arguments: argparse.Namespace, command: list[str]) -> None:
    """It runs once; and it is called by what it runs, not by what begins it."""
    job["metadata"]["annotations"][ON_PREEMPTION] = "Terminate"
    if not arguments.name:
        job["metadata"]["name"] = made_up_name(command)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    named = {variable["name"] for variable in container.get("env") or ()}
    if "TERM" in os.environ and "TERM" not in named:
        told = {"name": "TERM", "value": os.environ["TERM"]}
        container["env"] = [*(container.get("env") or ()), told]


@contextlib.contextmanager
def _listening() -> Iterator[tuple[Path, socket.socket]]:
    """A socket in a folder that only we can open."""
    with (
        tempfile.TemporaryDirectory(prefix="makeway-run-") as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener,
    ):
        path = Path(folder) / "line"
        listener.bind(str(path))
        listener.listen(1)
        listener.setblocking(False)
        yield path, listener


async def _attend(client: Client, job: Job, listener: socket.socket) -> int:
    loop = asyncio.get_running_loop()
    ending = asyncio.create_task(wait_for_end(client, job))
    telling = asyncio.create_task(tell_state(client, job))
    calling = asyncio.create_task(_called(listener))
    interrupted = asyncio.Event()
    loop.add_signal_handler(signal.SIGINT, interrupted.set)
    waiting = asyncio.create_task(interrupted.wait())
    try:
        await asyncio.wait((ending, calling, waiting), return_when=asyncio.FIRST_COMPLETED)
        if waiting.done() and not calling.done():
            noted = {"metadata": {"annotations": {CANCELLED_BY: user_name()}}}
            await client.patch(JOBS, job.metadata.name, job.metadata.namespace, patch=noted)
            print(f"\nmakeway: {job_text(job.metadata)} cancelled", file=sys.stderr)
            return EXIT_INTERRUPTED
        telling.cancel()
        if calling.done():
            with Pairing(calling.result()) as pairing:
                await pairing.until_over(ending)
        return _told(job, await ending)
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        for task in (ending, telling, calling, waiting):
            task.cancel()


async def _called(listener: socket.socket) -> socket.socket:
    """The job that has begun; anybody else is hung up on."""
    while True:
        line, _ = await asyncio.get_running_loop().sock_accept(listener)
        found = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        if _CREDENTIALS.unpack(found)[1] == os.getuid():
            line.setblocking(True)
            return line
        line.close()


def _told(job: Job, ended: JobEnd) -> int:
    if ended.code:
        print(f"makeway: {job_text(job.metadata)} {ended.text}", file=sys.stderr)
    return ended.code
