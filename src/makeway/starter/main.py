"""The starter's process: root, the standard library, no network.

It is started with its settings as one JSON text, which `makeway up --system` made of root's own
settings file. When it ends, pods go on; the next one finds them.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import logging
import os
import resource
import signal
import stat
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from makeway.accounts import closed_accounts
from makeway.clocks import SteadyClock
from makeway.disk import Disk
from makeway.logs import Fields, set_up
from makeway.notify import notify
from makeway.runner import mounting
from makeway.runner.cgroups import Cgroups, processes_of_an_account
from makeway.runner.folders import make_owned
from makeway.runner.leavings import DAY_S, Leavings, Limits
from makeway.runner.local import LocalHost
from makeway.runner.processes import write_whole
from makeway.starter.door import Door
from makeway.starter.homes import AccountHomes
from makeway.starter.table import Rules, Table, login_defaults

log = logging.getLogger("makeway.starter")

SOCKET, LOCK, CLOSED = "starter.sock", "lock", "closed.json"  # in its folder of /run
TIDY_EVERY_S = 60.0
CLOSED_EVERY_S = 30.0
CANNOT_START = 2  # exit code: to try again is of no use
OOM_SCORE_ADJ = "-900"  # whoever is short of memory, jobs go first


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    state: str  # where pods, their homes and their output are
    run: str  # where the socket is
    server_uid: int
    server_gid: int
    allowed: list[str] = field(
        default_factory=list
    )  # accounts with a low uid that run all the same
    uid_min: int | None = None  # None: as the machine has it
    ulimits: Mapping[str, int] = field(
        default_factory=dict
    )  # soft ones, by the names of `dropping`
    has_limits: bool = True  # those of containers are held
    pids_max: int  # of a pod
    account_pids_max: int | None = None  # None: a part of what the machine can have
    guards_gpus: bool = True  # pods are kept from those that they don't hold
    mounts: bool = True  # volumes are where containers want them
    no_new_privileges: bool = False
    kept_days: float = 30.0
    kept_bytes: int | None = None
    log_level: str = "warning"
    log_format: str = "text"


def main(argument: str) -> None:
    settings = Settings(**json.loads(argument))
    set_up(settings.log_level, settings.log_format)
    os.umask(0o027)  # the server's group reads what pods print
    _spare_from_oom()
    with _locked(Path(settings.run) / LOCK):
        asyncio.run(_run(settings))


def _spare_from_oom() -> None:
    """Supervisors have that from us; their containers don't."""
    try:
        Path("/proc/self/oom_score_adj").write_text(OOM_SCORE_ADJ)
    except PermissionError as error:  # root in a container often may not
        log.warning(Fields(oom_score_adj=OOM_SCORE_ADJ, refused=error.strerror))


async def _run(settings: Settings) -> None:
    state, run = Path(settings.state), Path(settings.run)
    nofile, files_max = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files_max, files_max))
    gid = settings.server_gid
    make_owned(state / "logs", 0, gid, stat.S_ISGID | 0o750)
    homes, clock = AccountHomes(state / "homes"), SteadyClock()
    kept = Disk(state).leavings_bytes if settings.kept_bytes is None else settings.kept_bytes
    limits = Limits(kept, settings.kept_days * DAY_S)
    host = LocalHost(
        state,
        _cgroups(settings),
        homes=homes,
        limits=limits,
        clock=clock,
        is_reaper=True,
        keeps_output=lambda _: True,  # the server knows whose it was, and shows it
        mounts=_may_mount(settings),
    )
    table = Table(state / "accounts.json", _rules(settings, nofile))
    door = Door(host, homes, table, clock, {0, settings.server_uid})
    leavings = Leavings(state, limits, clock, homes="homes")
    listening = await door.open(run / SOCKET, gid)
    host.watch(door.noticed)
    notify("READY=1")
    tasks = (door.beat(), _tidy(host, leavings), _tell_closed(run / CLOSED, gid))
    try:
        await _until_told_to_end(*map(asyncio.ensure_future, tasks))
    finally:
        listening.close()
        host.close()


def _rules(settings: Settings, nofile: int) -> Rules:
    rules = login_defaults()
    return replace(
        rules,
        uid_min=rules.uid_min if settings.uid_min is None else settings.uid_min,
        allowed=settings.allowed,
        never=(settings.server_uid,),
        limits={"nofile": nofile, **settings.ulimits},
        no_new_privileges=settings.no_new_privileges,
    )


def _cgroups(settings: Settings) -> Cgroups:
    account_pids_max = settings.account_pids_max
    if account_pids_max is None:
        account_pids_max = processes_of_an_account()
    cgroups = Cgroups.detect(
        pids_max=settings.pids_max,
        account_pids_max=account_pids_max,
        guards_gpus=settings.guards_gpus,
    )
    if settings.guards_gpus and cgroups.guard is None:
        log.warning(Fields(gpus="not guarded", why="the kernel has no means that we may use"))
    return cgroups if settings.has_limits else cgroups.without_limits()


def _may_mount(settings: Settings) -> bool:
    is_possible = settings.mounts and mounting.is_possible()
    if settings.mounts and not is_possible:
        log.warning(Fields(volumes="not mounted", why="the kernel refuses"))
    return is_possible


async def _until_told_to_end(*tasks: asyncio.Future[None]) -> None:
    """A task that fails ends us: whoever started us starts us anew, and pods go on meanwhile."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    stopping: asyncio.Future[Any] = asyncio.ensure_future(stop.wait())
    ends: set[asyncio.Future[Any]] = {stopping, *tasks}
    done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    for end in done:
        end.result()


async def _tidy(host: LocalHost, leavings: Leavings) -> None:
    while True:
        gone, ended = leavings.of_gone(host.states()), host.ended()
        running = host.states().keys() - ended.keys()
        await asyncio.to_thread(leavings.tidy, {**gone, **ended}, running)
        await asyncio.to_thread(leavings.sweep, gone)
        await asyncio.sleep(TIDY_EVERY_S)


async def _tell_closed(path: Path, gid: int) -> None:
    """Accounts that are locked or have expired, which root alone can see, for the server."""
    told: dict[str, str] | None = None
    while True:
        if (closed := await asyncio.to_thread(closed_accounts)) != told:
            write_whole(str(path), json.dumps(closed).encode(), mode=0o640)
            os.chown(path, 0, gid)
            told = closed
        await asyncio.sleep(CLOSED_EVERY_S)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """There is one of us; its pid stands there for whoever wants it to end."""
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    except BlockingIOError:
        print(f"makeway: another starter has {path}", file=sys.stderr)
        raise SystemExit(CANNOT_START) from None
    finally:
        os.close(descriptor)
