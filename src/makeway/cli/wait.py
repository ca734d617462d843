"""`makeway wait`: until something is so."""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from collections.abc import Callable
from typing import Any

from makeway.api.times import DurationError, parse_duration
from makeway.cli import connect
from makeway.cli.command import Command, Trouble
from makeway.client import Client, NotFound, Reflector, Resource, Synced

Document = dict[str, Any]
Test = Callable[[Document | None], bool]  # None: there is no such object


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", metavar="KIND NAME...", nargs="+", help="or KIND/NAME")
    parser.add_argument(
        "--for",
        dest="condition",
        metavar="WHAT",
        required=True,
        help="create, delete, condition=NAME[=VALUE], or jsonpath={.path}=VALUE",
    )
    parser.add_argument(
        "--timeout", default="30s", help="how long, for example 90s or 1h (default: 30s)"
    )
    connect.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    test = test_of(arguments.condition)
    try:
        timeout_s = parse_duration(arguments.timeout)
    except DurationError:
        raise Trouble(f"--timeout {arguments.timeout}: write for example 90s or 1h") from None

    async def story(client: Client, namespace: str) -> int:
        resource, names = await connect.find_target(client, arguments.words)
        if not names:
            raise Trouble("name an object")
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

    return connect.converse(arguments, story)


async def _wait(
    client: Client, resource: Resource, name: str, namespace: str, test: Test, condition: str
) -> None:
    selector = f"metadata.name={name}"
    where = namespace if resource.is_namespaced else ""
    async for change in Reflector(client, resource, where, field_selector=selector).changes():
        if isinstance(change, Synced):
            current = change.items[0] if change.items else None
        else:
            current = None if change.type == "DELETED" else change.object
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
        raise Trouble(
            f"--for {text}: write create, delete, condition=NAME or jsonpath={{.path}}=VALUE"
        )
    path, wanted = found[1], found[2]
    return lambda document: _matches(_at(document, path), wanted)


def _condition(document: Document | None, name: str) -> str:
    for condition in ((document or {}).get("status") or {}).get("conditions") or ():
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


COMMAND = Command(
    name="wait",
    summary="wait until an object has a condition, exists or is gone",
    description="Wait until objects have a condition or a value, exist, or are gone.",
    examples="""\
examples:
  makeway wait job/train --for=condition=Complete --timeout=1h
  makeway wait workload train-1 --for=condition=Admitted
  makeway wait job/train --for=delete
  makeway wait job/train --for=jsonpath={.status.succeeded}=3

exit codes:
  0  it is so     1  not in time, or there is no such object     2  no server
""",
    add_arguments=add_arguments,
    run=run,
)
