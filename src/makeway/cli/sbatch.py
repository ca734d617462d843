"""Slurm's `#SBATCH` lines: what they mean here, and which of them mean nothing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from makeway.cli.command import UsageError

DIRECTIVE = "#SBATCH"
_GRES = re.compile(r"gpu(?::(?!\d+$)[^:]+)?(?::(\d+))?$")
_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?$")
_SHORT = {
    "-J": "--job-name",
    "-t": "--time",
    "-c": "--cpus-per-task",
    "-a": "--array",
    "-D": "--chdir",
    "-G": "--gpus",
    "-p": "--partition",
    "-N": "--nodes",
    "-n": "--ntasks",
    "-o": "--output",
    "-e": "--error",
    "-A": "--account",
    "-d": "--dependency",
    "-H": "--hold",
    "-q": "--qos",
}
_FLAGS = frozenset(("--hold", "--requeue", "--no-requeue", "--exclusive"))


class Read(NamedTuple):
    """Our options in place of Slurm's, and what is left of these."""

    options: tuple[str, ...]
    left: tuple[str, ...]  # as they were written


def read_line(where: str, text: str) -> Read:
    """One line of a script, without the `#SBATCH`; UsageError where a value can't be read."""
    try:
        words = shlex.split(text, comments=True)
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from None
    options: list[str] = []
    left: list[str] = []
    while words:
        written, name, value, words = _next(words)
        meaning = _MEANINGS.get(name)
        found = None if meaning is None else meaning(where, value)
        if found is None:
            left.append(written)
        else:
            options += found
    return Read(tuple(options), tuple(left))


def _next(words: Sequence[str]) -> tuple[str, str, str, list[str]]:
    """An option as it was written, its long name, its value, and the words behind it."""
    first, *rest = words
    name, equals, value = first.partition("=")
    if first[:1] == "-" and first[:2] != "--" and len(first) > 2:
        name, equals, value = first[:2], "=", first[2:].removeprefix("=")
    long = _SHORT.get(name, name)
    if equals or long in _FLAGS or not rest or rest[0].startswith("-"):
        return first, long, value, rest
    return f"{first} {rest[0]}", long, rest[0], rest[1:]


Meaning = Callable[[str, str], list[str] | None]  # where and value: our words; None: none


def _as(option: str) -> Meaning:
    return lambda where, value: [option, value]


def _time(where: str, value: str) -> list[str]:
    """Minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS."""
    found = _TIME.fullmatch(value)
    if found is None:
        raise UsageError(f"{where}: --time {value}: Slurm writes HH:MM:SS or D-HH:MM:SS")
    days, *parts = found.groups()
    numbers = [int(part) for part in parts if part is not None]
    if days is not None:
        weights: tuple[int, ...] = (3600, 60, 1)
    else:
        weights = {1: (60,), 2: (60, 1), 3: (3600, 60, 1)}[len(numbers)]
    seconds = int(days or 0) * 86400 + sum(n * w for n, w in zip(numbers, weights, strict=False))
    return ["--time-limit", f"{seconds}s"] if seconds else []  # 0: without limit


def _memory(where: str, value: str) -> list[str]:
    """Slurm counts in MiB, and its G are GiB."""
    found = re.fullmatch(r"(\d+)([KMGT]?)B?", value, re.IGNORECASE)
    if found is None:
        raise UsageError(f"{where}: --mem {value}: write for example 16G")
    return ["--memory", f"{found[1]}{found[2].upper() or 'M'}i"] if int(found[1]) else []


def _gres(where: str, value: str) -> list[str] | None:
    found = _GRES.match(value)
    return None if found is None else ["--gpu", found[1] or "1"]


def _gpus(where: str, value: str) -> list[str]:
    return ["--gpu", value.rpartition(":")[2]]


def _only_one(where: str, value: str) -> list[str] | None:
    """One node and one task are what a job has here anyway."""
    return [] if value in ("1", "1-1") else None


def _export(where: str, value: str) -> list[str] | None:
    return {"NONE": ["--no-env"], "ALL": []}.get(value.upper())


_MEANINGS: Mapping[str, Meaning] = {
    "--job-name": _as("--name"),
    "--time": _time,
    "--mem": _memory,
    "--cpus-per-task": _as("--cpu"),
    "--gres": _gres,
    "--gpus": _gpus,
    "--gpus-per-node": _gpus,
    "--gpus-per-task": _gpus,
    "--array": _as("--array"),
    "--chdir": _as("--workdir"),
    "--hold": lambda where, value: ["--hold"],
    "--nodes": _only_one,
    "--ntasks": _only_one,
    "--ntasks-per-node": _only_one,
    "--export": _export,
}
