"""What a Job's own rules say of a failed pod, and of a set of succeeded indexes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, NamedTuple

from makeway.api.batch import ExitCodeRule, Job, PodFailureRule, SuccessRule
from makeway.api.indexes import parse_ranges
from makeway.runner.host import REBOOTED_REASON
from makeway.runner.job_pods import JobPod

Action = Literal["FailJob", "FailIndex", "Ignore", "Count"]


class Judgement(NamedTuple):
    action: Action
    message: str = ""


def judge_failure(job: Job, pod: JobPod) -> Judgement:
    """What the first rule that matches a failed pod asks for; without one, it counts.

    Unless the machine was started anew: that is no fault of the pod's.
    """
    policy = job.spec.pod_failure_policy
    otherwise = Judgement("Ignore" if is_rebooted(pod) else "Count")
    if policy is None or not pod.is_over:
        return otherwise
    for place, rule in enumerate(policy.rules):
        found = _match(rule, pod)
        if found:
            action = rule.action
            if action == "FailIndex" and job.spec.backoff_limit_per_index is None:
                action = "Count"
            return Judgement(action, f"{found} matching {action} rule at index {place}")
    return otherwise


def is_rebooted(pod: JobPod) -> bool:
    """Whether it ended because its machine was started anew."""
    return any(
        (one.type, one.status, one.reason) == ("DisruptionTarget", "True", REBOOTED_REASON)
        for one in pod.status.conditions
    )


def _match(rule: PodFailureRule, pod: JobPod) -> str:
    """How the pod matches; empty if it doesn't."""
    where = f"{pod.metadata.namespace}/{pod.name}"
    if rule.on_exit_codes is not None:
        for container in pod.containers:
            ended = container.state.terminated
            if ended is not None and _has_code(rule.on_exit_codes, container.name, ended.exit_code):
                code = ended.exit_code
                return f"Container {container.name} for pod {where} failed with exit code {code}"
        return ""
    asked = {(condition.type, condition.status) for condition in rule.on_pod_conditions}
    for condition in pod.status.conditions:
        if (condition.type, condition.status) in asked:
            return f"Pod {where} has condition {condition.type}"
    return ""


def _has_code(rule: ExitCodeRule, container: str, code: int) -> bool:
    if code == 0 or rule.container_name not in ("", container):
        return False
    return (code in rule.values) == (rule.operator == "In")


def success_rule_met(job: Job, succeeded: Collection[int]) -> int | None:
    """The place of the first rule of the success policy that is met; None if none is."""
    policy = job.spec.success_policy
    for place, rule in enumerate(policy.rules if policy is not None else ()):
        if _is_met(rule, succeeded):
            return place
    return None


def _is_met(rule: SuccessRule, succeeded: Collection[int]) -> bool:
    if not rule.succeeded_indexes:
        return rule.succeeded_count is not None and len(succeeded) >= rule.succeeded_count
    asked = parse_ranges(rule.succeeded_indexes)
    if asked is None:
        return False  # it says nothing that could be met
    count = sum(map(len, asked)) if rule.succeeded_count is None else rule.succeeded_count
    return sum(any(index in run for run in asked) for index in succeeded) >= count
