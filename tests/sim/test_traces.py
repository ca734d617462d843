"""Traces as people have them, and what is wrong with some."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from makeway.sim.generator import read_generator
from makeway.sim.layouts import parse_mapping
from makeway.sim.trace_jobs import CPUS, GPUS, MEMORY, SimulationError
from makeway.sim.traces import parse_trace, read_trace
from tests.prerequisites import shared_path

HELIOS = """\
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
7,u1,vcA,8,64,1,COMPLETED,2020-04-01 00:00:10,2020-04-01 00:01:00,2020-04-01 01:01:00,3600,50
8,u2,vcB,0,4,1,CANCELLED,2020-04-01 00:00:00,None,None,0,0
"""
ALIBABA = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
pod-0,12000,16384,1,460,,LS,Running,0,12537496,0
pod-1,6000,12288,2,1000,V100M16,BE,Succeeded,427061,429000,427100
pod-2,6000,12288,1,1000,,LS,Pending,500000,600000,
"""
SACCT = """\
JobID|User|Account|Partition|Submit|Start|End|State|AllocCPUS|AllocTRES
11|ann|bio|gpu|2026-01-05T08:00:00|2026-01-05T08:10:00|2026-01-05T09:10:00|COMPLETED|8|billing=8,cpu=8,gres/gpu=2,mem=64G
11.batch|||gpu|2026-01-05T08:10:00|2026-01-05T08:10:00|2026-01-05T09:10:00|COMPLETED|8|cpu=8
12|bob|bio|gpu|2026-01-05T08:05:00|Unknown|Unknown|PENDING|4|cpu=4
13|eve|phy|cpu|2026-01-05T08:07:00|None|2026-01-05T08:09:00|CANCELLED by 1000|0|
"""
SWF = """\
; UnixStartTime: 749458803
; Queue: 1 batch
1 10 -1 60 4 -1 -1 -1 -1 -1 1 3 1 -1 1 -1 -1 -1
2 20 -1 30 -1 -1 -1 8 -1 -1 1 3 1 -1 1 -1 -1 -1
3 30 5 -1 -1 -1 -1 8 -1 -1 5 3 1 -1 1 -1 -1 -1
"""


def left_out(text: str) -> dict[str, int]:
    return {o.what: o.count for o in parse_trace(text, "log").oddities if o.is_left_out}


def test_helios_is_recognised() -> None:
    trace = parse_trace(HELIOS, "helios.csv")
    (job,) = trace.jobs

    assert trace.layout.startswith("Helios")
    assert (job.name, job.queue, job.run_s) == ("7", "vcA", 3600)
    assert dict(job.amounts) == {GPUS: 8, CPUS: 64_000}


def test_alibaba_is_recognised_and_parts_of_a_gpu_are_rounded_up() -> None:
    trace = parse_trace(ALIBABA, "pods.csv")
    first, second = trace.jobs

    assert trace.layout.startswith("Alibaba")
    assert (first.queue, first.run_s) == ("LS", 12537496)
    assert dict(first.amounts) == {GPUS: 1, CPUS: 12_000, MEMORY: 16384 * 2**20}
    assert (second.submit_s, second.run_s) == (427061, 1900)
    assert list(left_out(ALIBABA)) == [
        "jobs without a run time (waiting or running when the log ended)"
    ]


def test_sacct_is_recognised_and_what_did_not_run_is_named() -> None:
    trace = parse_trace(SACCT, "log.txt")
    (job,) = trace.jobs

    assert trace.layout.startswith("sacct")
    assert (job.name, job.queue, job.run_s) == ("11", "gpu", 3600)
    assert dict(job.amounts) == {GPUS: 2, CPUS: 8_000}
    assert left_out(SACCT) == {
        "steps of jobs, which are no jobs": 1,
        "jobs without a run time (waiting or running when the log ended)": 1,
        "jobs cancelled before they ran": 1,
    }


def test_swf_takes_what_was_allocated_where_nothing_was_requested() -> None:
    trace = parse_trace(SWF, "log.swf")

    assert [dict(job.amounts)[CPUS] for job in trace.jobs] == [4000, 8000]
    assert [job.queue for job in trace.jobs] == ["batch", "batch"]
    assert [job.submit_s for job in trace.jobs] == [0, 10]
    assert trace.origin == 749458813
    assert left_out(SWF) == {"jobs cancelled before they ran": 1}


def test_columns_may_be_mapped_and_scaled() -> None:
    text = "when,secs,millis,who\n0,60,1500,ann\n5,2m,500,bob\n"
    mapping = parse_mapping("submit=when,run=secs,cpus=millis*0.001,queue=who")

    trace = parse_trace(text, "own.csv", mapping)

    assert [(j.queue, j.run_s, dict(j.amounts)[CPUS]) for j in trace.jobs] == [
        ("ann", 60, 1500),
        ("bob", 120, 500),
    ]


def test_gzip_is_read_like_plain_text(tmp_path: Path) -> None:
    file = tmp_path / "log.gz"
    file.write_bytes(gzip.compress(SWF.encode()))

    assert len(read_trace(file).jobs) == 2


def test_rows_that_do_not_parse_are_counted_with_their_places() -> None:
    text = "submit,run,gpus\n0,60,1\n1,soon,1\n2,60\n3,60,1\nnever,60,1\n4,-5,1\n5,60,0\n6,60,1\n"

    trace = parse_trace(text, "own.csv")

    assert len(trace.jobs) == 3
    assert [(o.what, o.count) for o in trace.oddities] == [
        ("rows that don't parse", 3),
        ("jobs with a negative run time", 1),
        ("jobs that ask for nothing", 1),
    ]
    assert trace.oddities[0].examples[:2] == [
        'own.csv:3:3: run "soon" is not a span of time; write seconds, 1h30m or 01:30:00',
        "own.csv:4:1: has 2 fields, not 3",
    ]


def test_oddities_of_the_clock_are_named() -> None:
    text = "submit,start,end,run,gpus\n100,90,150,60,1\n50,60,70,500,1\n60,80,70,10,1\n"

    trace = parse_trace(text, "own.csv")

    assert [o.what for o in trace.oddities] == [
        "jobs that started before they were submitted",
        "jobs whose run time is not end minus start (run time counts)",
        "rows out of order in time (sorted)",
        "jobs that ended before they started",
    ]
    assert [job.submit_s for job in trace.jobs] == [0, 10, 50]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "log: the file is empty"),
        ("1,2,3\n", "log:1:1: this is no header but a row of numbers"),
        ("a,b\n1,2\n", "log:1:1: no column says when a job was submitted"),
        ("submit,gpus\n1,2\n", "log:1:1: no column says how long a job ran"),
        ("submit,run\n1,2\n", "log:1:1: no column says what a job asked for"),
        ("submit,run,gpus\nx,1,1\ny,1,1\n", 'log:2:1: submit "x" is not a time'),
        ("submit,run,gpus\n", "log: no job to simulate (no rows)"),
    ],
)
def test_a_trace_that_is_none_is_one_error_with_its_place(text: str, error: str) -> None:
    with pytest.raises(SimulationError) as caught:
        parse_trace(text, "log")

    assert str(caught.value).startswith(error)


@pytest.mark.parametrize(
    ("mapping", "error"),
    [
        ("submit", "write FIELD=COLUMN"),
        ("gpu=x", "there is no field gpu"),
        ("gpus=x*y", "y is not a number"),
    ],
)
def test_a_wrong_mapping_says_what_would_be_right(mapping: str, error: str) -> None:
    with pytest.raises(SimulationError, match=error.replace("*", r"\*")):
        parse_mapping(mapping)


def test_a_mapped_column_that_is_not_there_is_an_error() -> None:
    with pytest.raises(
        SimulationError, match="log:1:1: no column n_gpu for gpus; the file has submit"
    ):
        parse_trace("submit,run,g\n1,2,3\n", "log", parse_mapping("gpus=n_gpu"))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("queues: []\n", "gen.yaml:1:1: this is no generator file"),
        ("cohorts:\n- count: 2\n", "gen.yaml:2:3: cohorts[0].className: is missing"),
        ("cohorts: [\n", "gen.yaml:2:1: is not YAML"),
    ],
)
def test_a_generator_file_that_is_none_is_an_error(text: str, error: str) -> None:
    with pytest.raises(SimulationError) as caught:
        read_generator(text, "gen.yaml")

    assert str(caught.value).startswith(error)


def test_all_rows_of_the_real_traces_are_read() -> None:
    philly = read_trace(shared_path("traces/philly.csv.gz"))
    nasa = read_trace(shared_path("traces/NASA-iPSC-1993-3.1-cln.swf.gz"))

    gpu_hours = sum(job.run_s * dict(job.amounts)[GPUS] for job in philly.jobs) / 3600
    assert (len(philly.jobs), round(gpu_hours)) == (82_247, 978_078)
    assert len({job.queue for job in philly.jobs}) == 15
    assert (len(nasa.jobs), max(dict(j.amounts)[CPUS] for j in nasa.jobs)) == (18_239, 128_000)
