"""PodDisruptionBudgets: which pods may go without breaking a promise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from makeway.placement.model import Budget, BudgetKey, Pod, PodKey


class Budgets:
    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[BudgetKey, Budget]] = {}
        # Pods that leave by our decision, and that the budget as we saw it does not count yet.
        self._charged: dict[BudgetKey, set[PodKey]] = {}
        # Until a budget changes: the budgets of a pod, and the budgets that match labels.
        self._of_pod: dict[PodKey, tuple[Pod, tuple[Budget, ...]]] = {}
        self._matching: dict[tuple[str, frozenset[tuple[str, str]]], tuple[Budget, ...]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_namespace)

    def put(self, budget: Budget) -> None:
        if self._by_namespace.get(budget.namespace, {}).get(budget.key) == budget:
            return
        self.remove(budget.key)
        self._by_namespace.setdefault(budget.namespace, {})[budget.key] = budget

    def remove(self, key: BudgetKey) -> None:
        self._of_pod.clear()
        self._matching.clear()
        self._charged.pop(key, None)
        for namespace, budgets in self._by_namespace.items():
            if budgets.pop(key, None) is not None:
                if not budgets:
                    del self._by_namespace[namespace]
                return

    def of(self, pod: Pod) -> tuple[Budget, ...]:
        """The budgets that losing this pod is charged to."""
        if pod.namespace not in self._by_namespace:
            return ()
        known = self._of_pod.get(pod.key)
        if known is not None and known[0] is pod:
            return known[1]
        name = pod.key.removeprefix(pod.namespace + "/")
        found = tuple(budget for budget in self._match(pod) if name not in budget.disrupted)
        self._of_pod[pod.key] = pod, found
        return found

    def _match(self, pod: Pod) -> tuple[Budget, ...]:
        labels = pod.namespace, frozenset(pod.labels.items())
        if labels not in self._matching:
            budgets = sorted(self._by_namespace[pod.namespace].items())
            self._matching[labels] = tuple(
                budget for _, budget in budgets if budget.selector.matches(pod.labels)
            )
        return self._matching[labels]

    def charge(self, pod: Pod) -> None:
        """Count a pod as lost until its budgets are seen to have changed, or it is gone."""
        for budget in self.of(pod):
            self._charged.setdefault(budget.key, set()).add(pod.key)

    def forget(self, key: PodKey) -> None:
        """The pod is gone, or stays after all."""
        self._of_pod.pop(key, None)
        for charged in self._charged.values():
            charged.discard(key)

    def violations(self, units: Iterable[Sequence[Pod]]) -> list[int]:
        """Charge the pods of these units in turn; return how many of each go beyond a budget."""
        charged = {key: len(pods) for key, pods in self._charged.items()}
        beyond: list[int] = []
        for pods in units:
            count = 0
            for pod in pods:
                is_beyond = False
                for budget in self.of(pod):
                    charged[budget.key] = charged.get(budget.key, 0) + 1
                    is_beyond |= charged[budget.key] > budget.allowed
                count += is_beyond
            beyond.append(count)
        return beyond
