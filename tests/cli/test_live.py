"""The commands on `makeway up` as users have it: admitted by queues, run as processes."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from makeway.cli.main import main
from tests.harness.cli import Capsys
from tests.harness.process import running

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
Run = Callable[..., str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("data")
    (folder / "queues.yaml").write_text(QUEUES)
    with running(folder):
        assert main(["apply", "-f", str(folder / "queues.yaml"), "--data-dir", str(folder)]) == 0
        yield folder


@pytest.fixture
def makeway(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> Run:
    monkeypatch.setenv("MAKEWAY_DATA_DIR", str(folder))
    monkeypatch.delenv("KUBECONFIG", raising=False)

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
        *("submit", "--cpu", "1", "--follow", "--env", "WORD=dollar", "--"),
        *("sh", "-c", "echo $(echo sub) $WORD; exit 3"),
        code=3,
    )

    assert "\nsub dollar\n" in printed
    assert "failed with exit code 3" in printed
    assert "\nsub dollar\n" in f"\n{makeway('logs', '@')}"


def test_who_is_held_waits_until_it_is_resumed(makeway: Run) -> None:
    makeway("submit", "--cpu", "1", "--hold", "--name", "held", "--", "true")
    makeway("submit", "--cpu", "1", "--name", "other", "--", "true")
    makeway("wait", "other", "--timeout", "20s")

    assert " held " in makeway("status")
    makeway("resume", "held")
    assert "(held) succeeded" in makeway("wait", "held", "--timeout", "20s")


def test_who_asks_for_too_much_is_told_what_would_fit(makeway: Run) -> None:
    makeway("submit", "--cpu", "9", "--name", "big", "--", "true")

    deadline = time.monotonic() + 20
    while "a request for at most 1 cpu" not in makeway("explain", "big"):
        assert time.monotonic() < deadline
    makeway("cancel", "big")


def test_what_is_previewed_is_what_then_happens(makeway: Run, tmp_path: Path) -> None:
    """vision owns one core: the first starts, the second waits, the third never runs."""
    job = str(tmp_path / "job.yaml")
    Path(job).write_text(
        makeway("submit", "--dry-run", "client", "-q", "team", "--cpu", "1", "--", "true")
    )
    assert "It would start now in ClusterQueue vision with 1 cpu of flavor local" in makeway(
        *("submit", "--preview", "--cpu", "1", "--name", "first", "--", "sleep", "60")
    )
    assert "first" not in makeway("status", "--all")  # nothing was created
    makeway("submit", "--cpu", "1", "--name", "first", "--", "sleep", "60")
    deadline = time.monotonic() + 20
    while "running" not in makeway("status"):
        assert time.monotonic() < deadline
    waits = makeway("preview", "-f", job)
    assert waits.startswith("It would wait:\n")
    assert "insufficient unused quota for cpu in flavor local, 1 more needed" in waits
    never = makeway("submit", "--preview", "--cpu", "9", "-o", "json", "--", "true")
    assert json.loads(never)["outcome"] == "Never"
    makeway("cancel", "first")


def test_other_queues_are_compared_with_those_there_are(makeway: Run, folder: Path) -> None:
    """A core more, and who waits would start."""
    other = folder / "other.yaml"
    other.write_text(QUEUES.replace("nominalQuota: 1", "nominalQuota: 2"))
    for name in ("one", "two"):
        makeway("submit", "--cpu", "1", "--name", name, "--", "sleep", "60")
    deadline = time.monotonic() + 20
    while not {"running", "pending"} <= set(makeway("status").split()):
        assert time.monotonic() < deadline

    assert makeway("diff", "-f", str(folder / "queues.yaml")) == ""
    printed = makeway("diff", "-f", str(other), code=1)
    assert "ClusterQueue vision is new or different\n" in printed
    assert "/job-two-" in printed
    assert "would be admitted, on local" in printed
    makeway("diff", "-f", str(folder / "no-such.yaml"), code=2)
    makeway("cancel", "one")
    makeway("cancel", "two")


def test_the_past_is_known_when_the_job_is_gone(makeway: Run) -> None:
    makeway("submit", "--cpu", "1", "--name", "brief", "--wait", "--", "true")
    makeway("delete", "job", "brief")

    told = makeway("why", "brief")
    assert "admitted: Admitted by ClusterQueue vision" in told
    assert "finished" in told
    assert "all the same" in makeway("replay")
    assert "brief" not in makeway("history")
    (row,) = [line for line in makeway("history", "--gone").splitlines() if "brief" in line]
    assert row.split()[:4] == ["default", "brief", "team", "ended"]
    assert makeway("report", "--by", "queue").splitlines()[1].split()[0] == "vision"
