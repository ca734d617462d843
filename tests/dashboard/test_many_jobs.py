"""Ten thousand jobs on a page: only those in sight are drawn, and memory stays where it was."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from makeway.api.kinds import WORKLOADS
from makeway.client import Client
from makeway.client.transport import Call, InProcessTransport
from makeway.dashboard.board import Board
from makeway.dashboard.feed import Feed
from makeway.dashboard.serving import serving
from makeway.dashboard.site import Site
from makeway.plane.picture import Picture
from tests.harness import documents
from tests.harness.browser import Page, browsing
from tests.harness.documents import condition
from tests.prerequisites import samples

JOBS = 10_000
UPDATES = samples(20_000)
NOW = 1_700_000_000.0
SCROLLS = 100
FRAME_S = 1 / 60 * float(os.environ.get("MAKEWAY_SLOWNESS", "2"))


class ManyJobs:
    """A dashboard of its own, in a thread, whose jobs the test changes."""

    def __init__(self) -> None:
        self._picture = Picture()
        self._board = Board(self._picture, lambda: NOW)
        self._revision = 0
        self._site = Site(b"k" * 32, lambda: NOW, lambda reader: _nobody())
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._listens = threading.Event()

    def __enter__(self) -> ManyJobs:
        for number in range(JOBS):
            self._change(number)
        self._thread.start()
        assert self._listens.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10)
        self._loop.close()

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        self._over = asyncio.Event()
        async with serving(self._site, 0, is_fixed=False):
            self._site.follow(Feed(self._board, lambda: NOW))
            self._listens.set()
            await self._over.wait()

    @property
    def address(self) -> str:
        invitation = self._site.invite("ada", None)
        return f"{invitation['address']}/jobs#{invitation['code']}"

    def change(self, numbers: range) -> None:
        def work() -> None:
            for number in numbers:
                self._change(number % JOBS)

        self._loop.call_soon_threadsafe(work)

    def _change(self, number: int) -> None:
        self._revision += 1
        waits = condition("QuotaReserved", "False", message=f"told for the {self._revision}th time")
        document: dict[str, Any] = documents.workload(f"job-{number:05}")
        document["metadata"] |= {
            "namespace": "default",
            "uid": f"uid-{number}",
            "resourceVersion": str(self._revision),
            "creationTimestamp": "2023-11-14T22:13:20Z",
        }
        change = self._picture.take(WORKLOADS, {**document, "status": {"conditions": [waits]}})
        assert change is not None
        self._board.changed(change)


def _nobody() -> Client:
    async def handle(call: Call) -> tuple[int, dict[str, str], bytes]:
        return 404, {}, b"{}"

    return Client(InProcessTransport(handle))


@pytest.fixture(scope="module")
def many() -> Iterator[ManyJobs]:
    with ManyJobs() as many:
        yield many


@pytest.fixture
def page(many: ManyJobs, tmp_path: Path) -> Iterator[Page]:
    with browsing(tmp_path / "browser") as browser:
        page = browser.page()
        page.open(many.address)
        page.wait("document.getElementById('count')?.innerText === '10,000 of 10,000'", 60)
        yield page
        assert page.complaints == []


def test_only_jobs_in_sight_are_drawn_each_within_a_frame_however_far_one_scrolls(
    page: Page,
) -> None:
    page.call("Performance.enable", timeDomain="threadTicks")  # CPU time, whoever else works
    before_s = busy_s(page)
    drawn = page.run(
        f"""(async () => {{
        const most = [], frame = () => new Promise(requestAnimationFrame);
        for (let i = 1; i <= {SCROLLS}; i += 1) {{
          scrollTo(0, document.body.scrollHeight * i / {SCROLLS});
          await frame(); await frame();
          most.push(document.querySelectorAll('.body .row').length);
        }}
        return [Math.max(...most), document.querySelector('.body .row:last-child').ariaRowIndex];
        }})()"""
    )
    frame_s = (busy_s(page) - before_s) / SCROLLS
    print(f"{1000 * frame_s:.1f} ms of CPU for each place that was scrolled to")
    assert frame_s < FRAME_S
    assert drawn[0] < 80
    assert drawn[1] == "10001"  # with the heading


def test_memory_stays_flat_while_jobs_change(page: Page, many: ManyJobs) -> None:
    before = used_bytes(page)
    seen = 0
    for start in range(0, UPDATES, 1000):
        many.change(range(start, start + 1000))
        seen += 1000
        last = f"told for the {JOBS + seen}th time"
        number = (start + 999) % JOBS
        page.run(f"history.replaceState(null, '', '/jobs?search=job-{number:05}')")
        page.run("dispatchEvent(new PopStateEvent('popstate'))")
        page.has(last, 60)
    assert used_bytes(page) < 1.25 * before


def busy_s(page: Page) -> float:
    """What the page's thread has done so far: scripts, styles, layout, painting."""
    metrics = page.call("Performance.getMetrics")["metrics"]
    return float(next(m["value"] for m in metrics if m["name"] == "TaskDuration"))


def used_bytes(page: Page) -> float:
    page.run(
        "history.replaceState(null, '', '/jobs'); dispatchEvent(new PopStateEvent('popstate'))"
    )
    page.wait("document.querySelectorAll('.body .row').length > 10")
    page.call("HeapProfiler.collectGarbage")
    found = page.call("Runtime.getHeapUsage")
    return float(found["usedSize"])
