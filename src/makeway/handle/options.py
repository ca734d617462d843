"""What a job may be given from Python: the options of `makeway submit`, as Python's values."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, TypedDict

from makeway.cli import submit
from makeway.cli.suggesting import did_you_mean

Amount = str | float  # 2, 0.5, "500m", "16Gi"
Span = str | float | timedelta  # "2h", or seconds
Which = str | int | object  # a job: its number, its name, or the job itself


class Options(TypedDict, total=False):
    queue: str
    name: str
    cpu: Amount
    memory: Amount
    gpu: Amount
    gpu_resource: str
    request: Mapping[str, Amount]
    parallelism: int
    completions: int
    priority: str
    retries: int
    time_limit: Span
    grace: Span
    signal: str
    ttl: Span
    env: Mapping[str, str]
    no_env: bool
    workdir: str | Path
    image: str
    after: Which | Sequence[Which]
    after_any: Which | Sequence[Which]
    after_failed: Which | Sequence[Which]
    notify: str | Sequence[str]
    force: bool
    hold: bool


def arguments_of(options: Mapping[str, Any], target: argparse.Namespace) -> argparse.Namespace:
    """As `makeway submit` would have read them; `target` says which server is meant."""
    parser = argparse.ArgumentParser(add_help=False)
    submit.add_arguments(parser)
    arguments = parser.parse_args([], argparse.Namespace(**vars(target)))
    for name, value in options.items():
        if name not in Options.__annotations__:
            hint = did_you_mean(name, Options.__annotations__)
            raise TypeError(f"a job has no option {name!r}{hint}")
        if value is not None:
            setattr(arguments, name, _written(name, value))
    return arguments


def _written(name: str, value: Any) -> Any:
    if name in ("cpu", "memory", "gpu"):
        return str(value)
    if name in ("env", "request"):
        return [f"{key}={text}" for key, text in value.items()]
    if name in ("time_limit", "grace", "ttl"):
        return _span(value)
    if name.startswith("after"):
        return [word_of(which) for which in _several(value)]
    if name == "notify":
        return _several(value)
    return value or None if isinstance(value, bool) else value


def _span(value: Span) -> str:
    if isinstance(value, timedelta):
        value = value.total_seconds()
    return value if isinstance(value, str) else f"{value}s"


def _several(value: Any) -> list[Any]:
    is_one = isinstance(value, str) or not isinstance(value, Iterable)
    return [value] if is_one else list(value)


def word_of(which: Which) -> str:
    """What one would type for a job."""
    return str(getattr(which, "word", which))
