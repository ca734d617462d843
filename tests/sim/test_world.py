"""How the simulated world behaves: progress, machines, checks, users."""

from __future__ import annotations

import re

import pytest

from makeway.sim import SimulationError
from makeway.sim.record import JobOutcome
from tests.sim.worlds import HOUR, MINUTE, flavor, job, play, queue, run, settings, told

ONE = (flavor("a"), queue("q", a=8))
LOWER = "  preemption: {withinClusterQueue: LowerPriority}\n"
PREEMPTING = (flavor("a"), queue("q", a=8, more=LOWER))
POLITE = "  preemption: {reclaimWithinCohort: Any}\n"


def test_a_job_runs_as_long_as_the_trace_says_and_the_next_one_follows() -> None:
    result = play(ONE, job("first", run=HOUR, gpus=8), job("second", at=1.0, gpus=1))

    assert run(result, "first").ended_at == HOUR
    assert run(result, "second").first_run_at == HOUR
    assert result.wait_of(run(result, "second")) == HOUR - 1
    assert result.makespan.seconds == HOUR + MINUTE


def test_a_preempted_job_begins_again_from_nothing() -> None:
    result = play(
        PREEMPTING,
        job("long", run=HOUR, gpus=8),
        job("urgent", at=30 * MINUTE, run=10 * MINUTE, gpus=8, priority=5),
    )

    long = run(result, "long")
    assert (long.evictions, long.lost_s) == (1, 30 * MINUTE)
    assert long.ended_at == 40 * MINUTE + HOUR
    assert result.evictions == {"InClusterQueue": 1}


@pytest.mark.parametrize(
    ("interval", "lost_s"), [("10m", 5 * MINUTE), ("20m", 15 * MINUTE), ("1h", 35 * MINUTE)]
)
def test_checkpoints_bound_what_an_eviction_costs(interval: str, lost_s: float) -> None:
    world = (*PREEMPTING, settings(f"checkpoints: [{{interval: {interval}}}]"))
    urgent = job("urgent", at=35 * MINUTE, run=MINUTE, gpus=8, priority=5)

    result = play(world, job("long", run=HOUR, gpus=8), urgent)

    assert run(result, "long").lost_s == lost_s
    assert run(result, "long").ended_at == HOUR + MINUTE + lost_s


def test_a_job_may_have_a_checkpoint_interval_of_its_own() -> None:
    urgent = job("urgent", at=35 * MINUTE, run=MINUTE, gpus=8, priority=5)

    result = play(PREEMPTING, job("long", run=HOUR, gpus=8, checkpoint=MINUTE), urgent)

    assert run(result, "long").lost_s == 0


def test_a_victim_holds_its_quota_until_its_pods_are_gone() -> None:
    world = (*PREEMPTING, settings("termination: 2m, startup: [{delay: 1m}]"))

    result = play(
        world, job("long", run=HOUR, gpus=8), job("urgent", at=HOUR / 2, gpus=8, priority=5)
    )

    assert run(result, "urgent").first_run_at == HOUR / 2 + 2 * MINUTE + MINUTE
    assert told(result, "long")[:5] == ["submitted", "Admit", "pods ready", "Preempt", "pods gone"]


def test_in_a_stockout_no_pod_starts_but_those_that_run_go_on() -> None:
    world = (*ONE, settings("stockouts: [{flavor: a, from: 10m, for: 1h}]"))

    result = play(world, job("early", run=2 * HOUR), job("late", at=20 * MINUTE))

    assert run(result, "early").ended_at == 2 * HOUR
    assert run(result, "late").first_run_at == 70 * MINUTE
    assert result.work.idle == pytest.approx(50 * MINUTE)  # the GPU that the late job held in vain


def test_a_stockout_may_take_machines_in_use() -> None:
    world = (*ONE, settings("stockouts: [{flavor: a, from: 10m, for: 1h, stopsRunning: true}]"))

    result = play(world, job("early", run=2 * HOUR))

    assert run(result, "early").ended_at == 70 * MINUTE + 2 * HOUR
    assert run(result, "early").lost_s == 10 * MINUTE


def test_fallback_rules_lead_around_a_dry_flavor() -> None:
    rules = """\
  flavorFungibility:
    fallbackStrategy:
      rules: [{name: spot, trigger: TimeoutForPodsReadyExceeded, timeout: 5m}]
"""
    flavors = (flavor("spot"), flavor("firm"))
    dry = settings("stockouts: [{flavor: spot, from: 0s, for: 10h}]")
    queue_with, queue_without = queue("q", spot=8, firm=8, more=rules), queue("q", spot=8, firm=8)

    with_rules = play((*flavors, queue_with, dry), job("x", at=1.0))
    without = play((*flavors, queue_without, dry), job("x", at=1.0))

    assert with_rules.wait().p95 == 5 * MINUTE
    assert with_rules.evictions == {"FlavorFallback": 1}
    assert with_rules.record.counts["fallbacks from spot"] == 1
    assert without.wait().p95 == 10 * HOUR - 1


def test_a_failed_node_costs_progress_and_not_the_place() -> None:
    world = (*ONE, settings("failures: [{flavor: a, at: 30m}], startup: [{delay: 1m}]"))

    result = play(world, job("x", run=HOUR))

    assert run(result, "x").ended_at == 30 * MINUTE + MINUTE + HOUR
    assert run(result, "x").evictions == 0
    assert told(result, "x") == [
        *("submitted", "Admit", "pods ready", "pods failed", "pods ready", "finished")
    ]


def test_random_stockouts_and_failures_depend_on_the_seed_alone() -> None:
    chance = "stockouts: [{flavor: a, every: 2h, for: 10m}], failures: [{flavor: a, every: 1h}]"
    world = (*ONE, settings(chance))
    jobs = [job(f"job-{i}", at=i * 10 * MINUTE, run=HOUR) for i in range(40)]

    ends = [[one.ended_at for one in play(world, *jobs, seed=seed).runs] for seed in (1, 1, 2)]

    assert ends[0] == ends[1]
    assert ends[0] != ends[2]


def check(spec: str) -> tuple[str, ...]:
    admission_check = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {name: budget}
spec: {controllerName: example.com/budget}
"""
    strategy = "  admissionChecksStrategy: {admissionChecks: [{name: budget}]}\n"
    return (
        *(flavor("a"), admission_check, queue("q", a=8, more=strategy)),
        settings(f"checks: [{{name: budget, {spec}}}]"),
    )


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        (
            "stockouts: [{flavor: spto, from: 0s, for: 1h}]",
            'stockouts[0].flavor: "spto" is no flavor',
        ),
        ("startup: [{delay: 1m}, {flavor: b, delay: 1m}]", 'startup[1].flavor: "b" is no flavor'),
        ("failures: [{flavor: '*', at: 1h}]", 'failures[0].flavor: "*" is no flavor here; write a'),
        ("checkpoints: [{queue: p, interval: 1m}]", 'checkpoints[0].queue: "p" is no queue here'),
        ("checks: [{name: budget, delay: 1m}]", 'checks[0].name: "budget" is no admission check'),
    ],
)
def test_a_setting_for_what_is_not_there_is_an_error(spec: str, error: str) -> None:
    with pytest.raises(SimulationError, match=re.escape(f"spec.{error}")):
        play((flavor("a"), queue("q", a=1), settings(spec)), job("x"))


def test_an_admission_check_takes_its_time() -> None:
    result = play(check("delay: 5m"), job("x", run=HOUR))

    assert run(result, "x").first_run_at == 5 * MINUTE
    assert told(result, "x")[:4] == ["submitted", "Reserve", "check budget says Ready", "Admit"]


def test_a_refused_job_is_deactivated_and_named() -> None:
    result = play(check("rejects: 1"), job("x", run=HOUR))

    assert run(result, "x").outcome is JobOutcome.DEACTIVATED
    assert result.record.counts["DeactivatedDueToAdmissionCheck"] == 1
    assert result.use("a").used == 0


def test_a_check_that_asks_for_a_retry_is_asked_again() -> None:
    jobs = [job(f"job-{i}", at=float(i)) for i in range(40)]

    result = play(check("retries: 0.5, retryAfter: 1m"), *jobs, seed=3)

    assert result.finished == 40
    assert result.evictions["AdmissionCheck"] > 5
    assert result.record.counts["requeues after a back-off"] == result.evictions["AdmissionCheck"]


def test_a_cancelled_job_leaves_whether_it_waits_or_runs() -> None:
    result = play(
        ONE,
        job("running", run=HOUR, gpus=8, cancel=20 * MINUTE),
        job("waiting", at=1.0, run=HOUR, gpus=8, cancel=10 * MINUTE),
        job("patient", at=2.0, run=HOUR, gpus=8, cancel=10 * HOUR),
    )

    outcomes = [one.outcome for one in result.runs]
    assert outcomes == [JobOutcome.CANCELLED, JobOutcome.CANCELLED, JobOutcome.FINISHED]
    assert run(result, "waiting").first_run_at is None
    assert run(result, "patient").first_run_at == 20 * MINUTE


def test_what_was_planned_for_a_job_that_is_gone_does_not_make_the_day_longer() -> None:
    result = play(ONE, job("x", run=HOUR, cancel=100 * HOUR))

    assert result.end == HOUR


def test_a_share_of_the_users_gives_up() -> None:
    world = (*ONE, settings('cancellations: [{share: "0.25", patience: {delay: 1s}}]'))
    jobs = [job(f"job-{i}", at=float(i), run=HOUR, gpus=8) for i in range(200)]

    result = play(world, *jobs)

    assert 30 <= result.outcomes[JobOutcome.CANCELLED] <= 70


def test_what_can_never_fit_is_named_and_blocks_nobody() -> None:
    strict = (flavor("a"), queue("q", a=8, more="  queueingStrategy: StrictFIFO\n"))

    result = play(strict, job("huge", gpus=9), job("small", at=1.0))

    assert run(result, "huge").outcome is JobOutcome.NEVER_FITS
    assert run(result, "small").outcome is JobOutcome.FINISHED
    assert result.wait().jobs == 1
    assert run(result, "huge").reasons


def test_a_job_short_of_one_flavor_and_too_big_for_the_next_can_still_fit() -> None:
    world = (flavor("a"), flavor("b"), queue("q", a=8, b=2))

    result = play(world, job("first", gpus=8), job("second", at=1.0, gpus=8))

    assert [one.outcome for one in result.runs] == [JobOutcome.FINISHED, JobOutcome.FINISHED]


def test_the_owner_gets_back_what_a_neighbour_borrowed() -> None:
    world = (
        *(flavor("a"), queue("vision", cohort="lab", a=8, more=POLITE)),
        queue("speech", cohort="lab", a=8, more=POLITE),
    )

    result = play(
        world,
        job("asr", on="speech", gpus=12, run=HOUR),
        job("seg", on="vision", gpus=8, at=MINUTE, run=MINUTE),
    )

    assert run(result, "seg").first_run_at == MINUTE
    assert run(result, "asr").evictions == 1
    assert result.use("a").borrowed > 0


def test_who_never_came_to_be_first_waited_for_what_its_equals_were_told() -> None:
    """Two lines of jobs of 4 GPUs wait behind one of 16; each is parked with its line."""
    lab = (flavor("a"), *(queue(name, cohort="lab", a=8, more=POLITE) for name in ("x", "y")))
    waiting = [job(f"{on}{n}", on=on, gpus=4, at=n, run=HOUR) for on in "xy" for n in range(1, 6)]

    result = play(lab, job("first", on="x", gpus=16, run=HOUR), *waiting)

    waited = [one for one in result.runs if result.wait_of(one)]
    assert len(waited) > 4
    assert all(one.reasons for one in waited)
    for one in waited:
        story = told(result, one.job.name)
        assert story.index("submitted") < story.index("Wait") < story.index("Admit")


def test_of_a_wait_for_the_same_reasons_a_story_tells_once() -> None:
    """When an hour is over small jobs take the place; large is short of as much as before."""
    small = [job(f"small-{n}", at=n, gpus=4, run=HOUR) for n in range(1, 9)]

    result = play(ONE, job("first", gpus=8, run=HOUR), job("large", at=0.5, gpus=8), *small)

    assert told(result, "large").count("Wait") == 1


def test_with_fewer_pods_the_same_work_takes_longer() -> None:
    flexible = job("x", run=HOUR, gpus=16)._replace(pods=16, pods_min=4)

    result = play(ONE, flexible)

    assert run(result, "x").ended_at == 2 * HOUR
    assert result.work.useful == 16 * HOUR
    assert result.use("a").busy == 8


def test_priorities_may_be_names_of_classes() -> None:
    urgent = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: urgent}
value: 77
"""
    named = job("x")._replace(priority="urgent")
    unknown = job("y")._replace(priority="whatever")

    result = play((*ONE, urgent), named, unknown)

    assert [one.priority for one in result.runs] == [77, 0]
    assert [o.what for o in result.oddities] == [
        "jobs of priority whatever, which no class defines (0 counts)"
    ]


def test_a_resource_of_any_name_stands_for_gpus() -> None:
    amd = queue("q", a=8).replace("nvidia.com/gpu", "amd.com/gpu")
    fpga = queue("q", a=8).replace("nvidia.com/gpu", "example.com/fpga")
    says_so = settings("resources: {gpus: example.com/fpga}")

    assert play((flavor("a"), amd), job("x")).main_resource == "amd.com/gpu"
    assert play((flavor("a"), fpga, says_so), job("x")).main_resource == "example.com/fpga"


def test_a_run_may_be_cut_short_and_says_so() -> None:
    result = play(ONE, job("x", run=HOUR, gpus=8), job("y", at=1.0, gpus=8), until=30 * MINUTE)

    assert not result.is_complete
    assert [one.outcome for one in result.runs] == [JobOutcome.RUNNING, JobOutcome.WAITING]
    assert result.wait().longest == 30 * MINUTE - 1
    assert result.work.kept == 30 * MINUTE * 8
