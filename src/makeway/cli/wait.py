"""wait until jobs end, or until an object has a condition, exists or is gone

Wait until jobs have ended, and exit as the first of them that failed did. A job that
is evicted has not ended: it comes back. With --for, wait as kubectl does: until
objects have a condition or a value, exist, or are gone.

examples:
  makeway wait 12 13
  makeway wait @ --timeout 1h
  makeway wait job/train --for=condition=Complete --timeout=1h
  makeway wait workload train-1 --for=condition=Admitted
  makeway wait job/train --for=jsonpath={.status.succeeded}=3

exit codes:
  of jobs: 0 on success, else that of the first container that failed; 124 when a job or
  the waiting ran out of time     1  no such job, or it was deleted     2  no server
  with --for: 0  it is so     1  not in time, or there is no such object     2  no server
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from collections.abc import Callable
from typing import Any

from makeway.api.batch import Job
from makeway.api.kinds import Resource
from makeway.cli import connect
from makeway.cli.command import UsageError
from makeway.cli.following import versions_of, wait_for_end
from makeway.cli.references import array_members, find_job
from makeway.cli.spans import span_of
from makeway.client import Client, NotFound
from makeway.client.client import Document
from makeway.translate.job_end import EXIT_TIMED_OUT
from makeway.translate.job_names import job_text

TIMEOUT_S = 30.0  # kubectl's default for conditions
Test = Callable[[Document | None], bool]  # None: there is no such object


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words", metavar="JOB", nargs="+", help="jobs; with --for, KIND NAME... or KIND/NAME"
    )
    parser.add_argument(
        "--for",
        dest="condition",
        metavar="WHAT",
        help="create, delete, condition=NAME[=VALUE], or jsonpath={.path}=VALUE",
    )
    parser.add_argument(
        "--timeout", help="how long, for example 90s (default: 30s with --for, else for ever)"
    )
    connect.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    timeout_s = None if arguments.timeout is None else span_of("--timeout", arguments.timeout)
    if arguments.condition is None:
        return _wait_for_jobs(arguments, timeout_s)
    return _wait_for_condition(arguments, TIMEOUT_S if timeout_s is None else timeout_s)


def _wait_for_jobs(arguments: argparse.Namespace, timeout_s: float | None) -> int:
    """Exits as the first of the jobs does that fails, in the order in which they are named."""

    async def story(client: Client, namespace: str) -> int:
        jobs: list[Job] = []
        for word in arguments.words:
            members = await array_members(client, namespace, word)
            jobs += members or [await find_job(client, namespace, word)]
        codes = []
        try:
            async with asyncio.timeout(timeout_s):
                for job in jobs:
                    ended = await wait_for_end(client, job)
                    print(f"{job_text(job.metadata)} {ended.text}", flush=True)
                    codes.append(ended.code)
        except TimeoutError:
            print("makeway: timed out; the jobs go on", file=sys.stderr)
            return EXIT_TIMED_OUT
        return next((code for code in codes if code), 0)

    return connect.converse(arguments, story, stays=True)


def _wait_for_condition(arguments: argparse.Namespace, timeout_s: float) -> int:
    test = test_of(arguments.condition)

    async def story(client: Client, namespace: str) -> int:
        resource, names = await connect.find_target(client, arguments.words)
        if not names:
            raise UsageError("name an object")
        # Only what is waited for to come may be missing at first.
        if arguments.condition not in ("create", "delete"):
            for name in names:
                await client.get(resource, name, namespace)
        try:
            async with asyncio.timeout(timeout_s):
                for name in names:
                    await _wait(client, resource, name, namespace, test, arguments.condition)
                    print(f"{connect.written(resource, name)} condition met", flush=True)
        except TimeoutError:
            print(f"makeway: timed out waiting for {arguments.condition}", file=sys.stderr)
            return connect.EXIT_REFUSED
        return 0

    return connect.converse(arguments, story, stays=True)


async def _wait(
    client: Client, resource: Resource, name: str, namespace: str, test: Test, condition: str
) -> None:
    where = namespace if resource.is_namespaced else ""
    async for current in versions_of(client, resource, name, where):
        if test(current):
            return
        if current is None and condition != "create":
            raise NotFound(404, "NotFound", f"{connect.written(resource, name)} was deleted")


def test_of(text: str) -> Test:
    """Read what to wait for."""
    if text == "create":
        return lambda document: document is not None
    if text == "delete":
        return lambda document: document is None
    kind, _, rest = text.partition("=")
    if kind == "condition" and rest:
        name, _, value = rest.partition("=")
        return lambda document: _condition(document, name) == (value or "True").lower()
    found = re.fullmatch(r"\{?\.?([\w.\[\]-]+)\}?(?:=(.*))?", rest) if kind == "jsonpath" else None
    if found is None:
        raise UsageError(
            f"--for {text}: write create, delete, condition=NAME or jsonpath={{.path}}=VALUE"
        )
    path, wanted = found[1], found[2]
    return lambda document: _matches(_at(document, path), wanted)


def _condition(document: Document | None, name: str) -> str:
    for condition in _at(document, "status.conditions") or ():
        if condition.get("type", "").lower() == name.lower():
            return str(condition.get("status", "")).lower()
    return ""


def _at(document: Any, path: str) -> Any:
    for step in re.findall(r"[^.\[\]]+", path):
        if isinstance(document, list) and step.isdecimal() and int(step) < len(document):
            document = document[int(step)]
        elif isinstance(document, dict):
            document = document.get(step)
        else:
            return None
    return document


def _matches(value: Any, wanted: str | None) -> bool:
    if wanted is None:
        return value is not None
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return value is not None and text == wanted
