"""Ten thousand jobs on a page, and what a browser says of them: when it paints first, how long a
frame takes while one scrolls, and how much memory it has."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, NamedTuple

from makeway.api.kinds import WORKLOADS
from makeway.client import Client
from makeway.client.transport import Call, InProcessTransport
from makeway.dashboard.board import Board
from makeway.dashboard.feed import Feed
from makeway.dashboard.serving import serving
from makeway.dashboard.site import Site
from makeway.plane.picture import Picture
from tests.harness import documents
from tests.harness.browser import Browser, Page
from tests.harness.documents import condition

JOBS = 10_000
NOW = 1_700_000_000.0
_GO = "history.replaceState(null, '', '{}'); dispatchEvent(new PopStateEvent('popstate'))"


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


def opened(browser: Browser, many: ManyJobs) -> Page:
    """A page that shows all of them."""
    page = browser.page()
    page.open(many.address)
    page.wait("document.getElementById('count')?.innerText === '10,000 of 10,000'", 60)
    return page


def first_paint_ms(page: Page) -> float:
    """Of a page that is opened again."""
    page.call("Page.reload")
    paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
    return float(page.wait(paint))


class Scrolled(NamedTuple):
    """All the way down, in steps."""

    cpu_s: float  # for each step, whoever else works: scripts, styles, layout, painting
    longest_s: float  # from one frame to the next, by the clock
    rows_most: int  # drawn at a time
    last: str  # the index of the last row


def scrolled(page: Page, steps: int = 100) -> Scrolled:
    page.call("Performance.enable", timeDomain="threadTicks")
    before_s = _busy_s(page)
    rows_most, last, longest_ms = page.run(
        f"""(async () => {{
        let most = 0, longest = 0, before = 0;
        const frame = () => new Promise(requestAnimationFrame).then((at) => {{
          if (before) longest = Math.max(longest, at - before);
          before = at; }});
        for (let i = 1; i <= {steps}; i += 1) {{
          scrollTo(0, document.body.scrollHeight * i / {steps});
          await frame(); await frame();
          most = Math.max(most, document.querySelectorAll('.body .row').length);
        }}
        const last = document.querySelector('.body .row:last-child').ariaRowIndex;
        return [most, last, longest];
        }})()"""
    )
    cpu_s = (_busy_s(page) - before_s) / steps
    return Scrolled(cpu_s, longest_ms / 1000, rows_most, last)


def _busy_s(page: Page) -> float:
    """What the page's thread has done so far."""
    metrics = page.call("Performance.getMetrics")["metrics"]
    return float(next(m["value"] for m in metrics if m["name"] == "TaskDuration"))


def change(page: Page, many: ManyJobs, updates: int) -> None:
    """So many jobs become different, one thousand after the other, and the page shows them."""
    for start in range(0, updates, 1000):
        many.change(range(start, start + 1000))
        page.run(_GO.format(f"/jobs?search=job-{(start + 999) % JOBS:05}"))
        page.has(f"told for the {JOBS + start + 1000}th time", 60)


def used_bytes(page: Page) -> float:
    page.run(_GO.format("/jobs"))
    page.wait("document.querySelectorAll('.body .row').length > 10")
    page.call("HeapProfiler.collectGarbage")
    return float(page.call("Runtime.getHeapUsage")["usedSize"])
