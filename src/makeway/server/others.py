"""What people don't learn of others from lists of jobs, where an admin hides names.

Whoever makes the rows has cut them down for the reader; here goes what an admin decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from makeway.server.messages import Response, decode, encode

GROUP = "visibility.makeway.dev"


def discreet(
    response: Response, sees: Callable[[str], bool], *, shows_names: bool, by_name: bool
) -> Response:
    """A list of rows for a reader; `sees` says of a namespace whether it is his to look into.

    Objects that can't be read are named to admins only. Where names are hidden, nobody finds others
    by theirs (`by_name`: that was asked for).
    """
    assert isinstance(response.body, bytes)  # what is streamed would not be looked at
    found = decode(response.body)
    metadata = {k: v for k, v in (found.get("metadata") or {}).items() if k != "unreadable"}
    items = []
    for row in found.get("items") or ():
        if shows_names or sees(row.get("namespace") or ""):
            items.append(row)
        elif not by_name:
            items.append({**row, "name": None})
    return replace(response, body=encode({**found, "metadata": metadata, "items": items}))
