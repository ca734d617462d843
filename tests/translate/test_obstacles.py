"""Everything that can keep a workload waiting is known to everybody who has to tell of it."""

from typing import get_args

import pytest

from makeway.engine.decisions import (
    BudgetSpent,
    Defective,
    ExceedsCapacity,
    FlavorMismatch,
    HeldForPreemptor,
    LostToOthers,
    MismatchKind,
    NamespaceNotAdmitted,
    NotCovered,
    OnlyTime,
    PodsNotReady,
    Preemptability,
    PreemptionPaused,
    PreemptsLater,
    Reason,
    Shortfall,
    VictimsProtected,
    VictimsTaken,
    WaitingForVictims,
    WaitsForOwner,
)
from makeway.engine.explain import (
    BackingOff,
    BehindHead,
    ChecksOpen,
    EvictedByStop,
    LettingGo,
    LocalQueueStopped,
    NoLocalQueue,
    NoQueue,
    Obstacle,
    QueueInactive,
)
from makeway.engine.model import (
    CheckName,
    CheckState,
    EvictionReason,
    FlavorName,
    FlavorResource,
    Inactive,
    LocalQueueKey,
    PodSetName,
    Preemptions,
    QueueName,
    ResourceName,
    WorkloadKey,
)
from makeway.translate.brief import message_in_brief
from makeway.translate.categories import can_never_run, waiting_word
from makeway.translate.data import obstacle_data, pieces_data
from makeway.translate.obstacles import obstacles_in_brief
from makeway.translate.words import Line, Ref, obstacle_line, obstacle_lines, waiting_message
from makeway.translate.workloads import LACKS_PODS, PODS_GONE

MAIN, SPOT, CPU = PodSetName("main"), FlavorName("spot"), ResourceName("cpu")
CELL = FlavorResource(SPOT, CPU)
OTHER, LOCAL_QUEUE = WorkloadKey("ns/other"), LocalQueueKey("ns/main")
QUEUE = QueueName("cq")

# Each with its word, and whether there is no hope.
OBSTACLES: list[tuple[Obstacle, str, bool]] = [
    (WaitingForVictims((OTHER,)), "WaitingForPreemptedWorkloads", False),
    (Shortfall(MAIN, CELL, 1, Preemptability.POSSIBLE), "WaitingForQuota", False),
    (LostToOthers(), "WaitingForQuota", False),
    (VictimsTaken(), "WaitingForQuota", False),
    (HeldForPreemptor(OTHER), "WaitingForQuota", False),
    (PodsNotReady(OTHER), "WaitingForPodsReady", False),
    (WaitsForOwner(CELL, OTHER, QUEUE), "WaitingForOwner", False),
    (PreemptionPaused(Preemptions(2, 1.0), 2.0), "PreemptionPaused", False),
    (PreemptsLater(0.0, 600.0), "PreemptsLater", False),
    (VictimsProtected(1200.0, (OTHER,)), "PreemptsLater", False),
    (BudgetSpent(20, 1, 3600.0), "PreemptsLater", False),
    (ExceedsCapacity(MAIN, CELL, 0, 2, 1), "ExceedsMaxQuota", True),
    (ExceedsCapacity(MAIN, CELL, 0, 8000, 6000, least=4000), "WaitingForQuota", False),
    (FlavorMismatch(MAIN, SPOT, MismatchKind.TAINT), "NoMatchingFlavor", True),
    (FlavorMismatch(MAIN, SPOT, MismatchKind.EXHAUSTED), "NoMatchingFlavor", False),
    (NotCovered(MAIN, CPU), "Misconfigured", True),
    (NamespaceNotAdmitted("ns"), "Misconfigured", True),
    (Defective("a container asks for more than its limit"), "Misconfigured", True),
    (Defective(PODS_GONE), LACKS_PODS, False),
    (NoLocalQueue(LOCAL_QUEUE), "Misconfigured", False),
    (LocalQueueStopped(LOCAL_QUEUE), "Suspended", False),
    (NoQueue(QUEUE), "Misconfigured", False),
    (QueueInactive(QUEUE, Inactive.STOPPED), "Suspended", False),
    (QueueInactive(QUEUE, Inactive.FLAVOR_NOT_FOUND, ("spot",)), "Suspended", False),
    (EvictedByStop(EvictionReason.QUEUE_STOPPED), "Suspended", False),
    (BackingOff(until=9.0, requeues=1), "PendingEvaluation", False),
    (BehindHead(OTHER), "PendingEvaluation", False),
    (ChecksOpen(((CheckName("budget"), CheckState.PENDING),)), "PendingEvaluation", False),
    (LettingGo(EvictionReason.PREEMPTED), "PendingEvaluation", False),
]
EACH = pytest.mark.parametrize(
    ("obstacle", "word", "is_final"), OBSTACLES, ids=lambda value: type(value).__name__
)


def test_none_is_left_out_here() -> None:
    listed = {type(obstacle) for obstacle, _, _ in OBSTACLES}
    assert listed == set(get_args(Obstacle)) >= set(get_args(Reason))


@EACH
def test_each_has_a_word_and_hope_or_none(obstacle: Obstacle, word: str, is_final: bool) -> None:
    assert waiting_word([obstacle]) == word
    assert can_never_run([obstacle]) is is_final


@EACH
def test_each_has_a_sentence_and_data(obstacle: Obstacle, word: str, is_final: bool) -> None:
    text = str(obstacle_line(obstacle, now=1.0))
    data = obstacle_data(obstacle, now=1.0)

    assert text in waiting_message([obstacle]) or isinstance(
        obstacle, BackingOff | PreemptionPaused | OnlyTime
    )
    assert text in "\n".join(map(str, obstacle_lines([obstacle], now=1.0)))
    assert (data["type"], data["text"]) == (type(obstacle).__name__, text)
    assert len(data) == 2 + len(obstacle)


@EACH
def test_each_has_a_brief_word_for_a_table(obstacle: Obstacle, word: str, is_final: bool) -> None:
    text = obstacles_in_brief([obstacle], {"cpu": 2000}, position=3, now=1.0)

    assert 0 < len(text) <= 40
    assert not text.endswith("…")


GPU = FlavorResource(SPOT, ResourceName("nvidia.com/gpu"))
OTHER_GPU = FlavorResource(FlavorName("reserved"), ResourceName("nvidia.com/gpu"))
GPUS_SHORT = Shortfall(MAIN, GPU, 3, Preemptability.NO_VICTIMS)


@pytest.mark.parametrize(
    ("obstacles", "text"),
    [
        ([GPUS_SHORT], "needs 4 GPUs, 1 free"),
        ([Shortfall(MAIN, CELL, 500, Preemptability.POSSIBLE), GPUS_SHORT], "needs 4 GPUs, 1 free"),
        ([Shortfall(MAIN, CELL, 500, Preemptability.POSSIBLE)], "needs 2 cpu, 1500m free"),
        ([ExceedsCapacity(MAIN, GPU, 0, 16, 8)], "never: 16 asked, 8 exist"),
        ([ExceedsCapacity(MAIN, GPU, 0, 16, 8, least=9)], "never: 16 asked, 8 exist"),
        ([ExceedsCapacity(MAIN, GPU, 0, 16, 8, least=4)], "needs 4 GPUs at least"),
        ([ExceedsCapacity(MAIN, GPU, 0, 16, 8, least=4), GPUS_SHORT], "needs 4 GPUs, 1 free"),
        ([ExceedsCapacity(MAIN, GPU, 0, 16, 8), GPUS_SHORT], "never: 16 asked, 8 exist"),
        ([ExceedsCapacity(MAIN, OTHER_GPU, 0, 16, 8), GPUS_SHORT], "needs 4 GPUs, 1 free"),
        ([BehindHead(OTHER), GPUS_SHORT], "behind 3 jobs"),
        ([BehindHead(OTHER), ExceedsCapacity(MAIN, GPU, 0, 9, 8)], "never: 9 asked, 8 exist"),
        ([WaitingForVictims((OTHER, OTHER))], "2 jobs make way"),
        ([BackingOff(until=91.0, requeues=1)], "tries again in 1m30s"),
        ([], "behind 3 jobs"),
    ],
)
def test_in_brief_numbers_say_why(obstacles: list[Obstacle], text: str) -> None:
    asked = {"nvidia.com/gpu": 4, "cpu": 2000}

    assert obstacles_in_brief(obstacles, asked, position=3, now=1.0) == text


@pytest.mark.parametrize(
    ("obstacles", "text"),
    [
        ([GPUS_SHORT], "needs 4 GPUs, 1 free"),
        ([ExceedsCapacity(MAIN, GPU, 0, 4, 2)], "never: 4 asked, 2 exist"),
        (
            [ExceedsCapacity(MAIN, OTHER_GPU, 0, 4, 3), ExceedsCapacity(MAIN, GPU, 0, 4, 2)],
            "never: 4 asked, 3 exist",
        ),
        ([ExceedsCapacity(MAIN, OTHER_GPU, 0, 4, 2), GPUS_SHORT], "needs 4 GPUs, 1 free"),
        (
            [WaitsForOwner(GPU, OTHER, QUEUE), ExceedsCapacity(MAIN, OTHER_GPU, 0, 4, 2)],
            "the quota's owner waits, and goes first",
        ),
        ([NotCovered(MAIN, GPU.resource)], "never: its queue has no GPUs"),
        (
            [
                FlavorMismatch(MAIN, SPOT, MismatchKind.AFFINITY),
                FlavorMismatch(MAIN, SPOT, MismatchKind.TAINT, "{a=b:NoSchedule}"),
            ],
            "never: no flavor fits its node rules",
        ),
        (
            [FlavorMismatch(MAIN, SPOT, MismatchKind.TAINT, "{a=b:NoSchedule}")],
            "never: a taint of flavor spot",
        ),
    ],
)
def test_where_only_a_condition_can_be_had_the_same_is_read_from_it(
    obstacles: list[Obstacle], text: str
) -> None:
    asked = {"nvidia.com/gpu": 4}
    reason, message = waiting_word(obstacles), waiting_message(obstacles)

    assert message_in_brief(reason, message, asked) == text
    assert obstacles_in_brief(obstacles, asked, 0, 0.0) == text


def test_of_several_the_word_is_that_of_the_nearest_to_being_overcome() -> None:
    shortfall = Shortfall(MAIN, CELL, 1, Preemptability.POSSIBLE)

    assert waiting_word([ExceedsCapacity(MAIN, OTHER_GPU, 0, 16, 8), shortfall]) == (
        "WaitingForQuota"
    )


def test_where_one_can_never_be_overcome_the_word_is_not_that_of_the_others() -> None:
    shortfall = Shortfall(MAIN, CELL, 1, Preemptability.POSSIBLE)

    assert waiting_word([NotCovered(MAIN, CPU), shortfall]) == "Misconfigured"


MEMORY = FlavorResource(SPOT, ResourceName("memory"))


@pytest.mark.parametrize(
    ("others", "is_never"),
    [
        ([ExceedsCapacity(MAIN, MEMORY, 0, 100, 64)], True),
        ([ExceedsCapacity(MAIN, OTHER_GPU, 0, 16, 8)], False),
        ([FlavorMismatch(MAIN, SPOT, MismatchKind.TAINT, "")], True),
        ([FlavorMismatch(MAIN, OTHER_GPU.flavor, MismatchKind.TAINT, "")], False),
        ([NotCovered(MAIN, CPU)], True),
        ([NamespaceNotAdmitted("lab")], True),
        ([], False),
    ],
    ids=str,
)
def test_what_is_short_for_now_gives_no_hope_where_something_else_is_in_the_way_for_good(
    others: list[Obstacle], is_never: bool
) -> None:
    shortfall = Shortfall(MAIN, CELL, 1, Preemptability.POSSIBLE)  # of cpu in flavor spot

    assert can_never_run([shortfall, *others]) is is_never
    assert can_never_run([*others, shortfall]) is is_never


def test_data_says_of_what_sort_an_obstacle_is_and_names_cells_plainly() -> None:
    assert obstacle_data(Shortfall(MAIN, CELL, 2**70, Preemptability.POSSIBLE)) == {
        "type": "Shortfall",
        "podSet": "main",
        "cell": {"flavor": "spot", "resource": "cpu"},
        "missing": str(2**70),  # more than numbers in JSON are sure to hold
        "preemption": Preemptability.POSSIBLE.value,
        "text": str(obstacle_line(Shortfall(MAIN, CELL, 2**70, Preemptability.POSSIBLE))),
    }


def test_a_line_names_the_objects_that_it_speaks_of() -> None:
    line = obstacle_line(WaitingForVictims((OTHER, WorkloadKey("ns/a"))))

    said = "Pending the preemption of 2 workload(s): "
    assert line == Line(said, Ref("Workload", "ns/other"), " and ", Ref("Workload", "ns/a"))
    assert pieces_data(line)[1] == {"kind": "Workload", "key": "ns/other"}
