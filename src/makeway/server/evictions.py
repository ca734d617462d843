"""Evicting a pod: a deletion that the disruption budgets of its namespace may refuse."""

from makeway.api.batch import PodDisruptionBudget
from makeway.api.codec import decode_as
from makeway.api.kinds import BUDGETS, PODS
from makeway.server import errors
from makeway.server.messages import decode
from makeway.server.objects import Document, Target
from makeway.server.options import DeleteOptions, Options
from makeway.server.patch import MERGE_PATCH
from makeway.server.verbs import Verbs
from makeway.store import Store


async def evict(verbs: Verbs, target: Target, options: DeleteOptions) -> None:
    budgets = _budgets_of(verbs.store, target)
    for budget in budgets:
        if budget.status.disruptions_allowed <= 0:
            raise errors.budget_spent(budget)
    await verbs.delete(target, options)
    if not options.is_dry_run:
        for budget in budgets:
            await _charge(verbs, budget)


def _budgets_of(store: Store, target: Target) -> list[PodDisruptionBudget]:
    """The budgets that say how many pods like this one may be disrupted."""
    record = store.latest(target.key)
    if record is None:
        raise errors.not_found(PODS, target.name)
    pod: Document = decode(record.body)
    if (pod.get("status") or {}).get("phase") in ("Pending", "Succeeded", "Failed"):
        return []  # nothing runs that could be disrupted
    labels = pod["metadata"].get("labels") or {}
    found = []
    for kept in store.scan(BUDGETS.full_name, target.namespace):
        budget = decode_as(PodDisruptionBudget, decode(kept.body)).object
        assert budget is not None, kept.key  # it was checked when it was written
        # An empty selector matches every pod; one that is absent matches none.
        if budget.spec.selector is not None and budget.spec.selector.matches(labels):
            found.append(budget)
    return found


async def _charge(verbs: Verbs, budget: PodDisruptionBudget) -> None:
    """Count an eviction until the budget's controller counts again."""
    metadata, left = budget.metadata, budget.status.disruptions_allowed - 1
    target = Target(BUDGETS, "v1", metadata.namespace, metadata.name, "status")
    patch = {"status": {"disruptionsAllowed": left}}
    await verbs.patch(target, MERGE_PATCH, patch, Options())
