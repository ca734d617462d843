"""In which LocalQueue a job goes that was submitted with or without a word about it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from makeway.api.labels import AUTOMATIC, DEFAULT, SHARE_ORDER
from makeway.cli.command import RequestRefused
from makeway.cli.plain import LOCAL_QUEUES, plain
from makeway.client import Client
from makeway.client.client import Document

VARIABLE = "MAKEWAY_QUEUE"


async def choose_queue(client: Client, namespace: str, named: str | None) -> Document:
    """The queue that was named, on the command line or else by a variable; the only one there is;
    the one called `default`; or that of one's first share.
    """
    queues = (await client.list(LOCAL_QUEUES, namespace)).items
    open_ones = {plain(queue).name: queue for queue in queues if not _is_passed_over(queue)}
    wanted = named or os.environ.get(VARIABLE, "")
    if wanted in open_ones:
        return open_ones[wanted]
    if wanted:
        source = "" if named else f" (from {VARIABLE})"
        raise _refusal(f"no LocalQueue {wanted} in namespace {namespace}{source}", queues)
    if len(open_ones) == 1:
        return next(iter(open_ones.values()))
    if DEFAULT in open_ones:
        return open_ones[DEFAULT]
    notes = {name: plain(queue).annotations for name, queue in open_ones.items()}
    shares = [
        (int(noted[SHARE_ORDER]), name)
        for name, noted in notes.items()
        if noted.get(SHARE_ORDER, "").isdecimal()
    ]
    if shares:
        return open_ones[min(shares)[1]]
    raise _refusal(f"name a LocalQueue of namespace {namespace} with -q or {VARIABLE}", queues)


def is_automatic(queue: Document) -> bool:
    """Whether it is the queue that Makeway has as long as nobody has made another."""
    return plain(queue).labels.get(AUTOMATIC) == "true"


def _is_passed_over(queue: Document) -> bool:
    return is_automatic(queue) and queue["spec"].get("stopPolicy", "None") != "None"


def _refusal(problem: str, queues: Sequence[Document]) -> RequestRefused:
    names = sorted(plain(queue).name for queue in queues if not _is_passed_over(queue))
    choice = f"there are: {', '.join(names)}" if names else "there is none; see `makeway apply`"
    if any(map(_is_passed_over, queues)):
        choice += f" ({DEFAULT} is held: others own what it had)"
    return RequestRefused(f"{problem}; {choice}")
