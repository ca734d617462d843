"""Ten thousand jobs on a page: only those in sight are drawn, and memory stays where it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.dashboard.many import ManyJobs, change, opened, scrolled, used_bytes
from tests.harness.browser import Page, browsing
from tests.prerequisites import SLOWNESS, samples

UPDATES = samples(20_000)
FRAME_S = 1 / 60 * SLOWNESS
PLACES = 30  # are scrolled to


@pytest.fixture(scope="module")
def many() -> Iterator[ManyJobs]:
    with ManyJobs() as many:
        yield many


@pytest.fixture(scope="module")
def page(many: ManyJobs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browsing(tmp_path_factory.mktemp("many") / "browser") as browser:
        page = opened(browser, many)
        yield page
        assert page.complaints == []


def test_only_jobs_in_sight_are_drawn_each_within_a_frame_however_far_one_scrolls(
    page: Page,
) -> None:
    found = scrolled(page, PLACES)
    assert found.cpu_s < FRAME_S
    assert found.rows_most < 80
    assert found.last == "10001"  # with the heading


def test_memory_stays_flat_while_jobs_change(page: Page, many: ManyJobs) -> None:
    before = used_bytes(page)
    change(page, many, UPDATES)
    assert used_bytes(page) < 1.25 * before
