"""The report as one HTML file that opens from disk without network: data, style and script inside.

The page is drawn by its own script (assets/page.js). Jobs are handed over as packed arrays, so
that 100 000 of them are a few megabytes and are drawn on a canvas in a fraction of a second.
"""

from __future__ import annotations

import json
import sys
from array import array
from base64 import b64encode
from collections.abc import Iterable
from importlib.resources import files
from pathlib import PurePath
from typing import Any

from makeway import drawing
from makeway.sim.comparison import LETTERS, figure_data, paired, verdict
from makeway.sim.paired import pair_data
from makeway.sim.record import JobRun
from makeway.sim.report import as_data
from makeway.sim.result import Result

CURVE_POINTS = 101
_SHARED = ("elements.js", "words.js", "charts.js")  # modules that draw
RAN = 16  # flag in the kind of a stay; the low bits hold its StayEnding


def render_page(*results: Result) -> str:
    """The whole page; several results side by side, on one axis of time."""
    title = f"{PurePath(results[0].trace.source).name} on {_labels(results)}"
    axis_s = max(result.end for result in results)
    data: dict[str, Any] = {
        "title": title,
        "axisSeconds": axis_s,
        "runs": [_run(r, letter, axis_s) for letter, r in zip(LETTERS, results, strict=False)],
    }
    if len(results) > 1:
        data["verdict"] = verdict(results)
        data["figures"] = figure_data(results)
        data["paired"] = [pair_data(compared) for compared in paired(results)]
    return fill_page(title, "page.js", data)


def fill_page(title: str, script: str, data: object) -> str:
    """A page around a script of its own and the data that it draws."""
    parts = {
        "@TITLE@": _escaped(title),
        "@STYLE@": drawing.asset("theme.css") + _asset("page.css"),
        "@SCRIPT@": _asset("data.js") + drawing.joined(*_SHARED) + _asset(script),
        "@DATA@": _json_in_html(data),
    }
    page = _asset("page.html")
    for mark, text in parts.items():
        page = page.replace(mark, text, 1)
    return page


def _labels(results: Iterable[Result]) -> str:
    return " and ".join(PurePath(result.label).name for result in results)


def _asset(name: str) -> str:
    return files("makeway.sim").joinpath("assets", name).read_text(encoding="utf-8")


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _json_in_html(data: object) -> str:
    """JSON that no name in a trace can break out of."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("@", "\\u0040")


def _run(result: Result, letter: str, axis_s: float) -> dict[str, Any]:
    origin = result.trace.origin
    return {
        "letter": letter,
        "title": f"{letter}: {result.label}",
        "originMs": None if origin is None else round(origin * 1000),
        "report": as_data(result, axis_s),
        "waits": {"curves": _curves(result)},
        "timeline": _timeline(result),
    }


def _curves(result: Result) -> list[dict[str, Any]]:
    """Waits at equal steps of the share of jobs, per queue and for all."""
    groups: dict[str, list[float]] = {}
    for run in result.runs:
        wait_s = result.wait_of(run)
        groups.setdefault(run.queue, []).append(wait_s)
        groups.setdefault("all", []).append(wait_s)
    curves = []
    for name, waits in groups.items():
        waits.sort()
        points = min(CURVE_POINTS, len(waits))
        at = [i * (len(waits) - 1) // max(1, points - 1) for i in range(points)]
        curves.append({"name": name, "seconds": [round(waits[i], 3) for i in at]})
    return curves


def _timeline(result: Result) -> dict[str, Any]:
    record, runs = result.record, result.runs
    queues = list(result.cluster.queues)
    number_of = {name: i for i, name in enumerate(queues)}
    # The script counts jobs as they came, which is how they are indexed once all have come.
    place_of = {run.index: i for i, run in enumerate(runs)}
    stays = range(len(record.stay_job))
    open_stays = [run for run in runs if run.usage is not None]
    kinds = [record.stay_ending[i] | (RAN if record.stay_ran[i] else 0) for i in stays]
    return {
        "queues": queues,
        "names": [run.key for run in runs],
        "submit": _packed("d", (run.submitted_at for run in runs)),
        "end": _packed("d", (_end_of(run, result.end) for run in runs)),
        "queue": _packed("H", (number_of[run.queue] for run in runs)),
        "stayJob": _packed(
            "I",
            [
                *(place_of[job] for job in record.stay_job),
                *(place_of[run.index] for run in open_stays),
            ],
        ),
        "stayFrom": _packed("d", [*record.stay_from, *map(_since, open_stays)]),
        "stayTo": _packed("d", [*record.stay_to, *(result.end for _ in open_stays)]),
        "stayKind": _packed("B", [*kinds, *map(_open_kind, open_stays)]),
    }


OPEN = 5  # the place of Ending.OPEN


def _open_kind(run: JobRun) -> int:
    return OPEN | (RAN if run.run_from is not None else 0)


def _since(run: JobRun) -> float:
    return run.held_from if run.run_from is None else run.run_from


def _end_of(run: JobRun, end: float) -> float:
    return end if run.ended_at is None else run.ended_at


def _packed(kind: str, values: Iterable[float]) -> str:
    """Numbers as browsers read them: little-endian, base64."""
    packed = array(kind, values)
    if sys.byteorder == "big":
        packed.byteswap()
    return b64encode(packed.tobytes()).decode("ascii")
