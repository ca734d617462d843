"""What a reader sees of others: that somebody has a place or waits for one, and nothing else of it.

Whether a namespace is a reader's own to look at is asked of the API, as that reader, once per
namespace; the answers are asked for again after a minute. `for_others` is the one place that says
what is left of a row for everybody else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import orjson

from makeway.api.kinds import WORKLOADS, Resource
from makeway.client import Client
from makeway.dashboard.board import NODES_TABLE, QUEUES_TABLE, Fresh
from makeway.dashboard.rows import Row

ASKED_EVERY_S = 60.0
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


class Sight:
    def __init__(
        self,
        client: Client,
        clock: Callable[[], float],
        mask: Callable[[str], str] | None = None,
    ) -> None:
        """`mask` puts another text in the place of a name that others may not know; without it
        names are shown."""
        self._client, self._clock, self._mask = client, clock, mask
        self._sees: dict[str, bool] = {}
        self._asked_at = clock()

    async def begin(self) -> None:
        """Find out whether the reader is let in at all, and sees everything."""
        self._sees[EVERYWHERE] = await self._ask(EVERYWHERE)

    async def shown(self, rows: Sequence[Fresh]) -> Sequence[Fresh]:
        """Rows as this reader sees them."""
        if self._sees[EVERYWHERE]:
            return rows
        await self._learn(namespace for row in rows for namespace in _namespaces(row))
        return [self._one(row) for row in rows]

    async def has_changed(self) -> bool:
        """Whether the reader may see more or less than a minute ago."""
        if self._clock() - self._asked_at < ASKED_EVERY_S:
            return False
        self._asked_at = self._clock()
        return any([sees != await self._ask(name) for name, sees in self._sees.items()])

    async def _learn(self, namespaces: Iterable[str]) -> None:
        """Find out about those that are not known yet."""
        for namespace in dict.fromkeys(namespaces):
            if namespace not in self._sees:
                self._sees[namespace] = await self._ask(namespace)

    async def _ask(self, namespace: str) -> bool:
        attributes = {
            "verb": "list",
            "group": WORKLOADS.group,
            "resource": WORKLOADS.plural,
            "namespace": namespace,
        }
        review = {
            "apiVersion": _REVIEWS.api_version,
            "kind": _REVIEWS.kind,
            "spec": {"resourceAttributes": attributes},
        }
        answer = await self._client.create(_REVIEWS, review)
        return bool((answer.get("status") or {}).get("allowed"))

    def _one(self, row: Fresh) -> Fresh:
        if row.table == QUEUES_TABLE and row.body:
            return row._replace(body=self._with_own_doors(row.body))
        if row.table == NODES_TABLE and row.body and self._mask is not None:
            return row._replace(body=self._with_masked_pods(row.body))
        if not row.namespace or self._sees[row.namespace]:
            return row
        key = self._masked(row.key)
        return row._replace(key=key, body=row.body and self._of_others(row.body, key))

    def _of_others(self, body: bytes, key: str) -> bytes:
        row = for_others(orjson.loads(body))
        if self._mask is not None:
            row |= {"key": key, "name": f"of {row['user'] or row['namespace']}"}
        return orjson.dumps(row)

    def _with_own_doors(self, body: bytes) -> bytes:
        """A queue with the LocalQueues that the reader could use, or look at."""
        row = orjson.loads(body)
        row["localQueues"] = [own for own in row["localQueues"] if self._sees[own["namespace"]]]
        return orjson.dumps(row)

    def _with_masked_pods(self, body: bytes) -> bytes:
        row = orjson.loads(body)
        for pod in row["pods"]:
            namespace = pod["pod"].partition("/")[0]
            if not self._sees[namespace]:
                pod |= {"pod": namespace, "job": pod["job"] and self._masked(pod["job"])}
        return orjson.dumps(row)

    def _masked(self, key: str) -> str:
        """The key of a job, which has its name in it."""
        if self._mask is None:
            return key
        kind, namespace, _ = key.split("/")
        return f"{kind}/{namespace}/{self._mask(key)}"


def _namespaces(row: Fresh) -> Iterator[str]:
    """All that have something in a row."""
    if row.namespace:
        yield row.namespace
    elif row.body and row.table == QUEUES_TABLE:
        yield from (own["namespace"] for own in orjson.loads(row.body)["localQueues"])
    elif row.body and row.table == NODES_TABLE:
        yield from (pod["pod"].partition("/")[0] for pod in orjson.loads(row.body)["pods"])


def for_others(row: Row) -> Row:
    """A job of a namespace that the reader may not look into: no reasons, nodes or classes."""
    empty = {name: type(value)() if value is not None else None for name, value in row.items()}
    return {**empty, **{name: row[name] for name in _SHOWN}}
