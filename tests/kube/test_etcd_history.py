"""The history would show it: what is made of histories that must never happen."""

from typing import Any

from tests.kube.etcd_history import Account, Change, account_of

Document = dict[str, Any]


def workload(uid: str, *true: str, cpu: int = 0) -> Document:
    assigned = [{"name": "main", "count": 1, "resourceUsage": {"cpu": str(cpu)}}]
    admission = {"clusterQueue": "team", "podSetAssignments": assigned} if cpu else None
    conditions = [{"type": name, "status": "True"} for name in true]
    return {"metadata": {"uid": uid}, "status": {"conditions": conditions, "admission": admission}}


def pod(uid: str, phase: str) -> Document:
    labels = {"batch.kubernetes.io/job-name": "train"}
    return {"metadata": {"uid": uid, "labels": labels}, "status": {"phase": phase}}


def told(*history: tuple[str, str, Document | None]) -> Account:
    return account_of(
        Change(revision, plural, name, after)
        for revision, (plural, name, after) in enumerate(history)
    )


def test_quota_is_counted_from_the_moment_it_is_held_to_the_end() -> None:
    account = told(
        ("workloads", "a", workload("1", "QuotaReserved", cpu=3)),
        ("workloads", "b", workload("2", "QuotaReserved", "Admitted", cpu=2)),
        ("workloads", "a", workload("1", "QuotaReserved", "Finished", cpu=3)),
        ("workloads", "c", workload("3", "QuotaReserved", cpu=1)),
    )

    assert account.reserved_max == {"team": 5}
    assert account.finished == {"a 1"}


def test_who_lets_go_and_is_admitted_again_was_admitted_twice() -> None:
    account = told(
        ("workloads", "a", workload("1", "QuotaReserved", cpu=1)),
        ("workloads", "a", workload("1", "QuotaReserved", "Admitted", cpu=1)),
        ("workloads", "a", workload("1")),
        ("workloads", "a", workload("1", "QuotaReserved", cpu=1)),
    )

    assert account.admissions == {"a 1": 2}
    assert account.evictions == {"a 1": 1}


def test_pods_count_until_they_are_over_and_each_counts_as_one_that_there_was() -> None:
    job = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "team"}}}
    account = told(
        ("jobs", "train", job),
        ("pods", "train-x", pod("1", "Pending")),
        ("pods", "train-y", pod("2", "Running")),
        ("pods", "train-x", pod("1", "Succeeded")),
        ("pods", "train-y", None),
        ("pods", "train-z", pod("3", "Running")),
    )

    assert account.pods_max == {"team": 2}
    assert account.pods_of == {"train": 3}
