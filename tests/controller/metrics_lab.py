"""A scenario that is looked upon, as `Admission` lets its observer look, and scraped."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from makeway.api.kinds import WORKLOADS
from makeway.client.client import Document
from makeway.controller.metrics import Metrics
from makeway.engine import events as ev
from makeway.engine.decisions import Cycle
from makeway.engine.engine import Engine
from makeway.engine.model import Changes, Cohort, Config, Flavor, Queue
from makeway.plane.picture import Picture
from tests.harness.engine import Scenario

ROLE = "leader"


class ObservedEngine(Engine):
    def __init__(self, engine: Engine) -> None:
        self.state, self.view = engine.state, engine.view
        self.metrics: Metrics | None = None

    def run_cycle(self, now: float) -> Cycle:
        assert self.metrics is not None
        self.metrics.begins(now)
        cycle = super().run_cycle(now)
        self.metrics.ended(cycle, now)
        return cycle


class ObservedScenario(Scenario):
    def __init__(
        self,
        *parts: Queue | Cohort | Flavor,
        cohort: str | None = None,
        config: Config | None = None,
    ) -> None:
        self.metrics: Metrics | None = None
        super().__init__(*parts, cohort=cohort, config=config)
        self.picture = Picture()
        self.seconds = 0.0  # by the timer; a story that times cycles moves it
        self._observe()

    def _observe(self) -> None:
        self.engine = engine = ObservedEngine(self.engine)
        engine.metrics = self.metrics = Metrics(
            engine, self.picture, lambda: self.now, role=ROLE, timer=self._read_timer
        )

    def restart(
        self, *, after_s: float = 0.0, clock_jump_s: float = 0.0, workloads_first: bool = False
    ) -> None:
        """Whoever looks on begins anew, too."""
        self.metrics = None
        super().restart(after_s=after_s, clock_jump_s=clock_jump_s, workloads_first=workloads_first)
        self._observe()

    def _read_timer(self) -> float:
        self.seconds += 0.25
        return self.seconds

    def apply(self, event: ev.Event) -> Changes:
        changes = super().apply(event)
        if self.metrics is not None:
            self.metrics.heard(event, changes)
        return changes

    def document(self, name: str, **parts: Document) -> None:
        """What the server has of a workload."""
        metadata = {"name": name, "namespace": "default", "resourceVersion": "1"}
        self.picture.take(WORKLOADS, {"metadata": metadata, **parts})

    def scrape(self) -> Scrape:
        assert self.metrics is not None
        return Scrape(self.metrics.text())


class Scrape:
    """What Prometheus makes of a text."""

    def __init__(self, text: str) -> None:
        self.families = list(text_string_to_metric_families(text))

    def names(self) -> set[str]:
        """As they stand after # TYPE; the parser takes `_total` off."""
        return {
            f"{family.name}_total" if family.type == "counter" else family.name
            for family in self.families
        }

    def labels(self, name: str) -> set[tuple[str, ...]]:
        return {
            tuple(label for label in sample.labels if label != "le")
            for family in self.families
            for sample in family.samples
            if sample.name in (name, f"{name}_bucket")
        }

    def all(self, name: str, /, **labels: str) -> list[float]:
        """The numbers of the series that carry these labels."""
        return [
            sample.value
            for family in self.families
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]

    def get(self, name: str, /, **labels: str) -> float:
        (number,) = self.all(name, **labels)
        return number
