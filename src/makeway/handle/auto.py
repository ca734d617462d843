"""`makeway.AutoExecutor`: functions as jobs, for programs written for submitit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from makeway.api.arrays import INDEXES_MAX
from makeway.cli.suggesting import did_you_mean
from makeway.handle.calls import Call
from makeway.handle.client import Client
from makeway.handle.options import Options
from makeway.handle.post import JobFuture, Post
from makeway.translate.job_state import (
    ADMITTED,
    CANCELLED,
    DELETED,
    ENDING,
    EVICTING,
    FAILED,
    RUNNING,
    SUCCEEDED,
)

T = TypeVar("T")
# submitit's names of parameters, as options of ours.
_MEANT: Mapping[str, Callable[[Any], tuple[str, Any]]] = {
    "timeout_min": lambda n: ("time_limit", 60 * n),
    "mem_gb": lambda n: ("memory", f"{n}Gi"),
    "cpus_per_task": lambda n: ("cpu", n),
    "gpus_per_node": lambda n: ("gpu", n),
    "slurm_partition": lambda name: ("queue", name),
}
_LIMIT = "slurm_array_parallelism"
_ONE = ("nodes", "tasks_per_node")  # more than one of them is another kind of job
_STATES = {
    ADMITTED: "CONFIGURING",
    RUNNING: "RUNNING",
    EVICTING: "PREEMPTED",
    ENDING: "COMPLETING",
    SUCCEEDED: "COMPLETED",
    FAILED: "FAILED",
    CANCELLED: "CANCELLED",
    DELETED: "CANCELLED",
}


class FunctionJob(Generic[T]):
    """A function that runs as a job."""

    def __init__(self, client: Client, future: JobFuture[T]) -> None:
        self._client, self._future = client, future

    @property
    def job_id(self) -> str:
        return self._future.job.number or self._future.job.name

    @property
    def state(self) -> str:
        """In Slurm's words; PENDING while it waits, whatever for."""
        return _STATES.get(self._future.job.status, "PENDING")

    def result(self) -> T:
        return self._future.result()

    def exception(self) -> BaseException | None:
        return self._future.exception()

    def done(self) -> bool:
        return self._future.done()

    def wait(self) -> None:
        self._future.exception()

    def cancel(self) -> None:
        self._future.cancel()

    def stdout(self) -> str:
        """What it has printed, on standard output and error, in the order of printing."""
        return self._client.logs(self._future.job)


class AutoExecutor:
    """Calls and outcomes lie in `folder`. A program that ends leaves its jobs alone."""

    def __init__(self, folder: str | Path, client: Client | None = None) -> None:
        self._client = client or Client()
        where = Path(folder)
        where.mkdir(parents=True, exist_ok=True)
        self._post = Post(self._client, where)
        self._options: dict[str, Any] = {}
        self._at_once: int | None = None  # of an array; None: as many as fit

    def update_parameters(self, **parameters: Any) -> None:
        """Parameters of submitit, or options of `makeway.Client.submit`; for what is sent later."""
        options: dict[str, Any] = {}
        for name, value in parameters.items():
            if name in _ONE:
                if value != 1:
                    raise ValueError(f"{name}={value}: a function runs as one process")
            elif name == _LIMIT:
                self._at_once = value
            else:
                option, meant = _option(name, value)
                options[option] = meant
        self._client.arguments(cast(Options, options))
        self._options |= options

    def submit(self, fn: Callable[..., T], *args: Any, **kwargs: Any) -> FunctionJob[T]:
        (job,) = self._send([Call(fn, args, kwargs)], fn)
        return job

    def map_array(self, fn: Callable[..., T], *iterables: Iterable[Any]) -> list[FunctionJob[T]]:
        """A job for each item, made as an array."""
        return self._send([Call(fn, item, {}) for item in zip(*iterables, strict=False)], fn)

    def _send(self, calls: list[Call], fn: Callable[..., T]) -> list[FunctionJob[T]]:
        name, options = getattr(fn, "__name__", type(fn).__name__), cast(Options, self._options)
        jobs: list[FunctionJob[T]] = []
        for start in range(0, len(calls), INDEXES_MAX):
            part = calls[start : start + INDEXES_MAX]
            sent = self._post.send(part, options, name, self._at_once)
            jobs += [FunctionJob(self._client, future) for future in sent]
        return jobs


def _option(name: str, value: Any) -> tuple[str, Any]:
    if name in _MEANT:
        return _MEANT[name](value)
    if name in Options.__annotations__:
        return name, value
    known = (*_MEANT, _LIMIT, *_ONE, *Options.__annotations__)
    raise TypeError(f"no parameter {name!r} means anything here{did_you_mean(name, known)}")
