"""Nobody waits for what is there: those whom nobody opposes are admitted before long."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from makeway.api.times import parse_time
from tests.simulation.checkers import (
    STALE_S,
    flavors_of,
    has,
    holds_quota,
    is_open,
    name_of,
    quotas_in_use,
)
from tests.simulation.necessity import asked_by, has_room, queue_for
from tests.simulation.observer import (
    LOCAL_QUEUES,
    WORKLOADS,
    Checker,
    Document,
    Truth,
)

LACKS_PODS = "WaitingForReplacementPods"


class IdlenessChecker(Checker):
    """Looks at the most important ones who wait in each tree: if all of them would fit, one must.

    Were there one among them who does not fit, it might have a claim on what is free.
    """

    def __init__(self, patience_s: float = STALE_S, *, waits_for_pods: bool = False) -> None:
        self._patience_s, self._waits_for_pods = patience_s, waits_for_pods
        self._since: dict[tuple[str, ...], float] = {}  # by those who wait in vain

    def later(self, truth: Truth) -> Iterator[str]:
        in_vain = {} if self._is_blocked(truth) else dict.fromkeys(_in_vain(truth))
        self._since = {names: self._since.get(names, truth.now) for names in in_vain}
        for names, since in self._since.items():
            if truth.now - since > self._patience_s:
                yield f"{', '.join(names)} fit since {since:.0f} s, and nobody admits them"

    def _is_blocked(self, truth: Truth) -> bool:
        """Where admission waits for pods, one that is not ready keeps all others waiting."""
        holders = (w for w in truth.all(WORKLOADS) if holds_quota(w))
        return self._waits_for_pods and not all(has(w, "PodsReady") for w in holders)


def _in_vain(truth: Truth) -> Iterator[tuple[str, ...]]:
    waiting = [w for w in truth.all(WORKLOADS) if _is_in_line(w, truth)]
    if not waiting:
        return
    quotas = quotas_in_use(truth)
    by_root: dict[str, list[tuple[Document, str]]] = defaultdict(list)
    for workload in waiting:
        queue = queue_for(workload, truth)
        assert queue is not None
        name = queue["metadata"]["name"]
        by_root[quotas.path(f"queue:{name}")[-1]].append((workload, name))
    for pairs in by_root.values():
        highest = max(w["spec"].get("priority") or 0 for w, _ in pairs)
        first = [pair for pair in pairs if (pair[0]["spec"].get("priority") or 0) == highest]
        if all(
            any(has_room(quotas, name, flavor, asked_by(w)) for flavor in _flavors(w, truth))
            for w, name in first
        ):
            yield tuple(sorted(name_of(w) for w, _ in first))


def _is_in_line(workload: Document, truth: Truth) -> bool:
    status = workload.get("status") or {}
    if holds_quota(workload) or has(workload, "Finished") or has(workload, LACKS_PODS):
        return False
    if workload["spec"].get("active") is False or "deletionTimestamp" in workload["metadata"]:
        return False
    back_at = (status.get("requeueState") or {}).get("requeueAt")
    if back_at is not None and parse_time(back_at) > truth.wall:
        return False
    queue = queue_for(workload, truth)
    place = (workload["metadata"]["namespace"], workload["spec"]["queueName"])
    local = truth.get(LOCAL_QUEUES, place)
    if queue is None or local is None:
        return False
    return is_open(queue, truth) and local["spec"].get("stopPolicy", "None") == "None"


def _flavors(workload: Document, truth: Truth) -> list[str]:
    """Of its queue; without those that are exhausted for it."""
    queue = queue_for(workload, truth)
    assert queue is not None
    history = (workload.get("status") or {}).get("flavorAssignmentHistory") or ()
    exhausted = {line["resourceFlavor"] for line in history if line.get("exhaustedTime")}
    return [name for name in flavors_of(queue) if name not in exhausted]
