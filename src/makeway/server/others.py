"""What people see of others' jobs: that they are there, what they take, and until when at most.

Rows of jobs are made for all of a machine at once; here, and nowhere else, they are cut down for
who reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from makeway.server.messages import Response, decode, encode

GROUP = "visibility.makeway.dev"
# Whose it is, its number, where it stands, what it has, since when and until when at most.
SHOWN = frozenset(
    {
        *("id", "kind", "namespace", "submittedBy", "queue", "clusterQueue", "status", "priority"),
        *("createdAt", "startedAt", "until", "endedAt", "waitSeconds", "runSeconds"),
        *("limitSeconds", "requests", "gpus", "gpuIndexes", "gpusByNode"),
    }
)

Row = Mapping[str, Any]


def for_others(row: Row, *, shows_name: bool) -> dict[str, Any]:
    """A row for who may not look into its namespace; what he may not know is empty."""
    kept = SHOWN | {"name"} if shows_name else SHOWN
    return {key: value if key in kept else _nothing(value) for key, value in row.items()}


def _nothing(value: Any) -> Any:
    return type(value)() if isinstance(value, list | dict) else None


def for_reader(
    response: Response, sees: Callable[[str], bool], *, shows_names: bool, by_name: bool
) -> Response:
    """A list of rows as a reader may have it; `sees` says of a namespace whether it is his to see.

    Where names are hidden, nobody can find others by theirs (`by_name`: that was asked for).
    """
    assert isinstance(response.body, bytes)  # what is streamed would not be cut down
    found = decode(response.body)
    items = []
    for row in found.get("items") or ():
        if sees(row.get("namespace") or ""):
            items.append(row)
        elif shows_names or not by_name:
            items.append(for_others(row, shows_name=shows_names))
    metadata = {k: v for k, v in (found.get("metadata") or {}).items() if k != "unreadable"}
    return replace(response, body=encode({**found, "metadata": metadata, "items": items}))
