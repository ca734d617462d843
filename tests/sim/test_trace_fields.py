"""What a trace may say beyond size and time: flavors, speed, users, predecessors."""

from __future__ import annotations

import json
from csv import DictReader

import pytest

from makeway.sim import Result, SimulationError, simulate
from makeway.sim.cluster import parse_cluster
from makeway.sim.layouts import parse_mapping
from makeway.sim.listing import job_lines
from makeway.sim.proposal import propose
from makeway.sim.trace_jobs import Trace
from makeway.sim.traces import parse_trace
from tests.sim.worlds import HOUR, MINUTE, cluster, flavor, play, queue, run, settings, told
from tests.sim.worlds import job as plain_job

LABELLED = flavor("t4") + "spec: {nodeLabels: {gpu: Tesla-T4}}\n"
TWO = (flavor("a100"), LABELLED, queue("q", a100=4, t4=4))
SWF_ROW = "{job} {submit} -1 {run} 4 -1 -1 4 {requested} -1 1 7 1 1 1 -1 {before} {think}"


def table(text: str, **mapping: str) -> Trace:
    columns = ",".join(f"{field}={column}" for field, column in mapping.items())
    return parse_trace(text, "jobs.csv", parse_mapping(columns))


def where(result: Result) -> dict[str, str]:
    return {row["job"].partition("/")[2]: row["flavors"] for row in DictReader(job_lines(result))}


# --- flavors ---


def test_a_job_runs_only_on_flavors_that_it_names() -> None:
    jobs = table(
        "name,submit,run,gpus,gpu_type\n"
        "any,0,3600,4,\n"  # takes the first flavor
        "picky,1,60,4,A100\n"  # waits for it, though t4 is free
        "either,2,60,4,A100|tesla-t4\n"  # by the value of a label
    )
    result = simulate(cluster(*TWO), jobs)

    assert where(result) == {"any": "a100", "picky": "a100", "either": "t4"}
    assert run(result, "picky").first_run_at == HOUR
    assert run(result, "either").first_run_at == 2.0


def test_cpus_of_a_group_of_their_own_are_free_for_all() -> None:
    both = queue("q", a100=4).replace(
        "  - coveredResources",
        "  - coveredResources: [cpu]\n    flavors:\n"
        '    - {name: plain, resources: [{name: cpu, nominalQuota: "8"}]}\n  - coveredResources',
    )
    jobs = table("name,submit,run,gpus,cpus,flavors\nx,0,60,1,4,a100\n")

    assert where(simulate(cluster(flavor("a100"), flavor("plain"), both), jobs)) == {
        "x": "a100+plain"
    }


def test_jobs_that_need_what_no_queue_has_are_left_out_and_named() -> None:
    jobs = table("name,submit,run,gpus,flavors\nx,0,60,1,h100\ny,0,60,1,t4\n")

    (oddity,) = simulate(cluster(*TWO), jobs).oddities

    assert oddity.what == "jobs that need flavor h100, which no queue has"
    assert (oddity.count, oddity.is_left_out, oddity.examples) == (1, True, ["x"])


def test_where_no_flavor_is_told_apart_all_run_anywhere_and_that_is_said() -> None:
    jobs = table("name,submit,run,gpus,flavors\nx,0,60,1,h100\ny,0,60,1,b200\n")

    result = simulate(cluster(*TWO), jobs)

    (oddity,) = result.oddities
    assert oddity.what.startswith("jobs need flavors (h100, b200) of which none is configured")
    assert (oddity.count, oddity.is_left_out, result.finished) == (2, False, 2)


def test_a_faster_flavor_ends_sooner() -> None:
    """On b a job runs at twice the speed; one has its own time there, a fifth."""
    world = (flavor("b"), queue("q", b=4), settings("speeds: [{flavor: b, factor: 2}]"))
    jobs = table("name,submit,run,gpus,on_b\nx,0,3600,1,\ny,0,3600,1,720\n", **{"run@b": "on_b"})
    result = simulate(cluster(*world), jobs)

    assert run(result, "x").ended_at == 1800.0
    assert run(result, "y").ended_at == 720.0


def test_columns_that_are_called_as_fields_need_no_map() -> None:
    text = "submit,run,run@b,gpus,example.com/fpga,date/time\n0,3600,720,1,2,noon\n"
    jobs = table(text)

    assert jobs.jobs[0].run_on == (("b", 720.0),)
    assert jobs.jobs[0].amounts == (("example.com/fpga", 2), ("gpus", 1))
    assert jobs.layout.endswith("example.com/fpga=example.com/fpga); not read: date/time")


def test_a_run_time_on_a_flavor_that_is_not_there_is_named() -> None:
    jobs = table("submit,run,run@h100,gpus\n0,3600,720,1\n")
    (oddity,) = simulate(cluster(flavor("b"), queue("q", b=4)), jobs).oddities

    assert oddity.what == "jobs with a run time on flavor h100, which is not configured"
    assert (oddity.count, oddity.is_left_out) == (1, False)


def test_a_speed_that_is_none_is_an_error() -> None:
    with pytest.raises(SimulationError, match=r"spec.speeds\[0\].factor: 0.0 is no factor"):
        cluster(*TWO, settings("speeds: [{flavor: a100, factor: 0}]"))


# --- users and requested time ---


def test_waits_are_told_by_user() -> None:
    jobs = table(
        "submit,run,gpus,user,requested\n0,3600,4,ann,7200\n0,3600,4,ann,7200\n1,60,4,bob,600\n"
    )
    result = simulate(cluster(flavor("a"), queue("q", a=4)), jobs)

    assert {name: waits.jobs for name, waits in result.waits_by_user().items()} == {
        "ann": 2,
        "bob": 1,
    }
    assert result.waits_by_user()["bob"].longest == 2 * HOUR - 1
    assert result.requested_share == 0.5
    rows = [*DictReader(job_lines(result))]
    assert [(row["user"], row["requested_s"]) for row in rows][-1] == ("bob", "600")


def test_a_log_tells_which_program_a_job_runs() -> None:
    row = SWF_ROW.format(job=1, submit=0, run=60, requested=60, before=-1, think=-1)

    assert parse_trace(row, "log.swf").jobs[0].program == "1"
    assert table("submit,run,gpus,program\n0,60,1,lammps\n").jobs[0].program == "lammps"


# --- predecessors ---


def test_a_job_comes_after_those_it_follows_have_ended() -> None:
    jobs = table(
        "name,submit,run,gpus,after\na,0,3600,1,\nb,0,600,1,\nc,60,60,1,a;b\nlate,9000,60,1,a\n"
    )
    result = simulate(cluster(flavor("f"), queue("q", f=4)), jobs, explain=["c"])

    assert run(result, "c").submitted_at == HOUR
    assert result.wait_of(run(result, "c")) == 0.0
    assert told(result, "c")[0] == "submitted"
    assert run(result, "late").submitted_at == 9000.0


def test_a_think_time_counts_from_the_end_of_the_other() -> None:
    rows = [
        SWF_ROW.format(job=1, submit=0, run=3600, requested=7200, before=-1, think=-1),
        SWF_ROW.format(job=2, submit=10, run=60, requested=60, before=1, think=600),
    ]
    log = parse_trace("\n".join(rows), "log.swf")
    cpus = queue("q", f=4).replace("nvidia.com/gpu", "cpu")

    result = simulate(cluster(flavor("f"), cpus), log)

    assert run(result, "2").submitted_at == HOUR + 600
    assert result.makespan.seconds == HOUR + 660
    assert result.requested_share == 0.5

    by_the_clock = parse_trace("\n".join(rows), "log.swf", parse_mapping("after=-"))
    assert run(simulate(cluster(flavor("f"), cpus), by_the_clock), "2").submitted_at == 10.0


def test_predecessors_that_are_not_there_or_wait_for_each_other_are_named() -> None:
    jobs = table("name,submit,run,gpus,after\nx,0,60,1,gone\na,1,60,1,b\nb,2,60,1,a\nc,3,60,1,b\n")
    result = simulate(cluster(flavor("f"), queue("q", f=4)), jobs)

    assert [(o.count, o.what.partition(" (")[0]) for o in result.oddities] == [
        (1, "jobs that follow upon jobs which are not there"),
        (3, "jobs that wait for each other's end"),
    ]
    assert [one.submitted_at for one in result.runs] == [0.0, 1.0, 2.0, 3.0]


def test_a_job_whose_predecessor_never_fits_comes_all_the_same() -> None:
    jobs = (
        plain_job("big", gpus=99),
        plain_job("next", at=1.0)._replace(after=("big",), think_s=MINUTE),
    )

    assert run(play((flavor("f"), queue("q", f=4)), *jobs), "next").submitted_at == MINUTE


# --- layouts ---


def test_an_archive_may_add_fields_to_swf() -> None:
    rows = [
        SWF_ROW.format(job=i, submit=i, run=60, requested=60, before=-1, think=-1)
        + f" 1 {name} none"
        for i, name in enumerate(("short", "long", "short"))
    ]
    log = parse_trace("; MetaCentrum\n" + "\n".join(rows), "x.swf", parse_mapping("queue=field20"))

    assert [one.queue for one in log.jobs] == ["short", "long", "short"]
    assert log.layout.startswith("SWF (")


def test_philly_reads_as_it_was_published() -> None:
    detail = [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu0"]}]
    jobs = [
        {
            "status": "Pass",
            "vc": "ee9e8c",
            "jobid": "application_1",
            "attempts": [
                {
                    "start_time": "2017-10-07 01:11:21",
                    "end_time": "2017-10-07 01:21:21",
                    "detail": detail,
                },
                {"start_time": "2017-10-07 02:00:00", "end_time": "None", "detail": []},
            ],
            "submitted_time": "2017-10-07 01:11:17",
            "user": "ce2f30",
        }
    ]
    (found,) = parse_trace(json.dumps(jobs), "cluster_job_log").jobs

    assert (found.name, found.queue, found.user) == ("application_1", "ee9e8c", "ce2f30")
    assert (found.run_s, found.amounts) == (600.0, (("gpus", 3),))


def test_what_slurm_says_of_types_limits_and_dependencies_is_read() -> None:
    head = "JobID|User|Partition|Submit|Start|End|State|AllocCPUS|AllocTRES|ReqTRES"
    head += "|Timelimit|Dependency"
    rows = [
        "7|ann|gpu|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T01:00:00|COMPLETED|8|"
        "cpu=8,gres/gpu=2,gres/gpu:a100=2|cpu=8,gres/gpu:a100=2|02:00:00|",
        "8|bob|gpu|2026-01-01T00:00:00|2026-01-01T02:00:00|2026-01-01T03:00:00|COMPLETED|8|"
        "cpu=8,gres/gpu=1|cpu=8,gres/gpu=1|UNLIMITED|afterok:7",
    ]
    first, second = parse_trace("\n".join([head, *rows]), "log.txt").jobs

    assert (first.user, first.flavors, first.requested_s) == ("ann", ("a100",), 7200.0)
    assert (second.user, second.flavors, second.requested_s) == ("bob", (), None)
    assert second.after == ("7",)


def test_the_database_of_slurm_is_read() -> None:
    text = (
        "id_job,id_user,partition,cpus_req,gres_used,timelimit,time_submit,time_start,time_end\n"
        "1,42,normal,40,gpu:tesla:2,1440,1600000000,1600000060,1600003660\n"
    )
    (found,) = parse_trace(text, "slurm-log.csv").jobs

    assert (found.user, found.run_s, found.requested_s) == ("42", 3600.0, 86_400.0)
    assert found.amounts == (("cpus", 40_000), ("gpus", 2))


@pytest.mark.parametrize(
    ("rows", "warning"),
    [
        ("0,60,1\n10000000000,60,1\n", "submissions span 317 years: perhaps they are no seconds"),
        ("0,5000000,1\n1,6000000,1\n", "half of the jobs run longer than 57.9d"),
    ],
)
def test_units_that_are_surely_wrong_are_named(rows: str, warning: str) -> None:
    (found,) = table(f"submit,run,gpus\n{rows}").warnings

    assert found.startswith(warning)
    assert "--map" in found


def test_memory_and_cpus_in_other_units_are_named() -> None:
    memory, cpus = table("submit,run,mem,cpu\n0,60,64,32000\n1,60,64,16000\n").warnings

    assert memory.startswith("half of the jobs ask for 64 bytes of memory or less")
    assert "--map memory=mem*1048576" in memory
    assert cpus.endswith("thousandths (--map cpus=cpu*0.001)")


def test_a_time_beyond_all_times_does_not_parse() -> None:
    with pytest.raises(
        SimulationError, match=r"is no time in seconds; perhaps --map submit=submit"
    ):
        table("submit,run,gpus\n1e30,60,1\n")


def test_priorities_are_found_whatever_their_case() -> None:
    classes = (
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: WorkloadPriorityClass\n"
        "metadata: {name: ls}\nvalue: 100\n"
    )
    jobs = table("name,submit,run,gpus,priority\nx,0,60,1,LS\n")

    result = simulate(cluster(*TWO, classes), jobs)

    assert run(result, "x").priority == 100
    assert result.oddities == ()


# --- proposals ---


def test_a_proposal_has_flavors_queues_and_what_was_left_out() -> None:
    jobs = table(
        "name,submit,run,gpus,queue,flavors\n"
        "a,0,60,4,Vision,V100|T4\nb,0,60,2,vision,T4\nc,0,60,1,speech,\nd,0,60,1,speech,V100\n"
        "bad,soon,60,1,speech,\n"
    )
    text = propose(jobs, 1.0)

    assert '# left out: 1 rows that don\'t parse (jobs.csv:6:5: submit "soon" is not a time' in text
    result = simulate(parse_cluster(text, "proposed"), jobs)
    assert result.wait().longest == 0
    assert {cell.flavor: result.cluster.quota_of(cell) for cell in result.cluster.cells()} == {
        "v100": 6,
        "t4": 2,
    }


def test_a_proposal_for_one_queue_of_many_users_says_how_to_tell_them_apart() -> None:
    text = propose(table("submit,run,gpus,user\n0,60,1,ann\n1,60,1,bob\n"), 1.0)

    assert "# One queue and 2 users: --map queue=COLUMN could tell them apart." in text
