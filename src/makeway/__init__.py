"""Makeway decides which batch workloads run now, on which hardware, and who makes way for whom.

From Python: `Client` for commands, `Executor` and `AutoExecutor` for functions.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from makeway.cli.command import RequestRefused, UsageError
    from makeway.client import ApiError, Unavailable
    from makeway.handle.auto import AutoExecutor, FunctionJob
    from makeway.handle.calls import CallFailed
    from makeway.handle.client import Client, Job
    from makeway.handle.executor import Executor
    from makeway.handle.post import JobFailed, JobFuture

__all__ = [
    "ApiError",
    "AutoExecutor",
    "CallFailed",
    "Client",
    "Executor",
    "FunctionJob",
    "Job",
    "JobFailed",
    "JobFuture",
    "RequestRefused",
    "Unavailable",
    "UsageError",
]
_HOMES = {
    "cli.command": ("RequestRefused", "UsageError"),
    "client": ("ApiError", "Unavailable"),
    "handle.auto": ("AutoExecutor", "FunctionJob"),
    "handle.calls": ("CallFailed",),
    "handle.client": ("Client", "Job"),
    "handle.executor": ("Executor",),
    "handle.post": ("JobFailed", "JobFuture"),
}


def __getattr__(name: str) -> Any:
    """Loaded when asked for: every command and every job's supervisor imports this package."""
    from importlib import import_module

    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"makeway.{home}"), name)
    raise AttributeError(f"module 'makeway' has no attribute {name!r}")
