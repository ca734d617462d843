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
EVERYWHERE = ""  # in place of a namespace
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
# What has no namespace is looked at by who may list its kind; no namespace has a slash in its name.
_KINDS = {f"/{kind.plural}": kind for kind in (QUEUES, COHORTS, NODES)}
_SCOPES = {
    QUEUES_TABLE: f"/{QUEUES.plural}",
    COHORTS_TABLE: f"/{COHORTS.plural}",
    NODES_TABLE: f"/{NODES.plural}",
}


class Sight:
    """One reader's, on a machine that several people share."""

    def __init__(
        self,
        client: Client,
        clock: Callable[[], float],
        mask: Callable[[str], str] | None = None,
    ) -> None:
        """`mask` puts another text in the place of a name that others may not know; without it
        names are shown."""
        self._client, self._clock, self._mask = client, clock, mask
        self._sees: dict[str, bool] = {}  # by scope: a namespace, or a kind that has none
        self._asked_at = clock()
        self._past: dict[str, bool] = {}  # of namespaces of the past; not kept up, but forgotten
        self._asking, self._asking_of_past = asyncio.Lock(), asyncio.Lock()
        self.version = 0  # another one whenever he may see more or less than before

    async def begin(self) -> None:
        """Find out whether the reader is let in at all, and sees everything."""
        async with self._asking:
            self._take({**self._sees, EVERYWHERE: await self._ask(EVERYWHERE)})

    async def learn(self, scopes: Iterable[str]) -> None:
        """Find out about those that are not known, or not any more."""
        if self._clock() - self._asked_at >= ASKED_EVERY_S:
            await self.renew()
        if self._sees.keys() >= (wanted := {EVERYWHERE, *scopes}):
            return
        async with self._asking:
            self._sees |= await self._answers(sorted(wanted - self._sees.keys()))

    async def renew(self) -> None:
        """Ask again what was asked more than a minute ago."""
        async with self._asking:
            if self._clock() - self._asked_at < ASKED_EVERY_S:
                return
            found = await self._answers(sorted(self._sees))
            self._asked_at = self._clock()
            self._past = {}
            self._take(found)

    async def seen_of(self, namespaces: Iterable[str]) -> frozenset[str]:
        """Those that he may look into. Of the past there are many, so none of them is kept up."""
        await self.learn(())
        wanted = frozenset(namespaces)
        async with self._asking_of_past:
            known = {**self._past, **self._sees}
            self._past |= (found := await self._answers(sorted(wanted - known.keys())))
        return frozenset(filter({**known, **found}.__getitem__, wanted))

    def sees(self, scope: str) -> bool:
        """Of a scope that was learnt."""
        return self._sees[scope]

    def _take(self, found: dict[str, bool]) -> None:
        if any(found[scope] != sees for scope, sees in self._sees.items()):
            self.version += 1
        self._sees = found

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
        namespace = scope if kind is WORKLOADS else EVERYWHERE
        attributes = {
            "verb": "list",
            "group": kind.group,
            "resource": kind.plural,
            "namespace": namespace,
        }
        review = {
            "apiVersion": _REVIEWS.api_version,
            "kind": _REVIEWS.kind,
            "spec": {"resourceAttributes": attributes},
        }
        answer = await self._client.create(_REVIEWS, review)
        return bool((answer.get("status") or {}).get("allowed"))

    # Rows

    def scopes(self, row: Fresh) -> Iterator[str]:
        """What has to be known of the reader to show him a row: all that have something in it."""
        if row.namespace:
            yield row.namespace
        elif row.body and row.table == QUEUES_TABLE:
            yield from (own["namespace"] for own in orjson.loads(row.body)["localQueues"])
        elif row.body and row.table == NODES_TABLE:
            yield from (_namespace(pod["pod"]) for pod in orjson.loads(row.body)["pods"])

    def seen(self, row: Fresh) -> Fresh | None:
        """A row as this reader sees it, its scopes being learnt; None: he doesn't."""
        if self.sees(EVERYWHERE):
            return row
        if row.table == QUEUES_TABLE and row.body:
            return row._replace(body=self._with_own_doors(row.body), change=b"")
        if row.table == NODES_TABLE and row.body and self._mask is not None:
            return row._replace(body=self._with_masked_pods(row.body), change=b"")
        if not row.namespace or self.sees(row.namespace):
            return row
        key = self._masked(row.key)
        return row._replace(key=key, body=row.body and self._of_others(row.body, key), change=b"")

    def _of_others(self, body: bytes, key: str) -> bytes:
        row = for_others(orjson.loads(body))
        if self._mask is not None:
            row |= {"key": key, "name": f"of {row['user'] or row['namespace']}"}
        return orjson.dumps(row)

    def _with_own_doors(self, body: bytes) -> bytes:
        """A queue with the LocalQueues that the reader could use, or look at."""
        row = orjson.loads(body)
        row["localQueues"] = [own for own in row["localQueues"] if self.sees(own["namespace"])]
        return orjson.dumps(row)

    def _with_masked_pods(self, body: bytes) -> bytes:
        row = orjson.loads(body)
        for pod in row["pods"]:
            namespace = _namespace(pod["pod"])
            if not self.sees(namespace):
                pod |= {"pod": namespace, "job": pod["job"] and self._masked(pod["job"])}
        return orjson.dumps(row)

    def _masked(self, key: str) -> str:
        """The key of a job, which has its name in it."""
        if self._mask is None:
            return key
        kind, namespace, _ = key.split("/")
        return f"{kind}/{namespace}/{self._mask(key)}"


class ClusterSight(Sight):
    """One reader's, on a cluster: what he may not list is not there for him."""

    def scopes(self, row: Fresh) -> Iterator[str]:
        if not row.namespace:
            yield _SCOPES[row.table]
        yield from super().scopes(row)

    def seen(self, row: Fresh) -> Fresh | None:
        if not self.sees(row.namespace or _SCOPES[row.table]):
            return None
        if row.namespace or not row.body or self.sees(EVERYWHERE):
            return row
        if row.table == QUEUES_TABLE:
            return row._replace(body=self._with_own_doors(row.body), change=b"")
        return row._replace(body=self._with_own_pods(row.body), change=b"")

    def _with_own_pods(self, body: bytes) -> bytes:
        """A node on which others' pods take room, and have no name."""
        row = orjson.loads(body)
        for pod in row.get("pods", ()):
            if not self.sees(_namespace(pod["pod"])):
                pod |= {"pod": "", "job": ""}
        return orjson.dumps(row)

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


def _scope_of(reference: dict[str, str]) -> str:
    """Who sees the object that a line speaks of; empty: whoever sees the line.

    Names of queues are in the conditions of everybody's own Workloads.
    """
    if reference["kind"] in ("Workload", "Pod"):
        return _namespace(reference["key"])
    return _SCOPES[NODES_TABLE] if reference["kind"] == "Node" else ""


def _namespace(key: str) -> str:
    return key.partition("/")[0]
