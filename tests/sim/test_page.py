"""The page in a real browser: it draws, without errors and without network."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from makeway.sim.examples import load_example, load_variant
from makeway.sim.knobs import parse_turn
from makeway.sim.page import render_page
from makeway.sim.record import SimulationRecord
from makeway.sim.simulate import changed_cluster, simulate
from makeway.sim.sweep import Question, Runs, SweepResult, parse_axis, points_of, tasks_of
from makeway.sim.sweep_page import render_sweep
from tests.harness.browser import Page, browsing
from tests.sim.circle_worlds import EVERYDAY, lab
from tests.sim.worlds import cluster, flavor, job, play, queue, trace

MANY = 100_000
ALL_JOBS = "jobs 1 to 26 of 26"
STATUS = "document.querySelector('canvas').parentElement.querySelector('.bar span').textContent"
BLANK_BYTES = 20_000  # of a picture of an empty page of this size


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browsing(tmp_path_factory.mktemp("browser")) as browser:
        yield browser.page()


@pytest.fixture
def page(window: Page) -> Iterator[Page]:
    window.resize(1300, 1400)
    yield window
    assert window.complaints == []


def look(page: Page, text: str, folder: Path) -> str:
    """What stands in the page when it has been drawn."""
    file = folder / "page.html"
    file.write_text(text, encoding="utf-8")
    page.run("window.isLeft = true")
    page.open(file.as_uri())
    page.wait("!window.isLeft && document.body?.dataset.drawn === 'yes'")
    body: str = page.run("document.body.outerHTML")
    return body.partition('<script type="application/json"')[0]


def test_the_page_draws_all_its_pictures(page: Page, tmp_path: Path) -> None:
    drawn = look(page, render_page(simulate(*load_example("borrow"))), tmp_path)

    assert drawn.count("<svg") == 5
    assert drawn.count("<canvas") == 1
    for title in ("Utilisation", "Waiting jobs", "Timeline", "Longest waits"):
        assert f"<h2>{title}</h2>" in drawn
    page.wait(f"{STATUS}.includes({ALL_JOBS!r})")
    assert "<h2>Circles</h2>" not in drawn
    page.picture(tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 3 * BLANK_BYTES


ZOOM = """(() => { const canvas = document.querySelector("canvas");
const box = canvas.getBoundingClientRect();
const at = { deltaY: -1, clientX: box.x + 300, clientY: box.y + 100, cancelable: true };
canvas.dispatchEvent(new WheelEvent("wheel", at)); })()"""


def test_the_timeline_zooms_in_and_out(page: Page, tmp_path: Path) -> None:
    look(page, render_page(simulate(*load_example("borrow"))), tmp_path)

    page.run(ZOOM)
    page.wait(f"{STATUS}.includes('of 26') && !{STATUS}.includes('jobs 1 to 26')")
    page.run("document.querySelector('.bar button').click()")
    page.wait(f"{STATUS}.includes({ALL_JOBS!r})")


def test_a_comparison_stands_side_by_side(page: Page, tmp_path: Path) -> None:
    drawn = look(page, compared(), tmp_path)

    assert drawn.count("<canvas") == 2
    assert "WORSE" in drawn
    waits = drawn.partition("<h2>How long jobs waited</h2>")[2].partition("<h2>")[0]
    assert re.findall("<title>(A|B): ", waits) == ["A", "B"]  # in one picture
    assert "stockout-without-rules.yaml" in drawn


def compared() -> str:
    first = simulate(*load_example("stockout"))
    other = simulate(load_variant("stockout-without-rules"), first.trace, seed=first.seed)
    return render_page(first, other)


def test_a_comparison_fits_a_phone(page: Page, tmp_path: Path) -> None:
    page.resize(360, 740)
    look(page, compared(), tmp_path)

    assert page.run("document.documentElement.scrollWidth") == 360
    sizes = page.run(
        """[...document.querySelectorAll("svg")].map((n) =>
        n.getBoundingClientRect().width / n.viewBox.baseVal.width)"""
    )
    assert min(sizes) > 0.95  # text is not made smaller


def test_a_hundred_thousand_jobs_are_drawn(page: Page, tmp_path: Path) -> None:
    source = Random(1)
    jobs = [
        job(f"job-{i}", at=i * 10.0, run=source.expovariate(1 / 900), gpus=source.choice((1, 2)))
        for i in range(200)
    ]
    result = simulate(cluster(flavor("a"), queue("q", a=100)), trace(jobs))
    _repeat(result.record, MANY)
    text = render_page(result)

    look(page, text, tmp_path)

    page.wait(f"{STATUS}.includes('jobs 1 to 100000 of 100000')")
    assert len(text) < 15_000_000


def _repeat(record: SimulationRecord, count: int) -> None:
    """As many jobs and stays, made of the few that were simulated."""
    runs, stays = list(record.runs), len(record.stay_job)
    while len(record.runs) < count:
        record.runs.extend(runs[: count - len(record.runs)])
    columns: tuple[array[Any], ...] = (
        *(record.stay_job, record.stay_from, record.stay_to),
        *(record.stay_ending, record.stay_ran),
    )
    for column in columns:
        column.extend(column[i % stays] for i in range(count - stays))


def test_nothing_in_the_page_points_outside() -> None:
    page = render_page(simulate(*load_example("fair")))

    outside = set(re.findall(r"https?://[^\"'\s)]+", page)) - {"http://www.w3.org/2000/svg"}
    assert outside == set()
    assert "default-src 'none'" in page


def test_circles_are_shown_where_there_are_any(page: Page, tmp_path: Path) -> None:
    drawn = look(page, render_page(play(lab(8, 8), *EVERYDAY)), tmp_path)

    circles = drawn.partition("<h2>Circles</h2>")[2]
    assert "<td>default/a-5 (a)</td><td>default/b-1 (b)</td><td>InCohortReclamation</td>" in circles


def test_a_sweep_draws_heat_maps_and_waits_against_cost(page: Page, tmp_path: Path) -> None:
    queues, jobs = load_example("borrow")
    prices = changed_cluster(
        queues, (), [parse_turn("simulation.prices=[{flavor: a100, perHour: 2, reserved: true}]")]
    )[0]
    question = Question(cluster=prices, trace=jobs)
    axes = [parse_axis("quota of flavor a100=4,16"), parse_axis("load=1,2")]
    sweep = SweepResult(question, axes, (0, 1))
    for point in points_of(axes):
        for finished in Runs(question).finish(tasks_of(axes, point, (0, 1))):
            sweep.take(finished)

    drawn = look(page, render_sweep(sweep, ["mean wait of all", "cost"]), tmp_path)

    assert drawn.count('class="heat"') == 8  # four points, two figures
    assert "2 seeds each; ± is 95 % confidence" in drawn
    assert re.search(r"<td>3\.\dh ± [^<]+</td>", drawn)  # 16 GPUs, twice the load
    assert "<h2>Wait against cost</h2>" in drawn
    # Cheapest are 4 GPUs, with which the job of 8 can never fit: that is no bargain.
    assert drawn.count('r="5" fill="#3fa66b"') == 1
