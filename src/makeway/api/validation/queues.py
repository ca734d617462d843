"""Rules for queues, cohorts, flavors and admission checks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from makeway.api import queueing
from makeway.api.errors import ABSENT, one_of
from makeway.api.quantity import format_amount, format_quantity
from makeway.api.times import format_duration
from makeway.api.validation.findings import Findings, check_count, check_unique
from makeway.api.validation.names import check_key, check_labels, check_name, check_selector
from makeway.api.validation.pods import check_not_negative, check_taints, check_tolerations

GROUPS_MAX = 16
GROUP_ITEMS_MAX = 64
QUEUE_ITEMS_MAX = 256
FLAVOR_ITEMS_MAX = 8  # labels, taints and tolerations of a flavor
CHECKS_MAX = 64
MILESTONES_MAX = 16
BUDGET_MAX = 1000  # each is written down for an hour
WEIGHT_TOO_SMALL = Fraction(1, 10**9)


def check_resource_flavor(flavor: queueing.ResourceFlavor, found: Findings) -> None:
    spec, here = flavor.spec, found.at("spec")
    check_labels(spec.node_labels, here.at("nodeLabels"))
    check_count(len(spec.node_labels), FLAVOR_ITEMS_MAX, "labels", here.at("nodeLabels"))
    check_taints(spec.node_taints, here.at("nodeTaints"))
    check_count(len(spec.node_taints), FLAVOR_ITEMS_MAX, "taints", here.at("nodeTaints"))
    check_tolerations(spec.tolerations, here.at("tolerations"))
    check_count(len(spec.tolerations), FLAVOR_ITEMS_MAX, "tolerations", here.at("tolerations"))


def check_local_queue(queue: queueing.LocalQueue, found: Findings) -> None:
    spec, here = queue.spec, found.at("spec")
    check_name(spec.cluster_queue, here.at("clusterQueue"))
    _check_weight(spec.fair_sharing, here.at("fairSharing"))
    check_milestones(spec.preemption, here.at("preemption"))


def check_cluster_queue(queue: queueing.ClusterQueue, found: Findings) -> None:
    spec, here = queue.spec, found.at("spec")
    rule = QuotaRule(
        parent="cohortName", has_parent=bool(spec.cohort_name), lends_only_nominal=True
    )
    _check_groups(spec.resource_groups, rule, here.at("resourceGroups"))
    check_name(spec.cohort_name, here.at("cohortName"))
    check_selector(spec.namespace_selector, here.at("namespaceSelector"))
    flavors = [flavor.name for group in spec.resource_groups for flavor in group.flavors]
    _check_fungibility(spec.flavor_fungibility, flavors, here.at("flavorFungibility"))
    _check_preemption(spec.preemption, here.at("preemption"))
    _check_times_of_preemption(spec.preemption, here.at("preemption"))
    _check_sorting(spec.preemption.workload_sorting, here.at("preemption", "workloadSorting"))
    _check_aging(spec.aging, here.at("aging"))
    _check_checks(spec.admission_checks_strategy, here.at("admissionChecksStrategy"))
    _check_weight(spec.fair_sharing, here.at("fairSharing"))


def check_cohort(cohort: queueing.Cohort, found: Findings) -> None:
    spec, here = cohort.spec, found.at("spec")
    check_name(spec.parent_name, here.at("parentName"))
    if spec.parent_name and spec.parent_name == cohort.metadata.name:
        hint = "name another cohort, or none"
        here.at("parentName").add(spec.parent_name, "is the cohort itself", hint)
    rule = QuotaRule(parent="parentName", has_parent=bool(spec.parent_name))
    _check_groups(spec.resource_groups, rule, here.at("resourceGroups"))
    _check_weight(spec.fair_sharing, here.at("fairSharing"))


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaRule:
    """What differs between the quotas of a queue and of a cohort."""

    parent: str  # the field that names the cohort to borrow from and lend to
    has_parent: bool
    lends_only_nominal: bool = False


def _check_groups(
    groups: Sequence[queueing.ResourceGroup], rule: QuotaRule, found: Findings
) -> None:
    check_count(len(groups), GROUPS_MAX, "groups", found)
    for what, count in (
        ("resources", sum(len(group.covered_resources) for group in groups)),
        ("flavors", sum(len(group.flavors) for group in groups)),
    ):
        check_count(count, QUEUE_ITEMS_MAX, f"{what} in all groups", found)
    for index, group in enumerate(groups):
        _check_group(group, rule, found.at(index))
    _check_in_one_group(
        (
            (resource, found.at(g, "coveredResources", r), g)
            for g, group in enumerate(groups)
            for r, resource in enumerate(group.covered_resources)
        ),
        "resource",
    )
    _check_in_one_group(
        (
            (flavor.name, found.at(g, "flavors", f, "name"), g)
            for g, group in enumerate(groups)
            for f, flavor in enumerate(group.flavors)
        ),
        "flavor",
    )


def _check_in_one_group(names: Iterable[tuple[str, Findings, int]], what: str) -> None:
    first: dict[str, int] = {}
    for name, found, group in names:
        if name not in first:
            first[name] = group
        elif first[name] == group:
            found.add(name, "is listed twice in this group", f"list each {what} once")
        else:
            hint = f"keep the {what} in one group"
            found.add(name, f"is already in resourceGroups[{first[name]}]", hint)


def _check_group(group: queueing.ResourceGroup, rule: QuotaRule, found: Findings) -> None:
    covered = group.covered_resources
    check_count(len(covered), GROUP_ITEMS_MAX, "resources", found.at("coveredResources"), 1)
    for index, resource in enumerate(covered):
        check_key(resource, found.at("coveredResources", index))
    check_count(len(group.flavors), GROUP_ITEMS_MAX, "flavors", found.at("flavors"), 1)
    for index, flavor in enumerate(group.flavors):
        here = found.at("flavors", index)
        check_name(flavor.name, here.at("name"))
        names = [quota.name for quota in flavor.resources]
        if names != list(covered):
            here.at("resources").add(
                names, "differs from coveredResources", f"list {_all_of(covered)} in this order"
            )
        for number, quota in enumerate(flavor.resources):
            _check_quota(quota, rule, here.at("resources", number))


def _all_of(names: Sequence[str]) -> str:
    return ", ".join(names) if names else "nothing"


def _check_quota(quota: queueing.ResourceQuota, rule: QuotaRule, found: Findings) -> None:
    check_not_negative(quota.name, quota.nominal_quota, found.at("nominalQuota"))
    for name, limit in (
        ("borrowingLimit", quota.borrowing_limit),
        ("lendingLimit", quota.lending_limit),
    ):
        if limit is None:
            continue
        check_not_negative(quota.name, limit, found.at(name))
        if not rule.has_parent:
            hint = f"write spec.{rule.parent}, or remove {name}"
            value = format_amount(quota.name, limit)
            found.at(name).add(value, f"means nothing without {rule.parent}", hint)
    lent = quota.lending_limit
    if rule.lends_only_nominal and lent is not None and lent > max(quota.nominal_quota, 0):
        nominal = format_amount(quota.name, quota.nominal_quota)
        value = format_amount(quota.name, lent)
        hint = f"write at most {nominal}, or remove lendingLimit to lend everything"
        found.at("lendingLimit").add(value, f"is more than nominalQuota ({nominal})", hint)


def _check_weight(sharing: queueing.FairSharing | None, found: Findings) -> None:
    if sharing is not None and sharing.weight < 0:
        found.at("weight").add(format_quantity(sharing.weight), "is negative", "write 0 or more")
    elif sharing is not None and 0 < sharing.weight <= WEIGHT_TOO_SMALL:
        value, hint = format_quantity(sharing.weight), "write 0, or more than 1n"
        found.at("weight").add(value, "is too small to be told from 0", hint)


def _check_fungibility(
    fungibility: queueing.FlavorFungibility, flavors: Sequence[str], found: Findings
) -> None:
    searches_on = fungibility.when_can_borrow == fungibility.when_can_preempt == "TryNextFlavor"
    if fungibility.preference is not None and not searches_on:
        found.at("preference").add(
            fungibility.preference,
            "counts only when the search goes on",
            "write TryNextFlavor for whenCanBorrow and whenCanPreempt, or remove preference",
        )
    strategy = fungibility.fallback_strategy
    if strategy is None:
        return
    here = found.at("fallbackStrategy", "rules")
    for index, rule in enumerate(strategy.rules):
        _check_fallback_rule(rule, flavors, here.at(index))
    triggers = ((f"{rule.name}/{rule.fires_on}", i) for i, rule in enumerate(strategy.rules))
    seen: dict[str, int] = {}
    for key, index in triggers:
        if key in seen:
            problem = f"has a rule for the same trigger already (rules[{seen[key]}])"
            here.at(index, "name").add(strategy.rules[index].name, problem, "keep one of them")
        seen.setdefault(key, index)


def _check_fallback_rule(
    rule: queueing.FallbackRule, flavors: Sequence[str], found: Findings
) -> None:
    if rule.name != queueing.ANY_FLAVOR and rule.name not in flavors:
        hint = f"write {one_of((*flavors, queueing.ANY_FLAVOR))}"
        found.at("name").add(rule.name, "is not a flavor of this queue", hint)
    if rule.timeout is not None and rule.timeout <= 0:
        value = format_duration(rule.timeout)
        found.at("timeout").add(value, "is not positive", 'write for example "10m"')
    if rule.trigger == "AdmissionCheckRejected" and rule.timeout is not None:
        value = format_duration(rule.timeout)
        found.at("timeout").add(value, "means nothing with AdmissionCheckRejected", "remove it")
    if rule.trigger == "TimeoutForPodsReadyExceeded" and rule.timeout is None:
        hint = 'write for example "10m"'
        found.at("timeout").add(ABSENT, "is needed by TimeoutForPodsReadyExceeded", hint)


def _check_preemption(preemption: queueing.ClusterQueuePreemption, found: Findings) -> None:
    borrowing = preemption.borrow_within_cohort
    here = found.at("borrowWithinCohort")
    if borrowing.policy != "Never" and preemption.reclaim_within_cohort == "Never":
        hint = "write LowerPriority or Any for reclaimWithinCohort, or Never here"
        here.at("policy").add(borrowing.policy, "needs reclaimWithinCohort", hint)
    if borrowing.max_priority_threshold is not None and borrowing.policy == "Never":
        here.at("maxPriorityThreshold").add(
            borrowing.max_priority_threshold,
            "means nothing with policy Never",
            "write policy LowerPriority, or remove it",
        )


def _check_times_of_preemption(
    preemption: queueing.ClusterQueuePreemption, found: Findings
) -> None:
    for name, value in (
        ("triggerAfterWorkloadWaitingSeconds", preemption.trigger_after_workload_waiting_seconds),
        ("minRuntimeSeconds", preemption.min_runtime_seconds),
    ):
        if value is not None and value < 0:
            found.at(name).add(value, "is negative", "write a number of seconds, 0 or more")
    budget = preemption.budget
    if budget is not None and not 1 <= budget.evictions_per_hour <= BUDGET_MAX:
        here, hint = found.at("budget", "evictionsPerHour"), f"write 1 to {BUDGET_MAX}"
        here.add(budget.evictions_per_hour, "is no number of evictions", hint)


def _check_sorting(sorting: Sequence[str], found: Findings) -> None:
    check_unique(((word, found.at(index)) for index, word in enumerate(sorting)), "order")
    for index, word in enumerate(sorting):
        if index and word == "ByLowestPriority":
            hint = "put it first, or leave it out: priority comes before the rest in any case"
            found.at(index).add(word, "can't come after another order", hint)
    opposites = {"ByLowestRuntime", "ByLongestRuntime"}
    if opposites <= set(sorting):
        found.add(list(sorting), "has two orders by run time", "keep one of them")


def _check_aging(aging: queueing.Aging | None, found: Findings) -> None:
    if aging is None:
        return
    for name, value in (
        ("everySeconds", aging.every_seconds),
        ("priority", aging.priority),
        ("maximum", aging.maximum),
    ):
        if value < 1:
            found.at(name).add(value, "is not positive", "write 1 or more")
    if 1 <= aging.maximum < aging.priority:
        hint = f"write at least {aging.priority}, what a single step counts as"
        found.at("maximum").add(aging.maximum, "is less than a single step", hint)


def check_milestones(preemption: queueing.WorkloadPreemption | None, found: Findings) -> None:
    if preemption is None:
        return
    here, milestones = found.at("disruptionCostMilestones"), preemption.disruption_cost_milestones
    check_count(len(milestones), MILESTONES_MAX, "milestones", here)
    before = -1
    for index, milestone in enumerate(milestones):
        if milestone.seconds <= before:
            problem = "is negative" if before < 0 else "is not after the milestone before it"
            hint = f"write {before + 1} or more"
            here.at(index, "seconds").add(milestone.seconds, problem, hint)
        if milestone.cost < 0:
            here.at(index, "cost").add(milestone.cost, "is negative", "write 0 or more")
        before = max(before, milestone.seconds)


def _check_checks(strategy: queueing.AdmissionChecksStrategy | None, found: Findings) -> None:
    if strategy is None:
        return
    here = found.at("admissionChecks")
    checks = strategy.admission_checks
    check_count(len(checks), CHECKS_MAX, "checks", here, 1)
    for index, check in enumerate(checks):
        check_name(check.name, here.at(index, "name"))
        on_flavors = here.at(index, "onFlavors")
        check_unique(((f, on_flavors.at(n)) for n, f in enumerate(check.on_flavors)), "flavor")
    check_unique(((c.name, here.at(i, "name")) for i, c in enumerate(checks)), "check")


def check_admission_check(check: queueing.AdmissionCheck, found: Findings) -> None:
    if not check.spec.controller_name:
        here, hint = found.at("spec", "controllerName"), "name the controller that runs the check"
        here.add("", "is empty", hint)
