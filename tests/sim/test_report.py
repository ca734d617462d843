"""What a reader gets: figures, tables, JSON, comparisons, proposals."""

from __future__ import annotations

import json

import pytest

from makeway.sim.cluster import parse_cluster
from makeway.sim.comparison import comparison_tables, figures
from makeway.sim.examples import EXAMPLES, VARIANTS, load_example, load_variant, trace_text
from makeway.sim.listing import job_lines
from makeway.sim.page import render_page
from makeway.sim.proposal import propose
from makeway.sim.record import Steps
from makeway.sim.report import as_data, as_json
from makeway.sim.report_tables import tables
from makeway.sim.simulate import simulate
from makeway.sim.spans import short_span
from makeway.sim.statistics import bin_means, quantile, size_group
from makeway.sim.trace_jobs import SimulationError
from makeway.sim.traces import parse_trace
from tests.sim.worlds import HOUR, MINUTE, cluster, flavor, job, play, queue, settings, trace

POLITE = "  preemption: {reclaimWithinCohort: Any}\n"
LAB = (
    *(flavor("a"), queue("vision", cohort="lab", a=8, more=POLITE)),
    queue("speech", cohort="lab", a=8, more=POLITE),
)
LAB_JOBS = (
    job("asr", on="speech", gpus=12, run=HOUR),
    job("seg", on="vision", gpus=8, at=30 * MINUTE, run=HOUR),
)


def test_use_borrowing_and_lending_are_averages_over_time() -> None:
    result = play(LAB, *LAB_JOBS)
    rows = {row["queue"]: row["quotas"][0] for row in as_data(result)["queues"]}

    # asr: 30 min on 12 GPUs (4 borrowed); seg: an hour on 8; asr again: an hour on 12.
    span = 2.5 * HOUR
    used = (0.5 * 12 + 1.0 * 12) * HOUR / span
    assert rows["speech"]["used"] == pytest.approx(used, rel=1e-3)
    assert rows["speech"]["borrowed"] == pytest.approx(1.5 * HOUR * 4 / span, rel=1e-3)
    assert rows["vision"]["lent"] == rows["speech"]["borrowed"]
    assert rows["vision"]["borrowed"] == 0
    assert result.use("a").peak == 12


def test_where_nobody_has_finished_there_is_no_turnaround() -> None:
    """Zero would be the best turnaround there is."""
    result = play(LAB, *LAB_JOBS, until=10 * MINUTE)  # asr runs for an hour, seg is still to come

    waits = as_data(result)["waits"]
    ended = ("slowdownMean", "slowdownP95", "turnaroundMean", "turnaroundP95")
    assert {waits["all"][name] for name in ended} == {None}
    assert (waits["all"]["jobs"], waits["all"]["mean"], waits["all"]["neverRan"]) == (1, 0, 0)
    assert (waits["byQueue"]["vision"]["jobs"], waits["byQueue"]["vision"]["p95"]) == (0, None)


def test_the_longest_wait_comes_with_its_reason() -> None:
    result = play((flavor("a"), queue("q", a=8)), job("x", gpus=8), job("late", gpus=8, at=1.0))

    longest = as_data(result)["longestWaits"][0]

    assert longest["job"] == "default/late"
    assert longest["reasons"][0]["type"] == "Shortfall"
    assert longest["reasons"][0]["cell"] == {"flavor": "a", "resource": "nvidia.com/gpu"}


def test_share_over_entitlement_is_looked_at_while_somebody_waits() -> None:
    result = play((flavor("a"), queue("q", a=8)), job("x", gpus=6, run=HOUR), job("y", gpus=4))

    assert result.shares == {"q": 0.75}


def test_sizes_fall_into_groups_of_powers_of_two() -> None:
    sizes = (1, 2, 3, 4, 5, 8, 9, 128)

    assert [size_group(size) for size in sizes] == [
        *((1, 1), (2, 2), (3, 4), (3, 4), (5, 8), (5, 8), (9, 16), (65, 128))
    ]


def test_a_quantile_is_a_value_that_occurs() -> None:
    assert [quantile([1, 2, 3, 4], share) for share in (0.0, 0.5, 0.51, 0.95)] == [1, 2, 3, 4]


def test_bins_keep_the_area_under_a_curve() -> None:
    steps = Steps()
    for at, change in ((1.0, 4), (2.5, -3), (7.75, 2), (9.0, -3)):
        steps.add(at, change)

    assert sum(bin_means(steps, 10.0, 7)) * 10 / 7 == pytest.approx(steps.integral(10.0))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.25, "250ms"),
        (45, "45.0s"),
        (600, "10.0m"),
        (7200, "2.0h"),
        (26_100, "7.3h"),
        (34_020, "9.4h"),
        (10**6, "11.6d"),
    ],
)
def test_spans_are_short(seconds: float, text: str) -> None:
    assert short_span(seconds) == text


def test_every_row_of_a_table_has_every_column() -> None:
    for table in tables(play(LAB, *LAB_JOBS)):
        assert table.title
        assert {len(row) for row in table.rows} == {len(table.columns)}


@pytest.mark.parametrize("name", [example.name for example in EXAMPLES])
def test_the_same_input_gives_the_same_bytes(name: str) -> None:
    first, again = (simulate(*load_example(name), seed=5) for _ in range(2))

    assert as_json(first) == as_json(again)
    assert render_page(first) == render_page(again)


@pytest.mark.parametrize("name", [example.name for example in EXAMPLES])
def test_every_example_finishes_and_shows_something(name: str) -> None:
    result = simulate(*load_example(name))

    assert result.is_complete
    assert result.finished == len(trace_text(name).splitlines()) - 1
    assert result.wait().longest > 0
    assert name in {"gang"} or result.record.evictions


def test_the_stockout_example_shows_what_fallback_rules_are_for() -> None:
    with_rules = simulate(*load_example("stockout"))
    without = simulate(
        load_variant("stockout-without-rules"), with_rules.trace, seed=with_rules.seed
    )

    assert with_rules.wait().p95 < 10 * MINUTE
    assert without.wait().p95 > 6 * HOUR
    assert without.evictions["PodsReadyTimeout"] > 10 * with_rules.evictions["FlavorFallback"]


def test_every_variant_is_a_configuration() -> None:
    for name in VARIANTS:
        assert load_variant(name).queues


def test_a_comparison_calls_out_what_got_better_and_what_worse() -> None:
    first = play((flavor("a"), queue("q", a=1)), *(job(f"j{i}") for i in range(4)))
    second = simulate(cluster(flavor("a"), queue("q", a=2)), first.trace, seed=first.seed)

    verdicts = {f.what: (f.verdict(1), f.change(1)) for f in figures([first, second])}
    table, *_ = comparison_tables([first, second])

    assert verdicts["mean wait, all"] == ("better", "-66.7 %")
    assert verdicts["makespan"] == ("better", "-50.0 %")
    assert verdicts["preemptions"] == ("", "same")
    assert len(table.rows) == len(verdicts)


def test_every_job_has_a_line_in_the_listing() -> None:
    lines = list(job_lines(play(LAB, *LAB_JOBS)))

    assert lines[0].startswith("job,queue,priority")
    assert lines[1] == (
        "default/asr,speech,0,12,0,0,9000,0,3600,1800,1,finished,9000,2,a,"
        "a/0/1800/preempted a/5400/9000/finished,default/seg,,\n"
    )


def test_the_json_is_json_and_names_its_schema() -> None:
    data = json.loads(as_json(play(LAB, *LAB_JOBS)))

    assert data["schema"] == "makeway.dev/simulation-report/v1"
    assert data["jobs"]["finished"] == 2
    assert data["stories"]["default/asr"][0] == {
        "atSeconds": 0.0,
        "what": "submitted",
        "text": "to queue speech",
    }
    assert len(data["series"]["waiting"]["speech"]) == 400


def test_no_name_in_a_trace_breaks_out_of_the_page() -> None:
    evil = job("</script><script>alert(1)</script>", gpus=1)

    page = render_page(play((flavor("a"), queue("q", a=8)), evil))

    assert "<script>alert(1)" not in page


# --- proposals ---


def test_a_proposal_can_be_simulated_as_it_is() -> None:
    text = "submit,run,queue,gpus\n0,60,Team A,4\n10,60,b,2\n20,60,b,2\n200,60,b,1\n"
    found = parse_trace(text, "jobs.csv")

    result = simulate(parse_cluster(propose(found, 1.0), "proposal"), found)

    assert sorted(result.cluster.queues) == ["b", "team-a"]
    assert result.cluster.quota_of(result.cluster.cells()[0]) == 8
    assert result.wait().longest == 0


def test_a_proposal_for_half_of_the_time_owns_less() -> None:
    jobs = [job("base", run=100.0, gpus=1), job("peak", at=50.0, run=10.0, gpus=9)]

    assert 'nominalQuota: "1"' in propose(trace(jobs), 0.5)
    assert 'nominalQuota: "10"' in propose(trace(jobs), 1.0)


def test_a_share_that_is_none_is_an_error() -> None:
    with pytest.raises(SimulationError, match="write a share between 0 and 1"):
        propose(trace([job("x")]), 95)


# --- configurations that are wrong ---


@pytest.mark.parametrize(
    ("document", "error"),
    [
        ("kind: ClusterQueue\n", "test.yaml:1:1: apiVersion: is missing"),
        (settings("startup: [{flavor: a, delay: fast}]"), "test.yaml:3:30: spec.startup[0].delay"),
        (settings("stockout: []"), "test.yaml:3:8: spec.stockout: is not a known field"),
        (settings("stockouts: [{flavor: a, for: 1h}]"), "test.yaml:3:20: spec.stockouts[0]"),
        (settings("checkpoints: [{interval: 0s}]"), "test.yaml:3:23: spec.checkpoints[0].interval"),
        (queue("Q", a=1), "test.yaml:3:12: metadata.name"),
        (queue("q", a=1) + "---\n" + queue("q", a=1), "test.yaml:13:12: ClusterQueue q"),
        (flavor("a"), "test.yaml: no ClusterQueue in it"),
    ],
)
def test_a_wrong_configuration_is_one_error_with_its_place(document: str, error: str) -> None:
    with pytest.raises(SimulationError) as caught:
        cluster(document)

    assert str(caught.value).startswith(error)
    assert "\n" not in str(caught.value)


def test_a_queue_that_the_configuration_lacks_is_named() -> None:
    jobs = [job("x", on="vision"), job("y", on="robotics"), job("z", on="robotics")]

    result = simulate(cluster(*LAB), trace(jobs))

    (oddity,) = result.oddities
    assert (oddity.count, oddity.is_left_out) == (2, True)
    assert "robotics" in oddity.what


def test_what_has_no_effect_in_a_simulation_is_named() -> None:
    topology = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: Topology\nmetadata: {name: racks}\n"
    node = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n"

    notes = cluster(queue("q", a=1), topology, node).notes

    assert [note.partition(": ")[0] for note in notes] == [
        "test.yaml:11:1",
        "test.yaml:11:1",
        "test.yaml:15:1",
    ]
    assert "Node/n1 is not simulated" in notes[-1]


def test_queues_and_trace_that_have_nothing_in_common_are_an_error() -> None:
    with pytest.raises(
        SimulationError, match="none of its queues is configured: it has 'robotics'"
    ):
        play(LAB, job("x", on="robotics"))
