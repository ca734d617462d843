"""A sweep as one HTML file: heat maps, curves with their confidence, waits against cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from makeway.sim.named_figures import figure_text, is_span
from makeway.sim.page import fill_page
from makeway.sim.sweep import SweepResult
from makeway.sim.sweep_report import notes_of, seeds_note, sweep_data, sweep_table


def render_sweep(sweep: SweepResult, figures: Sequence[str]) -> str:
    """The page; `figures` are drawn at first, all others can be chosen there."""
    title = (
        f"{PurePath(sweep.question.trace.source).name} on"
        f" {PurePath(sweep.question.cluster.source).name}"
    )
    data = sweep_data(sweep)
    names = sweep.names()
    data |= {
        "title": title,
        "notes": [*seeds_note(sweep), *notes_of(sweep)],
        "shown": list(figures),
        "rows": sweep_table(sweep, figures).rows,
        "spans": [name for name in names if is_span(name)],
        "texts": [
            {
                name: figure_text(name, interval.mean)
                for name in names
                if (interval := sweep.interval(point, name)) is not None
            }
            for point in sweep.points
        ],
    }
    return fill_page(title, "sweep.js", data)
