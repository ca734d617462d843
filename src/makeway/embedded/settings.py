"""What `makeway up` was told, and why it may be unable to serve."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from makeway.api.configuration import Configuration
from makeway.client.client import Document
from makeway.disk import Disk
from makeway.journal.recorder import Limits as JournalLimits
from makeway.runner.leavings import DAY_S, Limits
from makeway.server.people import People

HOST = "127.0.0.1"


class CannotServe(Exception):
    """The folder can't be served: in use, damaged, of another version. The text is for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """What a server for every account has of root's."""

    starter: Path  # the socket of whoever runs pods as their accounts
    logs: Path  # what pods print


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    port: int
    is_insecure: bool = False  # plain http
    configuration: Configuration = field(default_factory=Configuration)
    nodes: Sequence[Document] = ()  # to run on; empty: this machine
    has_gpus: bool = True  # those of the machine are handed out; False: another server does
    is_reaper: bool = False  # this process has no children but those that run pods
    kept_days: float = 30.0  # what ended pods leave behind
    kept_bytes: int | None = None  # of what all pods leave; None: by the size of the disk
    has_dashboard: bool = True
    dashboard_port: int | None = None  # None: the one after ours, or a free one if that is taken
    journal: JournalLimits | None = field(default_factory=JournalLimits)  # None: there is none
    has_limits: bool = True  # of memory, CPU and processes; False: they are ignored
    listening: socket.socket | None = None  # where to take connections instead of at the port
    dashboard_listening: socket.socket | None = None  # idem, for the dashboard
    system: System | None = None  # None: pods run as we do
    people: People | None = None  # None: for one account, with one token

    def limits_on(self, disk: Disk) -> Limits:
        max_bytes = disk.leavings_bytes if self.kept_bytes is None else self.kept_bytes
        return Limits(max_bytes, self.kept_days * DAY_S)
