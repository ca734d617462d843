"""What `makeway simulate` shows: how it went, tables, longest waits, circles, a job's life."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from makeway.api.errors import in_words
from makeway.api.times import format_time
from makeway.cli.command import UsageError
from makeway.cli.tables import counted
from makeway.cli.wide_tables import print_wide_table, print_wrapped
from makeway.engine.decisions import Decision, Preempt
from makeway.engine.explain import Explanation
from makeway.sim import Result
from makeway.sim.circles import circle_lines, circle_remedy
from makeway.sim.comparison import LETTERS, comparison_tables, paired, verdict, why_lines
from makeway.sim.record import Incident, JobOutcome, JobRun
from makeway.sim.report_tables import Table, tables
from makeway.sim.spans import short_span
from makeway.sim.straggling import end_text, warnings
from makeway.translate.explanation import explanation_lines
from makeway.translate.words import decision_text, victim_line, waiting_message

LONGEST_SHOWN = 5


def expect_room_for(name: str) -> None:
    """Before hours of runs, not after them."""
    folder = Path(name).parent
    if Path(name).is_dir():
        raise UsageError(f"{name}: is a directory")
    if not folder.is_dir():
        raise UsageError(f"{name}: there is no folder {folder}")
    if not os.access(name if Path(name).exists() else folder, os.W_OK):
        raise UsageError(f"{name}: may not be written by you")


def write_file(name: str, text: str) -> None:
    try:
        Path(name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{name}: {in_words(error)}") from None


def print_tables(results: Sequence[Result]) -> None:
    is_alone = len(results) == 1
    if not is_alone:
        for sentence in verdict(results):
            print_wrapped(sentence)
        print()
    _print_head(results[0])
    _print_ends(results)
    found = tables(results[0]) if is_alone else comparison_tables(results)
    for table in found:
        print()
        print_table(table)
    for compared in paired(results):
        if lines := why_lines(compared):
            print(f"\nwhy they wait in {compared.second.label}")
        for line in lines[:LONGEST_SHOWN]:
            print_wrapped(line, "  ")
    for result in results:
        _print_longest(result, is_labelled=not is_alone)
        _print_never_fits(result)
        _print_circles(result, is_labelled=not is_alone)
        if result is not results[0]:
            _print_notes(result)


def print_table(table: Table) -> None:
    print_wrapped(table.title)
    print_wide_table(table.columns, table.rows, beside=table.beside, together=table.together)


def _print_head(result: Result) -> None:
    _print_trace(result)
    ended = ", ".join(f"{n} {outcome.value}" for outcome, n in result.outcomes.items() if n)
    print_wrapped(f"{ended or 'no jobs'}; {result.preemptions} preemptions", hanging="  ")
    for sentence in warnings(result):
        print_wrapped(f"WARNING: {sentence}")
    if not result.window.is_whole:
        window = result.window
        print_wrapped(
            f"measured: {short_span(window.since)} to {short_span(window.until)},"
            f" {len(result.counted)} of {len(result.runs)} jobs; the rest is left out"
        )
    _print_sums(result)


def _print_ends(results: Sequence[Result]) -> None:
    """Of sides that end alike it is told once."""
    ends = [end_text(result) or _waits_for_ever(result) for result in results]
    alike = len(set(ends)) == 1
    for letter, text in zip(LETTERS, ends[:1] if alike else ends, strict=False):
        if text is not None:
            print_wrapped(text if alike else f"{letter}: {text}")


def _waits_for_ever(result: Result) -> str | None:
    if not result.waits_for_ever:
        return None
    who = "1 job waits" if result.waits_for_ever == 1 else f"{result.waits_for_ever} jobs wait"
    return f"{who} though nothing more will happen"


def _print_trace(result: Result) -> None:
    trace = result.trace
    since = "" if trace.origin is None else f", from {format_time(trace.origin)}"
    drawn = "" if trace.drawn_from is None else f" drawn from {trace.drawn_from}"
    jobs = f"{len(result.demand.all_runs)}{drawn} of {trace.rows} jobs"
    print_wrapped(f"{trace.source}: {jobs}{since}", hanging="  ")
    print_wrapped(f"read as {trace.layout}", "  ", hanging="  ")
    for oddity in result.oddities:
        verb = "left out" if oddity.is_left_out else "noted"
        print_wrapped(f"{verb}: {oddity.count} {oddity.what}", "  ", hanging="  ")
        for example in oddity.examples if oddity.is_left_out else ():
            print_wrapped(example, "    ", hanging="  ")
    for sentence in trace.warnings:
        print_wrapped(f"WARNING: {sentence}", "  ")
    if result.requested_share is not None:
        print(f"  jobs run {100 * result.requested_share:.0f} % of the time they request (median)")
    for note in result.cluster.notes:
        print_wrapped(f"noted: {note}", "  ", hanging="  ")


def _print_notes(result: Result) -> None:
    """What is to be known of another side."""
    for sentence in warnings(result):
        print_wrapped(f"WARNING ({result.label}): {sentence}")
    for note in result.cluster.notes:
        print_wrapped(f"noted ({result.label}): {note}", hanging="  ")


def _print_sums(result: Result) -> None:
    makespan, work = result.makespan, result.work
    print_wrapped(
        f"makespan {short_span(makespan.seconds)} = {short_span(makespan.work_s)} of work with all"
        f" quota in use + {short_span(makespan.lost_s)} for work done twice"
        f" + {short_span(makespan.unused_s)} with quota unused",
        hanging="  ",
    )
    useful, lost, idle = map(result.in_hours, (work.useful, work.lost, max(0.0, work.idle)))
    print_wrapped(
        f"work done {useful:.1f} {result.main_resource}-hours,"
        f" lost {lost:.1f}, held while no pods ran {idle:.1f}"
    )


def _print_longest(result: Result, *, is_labelled: bool) -> None:
    longest = result.longest_waits(LONGEST_SHOWN)
    if not longest:
        return
    label = f" ({result.label})" if is_labelled else ""
    print(f"\nlongest waits{label}")
    for run in longest:
        waited = short_span(result.wait_of(run))
        line = f"{run.key} in {run.queue}: {waited}, {_end_of(result, run)}"
        print_wrapped(line, "  ", hanging="  ")
        if run.reasons:
            print_wrapped(waiting_message(run.reasons), "    ")


def _end_of(result: Result, run: JobRun) -> str:
    evicted = (f"evicted {n} x {cause}" for cause, n in result.evictions_of(run).items())
    return ", ".join((run.outcome.value, *evicted))


def _print_never_fits(result: Result) -> None:
    found = [run for run in result.runs if run.outcome is JobOutcome.NEVER_FITS]
    if found:
        print(f"\n{counted(len(found), 'job')} can never fit")
    for run in found[:LONGEST_SHOWN]:
        print(f"  {run.key} in {run.queue}")
        print_wrapped(waiting_message(run.reasons), "    ")


def _print_circles(result: Result, *, is_labelled: bool) -> None:
    circles = [*result.record.circles]
    label = f" ({result.label})" if is_labelled else ""
    if circles:
        number = "a circle" if len(circles) == 1 else f"{len(circles)} circles"
        print(f"\njobs displace each other in {number}{label}")
    for circle in circles[:LONGEST_SHOWN]:
        times = f"{circle.times} times" if circle.times > 1 else "once"
        since, last = _clock(result, circle.since).strip(), _clock(result, circle.last_at).strip()
        print(f"  in {circle.tree}, seen {times}, from {since} to {last}")
        for line in (*circle_lines(circle), circle_remedy(circle)):
            print_wrapped(line, "    ")


def print_story(result: Result, name: str, *, is_labelled: bool) -> None:
    run = next((run for run in result.runs if run.story and name in _names(run)), None)
    label = f" ({result.label})" if is_labelled else ""
    if run is None or run.story is None:
        print(f"\n{name}{label}: not submitted by the end")
        return
    print(f"\nthe life of {run.key}{label}")
    for at, what in run.story:
        verb, details = _story_text(result, run, what)
        print(f"  {_clock(result, at)}  {verb}")
        for detail in details:
            print_wrapped(detail, " " * 24)


def _names(run: JobRun) -> tuple[str, str]:
    return run.job.name, run.key


def _clock(result: Result, at: float) -> str:
    if result.trace.origin is None:
        return f"{at:>18.3f}s"
    return f"{format_time(result.trace.origin + at)[:19]}"


def _story_text(
    result: Result, run: JobRun, what: Decision | Incident | Explanation
) -> tuple[str, Sequence[str]]:
    if isinstance(what, Incident):
        return what.what, [what.detail] if what.detail else []
    if isinstance(what, Explanation):
        never = run.outcome is JobOutcome.NEVER_FITS
        verb = "left out: it can never fit" if never else "at the end"
        return verb, list(map(str, explanation_lines(what, result.end)))
    if isinstance(what, Preempt) and what.preemptor != run.key:
        victims = [victim for victim in what.victims if victim.workload == run.key]
        return "preempted", [victim_line(victim, what.preemptor) for victim in victims]
    text = decision_text(what)
    return text.verb, text.details
