"""`makeway lint` finds what is allowed and hardly meant."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from makeway.cli.main import main

GROUP = "apiVersion: kueue.x-k8s.io/v1beta2"
FLAVOR = f"{GROUP}\nkind: ResourceFlavor\nmetadata: {{name: a100}}"
LOCAL = f"{GROUP}\nkind: LocalQueue\nmetadata: {{name: team}}\nspec: {{clusterQueue: vision}}"


def queue(
    name: str = "vision", *, gpu: int = 8, flavor: str = "a100", more: str = "", quota: str = ""
) -> str:
    return f"""\
{GROUP}
kind: ClusterQueue
metadata: {{name: {name}}}
spec:
  namespaceSelector: {{}}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors:
    - name: {flavor}
      resources: [{{name: nvidia.com/gpu, nominalQuota: {gpu}{quota}}}]
{more}"""


def job(resources: str = "nvidia.com/gpu: 1", local_queue: str = "team", more: str = "") -> str:
    return f"""\
apiVersion: batch/v1
kind: Job
metadata: {{name: train, labels: {{kueue.x-k8s.io/queue-name: {local_queue}}}}}
spec:
  {more}
  template:
    spec:
      restartPolicy: Never
      containers: [{{name: main, image: x, resources: {{requests: {{{resources}}}}}}}]
"""


def configuration(text: str) -> str:
    return f"apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n{text}"


def lint(
    capsys: pytest.CaptureFixture[str], folder: Path, *documents: str, code: int = 0
) -> list[str]:
    """What is found, without the last line, which counts."""
    file = folder / "all.yaml"
    file.write_text("\n---\n".join(documents))
    assert main(["lint", str(file)]) == code
    return capsys.readouterr().out.splitlines()[:-1]


def test_a_good_set_has_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lint(capsys, tmp_path, FLAVOR, queue(), LOCAL, job()) == []


@pytest.mark.parametrize(
    ("resources", "said"),
    [
        ("memory: 4", "4 is 4 bytes; write 4Gi or 4Mi"),
        ("memory: 512m", '"512m" is less than a byte each: m is a thousandth; write 512Mi'),
        ("cpu: 1000", "1000 is 1000 whole cores per pod; for 1000 thousandths of a core"),
    ],
)
def test_units_that_are_hardly_meant(
    resources: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (line,) = lint(capsys, tmp_path, job(resources))

    assert said in line
    assert line.startswith("warning: ")
    assert "spec.template.spec.containers[0].resources.requests" in line


@pytest.mark.parametrize(
    ("documents", "said"),
    [
        ([queue("speech"), LOCAL], '"vision" names a ClusterQueue that is not there'),
        ([FLAVOR, queue(flavor="h100")], '"h100" names a ResourceFlavor that is not there'),
        ([queue(), LOCAL, job(local_queue="taem")], '"taem" names a LocalQueue that is not there'),
        ([queue(), queue()], '"vision" is there twice'),
    ],
)
def test_names_that_lead_nowhere_are_errors(
    documents: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = lint(capsys, tmp_path, *documents, code=1)

    assert any(line.startswith("error: ") and said in line for line in found), found


def test_kinds_that_lie_elsewhere_are_not_missed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lint(capsys, tmp_path, LOCAL) == []
    assert lint(capsys, tmp_path, queue()) == []
    assert lint(capsys, tmp_path, job()) == []


@pytest.mark.parametrize(
    ("resources", "more", "said"),
    [
        ("nvidia.com/gpu: 9", "", "insufficient quota for nvidia.com/gpu in flavor a100"),
        ("nvidia.com/gpu: 3", "{parallelism: 3, completions: 3}", "maximum capacity (8)"),
        ("cpu: 1", "", "cpu"),
    ],
)
def test_a_job_that_no_empty_cluster_would_admit(
    resources: str, more: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = more.strip("{}").replace(", ", "\n  ")

    (line,) = lint(capsys, tmp_path, FLAVOR, queue(), LOCAL, job(resources, more=more), code=1)

    assert "error: " in line
    assert "can never be admitted: " in line
    assert said in line


def test_a_job_may_count_on_what_its_queue_can_borrow(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = "  cohortName: lab\n"
    speech = f"{GROUP}\nkind: LocalQueue\nmetadata: {{name: s}}\nspec: {{clusterQueue: speech}}"
    queues = [queue(more=lab), queue("speech", more=lab)]
    wide = job("nvidia.com/gpu: 12")

    assert lint(capsys, tmp_path, FLAVOR, *queues, LOCAL, speech, wide) == []
    queues[0] = queue(more=lab, quota=", borrowingLimit: 2")
    (line,) = lint(capsys, tmp_path, FLAVOR, *queues, LOCAL, speech, wide, code=1)
    assert "maximum capacity (10)" in line


def test_behind_an_impossible_head_of_strict_fifo_everybody_waits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    strict = queue(more="  queueingStrategy: StrictFIFO\n")

    (line,) = lint(capsys, tmp_path, FLAVOR, strict, LOCAL, job("nvidia.com/gpu: 9"), code=1)

    assert line.endswith("in a StrictFIFO queue it holds up everybody behind it")


@pytest.mark.parametrize(
    ("documents", "said"),
    [
        ([queue(gpu=0)], "leaves nothing of nvidia.com/gpu in flavor a100, not even to borrow"),
        ([queue(), queue("speech"), LOCAL], '"speech" has no LocalQueue, so no job can come'),
        ([FLAVOR, FLAVOR.replace("a100", "spot"), queue()], '"spot" is in no queue\'s quota'),
        (
            [queue(more="  preemption: {reclaimWithinCohort: Any}\n")],
            "never takes effect: the queue is in no cohort",
        ),
        ([queue(more="  cohortName: lab\n")], "there is nobody to lend or borrow"),
        ([f"{GROUP}\nkind: Cohort\nmetadata: {{name: lab}}"], '"lab" has no queues'),
        (
            [queue().replace("  namespaceSelector: {}\n", "")],
            "is missing: no namespace may use this queue",
        ),
    ],
)
def test_quota_and_policies_without_effect(
    documents: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = lint(capsys, tmp_path, *documents)

    assert any(line.startswith("warning: ") and said in line for line in found), found


def test_quota_of_a_cohort_that_no_queue_can_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cohort = queue("lab", flavor="spot").replace("ClusterQueue", "Cohort")
    cohort = cohort.replace("  namespaceSelector: {}\n", "")

    (line,) = lint(capsys, tmp_path, queue(more="  cohortName: lab\n"), cohort)

    assert '"8" is quota of flavor spot that no queue below can use' in line


def test_a_namespace_that_its_queue_does_not_select(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = queue().replace("Selector: {}", "Selector: {matchLabels: {team: vision}}")
    namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: default}"

    found = lint(capsys, tmp_path, chosen, LOCAL, namespace, job(), code=1)

    assert any("does not select namespace default" in line for line in found)


@pytest.mark.parametrize(
    ("settings", "policy", "said"),
    [
        (
            "featureGates: {HoldForPreemptor: false}",
            "{withinClusterQueue: LowerPriority}",
            "lets an older victim take back the place",
        ),
        (
            "waitForPodsReady: {enable: true, timeout: 5m}",
            "{withinClusterQueue: LowerOrNewerEqualPriority}",
            "can circle: whoever's pods are late counts as newer",
        ),
        (
            "fairSharing: {enable: true}",
            "{reclaimWithinCohort: Any, borrowWithinCohort: {policy: LowerPriority}}",
            "never takes effect: under fair sharing",
        ),
    ],
)
def test_policies_that_circle_or_are_overridden(
    settings: str, policy: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    preempting = queue(more=f"  cohortName: lab\n  preemption: {policy}\n")
    neighbour = queue("speech", more="  cohortName: lab\n")

    found = lint(capsys, tmp_path, preempting, neighbour, configuration(settings))

    assert any(said in line for line in found), found


BY_CREATION = "requeueStrategy: {podsReadyTimeout: UseCreationTimestamp}"
SOON = "waitForPodsReady: {timeout: 5m}"
FALLBACKS = "  flavorFungibility: {fallbackStrategy: {rules: [{name: a100, timeout: 5m}]}}\n"


@pytest.mark.parametrize(
    ("settings", "more", "is_said"),
    [
        (f"{SOON}\n{BY_CREATION}", "  queueingStrategy: StrictFIFO\n", True),
        (BY_CREATION, f"  queueingStrategy: StrictFIFO\n{FALLBACKS}", True),
        (BY_CREATION, "  queueingStrategy: StrictFIFO\n", False),
        (SOON, "  queueingStrategy: StrictFIFO\n", False),
        (f"{SOON}\n{BY_CREATION}", "", False),
    ],
)
def test_a_strict_queue_can_be_blocked_by_whose_pods_are_late(
    settings: str, more: str, is_said: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = lint(capsys, tmp_path, FLAVOR, queue(more=more), LOCAL, configuration(settings))

    said = 'spec.queueingStrategy: "StrictFIFO" can block: whoever\'s pods are not ready in time'
    assert any(said in line for line in found) is is_said, found


# --- queues that can displace each other in a circle ---

ANY, LOWER = "reclaimWithinCohort: Any", "reclaimWithinCohort: LowerPriority"
OWN, OWN_NEWER = (
    "withinClusterQueue: LowerPriority",
    "withinClusterQueue: LowerOrNewerEqualPriority",
)
BORROWING = "borrowWithinCohort: {policy: LowerPriority}"
SPOT = "    - {name: spot, resources: [{name: nvidia.com/gpu, nominalQuota: 2}]}\n"
FAIRLY = "fairSharing: {enable: true}"
NO_OWNERS_FIRST = "featureGates: {OwnersFirst: false}"
NO_BACKOFF = "featureGates: {PreemptionBackoff: false}"
NEITHER = "featureGates: {OwnersFirst: false, PreemptionBackoff: false}"


def lab_of(*policies: tuple[str, ...], more: str = "", quota: str = "") -> list[str]:
    """Queues a, b … of a cohort, with these policies."""
    cohort = f"{more}  cohortName: lab\n"
    return [
        queue(name, quota=quota, more=f"{cohort}  preemption: {{{', '.join(policy)}}}\n")
        for name, policy in zip("abcdefgh", policies, strict=False)
    ]


def circles_in(
    capsys: pytest.CaptureFixture[str], folder: Path, documents: list[str], *settings: str
) -> list[str]:
    told = [configuration("\n".join(settings))] if settings else []
    return [line for line in lint(capsys, folder, *documents, *told) if "in a circle" in line]


EVERYDAY = lab_of((OWN, ANY), (OWN, ANY))
SMALLEST = lab_of((OWN_NEWER, ANY, BORROWING), (OWN_NEWER, ANY, BORROWING))
SMALLEST_FAIR = lab_of((OWN_NEWER, ANY), (OWN_NEWER, ANY))
THROUGH_FLAVORS = lab_of((OWN, ANY, BORROWING), (OWN_NEWER, ANY, BORROWING), more=SPOT)
CLEARED_FOR_ANOTHER = lab_of((ANY,), (OWN_NEWER, ANY))
THROUGH_BOTH_QUEUES = lab_of((OWN_NEWER, ANY), (ANY,))


@pytest.mark.parametrize(
    ("documents", "settings", "why"),
    [
        pytest.param(EVERYDAY, [NO_OWNERS_FIRST], "take from each other; a workload", id="usual"),
        pytest.param(SMALLEST, [NO_OWNERS_FIRST], "take from each other; a workload", id="small"),
        pytest.param(SMALLEST_FAIR, [NO_OWNERS_FIRST, FAIRLY], "by their shares", id="small, fair"),
        pytest.param(SMALLEST_FAIR, [FAIRLY], "under fair sharing ClusterQueues", id="fair"),
        pytest.param(SMALLEST, [], "takes the place of somebody else who borrows", id="borrowing"),
        pytest.param(THROUGH_FLAVORS, [], "a and b also while borrowing (borrow", id="C1"),
        pytest.param(CLEARED_FOR_ANOTHER, [FAIRLY], "may go to another of its queue", id="F1"),
        pytest.param(THROUGH_BOTH_QUEUES, [FAIRLY], "may go to another of its queue", id="F2"),
    ],
)
def test_every_known_circle_is_named_with_its_queues(
    documents: list[str],
    settings: list[str],
    why: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (line,) = circles_in(capsys, tmp_path, documents, *settings)

    assert line.startswith("warning: ")
    assert 'ClusterQueue/a: spec.preemption.reclaimWithinCohort: "Any" can displace' in line
    assert "ClusterQueues a and b of cohort lab" in line
    assert why in line
    assert line.endswith("write LowerPriority here and in b")


@pytest.mark.parametrize("documents", [EVERYDAY, SMALLEST_FAIR])
def test_owners_first_ends_most_of_them(
    documents: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert circles_in(capsys, tmp_path, documents) == []
    assert circles_in(capsys, tmp_path, documents, NO_BACKOFF) == []


ONE_SIDED = lab_of((OWN, ANY), (OWN,))
HARMLESS = {
    "no preemption": lab_of((), ()),
    "only in the own queue": lab_of((OWN_NEWER,), (OWN_NEWER,)),
    "from lower priorities": lab_of((OWN, LOWER, BORROWING), (OWN_NEWER, LOWER, BORROWING)),
    "one takes back, the other does not": ONE_SIDED,
    "one queue": [queue(more=f"  cohortName: lab\n  preemption: {{{OWN}, {ANY}}}\n")],
    "no cohort": [queue(name, more=f"  preemption: {{{OWN}, {ANY}}}\n") for name in "ab"],
    "nothing is lent": lab_of((OWN, ANY), (OWN, ANY), quota=", lendingLimit: 0"),
    "nobody may borrow": lab_of((OWN, ANY), (OWN, ANY), quota=", borrowingLimit: 0"),
    "other flavors": [
        queue(name, flavor=f"of-{name}", more=f"  cohortName: lab\n  preemption: {{{ANY}}}\n")
        for name in "ab"
    ],
}


@pytest.mark.parametrize("settings", [(), (FAIRLY,), (NEITHER,)], ids=str)
@pytest.mark.parametrize("documents", HARMLESS.values(), ids=HARMLESS)
def test_queues_that_cannot_take_from_each_other_are_left_alone(
    documents: list[str],
    settings: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert circles_in(capsys, tmp_path, documents, *settings) == []


def test_under_fair_sharing_without_owners_first_one_side_is_enough(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (line,) = circles_in(capsys, tmp_path, ONE_SIDED, NO_OWNERS_FIRST, FAIRLY)
    assert "who clears a place may not be able to keep it" in line

    from_lower = lab_of((LOWER,), ())
    (line,) = circles_in(capsys, tmp_path, from_lower, NO_OWNERS_FIRST, FAIRLY)
    assert line.endswith("switch OwnersFirst on, or write Never here")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ([NO_OWNERS_FIRST], "ever more slowly, as who preempts again and again has to pause"),
        ([NEITHER], "for ever and at full speed, with featureGates.PreemptionBackoff off"),
    ],
)
def test_what_slows_a_circle_is_told_and_what_does_not(
    settings: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (line,) = circles_in(capsys, tmp_path, EVERYDAY, *settings)
    assert said in line
    assert "switch OwnersFirst on" in line


def test_a_circle_may_go_through_a_third_queue(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """a and b have no flavor in common; c has both."""
    policy = f"  cohortName: lab\n  preemption: {{{ANY}}}\n"
    both = SPOT.replace("spot", "of-b")
    documents = [
        *(queue(name, flavor=f"of-{name}", more=policy) for name in "ab"),
        queue("c", flavor="of-a", more=both + policy),
    ]

    (line,) = circles_in(capsys, tmp_path, documents, FAIRLY)

    assert "ClusterQueues a, b and c of cohort lab" in line
    assert line.endswith("write LowerPriority here and in b and c")


def test_each_tree_of_cohorts_is_told_of_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    many = lab_of(*[(OWN, ANY)] * 8)
    others = [queue(name, more=f"  cohortName: other\n  preemption: {{{ANY}}}\n") for name in "xyz"]

    lab, other = circles_in(capsys, tmp_path, many + others, FAIRLY)

    assert "ClusterQueues a, b, c, d, e and 3 more of cohort lab" in lab
    assert "ClusterQueues x, y and z of cohort other" in other


def test_errors_of_check_are_here_as_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = lint(capsys, tmp_path, queue(gpu=-1), code=1)

    assert found[0].startswith("error: ")
    assert found[0].endswith("is negative; write 0 or more")


def test_strict_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(job("memory: 4"))

    assert main(["lint", str(file)]) == 0
    assert main(["lint", "--strict", str(file)]) == 1
    capsys.readouterr()
    assert main(["lint", "-o", "json", str(file)]) == 0
    (warning,) = json.loads(capsys.readouterr().out)["warnings"]
    assert (warning["line"], warning["hint"]) == (9, "write 4Gi or 4Mi")
