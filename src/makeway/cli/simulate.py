"""play a trace of jobs through your queues, in virtual time

Play a recorded or invented trace of jobs through queues, with the very engine
that decides in production, on a virtual clock. Tells how long jobs wait, who is
preempted for whom, how well quota is used, and how two configurations compare.

examples:
  makeway simulate --example                       list the built-in scenarios
  makeway simulate --example stockout --explain train-20
  makeway simulate init --trace jobs.csv > queues.yaml
  makeway simulate -f queues.yaml --trace jobs.csv --report out.html
  makeway simulate -f queues.yaml --trace jobs.csv --compare other.yaml
  makeway simulate -f queues.yaml --trace jobs.csv --compare-gates OwnersFirst=false
  makeway simulate -f queues.yaml --trace jobs.csv --compare 'quota of flavor a100=+16'
  makeway simulate --from-live -f queues.yaml      what if I apply this now?
  makeway simulate -f queues.yaml --trace jobs.csv \\
      --find 'p95 wait of all < 1h' --by 'quota of flavor a100'
  makeway simulate sweep -f queues.yaml --trace jobs.csv --report sweep.html \\
      --vary 'quota of flavor a100=600..900:100' --vary load=1,1.5 --bootstrap 1d --seeds 5
  sacct -aPX -S 2026-01-01 -o JobID,Partition,Submit,Start,End,State,AllocCPUS,AllocTRES > log.txt
  makeway simulate -f queues.yaml --trace log.txt -o json | jq .waits.all

Ctrl-C ends the simulation and prints what is known by then.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from textwrap import wrap

from makeway.api.errors import in_words
from makeway.api.times import format_span, format_time
from makeway.cli import from_live, judging
from makeway.cli.command import UsageError
from makeway.cli.simulate_modes import MANY, mode_of, refuse_strays
from makeway.cli.simulation_progress import Bar
from makeway.cli.tables import add_output, aligned, terminal_width, width_of
from makeway.engine.decisions import Decision, Preempt
from makeway.engine.explain import Explanation
from makeway.sim import Result, SimulationError, simulate
from makeway.sim.cluster import SimulatedCluster, read_cluster
from makeway.sim.comparison import (
    comparison_json,
    comparison_tables,
    paired,
    verdict,
    why_lines,
)
from makeway.sim.examples import EXAMPLES, VARIANTS, load_example, load_variant
from makeway.sim.knobs import Setup, Turn, parse_turn, turned
from makeway.sim.layouts import parse_mapping
from makeway.sim.listing import job_lines, side_lines
from makeway.sim.load import Load
from makeway.sim.page import render_page
from makeway.sim.proposal import propose
from makeway.sim.record import Incident, JobOutcome, JobRun
from makeway.sim.report import Table, as_json, circle_lines, circle_remedy, tables
from makeway.sim.simulate import changed_cluster
from makeway.sim.spans import short_span
from makeway.sim.straggling import warnings
from makeway.sim.trace_jobs import Trace
from makeway.sim.traces import read_trace
from makeway.sim.values import Unreadable, span_s
from makeway.translate.explanation import explanation_lines
from makeway.translate.words import decision_text, victim_line, waiting_message

WIDTH = 100
LONGEST_SHOWN = 5


# --- the command ---


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        nargs="?",
        choices=("init", "sweep"),
        help="init: propose a queue configuration from a trace, as YAML to edit;"
        " sweep: a run for every value of what --vary names",
    )
    parser.add_argument(
        "-f",
        "--file",
        dest="files",
        metavar="FILE",
        action="append",
        default=[],
        help="queue objects (YAML), perhaps with a Simulation object; may be repeated: later files"
        " are laid over earlier ones",
    )
    parser.add_argument("--trace", metavar="FILE", help="SWF, CSV, sacct or generator file")
    parser.add_argument(
        "--example",
        metavar="NAME",
        nargs="?",
        const="",
        help="run a built-in scenario; without a name, list them",
    )
    parser.add_argument("--map", default="", help="which column is what: submit=timestamp,gpus=n")
    parser.add_argument("--queue", help="the queue for jobs whose own is not configured")
    parser.add_argument(
        "--compare",
        metavar="FILE",
        action="append",
        default=[],
        help="run this configuration as well: a file, +FILE to lay over yours, or KNOB=VALUE;"
        " may be repeated",
    )
    _add_what_if(parser)
    judging.add_arguments(parser)
    from_live.add_arguments(parser)
    parser.add_argument(
        "--gates",
        metavar="GATE=BOOL",
        default="",
        help="turn feature gates on or off: OwnersFirst=false,PreemptionBackoff=false",
    )
    parser.add_argument(
        "--compare-gates",
        metavar="GATE=BOOL",
        default="",
        help="run again with these gates; alone, with the same queues",
    )
    parser.add_argument("--report", metavar="FILE", help="write one HTML file with pictures")
    parser.add_argument("--jobs", metavar="FILE", help="write one CSV line per job, and side")
    parser.add_argument(
        "--explain",
        metavar="JOB",
        action="append",
        default=[],
        help="tell one job's life: every wait with its reasons; may be repeated",
    )
    parser.add_argument("--seed", type=int, default=0, help="of all that is random (default: 0)")
    parser.add_argument("--until", metavar="TIME", help="stop after so much time: 90m, 36h, 7d")
    parser.add_argument(
        "--measure",
        metavar="WINDOW",
        default="all",
        help="what counts: all, steady (warm-up and end left out) or 2d..30d (default: all)",
    )
    parser.add_argument("--first", type=int, metavar="N", help="only the first N jobs of the trace")
    parser.add_argument(
        "--share",
        type=float,
        default=0.95,
        help="init: the share of the time for which the quota is to suffice (default: 0.95)",
    )
    add_output(parser, ("table", "json"))
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress bar")


def _add_what_if(parser: argparse.ArgumentParser) -> None:
    asked = parser.add_argument_group("what if")
    asked.add_argument(
        "--set",
        metavar="KNOB=VALUE",
        action="append",
        default=[],
        help="'quota of flavor a100=+8', 'load of queue b=2', 'queue/*.stopPolicy=Hold', ...;"
        " may be repeated",
    )
    asked.add_argument(
        "--scenario",
        metavar="FILE",
        action="append",
        default=[],
        help="objects to lay over those of -f; may be repeated",
    )
    asked.add_argument("--scale-load", metavar="FACTOR", help="so many times the jobs: 1.5")
    asked.add_argument(
        "--grow",
        metavar="QUEUE=FACTOR",
        action="append",
        default=[],
        help="the same for one queue; may be repeated",
    )
    asked.add_argument(
        "--bootstrap",
        metavar="SPAN",
        help="draw a new trace for each seed, out of blocks of the old one: 1d, 7d",
    )
    asked.add_argument(
        "--vary",
        metavar="KNOB=VALUES",
        action="append",
        default=[],
        help="sweep: 600,800 or 600..900:100; may be repeated",
    )
    asked.add_argument("--find", metavar="GOAL", help="'p95 wait of all < 1h', turning --by")
    asked.add_argument(
        "--by", metavar="KNOB", help="what to turn, perhaps within KNOB=LOW..HIGH:STEP"
    )
    asked.add_argument("--seeds", type=int, default=1, metavar="N", help="so many runs of each")
    asked.add_argument("-j", "--workers", type=int, metavar="N", help="(default: all cores)")
    asked.add_argument(
        "--show", metavar="FIGURES", default="", help="columns: 'p95 wait, work lost'"
    )
    asked.add_argument("--csv", metavar="FILE", help="sweep, find: one line per run, all figures")
    asked.add_argument(
        "--save", metavar="FILE", help="keep finished runs there, and go on from them"
    )


def run(arguments: argparse.Namespace) -> int:
    try:
        return _run(arguments)
    except SimulationError as error:
        raise UsageError(str(error)) from None


def _run(arguments: argparse.Namespace) -> int:
    mode = mode_of(arguments)
    refuse_strays(arguments, mode, add_arguments)
    for name in filter(None, (arguments.report, arguments.jobs, arguments.csv, arguments.save)):
        _expect_room_for(name)
    if mode == "init":
        trace = _trace_of(arguments)
        print(propose(trace, arguments.share, arguments.queue), end="")
        return 0
    if arguments.example == "":
        _list_examples()
        return 0
    if mode in MANY:
        return _ask(arguments)
    if mode == "judge":
        return _judge(arguments)
    results = _simulate_live(arguments) if mode == "live" else _simulate(arguments)
    if arguments.report:
        write(arguments.report, render_page(*results))
    is_alone = len(results) == 1
    if arguments.jobs:
        lines = job_lines(results[0]) if is_alone else side_lines(results)
        write(arguments.jobs, "".join(lines))
    if arguments.output == "json":
        print(as_json(results[0]) if is_alone else comparison_json(results), end="")
    else:
        print_tables(results)
        for name in arguments.explain:
            for result in results:
                _print_story(result, name, is_labelled=not is_alone)
    if arguments.report:
        print(f"wrote {arguments.report}", file=sys.stderr)
    return 0


def _ask(arguments: argparse.Namespace) -> int:
    """Many runs: a sweep or a search."""
    # Imported here: processes and what they need take a tenth of a second to load.
    from makeway.cli.asking import Asking
    from makeway.sim.sweep import Question

    cluster, trace = _inputs(arguments)
    cluster, load = changed_cluster(
        cluster, arguments.scenario, _turns(arguments.set), _load(arguments)
    )
    question = Question(
        cluster=cluster,
        trace=trace,
        load=load,
        queue=arguments.queue,
        until=_until(arguments.until),
        measure=arguments.measure,
        gates=_gates(arguments, "gates"),
    )
    asking = Asking(question, arguments)
    return asking.find() if arguments.find else asking.sweep()


def _simulate_live(arguments: argparse.Namespace) -> list[Result]:
    if arguments.gates or arguments.compare_gates:
        raise UsageError("--from-live: gates are set with --set 'gate NAME=true'")
    if not arguments.trace and (arguments.map or arguments.first is not None or arguments.queue):
        raise UsageError("--from-live: --map, --first and --queue are about the jobs of --trace")
    trace = _trace_of(arguments) if arguments.trace else None
    with Bar(is_shown=_has_bar(arguments)) as bar:
        return from_live.simulate_live(arguments, trace, bar)


def _judge(arguments: argparse.Namespace) -> int:
    cluster, trace = _inputs(arguments)
    turns = _turns(arguments.set)
    cluster, load = changed_cluster(cluster, arguments.scenario, turns, _load(arguments))
    cluster = cluster.with_gates(_gates(arguments, "gates"))
    trace = load.applied(trace, arguments.seed)
    with Bar(is_shown=_has_bar(arguments)) as bar:
        return judging.judge_forecasts(arguments, cluster, trace, bar)


def _simulate(arguments: argparse.Namespace) -> list[Result]:
    with Bar(is_shown=_has_bar(arguments)) as bar:
        cluster, trace = _inputs(arguments)
        turns = _turns(arguments.set)
        play = partial(
            simulate,
            trace=trace,
            queue=arguments.queue,
            seed=arguments.seed,
            until=_until(arguments.until),
            measure=arguments.measure,
            load=_load(arguments),
            explain=arguments.explain,
            watch=bar.look,
            notice=bar.notice,
        )
        gates, others = _gates(arguments, "gates"), _gates(arguments, "compare_gates")
        scenario = arguments.scenario
        results = [play(cluster, scenario=scenario, set=turns, gates=gates)]
        for name in arguments.compare:
            if name.startswith("+"):
                both = [*scenario, name[1:]]
                results.append(play(cluster, scenario=both, set=turns, gates=others))
            elif "=" in name and not Path(name).exists():
                more = [*turns, *_turns(name.split(";"))]
                results.append(play(cluster, scenario=scenario, set=more, gates=others))
            else:
                results.append(play(_other_queues(name), gates=others))
        if others and not arguments.compare:
            results.append(play(cluster, scenario=scenario, set=turns, gates=others))
        return results


def _has_bar(arguments: argparse.Namespace) -> bool:
    return not arguments.quiet and sys.stderr.isatty()


def _turns(texts: Sequence[str]) -> list[Turn]:
    return [parse_turn(text) for text in texts]


def _load(arguments: argparse.Namespace) -> Load:
    """What --scale-load, --grow and --bootstrap say, in the words of knobs."""
    texts = [f"load={arguments.scale_load}"] if arguments.scale_load is not None else []
    for text in arguments.grow:
        queue, _, factor = text.rpartition("=")
        if not queue:
            raise UsageError(f"--grow {text}: write QUEUE=FACTOR, for example vision=1.5")
        texts.append(f"load of queue {queue}={factor}")
    load = turned(Setup(()), _turns(texts)).load
    if arguments.bootstrap is None:
        return load
    block_s = _span("--bootstrap", arguments.bootstrap)
    if block_s <= 0:
        raise UsageError(f"--bootstrap {arguments.bootstrap}: write a span such as 1d or 7d")
    return replace(load, bootstrap_s=block_s)


def _gates(arguments: argparse.Namespace, option: str) -> dict[str, bool]:
    gates = {}
    for pair in filter(None, getattr(arguments, option).split(",")):
        name, _, word = pair.partition("=")
        if word.lower() not in ("true", "false"):
            flag = option.replace("_", "-")
            raise UsageError(f"--{flag} {pair}: write OwnersFirst=true or OwnersFirst=false")
        gates[name.strip()] = word.lower() == "true"
    return gates


def _inputs(arguments: argparse.Namespace) -> tuple[SimulatedCluster, Trace]:
    if arguments.example is not None:
        cluster, trace = load_example(arguments.example)
        if arguments.files or arguments.trace:
            raise UsageError("--example brings its own queues and jobs: leave out -f and --trace")
        return cluster, _first(trace, arguments)
    trace = _trace_of(arguments)
    if not arguments.files and not trace.manifests:
        raise UsageError(
            "which queues? give them with -f queues.yaml, or let"
            f" `makeway simulate init --trace {arguments.trace}` propose some"
        )
    return read_cluster(arguments.files, () if arguments.files else trace.manifests), trace


def _other_queues(name: str) -> SimulatedCluster | str:
    if name in VARIANTS and not Path(name).exists():
        return load_variant(name)
    return name


def _trace_of(arguments: argparse.Namespace) -> Trace:
    if not arguments.trace:
        raise UsageError("which jobs? give a trace with --trace FILE, or try --example borrow")
    return _first(read_trace(arguments.trace, parse_mapping(arguments.map)), arguments)


def _first(trace: Trace, arguments: argparse.Namespace) -> Trace:
    if arguments.first is None:
        return trace
    if arguments.first < 1:
        raise UsageError(f"--first {arguments.first}: write how many jobs, one at least")
    return trace.first(arguments.first)


def _until(text: str | None) -> float | None:
    return None if text is None else _span("--until", text)


def _span(option: str, text: str) -> float:
    try:
        return span_s(text)
    except Unreadable:
        raise UsageError(f"{option} {text}: not a span of time; write 90m, 36h or 7d") from None


def _expect_room_for(name: str) -> None:
    """Before hours of runs, not after them."""
    folder = Path(name).parent
    if Path(name).is_dir():
        raise UsageError(f"{name}: is a directory")
    if not folder.is_dir():
        raise UsageError(f"{name}: there is no folder {folder}")
    if not os.access(name if Path(name).exists() else folder, os.W_OK):
        raise UsageError(f"{name}: may not be written by you")


def write(name: str, text: str) -> None:
    try:
        Path(name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{name}: {in_words(error)}") from None


def _list_examples() -> None:
    for example in EXAMPLES:
        print(f"  {example.name:<12}{example.summary}")
        for variant in example.variants:
            print(f"  {'':<12}(try --compare {variant})")
    print("\nRun one with: makeway simulate --example borrow --report borrow.html")


# --- what the reader sees ---


def print_tables(results: Sequence[Result]) -> None:
    is_alone = len(results) == 1
    if not is_alone:
        for sentence in verdict(results):
            _print_wrapped(sentence, "")
        print()
    _print_head(results[0])
    found = tables(results[0]) if is_alone else comparison_tables(results)
    for table in found:
        print()
        print_table(table)
    for compared in paired(results):
        if lines := why_lines(compared):
            print(f"\nwhy they wait in {compared.second.label}")
        for line in lines[:LONGEST_SHOWN]:
            _print_wrapped(line, "  ")
    for result in results:
        _print_longest(result, is_labelled=not is_alone)
        _print_never_fits(result)
        _print_circles(result, is_labelled=not is_alone)
        for sentence in () if result is results[0] else warnings(result):
            _print_wrapped(f"WARNING ({result.label}): {sentence}", "")


def print_table(table: Table) -> None:
    """Where it is too wide for the terminal, the heads of its columns stand in several lines."""
    print(table.title)
    lines = [*aligned([table.columns, *table.rows], gap="  ", are_numbers=True)]
    width = terminal_width()
    if width is not None and max(map(width_of, lines)) + 2 > width:
        lines = [*aligned([*_stacked_heads(table), *table.rows], gap="  ", are_numbers=True)]
    for line in lines:
        print(f"  {line}".rstrip())


def _stacked_heads(table: Table) -> list[tuple[str, ...]]:
    heads = []
    for head, *cells in zip(table.columns, *table.rows, strict=True):
        room = max(map(width_of, (*cells, *head.split())), default=1)
        heads.append(wrap(head, max(1, room), break_on_hyphens=False))
    height = max(map(len, heads))
    return [*zip(*([""] * (height - len(head)) + head for head in heads), strict=True)]


def _print_head(result: Result) -> None:
    trace = result.trace
    since = "" if trace.origin is None else f", from {format_time(trace.origin)}"
    drawn = "" if trace.drawn_from is None else f" drawn from {trace.drawn_from}"
    print(f"{trace.source}: {len(result.demand.all_runs)}{drawn} of {trace.rows} jobs{since}")
    print(f"  read as {trace.layout}")
    for oddity in result.oddities:
        verb = "left out" if oddity.is_left_out else "noted"
        print(f"  {verb}: {oddity.count} {oddity.what}")
        for example in oddity.examples if oddity.is_left_out else ():
            print(f"    {example}")
    for sentence in trace.warnings:
        _print_wrapped(f"WARNING: {sentence}", "  ")
    if result.requested_share is not None:
        print(f"  jobs run {100 * result.requested_share:.0f} % of the time they request (median)")
    for note in result.cluster.notes:
        print(f"  noted: {note}")
    ended = ", ".join(f"{n} {outcome.value}" for outcome, n in result.outcomes.items() if n)
    print(f"{ended}; {result.preemptions} preemptions")
    for sentence in warnings(result):
        _print_wrapped(f"WARNING: {sentence}", "")
    if not result.window.is_whole:
        window = result.window
        print(
            f"measured: {short_span(window.since)} to {short_span(window.until)},"
            f" {len(result.counted)} of {len(result.runs)} jobs; the rest is left out"
        )
    if not result.is_complete:
        print(f"STOPPED EARLY after {format_span(result.end)}: what follows is partial")
    if result.waits_for_ever:
        print(f"{result.waits_for_ever} jobs wait though nothing more will happen")
    makespan, work = result.makespan, result.work
    print(
        f"makespan {short_span(makespan.seconds)} = {short_span(makespan.work_s)} of work with all"
        f" quota in use + {short_span(makespan.lost_s)} for work done twice"
        f" + {short_span(makespan.unused_s)} with quota unused"
    )
    hours = 3600 * (1000 if result.main_resource == "cpu" else 1)
    print(
        f"work done {work.useful / hours:.1f} {result.main_resource}-hours,"
        f" lost {work.lost / hours:.1f}, held while no pods ran {max(0.0, work.idle) / hours:.1f}"
    )


def _print_longest(result: Result, *, is_labelled: bool) -> None:
    longest = result.longest_waits(LONGEST_SHOWN)
    if not longest:
        return
    label = f" ({result.label})" if is_labelled else ""
    print(f"\nlongest waits{label}")
    for run in longest:
        waited = short_span(result.wait_of(run))
        print(f"  {run.key} in {run.queue}: {waited}, {_end_of(result, run)}")
        if run.reasons:
            _print_wrapped(waiting_message(run.reasons), "    ")


def _end_of(result: Result, run: JobRun) -> str:
    evicted = (f"evicted {n} x {cause}" for cause, n in result.evictions_of(run).items())
    return ", ".join((run.outcome.value, *evicted))


def _print_never_fits(result: Result) -> None:
    found = [run for run in result.runs if run.outcome is JobOutcome.NEVER_FITS]
    if found:
        print(f"\n{len(found)} jobs can never fit")
    for run in found[:LONGEST_SHOWN]:
        print(f"  {run.key} in {run.queue}")
        _print_wrapped(waiting_message(run.reasons), "    ")


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
            _print_wrapped(line, "    ")


def _print_wrapped(text: str, indent: str) -> None:
    width = min(WIDTH, terminal_width() or WIDTH) - len(indent)
    for line in wrap(text, max(20, width), break_on_hyphens=False, break_long_words=False):
        print(indent + line)


def _print_story(result: Result, name: str, *, is_labelled: bool) -> None:
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
            _print_wrapped(detail, " " * 24)


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
