"""What a reader sees of others: of a machine, that somebody has a place or waits for one, and
nothing else of it; of a cluster, nothing at all.

Whether a namespace is a reader's own to look at is asked of the API, as that reader, once per
namespace; the answers hold for a minute, for all pages that he has open. `for_others` is the one
place that says what is left of a row for everybody else on a machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import orjson

from makeway.api.kinds import COHORTS, NODES, QUEUES, WORKLOADS, Resource
from makeway.client import Client
from makeway.dashboard.board import COHORTS_TABLE, NODES_TABLE, QUEUES_TABLE, Fresh
from makeway.dashboard.rows import Row

ASKED_EVERY_S = 60.0
REVIEWS_AT_ONCE = 8
_REVIEWS = Resource(
    "authorization.k8s.io/v1",
    "selfsubjectaccessreviews",
    "SelfSubjectAccessReview",
    is_namespaced=False,
)
# Of a job: whose it is, its number and name, what it asks for, where it stands, since when.
_SHOWN = frozenset(
    (
        *("key", "kind", "namespace", "name", "id", "user", "queue", "status", "priority"),
        *("created", "admitted", "started", "ended", "until", "asks", "flavors"),
    )
)
EVERYWHERE = ""  # the scope of who may look into all namespaces
# What has no namespace is looked at by who may list its kind; no namespace has a slash in its name.
_KINDS = {f"/{kind.plural}": kind for kind in (QUEUES, COHORTS, NODES)}
_SCOPES = {
    QUEUES_TABLE: f"/{QUEUES.plural}",
    COHORTS_TABLE: f"/{COHORTS.plural}",
    NODES_TABLE: f"/{NODES.plural}",
}


class Sight:
    """One reader's, on a machine that several people share."""

    def __init__(self, client: Client, clock: Callable[[], float]) -> None:
        self._client, self._clock = client, clock
        self._sees: dict[str, bool] = {}  # by scope
        self._asked_at = clock()
        self._asking = asyncio.Lock()
        self.version = 0  # another one whenever he may see more or less than before

    async def learn(self, scopes: Iterable[str]) -> None:
        """Find out about those that are not known yet."""
        if self._sees.keys() >= (wanted := {EVERYWHERE, *scopes}):
            return
        async with self._asking:
            self._sees |= await self._answers(sorted(wanted - self._sees.keys()))

    def sees(self, scope: str) -> bool:
        """Of a scope that was learnt."""
        return self._sees[scope]

    async def renew(self) -> None:
        """Ask again what was asked more than a minute ago."""
        async with self._asking:
            if self._clock() - self._asked_at < ASKED_EVERY_S:
                return
            found = await self._answers(sorted(self._sees))
            self._asked_at = self._clock()
            if found != self._sees:
                self._sees, self.version = found, self.version + 1

    async def _answers(self, scopes: Sequence[str]) -> dict[str, bool]:
        """Who may look into all namespaces is asked about no other."""
        found: dict[str, bool] = {}
        if EVERYWHERE in scopes:
            found[EVERYWHERE] = await self._ask(EVERYWHERE)
        if found.get(EVERYWHERE, self._sees.get(EVERYWHERE, False)):
            found |= {scope: True for scope in scopes if scope not in _KINDS}
        left = [scope for scope in scopes if scope not in found]
        for start in range(0, len(left), REVIEWS_AT_ONCE):
            some = left[start : start + REVIEWS_AT_ONCE]
            answers = await asyncio.gather(*map(self._ask, some))
            found |= dict(zip(some, answers, strict=True))
        return found

    async def _ask(self, scope: str) -> bool:
        kind = _KINDS.get(scope, WORKLOADS)
        attributes = {"verb": "list", "group": kind.group, "resource": kind.plural}
        if kind is WORKLOADS and scope != EVERYWHERE:
            attributes["namespace"] = scope
        review = {
            "apiVersion": _REVIEWS.api_version,
            "kind": _REVIEWS.kind,
            "spec": {"resourceAttributes": attributes},
        }
        answer = await self._client.create(_REVIEWS, review)
        return bool((answer.get("status") or {}).get("allowed"))

    # Rows

    def scopes(self, row: Fresh) -> Iterator[str]:
        """What has to be known of the reader to show him a row."""
        if row.namespace:
            yield row.namespace

    def seen(self, row: Fresh) -> Fresh | None:
        """A row as this reader sees it, its scopes being learnt; None: he doesn't."""
        if not row.body or not row.namespace or self.sees(row.namespace):
            return row
        return row._replace(body=orjson.dumps(for_others(orjson.loads(row.body))))


class ClusterSight(Sight):
    """One reader's, on a cluster: what he may not list is not there for him."""

    def scopes(self, row: Fresh) -> Iterator[str]:
        if row.namespace:
            yield row.namespace
            return
        yield _SCOPES[row.table]
        if row.body:
            yield from _namespaces_in(orjson.loads(row.body))

    def seen(self, row: Fresh) -> Fresh | None:
        if not self.sees(row.namespace or _SCOPES[row.table]):
            return None
        if row.namespace or not row.body or self.sees(EVERYWHERE):
            return row
        return row._replace(body=orjson.dumps(self._without_others(orjson.loads(row.body))))

    def _without_others(self, row: Row) -> Row:
        """A queue with the doors that he sees, a node with pods of others that have no name."""
        if "localQueues" in row:
            doors = [door for door in row["localQueues"] if self.sees(door["namespace"])]
            return {**row, "localQueues": doors}
        if "pods" in row:
            pods = [
                pod if self.sees(_namespace(pod["pod"])) else {**pod, "pod": "", "job": ""}
                for pod in row["pods"]
            ]
            return {**row, "pods": pods}
        return row

    async def pieces(self, lines: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """Lines of text and references, in which what he may not see has no name."""
        refs = [piece for line in lines for piece in line if isinstance(piece, dict)]
        await self.learn(filter(None, map(_scope_of, refs)))
        return [[self._piece(piece) for piece in line] for line in lines]

    def _piece(self, piece: Any) -> Any:
        scope = _scope_of(piece) if isinstance(piece, dict) else ""
        return f"another's {piece['kind'].lower()}" if scope and not self.sees(scope) else piece


def for_others(row: Row) -> Row:
    """A job of a namespace that the reader may not look into: no reasons, nodes or classes."""
    empty = {name: type(value)() if value is not None else None for name, value in row.items()}
    return {**empty, **{name: row[name] for name in _SHOWN}}


def _namespaces_in(row: Row) -> Iterator[str]:
    """Of what a queue or node tells of others."""
    for door in row.get("localQueues", ()):
        yield door["namespace"]
    for pod in row.get("pods", ()):
        yield _namespace(pod["pod"])


def _scope_of(reference: dict[str, str]) -> str:
    """Who sees the object that a line speaks of; empty: whoever sees the line.

    Names of queues are in the conditions of everybody's own Workloads.
    """
    if reference["kind"] in ("Workload", "Pod"):
        return _namespace(reference["key"])
    return _SCOPES[NODES_TABLE] if reference["kind"] == "Node" else ""


def _namespace(key: str) -> str:
    return key.partition("/")[0]
