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

Ctrl-C ends the simulation and prints what is known by then; it exits with 130.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from makeway.cli import from_live, judging
from makeway.cli.command import UsageError
from makeway.cli.simulate_modes import MANY, mode_of, refuse_strays
from makeway.cli.simulation_output import expect_room_for, print_story, print_tables, write_file
from makeway.cli.simulation_progress import Bar, played
from makeway.cli.tables import add_output
from makeway.sim import Result, SimulationError, simulate
from makeway.sim.cluster import NoQueues, SimulatedCluster, read_cluster
from makeway.sim.comparison import LETTERS, comparison_json
from makeway.sim.examples import EXAMPLES, VARIANTS, load_example, load_variant
from makeway.sim.knobs import Setup, Turn, parse_turn, turned
from makeway.sim.layouts import parse_mapping
from makeway.sim.listing import job_lines, side_lines
from makeway.sim.load import Load
from makeway.sim.page import render_page
from makeway.sim.proposal import propose
from makeway.sim.report import as_json
from makeway.sim.simulate import changed_cluster
from makeway.sim.trace_jobs import Trace
from makeway.sim.traces import STDIN, read_trace
from makeway.sim.values import Unreadable, span_s


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
        help="queue objects (YAML; - for standard input), perhaps with a Simulation object; may be"
        " repeated: later files are laid over earlier ones",
    )
    parser.add_argument(
        "--trace",
        metavar="FILE",
        action="append",
        default=[],
        help="SWF, CSV, sacct or generator file, or -",
    )
    parser.add_argument(
        "--example",
        metavar="NAME",
        nargs="?",
        const="",
        help="run a built-in scenario; without a name, list them",
    )
    parser.add_argument(
        "--map",
        action="append",
        default=[],
        help="which column is what: submit=timestamp,gpus=n; may be repeated",
    )
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
        action="append",
        default=[],
        help="turn feature gates on or off, of all sides: OwnersFirst=false,HoldForPreemptor=false",
    )
    parser.add_argument(
        "--compare-gates",
        metavar="GATE=BOOL",
        action="append",
        default=[],
        help="run again with these gates as well; without --compare, with the same queues",
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
    except NoQueues as error:
        hint = "write one, or let `makeway simulate init --trace FILE` propose some"
        raise UsageError(f"{error}; {hint}") from None
    except SimulationError as error:
        raise UsageError(str(error)) from None


def _run(arguments: argparse.Namespace) -> int:
    mode = mode_of(arguments)
    refuse_strays(arguments, mode, add_arguments)
    _join_repeated(arguments)
    files = (*arguments.files, *arguments.scenario, *arguments.compare, arguments.trace)
    if files.count(STDIN) > 1:
        raise UsageError("- is standard input, which can be read once")
    for name in filter(None, (arguments.report, arguments.jobs, arguments.csv, arguments.save)):
        expect_room_for(name)
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
    play = _simulate_live if mode == "live" else _simulate
    with Bar(is_shown=_has_bar(arguments)) as bar:
        results = play(arguments, bar)
    if arguments.report:
        write_file(arguments.report, render_page(*results))
    is_alone = len(results) == 1
    if arguments.jobs:
        lines = job_lines(results[0]) if is_alone else side_lines(results)
        write_file(arguments.jobs, "".join(lines))
    if arguments.output == "json":
        print(as_json(results[0]) if is_alone else comparison_json(results), end="")
    else:
        print_tables(results)
        for name in arguments.explain:
            for result in results:
                print_story(result, name, is_labelled=not is_alone)
    if arguments.report:
        print(f"wrote {arguments.report}", file=sys.stderr)
    return bar.exit_code


def _join_repeated(arguments: argparse.Namespace) -> None:
    """What was given several times counts as a whole, and not the last alone."""
    for name in ("map", "gates", "compare_gates"):
        setattr(arguments, name, ",".join(getattr(arguments, name)))
    if len(arguments.trace) > 1:
        raise UsageError(f"--trace {arguments.trace[1]}: one trace at a time; put them together")
    arguments.trace = next(iter(arguments.trace), None)


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


def _simulate_live(arguments: argparse.Namespace, bar: Bar) -> list[Result]:
    if arguments.gates or arguments.compare_gates:
        raise UsageError("--from-live: gates are set with --set 'gate NAME=true'")
    if not arguments.trace and (arguments.map or arguments.first is not None or arguments.queue):
        raise UsageError("--from-live: --map, --first and --queue are about the jobs of --trace")
    trace = _trace_of(arguments) if arguments.trace else None
    return from_live.simulate_live(arguments, trace, bar)


def _judge(arguments: argparse.Namespace) -> int:
    cluster, trace = _inputs(arguments)
    turns = _turns(arguments.set)
    cluster, load = changed_cluster(cluster, arguments.scenario, turns, _load(arguments))
    cluster = cluster.with_gates(_gates(arguments, "gates"))
    trace = load.applied(trace, arguments.seed)
    with Bar(is_shown=_has_bar(arguments)) as bar:
        return judging.judge_forecasts(arguments, cluster, trace, bar)


def _simulate(arguments: argparse.Namespace, bar: Bar) -> list[Result]:
    cluster, trace = _inputs(arguments)
    play = partial(
        simulate,
        trace=trace,
        queue=arguments.queue,
        seed=arguments.seed,
        until=_until(arguments.until),
        measure=arguments.measure,
        explain=arguments.explain,
        watch=bar.look,
        notice=bar.notice,
    )
    sides = _sides(cluster, arguments)
    return played([partial(play, side, load=load) for side, load in sides], bar)


def _sides(
    cluster: SimulatedCluster, arguments: argparse.Namespace
) -> list[tuple[SimulatedCluster, Load]]:
    """All of them before the first is played: a mistake is told before hours of runs."""
    gates, others = _gates(arguments, "gates"), _gates(arguments, "compare_gates")
    other_gates = {**gates, **others}
    scenario, turns, load = arguments.scenario, _turns(arguments.set), _load(arguments)
    asked: list[tuple[SimulatedCluster, Sequence[str], Sequence[Turn]]] = []
    for name in arguments.compare:
        if name.startswith("+"):
            asked.append((cluster, [*scenario, name[1:]], turns))
        elif "=" in name and not Path(name).exists():
            asked.append((cluster, scenario, [*turns, *_turns(name.split(";"))]))
        else:
            asked.append((_other_queues(name), (), ()))
    if others and not asked:
        asked.append((cluster, scenario, turns))

    def side(
        gates: dict[str, bool], queues: SimulatedCluster, files: Sequence[str], more: Sequence[Turn]
    ) -> tuple[SimulatedCluster, Load]:
        changed, loaded = changed_cluster(queues, files, more, load)
        return changed.with_gates(gates), loaded

    if len(asked) >= len(LETTERS):
        raise UsageError(
            f"--compare: {len(asked)} sides are too many; sweep plays as many as asked"
        )
    return [side(gates, cluster, scenario, turns), *(side(other_gates, *one) for one in asked)]


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


def _other_queues(name: str) -> SimulatedCluster:
    if name in VARIANTS and not Path(name).exists():
        return load_variant(name)
    return read_cluster([name])


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


def _list_examples() -> None:
    for example in EXAMPLES:
        print(f"  {example.name:<12}{example.summary}")
        for variant in example.variants:
            print(f"  {'':<12}(try --compare {variant})")
    print("\nRun one with: makeway simulate --example borrow --report borrow.html")
