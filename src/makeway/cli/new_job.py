"""The Job that `makeway submit` makes of its options."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from makeway.api.labels import (
    GIT_REVISION,
    HOLD,
    NAME,
    NOTIFY,
    PRIORITY_CLASS,
    SHELL_LIMITS,
    SIGNAL,
    SIGNAL_AFTER,
    SUBMITTED_BY,
    SUBMITTED_FROM,
)
from makeway.api.quantity import NANOS_PER_UNIT, is_extended, parse_nanos
from makeway.api.signals import parse_warning
from makeway.cli import connect
from makeway.cli.command import UsageError
from makeway.cli.creating import suffix
from makeway.cli.spans import span_of
from makeway.cli.surroundings import Surroundings, captured, git_revision, shell_limits
from makeway.cli.units import check_amount
from makeway.cli.user import user_name
from makeway.client.client import Document

GPU = "nvidia.com/gpu"
IMAGE = "makeway.dev/local"  # a name only: on one machine no image is pulled
RECEIVERS_MAX = 4  # of --notify
GRACE_S = 30  # as Kubernetes has it
SCRIPTS = (".py", ".sh", ".R", ".jl", ".pl")
NAME_MAX = 40  # of a name made from a command; suffixes of the job and its pods follow
# `$(NAME)` and `$$` mean something in a container's command; what the user typed means itself.
_EXPANDED = re.compile(r"\$(?=[$(])")


def job_of(arguments: argparse.Namespace, command: Sequence[str]) -> Document:
    """Build the Job; UsageError names the option that is wrong."""
    surroundings = _surroundings_of(arguments)
    name = arguments.name or made_up_name(command)
    labels = {PRIORITY_CLASS: arguments.priority, NAME: arguments.name}
    annotations = {
        SUBMITTED_FROM: surroundings.directory,
        SUBMITTED_BY: surroundings.user,
        GIT_REVISION: surroundings.revision,
        HOLD: "true" if arguments.hold else "",
        NOTIFY: _receivers(arguments),
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "labels": {key: value for key, value in labels.items() if value},
            "annotations": {key: value for key, value in annotations.items() if value},
        },
        "spec": {
            "suspend": True,  # the controller starts the job when its Workload is admitted
            "backoffLimit": _at_least("--retries", arguments.retries, 0) or 0,
            **_counts(arguments),
            **_times(arguments),
            "template": {
                **_template_metadata(arguments, surroundings),
                "spec": {
                    **_grace(arguments),
                    "restartPolicy": "Never",
                    "containers": [_container(arguments, command, surroundings)],
                },
            },
        },
    }


def _is_for_cluster(arguments: argparse.Namespace) -> bool:
    """Whether it runs in a container on a node of others, where nothing is as it is here."""
    if arguments.kubeconfig is None or connect.is_own(arguments):
        return False
    if not arguments.image:
        raise UsageError(
            "--image: name one that has the command; a cluster runs containers, and nothing of "
            "this machine is there"
        )
    return True


def _surroundings_of(arguments: argparse.Namespace) -> Surroundings:
    try:
        here = Path.cwd()
    except FileNotFoundError:
        raise UsageError("the current directory is gone; name another with --workdir") from None
    of_here = Surroundings(directory=str(here), user=user_name(), revision=git_revision(here))
    if _is_for_cluster(arguments):
        return replace(of_here, is_where_it_runs=False)
    return replace(
        of_here,
        limits="" if arguments.image else shell_limits(),  # an image has a shell of its own
        environment={} if arguments.no_env else captured(os.environ),
    )


def _template_metadata(arguments: argparse.Namespace, surroundings: Surroundings) -> Document:
    notes = _warning(arguments)
    if surroundings.limits:
        notes[SHELL_LIMITS] = surroundings.limits
    return {"metadata": {"annotations": notes}} if notes else {}


def _container(
    arguments: argparse.Namespace, command: Sequence[str], surroundings: Surroundings
) -> Document:
    variables = {**surroundings.environment, **_pairs("--env", arguments.env)}
    requests = requests_of(arguments)
    # Who asks for so much gets no more, so that nobody takes from others what he never asked for.
    resources = {"requests": requests, "limits": requests}
    container = {
        "name": "main",
        "image": arguments.image or IMAGE,
        "command": [_plain(word) for word in command],
        "workingDir": _directory(arguments, surroundings),
        "env": [{"name": name, "value": _plain(value)} for name, value in variables.items()],
        "resources": {part: amounts for part, amounts in resources.items() if amounts},
    }
    return {key: value for key, value in container.items() if value}


def _directory(arguments: argparse.Namespace, surroundings: Surroundings) -> str:
    """Where it runs; one that was named has to be there, but for a container's own.

    Empty: where the image says.
    """
    if not surroundings.is_where_it_runs:
        return arguments.workdir or ""
    found = os.path.join(surroundings.directory, arguments.workdir or "")
    if arguments.workdir and not arguments.image and not os.path.isdir(found):
        raise UsageError(f"--workdir {arguments.workdir}: there is no such directory")
    return str(Path(found))


def _plain(text: str) -> str:
    """So written that a container's command or variable gets exactly this text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{text!r} is not text in UTF-8") from None
    return _EXPANDED.sub("$$", text)


def requests_of(arguments: argparse.Namespace) -> dict[str, str]:
    """What is asked for, by resource."""
    gpu = arguments.gpu_resource or GPU
    asked = (
        ("--cpu", "cpu", arguments.cpu),
        ("--memory", "memory", arguments.memory),
        ("--gpu", gpu, arguments.gpu),
        *(("--request", *pair) for pair in _pairs("--request", arguments.request).items()),
    )
    requests: dict[str, str] = {}
    for option, resource, text in asked:
        if text is None:
            continue
        check_amount(option, resource, text, is_forced=bool(arguments.force))
        if is_extended(resource) and parse_nanos(text) % NANOS_PER_UNIT:
            raise UsageError(f"{option} {text}: {resource} comes in whole numbers")
        requests[resource] = text
    return requests


def _pairs(option: str, texts: Sequence[str] | None) -> Mapping[str, str]:
    pairs: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"{option} {text}: write NAME=VALUE")
        pairs[name] = value
    return pairs


def _counts(arguments: argparse.Namespace) -> Document:
    parallelism = _at_least("--parallelism", arguments.parallelism, 1)
    completions = _at_least("--completions", arguments.completions, 1)
    if parallelism is None and completions is None:
        return {}
    return {"parallelism": parallelism or 1, "completions": completions or parallelism}


def _at_least(option: str, number: int | None, least: int) -> int | None:
    if number is not None and number < least:
        raise UsageError(f"{option} {number}: write {least} or more")
    return number


def _times(arguments: argparse.Namespace) -> Document:
    times: Document = {}
    if arguments.time_limit is not None:
        times["activeDeadlineSeconds"] = int(span_of("--time-limit", arguments.time_limit))
        if not times["activeDeadlineSeconds"]:
            raise UsageError(f"--time-limit {arguments.time_limit}: write at least 1s")
    if arguments.signal is not None and parse_warning(arguments.signal) is None:
        raise UsageError(f"--signal {arguments.signal}: write a signal and seconds, as USR1@120")
    if arguments.ttl is not None:
        times["ttlSecondsAfterFinished"] = int(span_of("--ttl", arguments.ttl))
    return times


def _receivers(arguments: argparse.Namespace) -> str:
    """Who is to be told of its end, a line each."""
    receivers = arguments.notify or []
    if len(receivers) > RECEIVERS_MAX or any("\n" in found for found in receivers):
        raise UsageError(f"--notify: write a line each, and {RECEIVERS_MAX} at most")
    return "\n".join(receivers)


def _grace(arguments: argparse.Namespace) -> Document:
    """How long it may take to end; a signal before SIGTERM adds its own time."""
    if arguments.grace is None and arguments.signal is None:
        return {}
    grace_s = GRACE_S if arguments.grace is None else int(span_of("--grace", arguments.grace))
    return {"terminationGracePeriodSeconds": grace_s + _lead_s(arguments)}


def _lead_s(arguments: argparse.Namespace) -> int:
    return 0 if arguments.signal is None else int(arguments.signal.partition("@")[2])


def _warning(arguments: argparse.Namespace) -> dict[str, str]:
    """What tells the runner of a signal before SIGTERM, and of the time limit that it precedes."""
    if arguments.signal is None:
        return {}
    told = {SIGNAL: arguments.signal.upper()}
    if arguments.time_limit is not None:
        limit_s = int(span_of("--time-limit", arguments.time_limit))
        told[SIGNAL_AFTER] = str(max(0, limit_s - _lead_s(arguments)))
    return told


def made_up_name(command: Sequence[str]) -> str:
    return f"{_base_name(command)}-{suffix()}"


def _base_name(command: Sequence[str]) -> str:
    """A name for a job: of `python train.py --lr 1` it is `train`."""
    words = [word for word in command if not word.startswith("-")]
    scripts = [word for word in words if Path(word).suffix in SCRIPTS]
    stem = Path((scripts or words or ["job"])[0]).stem
    return re.sub(r"[^a-z0-9-]+", "-", stem.lower()).strip("-")[:NAME_MAX].strip("-") or "job"
