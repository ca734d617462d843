"""The settings of a Makeway for every account: one file of root's, kept across starts.

What a flag of `makeway up --system` says is written there, so that no restart forgets it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Literal

from makeway.api.codec import decode_unconverted, encode
from makeway.api.errors import in_words
from makeway.api.manifests import read_manifests, write_yaml
from makeway.api.schema import Int32, Quantity
from makeway.system.kubeconfig import write_for_all

HEAD = """\
# Settings of Makeway for every account of this machine; `makeway up --system` reads them, and
# writes what its flags say. What is not named here is as the documentation says.
"""


class BadSettings(Exception):
    """The text is for the administrator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ulimits:
    """Soft limits of every job, at most the hard ones; None: as Makeway was started."""

    core: int | None = None
    memlock: int | None = None
    nofile: int | None = None
    nproc: int | None = None
    stack: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PerGpu:
    """What a container gets with each of its GPUs if it asks for none of it; None: nothing."""

    cpu: Quantity | None = None
    memory: Quantity | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemSettings:
    API_VERSION: ClassVar[str] = "makeway.dev/v1"
    KIND: ClassVar[str] = "SystemSettings"

    port: Int32 = 747  # below 1024: no account can sit on it while Makeway is away
    dashboard: bool = True  # false: no pages are served
    dashboard_port: Int32 | None = (
        None  # None: the one after `port`; below 1024 for the same reason
    )
    server_account: str = "makeway"
    uid_min: Int32 | None = None  # None: as /etc/login.defs has it
    allow_accounts: tuple[str, ...] = ()  # with a lower uid, that may run jobs all the same
    admin_groups: tuple[str, ...] = ()  # Unix groups whose members may do what root may here
    show_names: bool = True  # of jobs, to others; false: they see accounts and numbers
    requests_per_second: Int32 = 50  # of one account
    unfinished_jobs: Int32 = 10_000  # of one account, and as many pods
    per_gpu: PerGpu = PerGpu()
    ulimits: Ulimits = Ulimits()
    enforce_limits: bool = True  # false: those of containers are ignored
    pids_per_pod: Int32 = 8192
    pids_per_account: Int32 | None = None  # None: a third of what the machine can have
    guard_gpus: bool = True  # false: jobs can open GPUs that they don't hold
    mount_volumes: bool = True  # false: there are links to them below the scratch folder only
    no_new_privileges: bool = False  # true: setuid programs don't work in jobs
    keep_days: Quantity = Fraction(30)
    keep_size: str = ""  # empty: by the size of the disk
    journal: bool = True  # false: nothing of what is decided is written down
    journal_days: Quantity | None = None  # None: as `makeway up` has it without --system
    journal_size: str = ""  # empty: idem
    log_level: Literal["debug", "info", "warning", "error"] = "warning"
    log_format: Literal["text", "json"] = "text"


def read_settings(path: Path) -> SystemSettings:
    """What the file says; what holds without one if there is none."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return SystemSettings()
    except (OSError, UnicodeDecodeError) as error:
        raise BadSettings(f"{path} can't be read: {in_words(error)}") from None
    found = read_manifests(text, str(path))
    if found.troubles:
        raise BadSettings(str(found.troubles[0]))
    if not found.manifests:
        return SystemSettings()
    if len(found.manifests) > 1:
        raise BadSettings(f"{path}: write one document")
    decoded = decode_unconverted(SystemSettings, found.manifests[0].document)
    if decoded.object is None:
        raise BadSettings("\n".join(f"{path}: {error}" for error in decoded.errors))
    return decoded.object


def pages_port(settings: SystemSettings, api_port: int) -> int | None:
    """Where the dashboard is, beside an API at this port; None: there is none."""
    if not settings.dashboard:
        return None
    default = api_port + 1 if settings.port else 0  # of whom any port is right, any is
    return default if settings.dashboard_port is None else settings.dashboard_port


def remember(path: Path, before: SystemSettings, said: Mapping[str, Any]) -> SystemSettings:
    """The settings with what flags say, written down if that is new."""
    after = replace(before, **said)
    if after != before:
        _write(path, after)
    return after


def _write(path: Path, settings: SystemSettings) -> None:
    usual = encode(SystemSettings())
    told = {name: value for name, value in encode(settings).items() if usual.get(name) != value}
    write_for_all(path, HEAD + (write_yaml(told) if told else ""))
