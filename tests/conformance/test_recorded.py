"""The engine gives the recorded answers, and the runner would notice if it did not."""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.__main__ import main
from tests.conformance.differences import read_differences
from tests.conformance.runner import Report, judge, read_scenarios, run, scenario_files
from tests.prerequisites import SHARED, shared_path

OWN = Path(__file__).with_name("scenarios")
FOLDERS = ("conformance", "placement")
# Without the recordings there is one test left, which is skipped, or fails in CI.
RECORDED = [
    str(path.relative_to(SHARED)) for path in scenario_files(SHARED / folder for folder in FOLDERS)
] or list(FOLDERS)


def scenario(name: str) -> dict[str, Any]:
    (found,) = (s for s in read_scenarios(OWN / "own.jsonl") if s["id"] == name)
    return found


def first_differences(report: Report) -> str:
    return "\n".join(f"{name}: {what[0]}" for name, what in report.failures[:5])


@pytest.mark.parametrize("file", RECORDED)
def test_the_recorded_decisions_are_ours(file: str) -> None:
    report = Report()

    run(read_scenarios(shared_path(file)), report)

    assert sum(report.total.values())
    assert not report.failures, first_differences(report)


def test_our_own_scenarios_pass_without_any_excuse() -> None:
    report = Report()

    run(read_scenarios(OWN / "own.jsonl"), report)

    assert not report.failures, first_differences(report)
    assert report.passed == {"own": 3}
    assert not report.deliberate


# --- the runner can fail ---


@pytest.mark.parametrize(
    ("what", "wrong"),
    [
        ("admitted", []),
        ("order", []),
        ("preempted", [{"workload": "ns/guest", "by": "ns/x", "reason": "InClusterQueue"}]),
        ("pending_active", {"b": ["ns/guest"]}),
        ("inadmissible", {"b": ["ns/guest"]}),
        ("noop", True),
    ],
)
def test_a_wrong_expectation_is_reported(what: str, wrong: object) -> None:
    altered = scenario("own-borrow-and-reclaim")
    altered["expect"]["cycles"][0][what] = wrong

    differences, _ = judge(altered, read_differences())

    assert len(differences) == 1
    assert differences[0].startswith(f"cycle 0, {what}\n    expected {wrong}\n    got ")


def test_who_runs_in_the_end_is_compared() -> None:
    altered = scenario("own-park-and-wake")
    altered["expect"]["running"] = {"a": ["ns/first"]}

    differences, _ = judge(altered, read_differences())

    assert differences == [
        "at the end, running\n    expected {'a': ['ns/first']}\n    got      {'a': ['ns/second']}"
    ]


def test_the_command_prints_families_and_differences(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    right, wrong = scenario("own-park-and-wake"), scenario("own-borrow-and-reclaim")
    wrong["expect"]["running"] = {}
    with gzip.open(tmp_path / "some.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(s) + "\n" for s in (right, wrong))

    assert main([str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert printed.startswith("own 1/2\n")
    assert "own-borrow-and-reclaim\n  at the end, running\n" in printed
    assert printed.endswith("1 passed, 1 failed\n")


@pytest.mark.parametrize(("name", "code"), [("own.jsonl", 0), ("nowhere", 2)])
def test_the_command_tells_by_its_exit_code(name: str, code: int) -> None:
    assert main([str(OWN / name)]) == code


def test_a_folder_without_scenarios_is_no_success(tmp_path: Path) -> None:
    assert main([str(tmp_path)]) == 1


# --- deliberate differences excuse nothing else ---


def with_holder_without_local_queue(name: str) -> dict[str, Any]:
    """A scenario in which a workload that names no LocalQueue holds quota at the start."""
    altered = scenario(name)
    holder = copy.deepcopy(altered["workloads"][0])
    holder["metadata"] |= {"name": "stray", "uid": "stray"}
    holder["spec"]["queueName"] = "nowhere"
    queue = altered["clusterQueues"][0]["metadata"]["name"]
    holder["status"] = {
        "admission": {
            "clusterQueue": queue,
            "podSetAssignments": [
                {"name": "main", "flavors": {"cpu": "plain"}, "resourceUsage": {"cpu": "0"}}
            ],
        },
        "conditions": [
            {
                "type": "QuotaReserved",
                "status": "True",
                "reason": "QuotaReserved",
                "lastTransitionTime": "2026-03-02T08:00:00Z",
            }
        ],
    }
    altered["workloads"].append(holder)
    altered["expect"]["running"].setdefault(queue, []).append("ns/stray")
    altered["expect"]["running"][queue].sort()
    return altered


def test_a_deliberate_difference_excuses_what_it_names() -> None:
    altered = with_holder_without_local_queue("own-park-and-wake")
    assert judge(altered, read_differences()) == ([], None)
    altered["expect"]["cycles"][1]["inadmissible"] = {}

    assert judge(altered, read_differences()) == ([], "freed quota wakes whoever waits for it")


def test_a_deliberate_difference_excuses_nothing_else() -> None:
    altered = with_holder_without_local_queue("own-park-and-wake")
    altered["expect"]["cycles"][1]["inadmissible"] = {}
    altered["expect"]["cycles"][3]["admitted"] = []

    differences, excuse = judge(altered, read_differences())

    assert excuse is None
    assert [d.split("\n")[0] for d in differences] == ["cycle 1, inadmissible", "cycle 3, admitted"]


def test_cycles_before_the_deliberate_difference_still_have_to_agree() -> None:
    """Quota on pods excuses what comes after the first preempting head, not what was before."""
    altered = scenario("own-borrow-and-reclaim")
    for queue in altered["clusterQueues"]:
        (group,) = queue["spec"]["resourceGroups"]
        group["coveredResources"].append("pods")
        group["flavors"][0]["resources"].append({"name": "pods", "nominalQuota": "10"})
    for cycle in altered["expect"]["cycles"]:
        for admission in cycle.get("admitted", ()):
            admission["podSets"][0]["flavors"]["pods"] = "plain"
    assert judge(altered, read_differences()) == ([], None)

    after, before = copy.deepcopy(altered), copy.deepcopy(altered)
    after["expect"]["cycles"][2]["admitted"] = []
    before["expect"]["cycles"][0]["admitted"] = []

    assert judge(after, read_differences()) == ([], "implicit pods count in preemption")
    assert judge(before, read_differences())[0]


def test_every_deliberate_difference_says_why() -> None:
    for difference in read_differences():
        assert len(difference.reason) > 80
        assert difference.when
