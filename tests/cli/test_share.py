"""From a line to queues, and back."""

from __future__ import annotations

from typing import Any

import pytest

from makeway.api.batch import Node
from makeway.api.codec import decode_as
from makeway.api.queueing import ClusterQueue
from makeway.cli import shares
from makeway.cli.command import RequestRefused, UsageError

CAPACITY = {"cpu": 64_000, "memory": 512 * 2**30, "nvidia.com/gpu": 8}
ACCOUNTS = {"ada": 1001, "bob": 1002}
GROUPS = {"vision": 2001, "speech": 2002, "ada": 1001, "Big_Lab": 2003}


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    from makeway.accounts import Account

    def account(name: str) -> Account | None:
        uid = ACCOUNTS.get(name)
        return None if uid is None else Account(name, uid, uid, "/", "/bin/sh")

    def group(name: str) -> Any:
        class Group:
            gr_name, gr_gid = name, GROUPS[name]

        return Group

    monkeypatch.setattr(shares, "account_named", account)
    monkeypatch.setattr("grp.getgrnam", group)


def made(*words: str, may_borrow: bool = True) -> dict[str, dict[str, Any]]:
    found = shares.shares_of(words, shares.counted_in(CAPACITY))
    shares.check_sum(found, shares.counted_in(CAPACITY), CAPACITY)
    objects = shares.objects_of(found, CAPACITY, may_borrow=may_borrow)
    return {f"{d['kind']}/{d['metadata']['name']}": d for _, d in objects}


def quota(document: dict[str, Any]) -> dict[str, str]:
    [group] = document["spec"]["resourceGroups"]
    return {r["name"]: r["nominalQuota"] for r in group["flavors"][0]["resources"]}


def test_a_share_of_gpus_takes_as_much_of_everything_else() -> None:
    found = made("vision=4", "ada=3")
    assert list(found) == [
        *("ResourceFlavor/machine", "Cohort/shares", "ClusterQueue/vision", "ClusterQueue/ada")
    ]
    vision, ada = found["ClusterQueue/vision"], found["ClusterQueue/ada"]
    assert quota(vision) == {"cpu": "32", "memory": "256Gi", "nvidia.com/gpu": "4"}
    assert quota(ada) == {"cpu": "24", "memory": "192Gi", "nvidia.com/gpu": "3"}
    assert quota(found["Cohort/shares"]) == {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"}
    assert vision["spec"]["cohortName"] == "shares"
    assert vision["spec"]["preemption"]["reclaimWithinCohort"] == "Any"
    assert vision["spec"]["namespaceSelector"] == {
        "matchLabels": {"share.makeway.dev/vision": "member"}
    }
    assert "admissionScope" in vision["spec"]
    assert "admissionScope" not in ada["spec"]


def test_without_borrow_everybody_keeps_to_his_own() -> None:
    found = made("vision=4", "speech=4", may_borrow=False)
    assert "Cohort/shares" not in found
    assert "cohortName" not in found["ClusterQueue/vision"]["spec"]


def test_what_is_made_can_be_read_and_is_the_line_again() -> None:
    found = made("vision=4", "%ada=1", "bob=2", "Big_Lab=1")
    assert "ClusterQueue/g-2003" in found
    documents = [d for name, d in found.items() if name.startswith("ClusterQueue/")]
    decoded = [decode_as(ClusterQueue, document) for document in documents]
    queues = [found.object for found in decoded if found.object is not None]
    assert len(queues) == 4
    standings = [shares.standing_of(queue, "nvidia.com/gpu") for queue in queues]
    line = shares.command_of(standings, "nvidia.com/gpu")
    assert line == "makeway share vision=4 %ada=1 bob=2 Big_Lab=1 --borrow"


def test_a_share_may_have_an_end_to_what_it_borrows() -> None:
    found = made("ada=2..3", "bob=0..8")
    resources = found["ClusterQueue/ada"]["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
    assert {r["name"]: r["borrowingLimit"] for r in resources} == {
        "cpu": "8",
        "memory": "64Gi",
        "nvidia.com/gpu": "1",
    }
    queues = [
        decode_as(ClusterQueue, d).object for n, d in found.items() if n.startswith("ClusterQ")
    ]
    standings = [shares.standing_of(q, "nvidia.com/gpu") for q in queues if q is not None]
    line = shares.command_of(standings, "nvidia.com/gpu")
    assert line == "makeway share ada=2..3 bob=0..8 --borrow"


@pytest.mark.parametrize(
    ("word", "why"), [("ada=4..2", "at most 2 is less than its own 4"), ("ada=1..x", "no number")]
)
def test_an_end_that_is_none_is_refused(word: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        made(word)


def test_two_shares_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="each once"):
        made("ada=1", "%ada=1")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["vision"], "NAME=NUMBER"),
        (["vision=many"], "no number"),
        (["vision=-1"], "no less than 0"),
    ],
)
def test_odd_words_are_refused(words: list[str], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        made(*words)


def test_more_than_there_is_is_refused() -> None:
    with pytest.raises(RequestRefused, match=r"9 nvidia.com/gpu are shared out, and there are 8"):
        made("vision=5", "speech=4")


def test_how_shares_stand() -> None:
    found = made("vision=4", "ada=3")["ClusterQueue/vision"]
    usage = {"name": "nvidia.com/gpu", "total": "6", "borrowed": "2"}
    found["status"] = {
        "flavorsUsage": [{"name": "machine", "resources": [usage]}],
        "pendingWorkloads": 5,
    }
    queue = decode_as(ClusterQueue, found).object
    assert queue is not None
    standing = shares.standing_of(queue, "nvidia.com/gpu")
    assert (standing.owns, standing.uses, standing.borrows, standing.lends) == (4, 6, 2, 0)
    assert standing.waiting == 5
    line = shares.command_of([standing], "nvidia.com/gpu")
    assert line == "makeway share vision=4 --borrow"


def test_a_machine_without_gpus_is_counted_in_cpus() -> None:
    document = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n"},
        "status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    }
    node = decode_as(Node, document).object
    assert node is not None
    capacity = shares.capacity_of([node])
    assert capacity == {"cpu": 4000, "memory": 8 * 2**30}
    assert shares.counted_in(capacity) == "cpu"
    assert shares.parts_of(1000, "cpu", capacity) == {"cpu": 1000, "memory": 2 * 2**30}
