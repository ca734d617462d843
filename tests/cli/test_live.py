"""The commands on `makeway up` as users have it: admitted by queues, run as processes."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from makeway.cli.main import main
from tests.harness.cli import Capsys, rows_of
from tests.harness.process import running, wait_until

QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: local}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: vision}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: local, resources: [{name: cpu, nominalQuota: 1}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: team}
spec: {clusterQueue: vision}
"""
GPUS = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: box}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: gpus}
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors: [{name: box, resources: [{name: nvidia.com/gpu, nominalQuota: 4}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: gpus}
spec: {clusterQueue: gpus}
"""
URGENT = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: urgent}
value: 1000
"""
NODES = """
apiVersion: v1
kind: Node
metadata: {name: box}
status: {capacity: {cpu: "8", memory: 8Gi, nvidia.com/gpu: "4"}}
"""
Run = Callable[..., str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("data")
    (folder / "queues.yaml").write_text(f"{QUEUES}---{GPUS}")
    (folder / "nodes.yaml").write_text(NODES)
    with running(folder, "--nodes", str(folder / "nodes.yaml")):
        assert main(["apply", "-f", str(folder / "queues.yaml"), "--data-dir", str(folder)]) == 0
        yield folder


@pytest.fixture
def makeway(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> Run:
    monkeypatch.setenv("MAKEWAY_DATA_DIR", str(folder))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)

    def run(*arguments: str, code: int = 0) -> str:
        found = main(arguments)
        printed = capsys.readouterr()
        assert found == code, printed
        return printed.out + printed.err

    return run


SPARE = QUEUES.replace("local}", "spare}").replace("vision", "spare").replace("local,", "spare,")


def test_who_deletes_what_is_in_use_is_told_why_it_stays(
    makeway: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spare.yaml").write_text(SPARE.rpartition("---")[0])
    makeway("apply", "-f", str(tmp_path / "spare.yaml"))
    monkeypatch.setattr("makeway.cli.delete._TOLD_AFTER_S", 0.3)
    later = threading.Timer(1.5, main, [["delete", "clusterqueue", "spare"]])
    later.start()
    printed = makeway("delete", "resourceflavor", "spare")
    later.join()

    held = "is held by kueue.x-k8s.io/resource-in-use; it stays until nothing uses it any more"
    assert f"resourceflavor.kueue.x-k8s.io/spare {held}" in printed


def test_a_command_runs_as_typed_and_its_exit_code_comes_back(makeway: Run) -> None:
    printed = makeway(
        *("submit", "-q", "team", "--cpu", "1", "--follow", "--env", "WORD=dollar", "--"),
        *("sh", "-c", "echo $(echo sub) $WORD; exit 3"),
        code=3,
    )

    assert "\nsub dollar\n" in printed
    assert "failed with exit code 3" in printed
    assert "\nsub dollar\n" in f"\n{makeway('logs', '@')}"


def test_who_is_held_waits_until_it_is_resumed(makeway: Run) -> None:
    makeway("submit", "-q", "team", "--cpu", "1", "--hold", "--name", "held", "--", "true")
    makeway("submit", "-q", "team", "--cpu", "1", "--name", "other", "--", "true")
    makeway("wait", "other", "--timeout", "60s")

    assert " held " in makeway("status")
    makeway("resume", "held")
    assert "(held) succeeded" in makeway("wait", "held", "--timeout", "60s")


def test_who_asks_for_too_much_is_told_what_would_fit(makeway: Run) -> None:
    asked = ("submit", "-q", "team", "--cpu", "9", "--name", "big")
    never = "never: 9 cpu asked, 1 exist for ClusterQueue vision (--force queues it all the same)"
    assert makeway(*asked, "--", "true", code=1) == f"makeway: {never}\n"
    makeway(*asked, "--force", "--", "true")

    wait_until(lambda: "a request for at most 1 cpu" in makeway("explain", "big"))
    makeway("cancel", "big")


def test_a_list_of_jobs_says_who_has_which_gpus_until_when_and_why_not(makeway: Run) -> None:
    gpus = ("submit", "-q", "gpus", "--gpu")
    makeway(*gpus, "2", "--time-limit", "2h", "--name", "runs", "--", "sleep", "60")
    makeway(*gpus, "1", "--name", "beside", "--", "sleep", "60")
    makeway(*gpus, "2", "--name", "waits", "--", "true")
    makeway(*gpus, "5", "--force", "--name", "dreams", "--", "true")

    def shown() -> dict[str, dict[str, str]]:
        return rows_of(makeway("status", "-q", "gpus"))

    never = "never: 5 asked, 4 exist"
    wait_until(lambda: shown()["beside"]["STATUS"] == "running")
    wait_until(lambda: shown()["dreams"]["UNTIL / REASON"] == never)
    table = shown()
    assert table["runs"]["GPUS"] == "2: 0-1"
    assert re.fullmatch(r"until (\w{3} )?\d\d:\d\d at most", table["runs"]["UNTIL / REASON"])
    assert table["beside"]["GPUS"] == "1: 2"
    assert table["waits"]["UNTIL / REASON"] == "needs 2 GPUs, 1 free"
    (runs,) = (item for item in items(makeway("status", "-o", "json")) if item["name"] == "runs")
    assert (runs["gpuIndexes"], runs["nodes"], runs["limitSeconds"]) == ([0, 1], ["box"], 7200)
    assert "on GPUs 0-1 of node box, until" in makeway("explain", "runs")
    helps = makeway("explain", "waits").partition("What would help")[2].splitlines()
    assert helps[1] == "- ask for 1 nvidia.com/gpu: so much is free in flavor box now"
    assert helps[2].startswith("- priority 1 or more: it would preempt job")
    makeway("cancel", "runs", "beside", "waits", "dreams", "-y")


def statuses(makeway: Run) -> list[tuple[str, str]]:
    return [(item["name"], item["status"]) for item in items(makeway("status", "-o", "json"))]


def items(text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(text)["items"]
    return found


def test_a_gpu_that_is_taken_out_is_given_to_nobody_until_it_is_back(makeway: Run) -> None:
    assert makeway("gpu", "drain", "0", "1", "3").count(" of box drained") == 3
    makeway("submit", "-q", "gpus", "--gpu", "1", "--name", "fits", "--", "sleep", "60")
    wait_until(lambda: "1: 2" in makeway("status", "-q", "gpus"))
    makeway("submit", "-q", "gpus", "--gpu", "2", "--name", "patient", "--", "sleep", "60")
    no_node = "no node has 2 GPUs free"
    wait_until(lambda: rows_of(makeway("status"))["patient"]["UNTIL / REASON"] == no_node)
    shown = {item["id"]: item for item in items(makeway("gpu", "-o", "json"))}
    assert [shown[index]["state"] for index in range(4)] == [
        "drained",
        "drained",
        "held",
        "drained",
    ]
    assert (shown[2]["name"], shown[2]["until"]) == ("fits", None)
    assert "GPU 3 is drained" in makeway("explain", "patient")

    makeway("gpu", "undrain", "3", "0")
    wait_until(lambda: "2: 0,3" in makeway("status"))
    lines = makeway("gpu").splitlines()[1:]
    found = [next(w for w in ("patient", "fits", "drained") if w in line) for line in lines]
    assert found == ["patient", "drained", "fits", "patient"]
    makeway("gpu", "undrain", "1")
    makeway("cancel", "fits", "patient", "-y")


def test_who_names_a_gpu_that_is_not_there_is_told_which_there_are(makeway: Run) -> None:
    said = "there is no GPU 9 on box; there are: 0, 1, 2, 3"
    assert said in makeway("gpu", "drain", "9", code=1)


def test_what_is_previewed_is_what_then_happens(makeway: Run, tmp_path: Path) -> None:
    """vision owns one core: the first starts, the second waits, the third never runs."""
    job = str(tmp_path / "job.yaml")
    Path(job).write_text(
        makeway("submit", "--dry-run", "client", "-q", "team", "--cpu", "1", "--", "true")
    )
    assert "It would start now in ClusterQueue vision with 1 cpu of flavor local" in makeway(
        *("submit", "-q", "team", "--preview", "--cpu", "1", "--name", "first", "--", "sleep", "60")
    )
    assert "first" not in makeway("status", "--all")  # nothing was created
    makeway("submit", "-q", "team", "--cpu", "1", "--name", "first", "--", "sleep", "60")
    wait_until(lambda: "running" in makeway("status"))
    waits = makeway("preview", "-f", job)
    assert waits.startswith("It would wait:\n")
    assert "insufficient unused quota for cpu in flavor local, 1 more needed" in waits
    two = json.loads(makeway("preview", "-f", job, "-f", job, "-o", "json"))
    assert (two["kind"], [item["outcome"] for item in two["items"]]) == ("List", ["Waits"] * 2)
    in_no_queue = Path(job).read_text().replace("kueue.x-k8s.io/queue-name", "in-no-queue")
    (tmp_path / "odd.yaml").write_text(in_no_queue)
    odd = makeway("preview", "-f", str(tmp_path / "odd.yaml"), "-f", job, code=1)
    assert "odd.yaml:1: the Job is in no queue: it has no label" in odd
    assert "It would wait:\n" in odd
    never = makeway("submit", "-q", "team", "--preview", "--cpu", "9", "-o", "json", "--", "true")
    assert json.loads(never)["outcome"] == "Never"
    makeway("cancel", "first")


def test_whom_a_preview_displaces_is_named_as_in_status(makeway: Run, folder: Path) -> None:
    """Four GPUs, all of them held by a job of low priority; and so why it had to go, afterwards."""
    (folder / "classes.yaml").write_text(URGENT)
    makeway("apply", "-f", str(folder / "classes.yaml"))
    makeway("submit", "-q", "gpus", "--gpu", "4", "--name", "humble", "--", "sleep", "60")
    wait_until(lambda: "running" in makeway("status"))
    (row,) = json.loads(makeway("status", "-o", "json"))["items"]
    urgent = ("submit", "-q", "gpus", "--gpu", "4", "--priority", "urgent", "--name", "urgent")

    told = makeway(*urgent, "--preview", "--", "true")

    victim = rf"^- job {row['id']} humble of LocalQueue default/gpus .*; loses .* of work$"
    assert re.search(victim, told, re.MULTILINE), told
    makeway(*urgent, "--wait", "--", "true")
    wait_until(lambda: "had to make way" in makeway("why", str(row["id"])))
    told = makeway("why", str(row["id"]))
    assert re.search(r"had to make way for job \d+ urgent, due to prioritization in the Cl", told)
    assert "default/job-" not in told
    makeway("cancel", "humble", "-y")


def test_other_queues_are_compared_with_those_there_are(makeway: Run, folder: Path) -> None:
    """A core more, and who waits would start."""
    other = folder / "other.yaml"
    other.write_text(QUEUES.replace("nominalQuota: 1", "nominalQuota: 2"))
    submit = ("submit", "-q", "team", "--cpu", "1", "--name")
    for name, status in (("one", "running"), ("two", "pending")):
        makeway(*submit, name, "--", "sleep", "60")
        wait_until(lambda pair=(name, status): pair in statuses(makeway))
    wait_until(lambda: "needs 1 cpu, 0 free" in makeway("status"))  # by then it is in line

    assert makeway("diff", "-f", str(folder / "queues.yaml")) == ""
    printed = makeway("diff", "-f", str(other), code=1)
    assert "ClusterQueue vision is new or different\n" in printed
    assert re.search(r"^- job \d+ two would be admitted, on local$", printed, re.MULTILINE)
    makeway("diff", "-f", str(folder / "no-such.yaml"), code=2)
    other.write_text("{apiVersion: v1, kind: Node, metadata: {name: box}}")
    said = makeway("diff", "-f", str(other), code=2)
    assert "Node box: no part of queues; ClusterQueues, Cohorts," in said
    other.write_text(QUEUES.replace("nominalQuota: 1", "nominalQuota: plenty"))
    said = makeway("diff", "-f", str(other), code=2)
    assert re.search(
        r'other\.yaml:\d+: ClusterQueue: spec\..*nominalQuota: "plenty" is not a', said
    )
    makeway("cancel", "one")
    makeway("cancel", "two")


def test_the_past_is_known_when_the_job_is_gone(makeway: Run) -> None:
    makeway("submit", "-q", "team", "--cpu", "1", "--name", "brief", "--wait", "--", "true")
    makeway("delete", "job", "brief")

    wait_until(lambda: "was deleted" in makeway("why", "brief"))
    told = makeway("why", "brief")
    assert "admitted: Admitted by ClusterQueue vision" in told
    number = re.search(r"^job (\d+) brief was gone$", told, re.MULTILINE)
    assert number is not None
    assert makeway("why", number[1]).splitlines()[1:] == told.splitlines()[1:]
    assert f"`makeway why {number[1]}` tells what" in makeway("explain", number[1], code=1)
    assert "ended" in told
    assert "all the same" in makeway("replay")
    (row,) = [line for line in makeway("history").splitlines() if "brief" in line]
    assert "succeeded" in row
    assert "\nvision " in makeway("report", "--by", "queue")
