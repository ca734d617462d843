"""share the machine among accounts and groups, in a line

Say who owns how much, and have the queues made: NAME is an account or a Unix group
(%NAME where there are both), the number counts GPUs, on a machine without any CPUs; of
everything else each gets as large a part. With --borrow, who needs more uses what others
leave, and gives it back when they want it; what is shared out to nobody is there for
all. NAME=2..4 owns 2 and never uses more than 4. What is said is all there is: a share
that is not named again is removed, and its jobs that run go on. Every member finds a
queue with the name of the share. For admins.

Without a share: who owns, uses and lends how much, for everybody.

examples:
  makeway share vision=4 speech=4 --borrow
  makeway share ada=2 bob=2..4 cem=0..2 --borrow
  makeway share ada=2 bob=2 cem=4 --dry-run
  makeway share

exit codes:
  0  done     1  more than there is, no such account, the server refused     2  wrong usage
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from makeway.api.batch import Node
from makeway.api.kinds import QUEUES
from makeway.api.labels import SHARE
from makeway.api.manifests import write_yaml
from makeway.api.quantity import format_amount
from makeway.api.queueing import ClusterQueue
from makeway.cli import connect
from makeway.cli.command import UsageError
from makeway.cli.shares import (
    Share,
    capacity_of,
    check_sum,
    command_of,
    counted_in,
    objects_of,
    order_of,
    shares_of,
    standing_of,
)
from makeway.cli.tables import print_document, print_table
from makeway.cli.views import fetch_all
from makeway.client import Client


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shares", metavar="NAME=N[..MOST]", nargs="*", help="who owns how much")
    parser.add_argument("--borrow", action="store_true", help="use what others leave")
    parser.add_argument("--dry-run", action="store_true", help="print the objects, change nothing")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    connect.add_arguments(parser, has_namespace=False)


def run(arguments: argparse.Namespace) -> int:
    if (arguments.borrow or arguments.dry_run) and not arguments.shares:
        raise UsageError("say who owns how much: makeway share vision=4 speech=4 --borrow")

    async def story(client: Client, _: str) -> int:
        capacity = capacity_of(await fetch_all(client, Node))
        counted = counted_in(capacity)
        if not arguments.shares:
            return await _show(client, counted, arguments.output)
        shares = shares_of(arguments.shares, counted)
        if not arguments.borrow and any(share.most is not None for share in shares):
            raise UsageError("who may use more than his own borrows: add --borrow")
        check_sum(shares, counted, capacity)
        objects = list(objects_of(shares, capacity, may_borrow=arguments.borrow))
        if arguments.dry_run:
            print("---\n".join(write_yaml(document) for _, document in objects), end="")
            return 0
        for resource, document in objects:
            await client.apply(resource, document, force=True)
        for name in await _remove_others(client, shares):
            print(f"removed the share {name}; its jobs that run go on")
        for share in shares:
            sort, _, whose = share.whose.partition(":")
            print(f"{sort} {whose} owns {format_amount(counted, share.amount)} {counted}")
        return 0

    return connect.converse(arguments, story)


async def _remove_others(client: Client, shares: Sequence[Share]) -> list[str]:
    named = {share.name for share in shares}
    listed = await client.list(QUEUES, label_selector=f"{SHARE}=true")
    gone = [q["metadata"]["name"] for q in listed.items if q["metadata"]["name"] not in named]
    for name in gone:
        await client.delete(QUEUES, name)
    return gone


async def _show(client: Client, counted: str, output: str) -> int:
    queues = await fetch_all(client, ClusterQueue, label_selector=f"{SHARE}=true")
    found = [standing_of(queue, counted) for queue in sorted(queues, key=order_of)]
    if output == "json":
        items = [standing.as_row() for standing in found]
        print_document("json", {"countedIn": counted, "items": items})
        return 0
    if not found:
        print("nothing is shared out; for example: makeway share vision=4 speech=4 --borrow")
        return 0
    rows = []
    for s in found:
        most = "-" if s.most is None else format_amount(counted, s.most)
        uses = (format_amount(counted, size) for size in (s.uses, s.borrows, s.lends))
        owns = format_amount(counted, s.owns)
        rows.append([s.name, s.whose, owns, most, *uses, str(s.waiting)])
    print_table(("SHARE", "WHOSE", "OWNS", "MOST", "USES", "BORROWS", "LENDS", "WAITING"), rows)
    print(f"in {counted}; as a command: {command_of(found, counted)}")
    return 0
