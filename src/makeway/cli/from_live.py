"""`makeway simulate --from-live`: what would come of what the server has now."""

from __future__ import annotations

import argparse
import sqlite3
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from makeway.cli import connect, past
from makeway.cli.command import UsageError
from makeway.cli.simulation_progress import Bar, played
from makeway.cli.spans import span_of
from makeway.cli.tables import counted
from makeway.cli.up import read_configuration
from makeway.client import Client, NotFound
from makeway.client.client import Document
from makeway.client.kubeconfig import default_folder
from makeway.forecast.arrivals import Arrivals
from makeway.forecast.forecasting import ALONE
from makeway.forecast.live import READ, LiveState, live_state
from makeway.forecast.playing import Draw, draw, play, with_trace
from makeway.forecast.recorded_past import ended_jobs, newest_segments
from makeway.journal.coding import Unreadable
from makeway.journal.file import NAME, JournalError
from makeway.journal.records import WrittenSegment
from makeway.sim.cluster import SimulatedCluster
from makeway.sim.knobs import Turn, parse_turn
from makeway.sim.measuring import parse_measure
from makeway.sim.result import Result
from makeway.sim.simulate import changed_cluster
from makeway.sim.trace_jobs import Trace

UNTIL = "7d"
UNKNOWN_SHOWN = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--from-live",
        action="store_true",
        help="begin with what the server has now; -f lays objects over its own, and both are shown"
        f" side by side; until --until (default: {UNTIL})",
    )
    parser.add_argument(
        "--journal",
        type=Path,
        metavar="FILE",
        help="--from-live: the journal that tells of deleted jobs (default: that of the data"
        " folder)",
    )
    connect.add_arguments(parser, has_namespace=False)


def simulate_live(arguments: argparse.Namespace, trace: Trace | None, bar: Bar) -> list[Result]:
    live = _ask(arguments)
    until = span_of("--until", arguments.until or UNTIL)
    cluster = live.cluster()
    situation = live.situation(cluster)
    drawn = draw(live, situation, until, arguments.seed)
    if trace is not None:
        drawn = with_trace(drawn, cluster, trace, arguments.queue)
    _tell(live, drawn, situation.arrivals, has_trace=trace is not None)
    side = partial(
        play,
        live,
        drawn=drawn,
        measure=parse_measure(arguments.measure),
        explain=arguments.explain,
        watch=bar.look,
        notice=bar.notice,
    )
    return played([partial(side, cluster=one) for one in _sides(cluster, arguments)], bar)


def _sides(cluster: SimulatedCluster, arguments: argparse.Namespace) -> Sequence[SimulatedCluster]:
    """The server as it is, then with what was asked for."""
    files, turns = [*arguments.files, *arguments.scenario], [*map(parse_turn, arguments.set)]
    sides = [cluster]
    if files or turns:
        sides.append(_side(cluster, files, turns))
    for other in arguments.compare:
        if "=" in other:
            more = [parse_turn(text) for text in other.split(";")]
            sides.append(_side(cluster, files, [*turns, *more]))
        else:
            sides.append(_side(cluster, [*files, other.lstrip("+")], turns))
    return sides


def _side(
    cluster: SimulatedCluster, files: Sequence[str], turns: Sequence[Turn]
) -> SimulatedCluster:
    changed, load = changed_cluster(cluster, files, turns)
    if not load.is_recorded:
        raise UsageError("--from-live: load can't be turned; --trace brings other jobs")
    return changed


def _ask(arguments: argparse.Namespace) -> LiveState:
    found: list[Document] = []

    async def story(client: Client, _: str) -> int:
        for kind in READ:
            try:
                found.extend((await client.list(kind)).items)
            except NotFound:
                continue  # the server does not have this kind
        return 0

    arguments.namespace = None
    if connect.converse(arguments, story):
        raise UsageError("--from-live: the server did not answer")
    folder = arguments.data_dir or default_folder()
    configuration = read_configuration(folder, None)
    return live_state(found, time.time(), configuration, ended_jobs(_written(arguments, folder)))


def _written(arguments: argparse.Namespace, folder: Path) -> list[WrittenSegment]:
    """The journal of that server; none where it has none, or we are not to read it."""
    is_elsewhere = (
        arguments.kubeconfig or past.is_of_all(arguments) or not connect.is_own(arguments)
    )
    if arguments.journal is None and is_elsewhere:
        return []
    path = arguments.journal or folder / NAME
    if arguments.journal is not None:
        past.expect_journal(arguments.journal)
    try:
        return newest_segments(path) if arguments.journal or path.exists() else []
    except JournalError as error:
        raise UsageError(str(error)) from None
    except (Unreadable, sqlite3.Error) as error:
        raise UsageError(f"{path}: {error}") from None


def _tell(live: LiveState, drawn: Draw, arrivals: Arrivals, *, has_trace: bool) -> None:
    """What it was learnt from, and what was assumed."""
    if live.ended:
        gone = sum(one.is_gone for one in live.ended)
        deleted = f", {gone} of them deleted by now" if gone else ""
        print(f"makeway: learnt from {counted(len(live.ended), 'job')}{deleted}", file=sys.stderr)
    if drawn.unknown:
        names = ", ".join(drawn.unknown[:UNKNOWN_SHOWN])
        more = " ..." if len(drawn.unknown) > UNKNOWN_SHOWN else ""
        text = f"nothing is known of how long {names}{more} will run: to the end of the simulation"
        print(f"makeway: {text}", file=sys.stderr)
    if not has_trace and not arrivals.days:
        print(f"makeway: {ALONE}", file=sys.stderr)
