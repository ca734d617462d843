"""Reasons as sentences: numbers with units, names of others, the phrases people grep for."""

from __future__ import annotations

import pytest

from makeway.api.times import format_span, format_time
from makeway.cli.terminal import Pen, pen_for
from makeway.engine.decisions import (
    Admit,
    Deactivate,
    DeactivationReason,
    Decision,
    Defective,
    Evict,
    ExceedsCapacity,
    FlavorFailure,
    FlavorMismatch,
    HeldForPreemptor,
    LostToOthers,
    MismatchKind,
    NamespaceNotAdmitted,
    NotCovered,
    Preempt,
    Preemptability,
    PreemptionPaused,
    Reason,
    Requeue,
    Reserve,
    Shortfall,
    StartOver,
    Victim,
    VictimRule,
    VictimsTaken,
    Wait,
    WaitingForVictims,
    WaitsForOwner,
)
from makeway.engine.explain import (
    AllOf,
    AnyOf,
    BackingOff,
    BehindHead,
    ChecksOpen,
    Explanation,
    HigherBorrowingLimit,
    Holder,
    LeftByOwners,
    LettingGo,
    LowerMinimum,
    MatchingLabels,
    MoreQuota,
    NoLocalQueue,
    OtherLocalQueue,
    OtherNamespace,
    OtherQueue,
    OtherResources,
    OwnQuota,
    QueueInactive,
    Refusal,
    ResumedLocalQueue,
    ResumedQueue,
    SmallerRequest,
    ToleratedTaint,
)
from makeway.engine.model import (
    Assignment,
    Cause,
    CheckName,
    CheckState,
    EvictionReason,
    FlavorName,
    FlavorResource,
    FlavorTrial,
    Inactive,
    LocalQueueKey,
    Phase,
    PodSetAssignment,
    PodSetName,
    Preemptions,
    QueueName,
    ResourceName,
    Trigger,
    WorkloadKey,
)
from makeway.engine.preview import Change, Difference, Loser
from makeway.translate.explanation import explanation_lines
from makeway.translate.previews import difference_lines
from makeway.translate.words import (
    Text,
    decision_text,
    due_to,
    named,
    obstacle_line,
    stopped_text,
    waiting_message,
)
from makeway.translate.workloads import PODS_GONE

MAIN = PodSetName("main")
SPOT = FlavorName("spot")
CPU = FlavorResource(SPOT, ResourceName("cpu"))
MEMORY = FlavorResource(SPOT, ResourceName("memory"))
GI = 1024**3
JOB, OTHER = WorkloadKey("ns/job"), WorkloadKey("ns/other")
QUEUE = QueueName("cq")
ASSIGNMENT = Assignment(
    (
        PodSetAssignment(
            name=MAIN,
            count=2,
            flavors=((CPU.resource, SPOT), (MEMORY.resource, SPOT)),
            usage=((CPU.resource, 1500), (MEMORY.resource, 4 * GI)),
        ),
    )
)

REASONS: list[tuple[Reason, str]] = [
    (
        Shortfall(MAIN, CPU, 9000, Preemptability.POSSIBLE),
        "insufficient unused quota for cpu in flavor spot, 9 more needed",
    ),
    (
        Shortfall(MAIN, MEMORY, 3 * GI, Preemptability.NO_VICTIMS),
        "insufficient unused quota for memory in flavor spot, 3Gi more needed "
        "(nobody who may be preempted would free enough)",
    ),
    (
        ExceedsCapacity(MAIN, CPU, 500, 6000, 4000),
        "insufficient quota for cpu in flavor spot, previously considered podsets requests (500m)"
        " + current podset request (6) > maximum capacity (4)",
    ),
    (
        NotCovered(MAIN, ResourceName("example.com/fpga")),
        "resource example.com/fpga unavailable in ClusterQueue",
    ),
    (
        FlavorMismatch(MAIN, SPOT, MismatchKind.TAINT, "spot=true:NoSchedule"),
        "untolerated taint spot=true:NoSchedule in flavor spot",
    ),
    (
        FlavorMismatch(MAIN, SPOT, MismatchKind.AFFINITY),
        "flavor spot doesn't match node affinity",
    ),
    (FlavorMismatch(MAIN, SPOT, MismatchKind.MISSING), "flavor spot not found"),
    (
        FlavorMismatch(MAIN, SPOT, MismatchKind.EXHAUSTED),
        "flavor spot is exhausted for this workload",
    ),
    (LostToOthers(), "Workload no longer fits after processing another workload"),
    (VictimsTaken(), "Workload has overlapping preemption targets with another workload"),
    (WaitingForVictims((OTHER,)), "Pending the preemption of 1 workload(s): ns/other"),
    (HeldForPreemptor(OTHER), "The place is held for ns/other, for whom others make way"),
    (
        WaitsForOwner(CPU, OTHER, QueueName("cq")),
        "Owners first: borrowing cpu of flavor spot would take what ns/other waits for"
        " in ClusterQueue cq",
    ),
    (
        PreemptionPaused(Preemptions(3, 100.0), 104.0),
        "It has preempted others 3 times without running for long:"
        " it may preempt again 4s after the last time",
    ),
    (
        NamespaceNotAdmitted("lab"),
        "Workload namespace (lab) doesn't match ClusterQueue selector",
    ),
    (Defective("no limit"), "The workload can't run as it is written: no limit"),
    (Defective(PODS_GONE), f"The workload waits for pods: {PODS_GONE}"),
]


@pytest.mark.parametrize(("reason", "text"), REASONS, ids=lambda value: type(value).__name__)
def test_reasons(reason: Reason, text: str) -> None:
    assert str(obstacle_line(reason)) == text


PAUSED = PreemptionPaused(Preemptions(3, 100.0), 104.0)
PREEMPTED = "It has preempted others 3 times without running for long: it may preempt again "


def test_a_pause_ends_after_a_while_or_at_a_time_where_readers_have_a_clock() -> None:
    assert str(obstacle_line(PAUSED, now=101.5)) == f"{PREEMPTED}in 3s"
    assert waiting_message([PAUSED], format_time) == f"{PREEMPTED}at 1970-01-01T00:01:44Z"
    once = PreemptionPaused(Preemptions(1, 100.0), 101.0)
    assert "preempted others once without" in str(obstacle_line(once))


@pytest.mark.parametrize("why", [PAUSED, WaitsForOwner(MEMORY, OTHER, QUEUE)], ids=str)
def test_nobody_who_may_not_preempt_now_is_told_that_there_is_nobody(why: Reason) -> None:
    nobody = " (nobody who may be preempted would free enough)"
    short = Shortfall(MAIN, MEMORY, 3 * GI, Preemptability.NO_VICTIMS)

    assert nobody in waiting_message([short])
    assert nobody not in waiting_message([why, short])


def test_the_reasons_of_a_pod_set_make_one_message() -> None:
    reasons = (LostToOthers(), REASONS[0][0], REASONS[4][0])

    assert waiting_message(reasons) == (
        "Workload no longer fits after processing another workload. "
        "couldn't assign flavors to pod set main: "
        "insufficient unused quota for cpu in flavor spot, 9 more needed, "
        "untolerated taint spot=true:NoSchedule in flavor spot"
    )


DECISIONS: list[tuple[Decision, Text]] = [
    (
        Admit(
            workload=JOB,
            queue=QUEUE,
            assignment=ASSIGNMENT,
            borrow_level=1,
            is_borrowing=True,
            waited_s=11.0,
        ),
        Text(
            "admitted",
            JOB,
            (
                "Admitted by ClusterQueue cq, wait time since queued was 11s",
                "1500m cpu of flavor spot, 4Gi memory of flavor spot, borrowing from the cohort",
            ),
        ),
    ),
    (
        Reserve(
            workload=JOB,
            queue=QUEUE,
            assignment=Assignment(()),
            borrow_level=0,
            is_borrowing=False,
            checks=(CheckName("budget"), CheckName("nodes")),
            waited_s=0.0,
        ),
        Text(
            "reserved",
            JOB,
            (
                "Quota reserved in ClusterQueue cq, wait time since queued was 0s",
                "It may start when admission checks budget, nodes said Ready",
            ),
        ),
    ),
    (
        Preempt(
            preemptor=JOB,
            queue=QUEUE,
            victims=(Victim(OTHER, QUEUE, VictimRule.IN_QUEUE, (CPU,), is_new=False),),
            reasons=(LostToOthers(),),
        ),
        Text(
            "preempts",
            JOB,
            (
                "Workload no longer fits after processing another workload",
                "ns/other: Preempted to accommodate a workload (ns/job) due to prioritization in"
                " the ClusterQueue [InClusterQueue], for its cpu in flavor spot;"
                " it was on its way out already",
            ),
        ),
    ),
    (
        Wait(workload=JOB, queue=QUEUE, reasons=(REASONS[0][0],)),
        Text(
            "waits",
            JOB,
            (
                "couldn't assign flavors to pod set main:",
                "- insufficient unused quota for cpu in flavor spot, 9 more needed",
            ),
        ),
    ),
    (
        Evict(
            workload=JOB,
            queue=QUEUE,
            reason=EvictionReason.FLAVOR_FALLBACK,
            flavors=(FlavorFailure(SPOT, Trigger.TIMEOUT),),
            requeue_at=60.0,
            requeue_count=2,
        ),
        Text(
            "evicted",
            JOB,
            (
                "Evicted from ClusterQueue cq: it falls back from flavor spot",
                "Flavor spot is passed over from now on: pods were not ready within the rule's"
                " timeout [TimeoutForPodsReadyExceeded]",
                "In line again after a back-off (requeue number 2)",
            ),
        ),
    ),
    (
        Evict(
            workload=JOB,
            queue=QUEUE,
            reason=EvictionReason.FLAVOR_FALLBACK,
            flavors=(FlavorFailure(SPOT, Trigger.TIMEOUT),),
            starts_over=True,
            requeue_at=60.0,
            requeue_count=1,
        ),
        Text(
            "evicted",
            JOB,
            (
                "Evicted from ClusterQueue cq: it falls back from flavor spot",
                "Flavor spot has failed: pods were not ready within the rule's timeout"
                " [TimeoutForPodsReadyExceeded]",
                "Every flavor that it could use is exhausted; it may try all of them again",
                "In line again after a back-off (requeue number 1)",
            ),
        ),
    ),
    (
        Deactivate(
            workload=JOB,
            queue=QUEUE,
            reason=DeactivationReason.FLAVORS_EXHAUSTED,
            history=(FlavorTrial(SPOT, 100.0, 700.0, Trigger.TIMEOUT),),
        ),
        Text(
            "deactivated",
            JOB,
            (
                "The workload is deactivated due to exhausting every flavor that it could use",
                "Flavor spot: pods were not ready within the rule's timeout, 10m after it was"
                " assigned",
                "Set active: true to let it try again",
            ),
        ),
    ),
    (
        Requeue(workload=JOB, queue=QUEUE),
        Text(
            "requeued",
            JOB,
            ("The workload backoff was finished; in line again in ClusterQueue cq",),
        ),
    ),
    (
        StartOver(workload=JOB, queue=QUEUE, requeue_at=None, requeue_count=1),
        Text(
            "starts over",
            JOB,
            ("Every flavor that it could use is exhausted; it may try all of them again",),
        ),
    ),
]


@pytest.mark.parametrize(("decision", "text"), DECISIONS, ids=lambda value: type(value).__name__)
def test_decisions(decision: Decision, text: Text) -> None:
    assert decision_text(decision) == text


# The first words of each eviction: what users of Kueue search for.
EVICTIONS = {
    EvictionReason.PREEMPTED: "Preempted to accommodate a workload",
    EvictionReason.PODS_READY_TIMEOUT: "Exceeded the PodsReady timeout ns/job",
    EvictionReason.ADMISSION_CHECK: 'Evicted due to AdmissionChecks in Retry state: "a"; "b"',
    EvictionReason.FLAVOR_FALLBACK: "Evicted from ClusterQueue cq: it falls back from flavor ",
    EvictionReason.NODE_REBOOTED: "The machine was started anew while its pods ran",
    EvictionReason.QUEUE_STOPPED: "The ClusterQueue is stopped",
    EvictionReason.LOCAL_QUEUE_STOPPED: "The LocalQueue is stopped",
    EvictionReason.DEACTIVATED: "The workload is deactivated",
    EvictionReason.PREEMPTED_IN_PLACEMENT: "Preempted to accommodate a workload that needs its"
    " nodes",
}


@pytest.mark.parametrize("reason", EvictionReason)
def test_every_eviction_has_words(reason: EvictionReason) -> None:
    checks = (CheckName("a"), CheckName("b")) if reason.name == "ADMISSION_CHECK" else ()
    text = decision_text(Evict(workload=JOB, queue=QUEUE, reason=reason, checks=checks))

    assert text.details == (EVICTIONS[reason],)


CAUSES = {
    Cause.WAIT_FOR_START: "pods that were not ready in time",
    Cause.WAIT_FOR_RECOVERY: "pods that did not recover in time",
    Cause.REQUEUE_LIMIT: "exceeding the maximum number of re-queuing retries",
    Cause.CHECK_REJECTED: 'AdmissionCheck in Rejected state: "a"',
    Cause.TIME_IS_UP: "exceeding the maximum execution time",
    Cause.FLAVORS_EXHAUSTED: "exhausting every flavor that it could use",
}


@pytest.mark.parametrize("cause", Cause)
def test_every_cause_has_words(cause: Cause) -> None:
    assert due_to(cause, (CheckName("a"),)) == CAUSES[cause]


def test_an_explanation_tells_all_that_stands_in_the_way() -> None:
    explanation = Explanation(
        workload=JOB,
        phase=Phase.PENDING,
        queue=QUEUE,
        obstacles=(
            QueueInactive(QUEUE, Inactive.STOPPED),
            BackingOff(until=90.0, requeues=3),
            BehindHead(OTHER),
            REASONS[0][0],
        ),
        position=1,
        ahead=(OTHER,),
        would_preempt=(OTHER,),
        holders=(
            Holder(OTHER, QUEUE, ((CPU, 4000),), VictimRule.RECLAIM),
            Holder(JOB, QUEUE, ((CPU, 500),), Refusal.PRIORITY),
            Holder(OTHER, QUEUE, ((CPU, 500),), Refusal.LETTING_GO, ((CPU, 2000),)),
        ),
        left_by_owners=(LeftByOwners(CPU, 4000, 1500), LeftByOwners(MEMORY, GI, -GI)),
        is_owner=True,
        helps=(
            MoreQuota(CPU, 9000),
            OwnQuota(QUEUE, CPU, 9500),
            AnyOf((JOB, OTHER)),
            AllOf((JOB, OTHER)),
            SmallerRequest(MEMORY, GI),
            LowerMinimum(PodSetName("main"), 4),
            HigherBorrowingLimit(QUEUE, MEMORY),
            ToleratedTaint(SPOT, "spot=true:NoSchedule"),
            MatchingLabels(SPOT, (("pool", "spot"),)),
            OtherResources((ResourceName("cpu"),)),
            ResumedQueue(QUEUE),
            ResumedLocalQueue(LocalQueueKey("ns/main")),
            OtherLocalQueue((LocalQueueKey("ns/main"),)),
            OtherQueue((QUEUE,)),
            OtherNamespace(("ns",)),
        ),
        history=(FlavorTrial(SPOT, 0.0),),
    )

    assert list(map(str, explanation_lines(explanation, now=30.0))) == [
        "ns/job waits in ClusterQueue cq, position in queue: 1 (before it: ns/other)",
        "ClusterQueue cq is inactive: Stopped",
        "It backs off for another 1m (requeue number 3)",
        "Nobody passes the head of a StrictFIFO queue: ns/other",
        "couldn't assign flavors to pod set main:",
        "- insufficient unused quota for cpu in flavor spot, 9 more needed",
        "Those who wait for quota of their own leave it 1500m of the 4 cpu of flavor spot that it"
        " asks for",
        "Those who wait for quota of their own leave it none of the 1Gi memory of flavor spot that"
        " it asks for",
        "It asks for no more than its ClusterQueue owns: until it has its place, nobody else begins"
        " to borrow that",
        "It would preempt ns/other",
        "Who holds what is missing:",
        "- ns/other (ClusterQueue cq): 4 cpu of flavor spot; may be taken by reclamation within"
        " the cohort",
        "- ns/job (ClusterQueue cq): 500m cpu of flavor spot; stays: its priority is not low"
        " enough",
        "- ns/other (ClusterQueue cq, which borrows 2 cpu): 500m cpu of flavor spot; is leaving"
        " already",
        "What would help, any of these:",
        "- 9 cpu more quota of flavor spot",
        "- 9500m cpu more quota of flavor spot for ClusterQueue cq itself, so that it need not"
        " borrow",
        "- the end of ns/job or ns/other",
        "- the end of ns/job and ns/other, together",
        "- a request for at most 1Gi memory, to fit flavor spot",
        "- a minimum of less than 4 pods in pod set main",
        "- a higher borrowingLimit of ClusterQueue cq for memory in flavor spot",
        "- a toleration of spot=true:NoSchedule, to use flavor spot",
        "- a node selector that goes with flavor spot (pool=spot)",
        "- other resources; the ClusterQueue covers: cpu",
        "- `makeway resume clusterqueue cq`",
        "- `makeway resume queue main -n ns`",
        "- another LocalQueue; there are: ns/main",
        "- another ClusterQueue; there are: cq",
        "- another namespace; admitted are: ns",
    ]


@pytest.mark.parametrize(
    ("phase", "obstacle", "lines"),
    [
        (
            Phase.RESERVED,
            ChecksOpen(((CheckName("budget"), CheckState.PENDING),)),
            [
                "ns/job holds quota in ClusterQueue cq and may not start yet",
                "Admission checks are open: budget is Pending",
            ],
        ),
        (
            Phase.EVICTING,
            LettingGo(EvictionReason.PREEMPTED),
            [
                "ns/job is being stopped and still holds quota in ClusterQueue cq",
                "Its pods have not gone yet [Preempted]",
            ],
        ),
        (
            Phase.PENDING,
            NoLocalQueue(LocalQueueKey("ns/main")),
            ["ns/job waits in ClusterQueue cq", "LocalQueue main doesn't exist"],
        ),
    ],
)
def test_explanations_of_other_phases(phase: Phase, obstacle: object, lines: list[str]) -> None:
    explanation = Explanation(
        workload=JOB,
        phase=phase,
        queue=QUEUE,
        obstacles=(obstacle,),  # type: ignore[arg-type]
    )

    assert list(map(str, explanation_lines(explanation, now=0.0))) == lines


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (-3, "0s"),
        (11.4, "11s"),
        (90, "1m 30s"),
        (600, "10m"),
        (5400, "1h 30m"),
        (90061, "1d 1h"),
    ],
)
def test_spans_of_time(seconds: float, text: str) -> None:
    assert format_span(seconds) == text


def test_long_lists_are_cut() -> None:
    keys = tuple(WorkloadKey(f"ns/{n}") for n in range(5))

    assert str(named(keys)) == "ns/0, ns/1, ns/2 and 2 more"


@pytest.mark.parametrize(
    ("is_terminal", "encoding", "environment", "pen"),
    [
        (True, "utf-8", {}, Pen(has_colour=True)),
        (False, "utf-8", {}, Pen()),
        (True, "utf-8", {"NO_COLOR": "1"}, Pen()),
        (True, "utf-8", {"TERM": "dumb"}, Pen()),
        (True, "ascii", {}, Pen(has_colour=True, has_blocks=False)),
        (False, None, {}, Pen(has_blocks=False)),
    ],
)
def test_colour_only_where_it_is_wanted(
    is_terminal: bool, encoding: str | None, environment: dict[str, str], pen: Pen
) -> None:
    assert pen_for(is_terminal, encoding, environment) == pen


# --- what would happen ---


def test_who_would_have_to_stop_is_told_why_in_words() -> None:
    loser = Loser(JOB, LocalQueueKey("ns/team"), QUEUE, 300.0, reason=EvictionReason.QUEUE_STOPPED)
    change = Change(JOB, Phase.ADMITTED, Phase.PENDING, ("spot",), ())

    assert [*map(str, difference_lines(Difference((change,), (loser,), True)))] == [
        "- ns/job would be evicted",
        "- ns/job of LocalQueue ns/team (ClusterQueue cq): the ClusterQueue is stopped; loses 5m"
        " of work",
    ]


@pytest.mark.parametrize("reason", EvictionReason)
def test_every_reason_to_stop_has_words(reason: EvictionReason) -> None:
    assert len(stopped_text(reason).split()) > 3
