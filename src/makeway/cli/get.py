"""show objects: queues, jobs, workloads, pods …

Show objects of a kind in the columns that users of kubectl and Kueue know. Kinds
go by their name, their plural, or a short name: cq, lq, rf, wl, ns, po.

examples:
  makeway get queues -A
  makeway get jobs -l team=vision -o wide
  makeway get workload/train-1 -o yaml

exit codes:
  0  printed     1  there is no such object or kind     2  no server
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from makeway.api.resource import Resource
from makeway.cli import connect
from makeway.cli.tables import add_output, aligned, print_document
from makeway.client import Client
from makeway.client.client import Document


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words", metavar="KIND [NAME...]", nargs="+", help="a kind and names, or KIND/NAME"
    )
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="of all namespaces")
    parser.add_argument("-l", "--selector", default="", help="only objects with these labels")
    add_output(parser)
    connect.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    async def story(client: Client, namespace: str) -> int:
        resource, names = await connect.find_target(client, arguments.words)
        where = "" if arguments.all_namespaces else namespace
        selector = arguments.selector
        if arguments.output in ("table", "wide"):
            tables = [
                await client.table(resource, name, where, label_selector=selector)
                for name in names or [""]
            ]
            _print_tables(tables, resource, where, arguments)
        elif names:
            items = [await client.get(resource, name, where) for name in names]
            _print_documents(items, resource, arguments, is_one=len(names) == 1)
        else:
            items = (await client.list(resource, where, label_selector=selector)).items
            _print_documents(items, resource, arguments, is_one=False)
        return 0

    return connect.converse(arguments, story, is_quick=True)


def _print_tables(
    tables: list[Document], resource: Resource, namespace: str, arguments: argparse.Namespace
) -> None:
    head = tables[0].get("columnDefinitions") or []
    shown = [
        index
        for index, column in enumerate(head)
        if arguments.output == "wide" or not column["priority"]
    ]
    has_namespace = arguments.all_namespaces and resource.is_namespaced
    rows = [["NAMESPACE"] * has_namespace + [head[index]["name"].upper() for index in shown]]
    for table in tables:
        for row in table.get("rows") or ():
            where = row["object"]["metadata"].get("namespace", "")
            rows.append([where] * has_namespace + [_cell(row["cells"][index]) for index in shown])
    if len(rows) == 1:
        place = f" in namespace {namespace}" if resource.is_namespaced and namespace else ""
        print(f"no {resource.plural}{place}", file=sys.stderr)
        return
    for line in aligned(rows):
        print(line)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _print_documents(
    items: list[Document], resource: Resource, arguments: argparse.Namespace, *, is_one: bool
) -> None:
    if arguments.output == "name":
        for item in items:
            print(connect.written(resource, item["metadata"]["name"]))
        return
    for item in items:
        item["metadata"].pop("managedFields", None)
    listing = {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}
    print_document(arguments.output, items[0] if is_one else listing)
