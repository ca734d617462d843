"""What a reader sees of others: that somebody has a place or waits for one, and nothing else of it.

Whether a namespace is a reader's own to look at is asked of the API, as that reader, once per
namespace; the answers are asked for again after a minute. `for_others` is the one place that says
what is left of a row for everybody else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import orjson

from makeway.api.kinds import WORKLOADS, Resource
from makeway.client import Client
from makeway.dashboard.rows import Row

ASKED_EVERY_S = 60.0
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
    def __init__(self, client: Client, clock: Callable[[], float]) -> None:
        self._client, self._clock = client, clock
        self._sees: dict[str, bool] = {}
        self._asked_at = clock()

    async def learn(self, namespaces: Iterable[str]) -> None:
        """Find out about those that are not known yet."""
        for namespace in dict.fromkeys(namespaces):
            if namespace and namespace not in self._sees:
                self._sees[namespace] = await self._ask(namespace)

    def body(self, namespace: str, body: bytes) -> bytes:
        """A row as this reader sees it; its namespace has been learnt. Empty: it is gone."""
        if not body or not namespace or self._sees[namespace]:
            return body
        return orjson.dumps(for_others(orjson.loads(body)))

    async def has_changed(self) -> bool:
        """Whether the reader may see more or less than a minute ago."""
        if self._clock() - self._asked_at < ASKED_EVERY_S:
            return False
        self._asked_at = self._clock()
        return any([sees != await self._ask(name) for name, sees in self._sees.items()])

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


def for_others(row: Row) -> Row:
    """A job of a namespace that the reader may not look into: no reasons, nodes or classes."""
    empty = {name: type(value)() if value is not None else None for name, value in row.items()}
    return {**empty, **{name: row[name] for name in _SHOWN}}
