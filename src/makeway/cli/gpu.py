"""show which GPU is whose, and take one out of service

Show the GPUs of every node: model, memory, temperature and use where NVML tells (it
is asked in a process of its own, for a few seconds at most), who has it, since when,
and until when at most. A GPU that a process outside of Makeway uses is not handed out
as long as that lasts, and its line says whose process it is.

`drain` takes GPUs out: nobody gets them any more, what runs on them goes on. `undrain`
gives them back. On a cluster, where others hand out GPUs, use `kubectl drain`.

examples:
  makeway gpu
  makeway gpu drain 3
  makeway gpu undrain 3 5 --node gpubox
  makeway gpu -o json | jq '.items[] | select(.state == "free").id'

exit codes:
  0  printed, drained     1  no such GPU or node     2  wrong usage, no server
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from makeway.api.devices import (
    DRAINED,
    GPU_LIST,
    UNAVAILABLE,
    DeviceId,
    format_drained,
    gpus_of,
    parse_drained,
    parse_unavailable,
)
from makeway.api.kinds import NODES
from makeway.api.quantity import QuantityError
from makeway.api.quantity import amount as parsed_amount
from makeway.cli import connect
from makeway.cli.command import RequestRefused, UsageError
from makeway.cli.job_table import Row, moment_text, or_dash
from makeway.cli.spans import span_text
from makeway.cli.tables import Cell, Column, add_output, print_document, print_fitted
from makeway.client import Client, NotFound
from makeway.client.client import Document

ASKING_S = 5.0
PROGRAM = (sys.executable, "-m", "makeway.runner.nvml")
VERBS = ("drain", "undrain")
FREE, HELD, DRAINED_STATE, FOREIGN = "free", "held", "drained", "foreign"
STYLES = {FREE: "green", DRAINED_STATE: "dim", FOREIGN: "red"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="GPU", help="`drain GPU...`, `undrain GPU...`")
    parser.add_argument("--node", default="", help="only of this node (default: all)")
    add_output(parser, ("table", "json", "yaml"))
    connect.add_arguments(parser, has_namespace=False)


def run(arguments: argparse.Namespace) -> int:
    if arguments.words and arguments.words[0] not in VERBS:
        raise UsageError(f"write `makeway gpu`, or one of {', '.join(VERBS)} and GPUs")
    if len(arguments.words) == 1:
        raise UsageError(f"name GPUs: makeway gpu {arguments.words[0]} 3")

    async def story(client: Client, namespace: str) -> int:
        items = await gpu_rows(client, arguments.node)
        if arguments.words:
            return await _drain(client, arguments, items)
        if arguments.output in ("json", "yaml"):
            print_document(arguments.output, {"kind": "GpuList", "items": items})
        else:
            _print(items)
        return 0

    return connect.converse(arguments, story)


# --- the map ---


async def gpu_rows(
    client: Client, node: str = "", *, asks_nvml: bool = True
) -> list[dict[str, Any]]:
    """All GPUs, by node and index, with who has each."""
    nodes = (await client.list(NODES)).items
    named = [one for one in nodes if not node or one["metadata"]["name"] == node]
    if node and not named:
        raise RequestRefused(f"there is no node {node}")
    try:
        jobs = (await client.jobs("", {}))["items"]
    except NotFound:
        raise RequestRefused(
            "this server hands out no GPUs itself; see `kubectl get nodes`"
        ) from None
    items = [item for one in named for item in _of_node(one, jobs)]
    has_real = asks_nvml and any(item["uuid"] for item in items)
    readings = _readings() if has_real else {}
    return [item | readings.get(item["uuid"], {}) for item in items]


def _of_node(node: Document, jobs: list[Row]) -> Iterator[dict[str, Any]]:
    name, annotations = node["metadata"]["name"], node["metadata"].get("annotations") or {}
    holders = {device: job for job in jobs for device in (job["gpusByNode"] or {}).get(name, ())}
    unavailable = parse_unavailable(annotations.get(UNAVAILABLE, ""))
    for device in _devices(node, annotations):
        why, job = unavailable.get(device["id"], ""), holders.get(device["id"])
        yield {
            "node": name,
            **device,
            "state": HELD if job else _state(why),
            "why": why or None,
            "user": job and job["submittedBy"],
            "job": job and (job["id"] if job["id"] is not None else job["name"]),
            "name": job and job["name"],
            "namespace": job and job["namespace"],
            "startedAt": job and job["startedAt"],
            "runSeconds": job and job["runSeconds"],
            "until": job and job["until"],
            "temperature": None,
            "use": None,
            "memoryUsed": None,
        }


def _devices(node: Document, annotations: Mapping[str, str]) -> list[dict[str, Any]]:
    """What its runner knows of them; of declared ones only how many there are."""
    if listed := annotations.get(GPU_LIST):
        known: list[dict[str, Any]] = json.loads(listed)
        return known
    counts = gpus_of(_amounts((node.get("status") or {}).get("capacity") or {}))
    return [
        {"id": index, "resource": resource, "uuid": None, "model": None, "memory": None}
        for resource, count in counts.items()
        for index in range(count)
    ]


def _amounts(written: Mapping[str, Any]) -> dict[str, int]:
    found = {}
    for name, value in written.items():
        try:
            found[name] = parsed_amount(name, value)
        except QuantityError:
            continue
    return found


def _state(why: str) -> str:
    return FREE if not why else DRAINED_STATE if why == DRAINED_STATE else FOREIGN


def _readings() -> dict[str, dict[str, Any]]:
    """How each GPU of this machine is now, by uuid; none where nobody answers in time."""
    try:
        done = subprocess.run(PROGRAM, capture_output=True, timeout=ASKING_S, check=True)
        told = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        print("makeway: NVML does not answer; temperatures and use are not known", file=sys.stderr)
        return {}
    names = ("temperature", "use", "memoryUsed")
    parts = [part for gpu in told for part in (gpu, *gpu["parts"])]
    return {part["uuid"]: {name: part.get(name) for name in names} for part in parts}


# --- the table ---

COLUMNS = (
    Column("NODE", least=6, is_dull=True),
    Column("GPU", least=3),
    Column("MODEL", least=8, goes=2, is_dull=True),
    Column("MEMORY", goes=3, is_dull=True),
    Column("TEMP", goes=4, is_dull=True),
    Column("USE", goes=5, is_dull=True),
    Column("USER", least=6),
    Column("JOB", least=12),
    Column("SINCE"),
    Column("UNTIL", goes=6, is_dull=True),
)


def _print(items: list[dict[str, Any]]) -> None:
    if not items:
        print("there are no GPUs", file=sys.stderr)
        return
    rows = [_cells(item) for item in items]
    told = [i for i, column in enumerate(COLUMNS) if not column.is_dull or _tells(i, rows)]
    print_fitted([COLUMNS[i] for i in told], [[row[i] for i in told] for row in rows])


def _tells(index: int, rows: list[list[Cell | str]]) -> bool:
    """Whether a column says anything: of several nodes which, of real GPUs what NVML knows."""
    found = {row[index] for row in rows}
    return len(found) > 1 or (index > 0 and "-" not in found)


def _cells(item: Mapping[str, Any]) -> list[Cell | str]:
    return [
        item["node"],
        str(item["id"]),
        or_dash(item["model"]),
        _memory(item),
        "-" if item["temperature"] is None else f"{item['temperature']}°C",
        "-" if item["use"] is None else f"{item['use']}%",
        or_dash(item["user"]),
        _holder(item),
        or_dash(span_text(item["runSeconds"])),
        moment_text(item["until"]) if item["until"] else "-",
    ]


def _memory(item: Mapping[str, Any]) -> str:
    if item["memory"] is None:
        return "-"
    whole = f"{item['memory'] / 2**30:.0f}Gi"
    used = item["memoryUsed"]
    return whole if used is None else f"{used / 2**30:.0f}/{whole}"


def _holder(item: Mapping[str, Any]) -> Cell:
    if item["state"] != HELD:
        return Cell(item["why"] or FREE, STYLES[item["state"]])
    number = "" if item["job"] == item["name"] else f"{item['job']} "
    drained = f" ({item['why']})" if item["why"] else ""
    return Cell(f"{number}{item['name'] or ''}{drained}".strip())


# --- drain ---


async def _drain(client: Client, arguments: argparse.Namespace, items: list[dict[str, Any]]) -> int:
    verb, words = arguments.words[0], arguments.words[1:]
    nodes = sorted({item["node"] for item in items})
    if len(nodes) != 1:
        raise UsageError(f"name the node with --node; there are: {', '.join(nodes) or 'none'}")
    known = {str(item["id"]): item["id"] for item in items}
    for word in words:
        if word not in known:
            raise RequestRefused(
                f"there is no GPU {word} on {nodes[0]}; there are: {_names(known)}"
            )
    meant: set[DeviceId] = {known[word] for word in words}

    def change(node: Document) -> Document:
        annotations = node["metadata"].setdefault("annotations", {})
        before = parse_drained(annotations.get(DRAINED, ""))
        after = before | meant if verb == "drain" else before - meant
        annotations[DRAINED] = format_drained(after)
        return node

    await client.update(NODES, nodes[0], edit=change)
    for item in items:
        if item["id"] in meant:
            goes_on = f"; job {item['job']} on it goes on" if item["job"] else ""
            print(f"GPU {item['id']} of {nodes[0]} {verb}ed{goes_on}")
    return 0


def _names(known: Mapping[str, DeviceId]) -> str:
    return ", ".join(known)
