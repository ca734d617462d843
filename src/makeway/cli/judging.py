"""`makeway simulate --judge-forecasts`: how good forecasts would have been on a trace."""

from __future__ import annotations

import argparse
import json
from math import inf

from makeway.cli.command import UsageError
from makeway.cli.simulation_progress import Bar
from makeway.cli.wide_tables import print_wide_table, print_wrapped
from makeway.forecast.judging import (
    ALONE,
    ARRIVALS_KNOWN,
    AT_ONCE_S,
    MODEL,
    REFERENCES,
    RUN_TIMES_KNOWN,
    Judged,
    JudgeSettings,
    Score,
    judge,
    scores,
    with_limits,
)
from makeway.sim.cluster import SimulatedCluster
from makeway.sim.spans import short_span
from makeway.sim.trace_jobs import Trace

HALVES = {"first": (0.1, 0.5), "second": (0.5, 1.0)}  # there has to be something to learn from
OWN = (ALONE, ARRIVALS_KNOWN, RUN_TIMES_KNOWN)  # the same model, told less or more
HEAD = ("rule", "start in", "judged", "within 80 %", "median width", "median error")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("forecasts")
    group.add_argument(
        "--judge-forecasts",
        action="store_true",
        help="ask for forecasts at random moments of the trace, and compare them with what came",
    )
    group.add_argument(
        "--half",
        choices=tuple(HALVES),
        default="second",
        help="of the trace, in which they are asked for (default: second; parameters were chosen"
        " on first halves)",
    )
    group.add_argument("--moments", type=int, default=40, metavar="N", help="(default: 40)")
    group.add_argument(
        "--asked", type=int, default=25, metavar="N", help="jobs per moment (default: 25)"
    )
    group.add_argument(
        "--runs", type=int, default=20, metavar="N", help="runs of each forecast (default: 20)"
    )

    group.add_argument(
        "--bounds",
        action="store_true",
        help="also judge forecasts that know who will come, or how long everybody will run: how"
        " much better one could become",
    )


def judge_forecasts(
    arguments: argparse.Namespace, cluster: SimulatedCluster, trace: Trace, bar: Bar
) -> int:
    for name in ("moments", "asked", "runs"):
        if (number := getattr(arguments, name)) < 1:
            raise UsageError(f"--{name} {number}: write how many, one at least")
    trace, limits_made = with_limits(trace, arguments.seed)
    since, until = HALVES[arguments.half]
    settings = JudgeSettings(
        moments=arguments.moments,
        jobs=arguments.asked,
        runs=arguments.runs,
        seed=arguments.seed,
        since=since,
        until=until,
        has_bounds=arguments.bounds,
    )

    def tell(done: int, number: int) -> bool:
        bar.runs(done, number)
        return not bar.is_stopped

    judged = judge(cluster, trace, settings, arguments.queue, tell)
    if arguments.output == "json":
        print(json.dumps(_as_json(judged, limits_made), indent=2))
    else:
        _print(judged, trace, limits_made, arguments)
    return bar.exit_code


def _as_json(judged: list[Judged], limits_made: int) -> dict[str, object]:
    rows = [
        {
            "rule": score.rule,
            "distance": score.distance,
            "judged": score.number,
            "coverage": score.coverage,
            "widthSeconds": score.width_s if score.width_s < inf else None,
            "errorSeconds": score.error_s if score.error_s < inf else None,
        }
        for score in scores(judged)
    ]
    return {"limitsMade": limits_made, "errorRatios": ratios(judged), "scores": rows}


def _print(
    judged: list[Judged], trace: Trace, limits_made: int, arguments: argparse.Namespace
) -> None:
    moments = len({one.asked_at for one in judged})
    print_wrapped(
        f"{trace.source}: {sum(one.rule == MODEL for one in judged)} forecasts at {moments} of"
        f" {arguments.moments} random moments of the {arguments.half} half, {arguments.runs} runs"
        f" each; starts within {short_span(AT_ONCE_S)} are not judged"
    )
    if limits_made:
        print_wrapped(
            f"limits made for {limits_made} jobs that have none: 1 to 20 times the run time, in"
            " round values"
        )
    if not judged:
        print("nobody waited at these moments: there is nothing to judge")
        return
    print_wide_table(HEAD, [*map(_row, scores(judged))], beside=2, are_numbers=False)
    found = ratios(judged)
    for whose, rules in (("reference", REFERENCES), ("our own", OWN)):
        words = ", ".join(f"{found[rule]:.2f} ({rule})" for rule in rules if rule in found)
        if words:
            print_wrapped(f"the median error is so much of that of {whose} rules: {words}")


def _row(score: Score) -> tuple[str, ...]:
    has_interval = score.width_s > 0
    return (
        score.rule,
        score.distance,
        str(score.number),
        f"{100 * score.coverage:.0f} %" if has_interval else "-",
        _span(score.width_s) if has_interval else "-",
        _span(score.error_s),
    )


def _span(seconds: float) -> str:
    return "beyond" if seconds == inf else short_span(seconds)


def ratios(judged: list[Judged]) -> dict[str, float]:
    """The median error of forecasts, as a part of that of each other rule."""
    errors = {score.rule: score.error_s for score in scores(judged) if score.distance == "all"}
    own = errors.pop(MODEL, inf)
    return {rule: own / error for rule, error in errors.items() if error and own < inf}
