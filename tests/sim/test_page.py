"""The page in a real browser: it draws, without errors and without network."""

from __future__ import annotations

import re
import subprocess
from array import array
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
from tests.harness.browser import BROWSERS, browsing
from tests.prerequisites import program
from tests.sim.circle_worlds import EVERYDAY, lab
from tests.sim.worlds import cluster, flavor, job, play, queue, trace

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--hide-scrollbars", "--virtual-time-budget=5000", "--enable-logging=stderr"),
)
MANY = 100_000
BLANK_BYTES = 20_000  # of a picture of an empty page of this size


@pytest.fixture
def browser() -> str:
    return program(*BROWSERS)


def look(browser: str, page: str, folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    file = folder / "page.html"
    file.write_text(page, encoding="utf-8")
    command = [browser, *FLAGS, f"--user-data-dir={folder / 'profile'}", *flags, file.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def console(run: subprocess.CompletedProcess[str]) -> list[str]:
    return re.findall(r"CONSOLE[^\]]*\] (.*)", run.stderr)


def test_the_page_draws_all_its_pictures(browser: str, tmp_path: Path) -> None:
    page = render_page(simulate(*load_example("borrow")))

    run = look(browser, page, tmp_path, "--dump-dom")

    assert console(run) == []
    body = run.stdout[run.stdout.index("<body") :]
    assert 'data-drawn="yes"' in body
    drawn = body[: body.index('<script type="application/json"')]
    assert drawn.count("<svg") == 5
    assert drawn.count("<canvas") == 1
    for title in ("Utilisation", "Waiting jobs", "Timeline", "Longest waits"):
        assert f"<h2>{title}</h2>" in drawn
    assert "jobs 1 to 26 of 26" in drawn
    assert "<h2>Circles</h2>" not in drawn


ZOOM = """<script>
const canvas = document.querySelector("canvas");
const status = () => canvas.parentElement.querySelector(".bar span").textContent;
const box = canvas.getBoundingClientRect();
const at = { deltaY: -1, clientX: box.x + 300, clientY: box.y + 100, cancelable: true };
setTimeout(() => canvas.dispatchEvent(new WheelEvent("wheel", at)), 200);
setTimeout(() => { document.body.dataset.zoomed = status(); }, 600);
setTimeout(() => document.querySelector(".bar button").click(), 800);
setTimeout(() => { document.body.dataset.whole = status(); }, 1200);
</script></body>"""


def test_the_timeline_zooms_in_and_out(browser: str, tmp_path: Path) -> None:
    page = render_page(simulate(*load_example("borrow"))).replace("</body>", ZOOM)

    run = look(browser, page, tmp_path, "--dump-dom", "--window-size=1300,1400")

    assert console(run) == []
    (zoomed,) = re.findall('data-zoomed="([^"]*)"', run.stdout)
    (whole,) = re.findall('data-whole="([^"]*)"', run.stdout)
    assert "jobs 1 to 26 of 26" in whole
    assert "of 26" in zoomed
    assert "jobs 1 to 26" not in zoomed


def test_a_comparison_stands_side_by_side(browser: str, tmp_path: Path) -> None:
    first = simulate(*load_example("stockout"))
    page = render_page(
        first, simulate(load_variant("stockout-without-rules"), first.trace, seed=first.seed)
    )

    run = look(browser, page, tmp_path, "--dump-dom")

    drawn = run.stdout[: run.stdout.index('<script type="application/json"')]
    assert console(run) == []
    assert drawn.count("<canvas") == 2
    assert "WORSE" in drawn
    waits = drawn.partition("<h2>How long jobs waited</h2>")[2].partition("<h2>")[0]
    assert re.findall("<title>(A|B): ", waits) == ["A", "B"]  # in one picture
    assert "stockout-without-rules.yaml" in drawn


def test_a_comparison_fits_a_phone(tmp_path: Path) -> None:
    first = simulate(*load_example("stockout"))
    file = tmp_path / "page.html"
    file.write_text(
        render_page(first, simulate(load_variant("stockout-without-rules"), first.trace))
    )

    with browsing(tmp_path / "profile") as browser:
        phone = browser.page(360, 740)
        phone.open(file.as_uri())
        phone.wait("document.body?.dataset.drawn === 'yes'")
        assert phone.run("document.documentElement.scrollWidth") == 360
        sizes = phone.run(
            """[...document.querySelectorAll("svg")].map((n) =>
            n.getBoundingClientRect().width / n.viewBox.baseVal.width)"""
        )
        assert min(sizes) > 0.95  # text is not made smaller
        assert phone.complaints == []


def test_a_hundred_thousand_jobs_are_drawn(browser: str, tmp_path: Path) -> None:
    source = Random(1)
    jobs = [
        job(f"job-{i}", at=i * 10.0, run=source.expovariate(1 / 900), gpus=source.choice((1, 2)))
        for i in range(200)
    ]
    result = simulate(cluster(flavor("a"), queue("q", a=100)), trace(jobs))
    _repeat(result.record, MANY)
    screenshot = tmp_path / "page.png"

    page = render_page(result)
    run = look(
        browser,
        page,
        tmp_path,
        "--dump-dom",
        f"--screenshot={screenshot}",
        "--window-size=1300,1400",
    )

    assert console(run) == []
    assert "jobs 1 to 100000 of 100000" in run.stdout
    assert len(page) < 15_000_000


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


def test_the_screenshot_is_not_empty(browser: str, tmp_path: Path) -> None:
    screenshot = tmp_path / "page.png"
    page = render_page(simulate(*load_example("borrow")))

    look(browser, page, tmp_path, f"--screenshot={screenshot}", "--window-size=1300,2200")

    assert screenshot.stat().st_size > 3 * BLANK_BYTES


def test_nothing_in_the_page_points_outside() -> None:
    page = render_page(simulate(*load_example("fair")))

    outside = set(re.findall(r"https?://[^\"'\s)]+", page)) - {"http://www.w3.org/2000/svg"}
    assert outside == set()
    assert "default-src 'none'" in page


def test_circles_are_shown_where_there_are_any(browser: str, tmp_path: Path) -> None:
    page = render_page(play(lab(8, 8), *EVERYDAY))

    run = look(browser, page, tmp_path, "--dump-dom")

    assert console(run) == []
    drawn = run.stdout[run.stdout.index("<body") :].partition('<script type="application/json"')[0]
    circles = drawn.partition("<h2>Circles</h2>")[2]
    assert "<td>default/a-5 (a)</td><td>default/b-1 (b)</td><td>InCohortReclamation</td>" in circles


def test_a_sweep_draws_heat_maps_and_waits_against_cost(browser: str, tmp_path: Path) -> None:
    queues, jobs = load_example("borrow")
    prices = changed_cluster(
        queues, (), [parse_turn("simulation.prices=[{flavor: a100, perHour: 2, reserved: true}]")]
    )[0]
    question = Question(cluster=prices, trace=jobs)
    axes = [parse_axis("quota of flavor a100=12,16"), parse_axis("load=1,2")]
    sweep = SweepResult(question, axes, (0,))
    for point in points_of(axes):
        for finished in Runs(question).finish(tasks_of(axes, point, (0,))):
            sweep.take(finished)

    run = look(browser, render_sweep(sweep, ["mean wait of all", "cost"]), tmp_path, "--dump-dom")

    assert console(run) == []
    assert 'data-drawn="yes"' in run.stdout
    assert run.stdout.count('class="heat"') == 8  # four points, two figures
    assert "<h2>Wait against cost</h2>" in run.stdout
