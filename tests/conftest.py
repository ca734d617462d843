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
    "starter/test_system.py",
    "dashboard/test_pages.py",
    "server/test_kubectl.py",
    "cli/test_demo.py",
    "laws/test_laws.py",
    "conformance/test_recorded.py",
    "embedded/test_clock_jumps.py",
    "embedded/test_pods.py",
    "simulation/test_harness.py",
    "simulation/test_faults.py",
    "sim/test_theory.py",
    "cli/test_jobs.py",
    "embedded/test_faults.py",
    "kube/test_protocol.py",
    "embedded/test_streams.py",
    "embedded/test_damage.py",
    "engine/test_properties.py",
    "server/test_strangers.py",
    "handle/test_handle.py",
    "runner/test_local.py",
    "embedded/test_chaos.py",
    "embedded/test_machine.py",
    "embedded/test_forecast.py",
    "embedded/test_gpu_box.py",
    "cli/test_odd_arguments.py",
    "server/test_hostile.py",
    "embedded/test_kubernetes_kinds.py",
    "embedded/test_samples.py",
    "sim/test_reference.py",
    "cli/test_live.py",
    "sim/test_page.py",
    "dashboard/test_many_jobs.py",
    "server/test_heartbeat.py",
    "embedded/test_after.py",
    "embedded/test_nothing_lost.py",
    "sim/test_real_traces.py",
    "embedded/test_crashes.py",
    "embedded/test_run.py",
    "test_dead_code.py",
    "test_layers.py",
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
