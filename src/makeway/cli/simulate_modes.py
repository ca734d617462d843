"""What `makeway simulate` is asked to do, and which options have a meaning there.

An option that has none is refused: whoever gives --seeds to a single run would take its figures for
an average.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Literal

from makeway.cli.command import UsageError

Mode = Literal["init", "sweep", "find", "judge", "live", "run"]
WORDS: dict[Mode, str] = {
    "init": "`makeway simulate init`",
    "sweep": "`makeway simulate sweep`",
    "find": "--find",
    "judge": "--judge-forecasts",
    "live": "--from-live",
    "run": "a plain run",
}
MANY: tuple[Mode, ...] = ("sweep", "find")
ONE: tuple[Mode, ...] = ("run", "live")
# Options that are not here have a meaning everywhere but in init.
ONLY_IN: dict[str, tuple[Mode, ...]] = {
    **dict.fromkeys(("vary", "show"), ("sweep",)),
    **dict.fromkeys(("seeds", "workers", "csv", "save"), MANY),
    **dict.fromkeys(("half", "moments", "asked", "runs", "bounds"), ("judge",)),
    **dict.fromkeys(("journal", "kubeconfig", "data_dir"), ("live",)),
    **dict.fromkeys(("compare", "compare_gates", "jobs", "explain"), ONE),
    **dict.fromkeys(("until", "measure"), (*ONE, *MANY)),
    **dict.fromkeys(("example", "scale_load", "grow", "bootstrap"), ("run", *MANY, "judge")),
    "by": ("find",),
    "share": ("init",),
    "report": (*ONE, "sweep"),
}
IN_INIT = ("action", "trace", "map", "queue", "first", "share", "quiet")


def mode_of(arguments: argparse.Namespace) -> Mode:
    asked: list[Mode] = []
    if arguments.action is not None:
        asked.append(arguments.action)
    if arguments.find is not None:
        asked.append("find")
    if arguments.judge_forecasts:
        asked.append("judge")
    if arguments.from_live:
        asked.append("live")
    if len(asked) > 1:
        raise UsageError(f"{WORDS[asked[0]]} and {WORDS[asked[1]]} are two things; ask for one")
    return asked[0] if asked else "run"


def refuse_strays(
    arguments: argparse.Namespace,
    mode: Mode,
    add_arguments: Callable[[argparse.ArgumentParser], None],
) -> None:
    """Refuse an option that would be ignored; the defaults are those of `add_arguments`."""
    parser = argparse.ArgumentParser(add_help=False)
    add_arguments(parser)
    for action in parser._actions:
        if getattr(arguments, action.dest) == action.default:
            continue
        flag = action.option_strings[-1] if action.option_strings else action.dest
        if mode == "init" and action.dest not in IN_INIT:
            raise UsageError(f"init proposes queues from --trace alone; leave out {flag}")
        modes = ONLY_IN.get(action.dest, (mode,))
        if mode not in modes:
            *most, last = [WORDS[one] for one in modes]
            raise UsageError(f"{flag} goes with {', '.join(most)}{' or ' if most else ''}{last}")
