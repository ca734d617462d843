"""The files that take longest go first: beside them, on other cores, all the rest gets done."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from makeway.cli.up import GC_THRESHOLDS
from tests.harness.plane import close_all

LONG = (
    "embedded/test_people.py",
    "dashboard/test_pages.py",
    "cli/test_demo.py",
    "embedded/test_clock_jumps.py",
    "embedded/test_pods.py",
    "server/test_kubectl.py",
    "starter/test_system.py",
    "laws/test_laws.py",
    "engine/test_properties.py",
    "conformance/test_recorded.py",
    "embedded/test_samples.py",
    "embedded/test_damage.py",
    "simulation/test_faults.py",
    "simulation/test_harness.py",
    "sim/test_page.py",
    "sim/test_real_traces.py",
    "sim/test_theory.py",
    "embedded/test_faults.py",
    "embedded/test_chaos.py",
    "embedded/test_machine.py",
    "embedded/test_crashes.py",
    "embedded/test_explain.py",
    "server/test_strangers.py",
    "server/test_hostile.py",
    "server/test_crash.py",
    "cli/test_jobs.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    folder = Path(__file__).parent
    places = {folder / name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.path, len(LONG)))


def pytest_collection_finish() -> None:
    """What is loaded by now stays: who looks for garbage need not look through it again.

    And less often, as in `makeway up`.
    """
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


@pytest.fixture(autouse=True)
def close_planes() -> Iterator[None]:
    yield
    close_all()
