"""What placement does, as Prometheus sees it."""

from __future__ import annotations

from makeway.controller.placement_metrics import PlacementMetrics
from makeway.controller.placing import Placing
from makeway.plane.picture import Picture
from tests.controller.metrics_lab import Scrape
from tests.harness.placing import PlacingPlane

ATTEMPTS = "makeway_placement_attempts_total"
VICTIMS = "makeway_placement_preemption_victims"


class Observed:
    """Two nodes of 4 cpu, and a clock that a cycle takes a quarter of a second of."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._metrics = PlacementMetrics(self._timer)
        self.plane = PlacingPlane(self._placing, n1=4, n2=4)

    def _timer(self) -> float:
        self._seconds += 0.25
        return self._seconds

    def _placing(self, picture: Picture) -> Placing:
        placing = Placing(picture)
        placing.observer = self._metrics
        return placing

    def scrape(self) -> Scrape:
        return Scrape(self._metrics.text())


def test_a_gang_that_makes_others_give_way_is_counted_with_its_victims() -> None:
    lab = Observed()
    plane = lab.plane
    plane.pod("low-1", on="n1", priority=3)
    plane.pod("low-2", on="n2", priority=7)
    plane.group("train", 2)
    plane.pod("train-0", group="train")
    plane.run()
    assert lab.scrape().get(ATTEMPTS, unit="gang", result="incomplete") == 1

    plane.pod("train-1", group="train")
    plane.run()
    seen = lab.scrape()
    assert seen.get(ATTEMPTS, unit="gang", result="preempting") == 1
    assert seen.get(f"{VICTIMS}_sum", unit="gang") == 2
    assert seen.get(f"{VICTIMS}_bucket", unit="gang", le="1") == 0
    assert seen.get(f"{VICTIMS}_bucket", unit="gang", le="2") == 1
    assert seen.get("makeway_placement_highest_victim_priority", unit="gang") == 7

    plane.ended("low-1", "low-2")
    plane.run()
    assert lab.scrape().get(ATTEMPTS, unit="gang", result="placed") == 1


def test_pods_that_fit_or_wait_are_counted_and_how_long_it_took() -> None:
    lab = Observed()
    lab.plane.pod("fits", cpu=4)
    lab.plane.pod("waits", cpu=8)
    lab.plane.run()
    seen = lab.scrape()
    assert seen.get(ATTEMPTS, unit="pod", result="placed") == 1
    assert seen.get(ATTEMPTS, unit="pod", result="waiting") >= 1
    cycles = seen.get("makeway_placement_duration_seconds_count")
    assert seen.get("makeway_placement_duration_seconds_sum") == 0.25 * cycles
