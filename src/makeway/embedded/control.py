"""The control plane of one machine: which parts it has, and what the server asks of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from makeway.api.configuration import Configuration
from makeway.api.kinds import FLAVORS, QUEUES
from makeway.client import Client
from makeway.client.client import Document
from makeway.clocks import Clock
from makeway.controller import automatic
from makeway.controller.admission import Admission
from makeway.controller.budgets import BudgetStatuses
from makeway.controller.class_values import ClassValues
from makeway.controller.dependencies import LastOutcome, Outcome, nobody_knows, outcome_of
from makeway.controller.gangs import GangStatuses
from makeway.controller.in_use import InUse
from makeway.controller.job_list import JobList, asked_in
from makeway.controller.jobs import Jobs
from makeway.controller.metrics import Metrics
from makeway.controller.notifications import Notifications
from makeway.controller.placing import GANG_KINDS, Placing
from makeway.controller.pods import Pods
from makeway.controller.previews import NotPreviewed, Previews
from makeway.controller.prospects import prospects
from makeway.controller.queue_status import QueueStatus
from makeway.controller.reboots import Reboots
from makeway.controller.retention import Retention
from makeway.controller.visibility import Visibility
from makeway.dashboard.board import Board
from makeway.dashboard.feed import Feed
from makeway.dashboard.site import Site
from makeway.history.archive import Archive
from makeway.history.chronicler import Chronicler
from makeway.journal.recorder import Recorder, Writer
from makeway.plane.loop import Loop
from makeway.plane.parts import Part
from makeway.plane.picture import Picture
from makeway.plane.writes import Key
from makeway.runner.cron_jobs import CronJobs
from makeway.runner.gpu_reading import GpuWatch
from makeway.runner.host import Host
from makeway.runner.jobs import JobPods
from makeway.runner.machine import host_name
from makeway.runner.node_gpus import GpuOffers, NodeGpus
from makeway.runner.pods import PodRunner
from makeway.runner.services import ServiceEndpoints
from makeway.server.app import App
from makeway.watchdog import Pulse

SCHEDULING_PATIENCE_S = 30.0  # a turn with very many objects takes its time


class Control:
    """The control plane of the machine, term by term.

    A term begins with nothing but the server's objects and the host's pods, as after a restart of
    the process; so one that has failed is followed by another.
    """

    def __init__(
        self,
        app: App,
        client: Client,
        host: Host,
        configuration: Configuration,
        nodes: Sequence[Document],
        clock: Clock,
        archive: Archive,
        writer: Writer | None = None,
        site: Site | None = None,
        watch: GpuWatch | None = None,
    ) -> None:
        self._app, self._client, self._host, self._site = app, client, host, site
        self._configuration, self._nodes, self._clock = configuration, nodes, clock
        self._archive = archive
        self._writer, self._watch = writer, watch
        self.pulse = Pulse("scheduling", SCHEDULING_PATIENCE_S)
        self._term: tuple[Plane, Loop] | None = None
        self._terms = 0
        self._insight: Insight | None = None

    def state(self) -> tuple[int, int]:
        """A sign that is another whenever who waits or holds quota may be another."""
        revision = 0 if self._term is None else self._term[0].admission.engine.view.revision
        return self._terms, revision

    def waits_for(self, keys: Iterable[str]) -> Mapping[str, str]:
        return {} if self._insight is None else self._insight.waits_for(keys)

    def begin(self) -> None:
        """Make ready for a term; what was known of the one before is forgotten."""
        picture = Picture()
        plane = Plane(
            *(picture, self._configuration, self._host, self._nodes, self._watch),
            last_outcome=self._last_outcome,
            is_shared=self._app.is_shared,
        )
        plane.parts.append(Chronicler(picture, self._archive, self._clock))
        if self._site is not None:
            board = Board(picture, self._clock)
            plane.parts.append(board)
            self._site.follow(Feed(board, self._clock))
        loop = Loop(self._client, picture, plane.parts, clock=self._clock, pulse=self.pulse)
        metrics = Metrics(plane.admission.engine, picture, self._clock, role="standalone")
        engine = plane.admission.engine
        if self._writer is not None:
            plane.admission.observers.append(Recorder(engine, self._writer, self._clock))
        plane.admission.observers.append(metrics)
        plane.placing.observer = metrics.placement
        metrics.loops["controller"] = loop
        self._term = plane, loop
        self._terms += 1
        self._insight = Insight(plane, picture, loop, metrics, self._clock)
        self._app.insight = self._insight

    def _last_outcome(self, key: Key) -> Outcome:
        """Of a Job that was deleted; if it had not ended, it has failed for who waits for it."""
        gone = self._archive.gone_job(key.namespace, key.name)
        if gone is None:
            return Outcome.UNKNOWN
        found = outcome_of(json.loads(gone.body))
        return Outcome.FAILED if found is Outcome.OPEN else found

    async def run(self) -> None:
        """One term, until it fails."""
        if self._term is None:
            self.begin()
        assert self._term is not None
        try:
            await self._term[1].run()
        finally:
            self._term = None

    def noticed(self, uid: str) -> None:
        """The host has news; between two terms nobody has to hear them, all pods are looked at."""
        if self._term is not None:
            plane, loop = self._term
            plane.pods.noticed(uid)
            plane.gpu_offers.look_again()
            loop.wake()

    def gpus_changed(self) -> None:
        """Somebody else began or ceased to use a GPU."""
        if self._term is not None:
            plane, loop = self._term
            plane.pods.try_waiting()
            plane.gpu_offers.look_again()
            loop.wake()


class Plane:
    """The parts that make a machine run what its queues admit."""

    def __init__(
        self,
        picture: Picture,
        configuration: Configuration,
        host: Host,
        nodes: Sequence[Document],
        watch: GpuWatch | None = None,
        *,
        last_outcome: LastOutcome = nobody_knows,
        is_shared: bool = False,
    ) -> None:
        """`watch` sees the GPUs of this machine; None: they are only declared."""
        self.is_shared = is_shared  # by several people
        self.admission = Admission(picture, configuration)
        distance_max = configuration.preemption_priority.max_distance
        self.placing = Placing(picture, distance_max=distance_max, is_shared=is_shared)
        gpus = (
            NodeGpus(host) if watch is None else NodeGpus(host, host_name(), lambda: watch.devices)
        )
        self.pods = PodRunner(picture, host, nodes, gpus)
        self.gpu_offers = GpuOffers(picture, gpus)
        self.parts: list[Part] = [
            self.admission,
            Jobs(picture, configuration, last_outcome),
            Pods(picture, configuration),
            ClassValues(picture),
            JobPods(picture),
            CronJobs(picture),
            ServiceEndpoints(picture),
            Reboots(picture),
            self.placing,
            self.pods,
            self.gpu_offers,
            *(GangStatuses(picture, kind, distance_max=distance_max) for kind in GANG_KINDS),
            BudgetStatuses(picture),
            QueueStatus(picture, self.admission.engine),
            InUse(picture, self.admission.engine, FLAVORS),
            InUse(picture, self.admission.engine, QUEUES),
            automatic.AutomaticQueue(picture, is_shared=is_shared),
            Notifications(picture),
        ]
        if configuration.retention is not None:
            self.parts.append(Retention(picture, configuration.retention))


class Insight(Visibility):
    """What the server asks of the controller beside it."""

    def __init__(
        self, plane: Plane, picture: Picture, loop: Loop, metrics: Metrics, clock: Clock
    ) -> None:
        super().__init__(plane.admission.engine, picture, clock, is_shared=plane.is_shared)
        self._loop, self._metrics = loop, metrics
        self._jobs = JobList(plane.admission.engine, picture, clock)
        self._previews = Previews(plane.admission, picture, clock)

    def preview(self, document: Mapping[str, Any]) -> Document | str:
        try:
            return self._previews.preview(document)
        except NotPreviewed as error:
            return str(error)

    def difference(self, documents: Sequence[Mapping[str, Any]]) -> Document | str:
        try:
            return self._previews.difference(documents)
        except NotPreviewed as error:
            return str(error)

    @property
    def is_ready(self) -> bool:
        return self._loop.is_synced

    def jobs(self, namespace: str, query: Mapping[str, str]) -> Document:
        return self._jobs.answer(asked_in(namespace, query))

    def prospects(self, namespace: str, job: Any) -> Document:
        return prospects(self._engine, self._picture, namespace, job)

    def metrics(self) -> str:
        return self._metrics.text()
