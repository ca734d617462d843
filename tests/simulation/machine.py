"""Machines on which pods run, on virtual time; they know nothing of restarts of the control plane.

A pod says in its command what its process will do: how long it runs, how it ends, and how long it
takes to obey when told to stop. The real runner gives the orders; what it must never order is
checked here, because no object in the store would show it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from makeway.runner.host import ContainerState, Ended, PodState, Running, RunOrder, Waiting
from tests.simulation.checkers import is_replaceable, job_of
from tests.simulation.clock import WallClock
from tests.simulation.observer import PODS, Document, Observer, owner_uid

START_S = 1.5  # from the order until the process runs
INDEX = "batch.kubernetes.io/job-completion-index"
TERMINATED, KILLED = 143, 137


class Behaviour(NamedTuple):
    """What a process will do by itself."""

    run_s: float
    exit_code: int
    stop_s: float  # how long it takes to obey
    failures: int = 0  # before the run that counts; only of use where it is started again
    ready_s: float = 0.0  # from its start until it is ready

    def command(self) -> list[str]:
        return ["behave", *map(str, self)]


def behaviour_of(order: RunOrder) -> Behaviour:
    _, run_s, exit_code, stop_s, failures, ready_s = order.containers[0].argv
    return Behaviour(float(run_s), int(exit_code), float(stop_s), int(failures), float(ready_s))


class Machines:
    """All nodes, as one `Host`."""

    def __init__(self, clock: WallClock, observer: Observer) -> None:
        self._clock, self._observer = clock, observer
        self._states: dict[str, PodState] = {}
        self._orders: dict[str, RunOrder] = {}  # all that ever were
        self._timers: dict[str, asyncio.TimerHandle] = {}  # what each will do next
        self._stopped: set[str] = set()  # will not be started again
        self.tell: Callable[[str], None] | None = None  # None: nobody listens

    # What the runner sees

    def states(self) -> Mapping[str, PodState]:
        return self._states

    def start(self, order: RunOrder) -> None:
        uid = order.uid
        if uid in self._states:
            return
        self._check(order)
        self._orders[uid] = order
        waiting = ContainerState(now=Waiting(reason="ContainerCreating"))
        names = [program.name for program in order.containers]
        self._states[uid] = PodState(
            uid=uid,
            node=order.node,
            devices=order.devices,
            containers=dict.fromkeys(names, waiting),
        )
        self._next(uid, START_S, self._begin)

    def stop(self, uid: str, grace_s: float) -> None:
        if self._states[uid].is_over:
            return
        self._stopped.add(uid)
        stop_s = behaviour_of(self._orders[uid]).stop_s
        code = TERMINATED if stop_s <= grace_s else KILLED
        loop, handle = asyncio.get_running_loop(), self._timers[uid]
        is_running = isinstance(self._container(uid).now, Running)
        if not is_running or handle.when() > loop.time() + min(stop_s, grace_s):
            self._next(uid, min(stop_s, grace_s), self._end, code)

    def remove(self, uid: str) -> None:
        if not self._states[uid].is_over:
            self._observer.note_violation(f"{uid} is forgotten, though it runs")
        del self._states[uid]

    # What happens by itself

    def _next(self, uid: str, delay_s: float, act: Callable[..., None], *more: object) -> None:
        handle = self._timers.pop(uid, None)
        if handle is not None:
            handle.cancel()
        loop = asyncio.get_running_loop()
        self._timers[uid] = loop.call_later(delay_s, act, uid, *more)

    def _container(self, uid: str) -> ContainerState:
        """All containers of a pod do the same."""
        return next(iter(self._states[uid].containers.values()))

    def _begin(self, uid: str) -> None:
        behaviour, now = behaviour_of(self._orders[uid]), self._clock()
        known, began_at = self._container(uid), self._states[uid].began_at
        is_ready = not behaviour.ready_s
        running = replace(known, now=Running(started_at=now), is_started=True, is_ready=is_ready)
        self._change(uid, running, began_at=now if began_at is None else began_at)
        self._next(uid, behaviour.run_s, self._end, self._exit_code(uid))
        if not is_ready:
            loop = asyncio.get_running_loop()
            loop.call_later(behaviour.ready_s, self._be_ready, uid, running)

    def _be_ready(self, uid: str, running: ContainerState) -> None:
        if uid in self._states and self._container(uid) is running:
            self._change(uid, replace(running, is_ready=True))

    def _exit_code(self, uid: str) -> int:
        behaviour = behaviour_of(self._orders[uid])
        return 1 if self._container(uid).restarts < behaviour.failures else behaviour.exit_code

    def _end(self, uid: str, exit_code: int) -> None:
        now, known = self._clock(), self._container(uid)
        began_at = known.now.started_at if isinstance(known.now, Running) else now
        ended = Ended(
            exit_code=exit_code,
            reason="Error" if exit_code else "Completed",
            started_at=began_at,
            finished_at=now,
        )
        order = self._orders[uid]
        if exit_code and order.restart_policy == "OnFailure" and uid not in self._stopped:
            waiting = Waiting(reason="CrashLoopBackOff")
            again = ContainerState(now=waiting, before=ended, restarts=known.restarts + 1)
            self._change(uid, again)
            self._next(uid, order.back_off_s, self._begin)
        else:
            over = ContainerState(now=ended, before=known.before, restarts=known.restarts)
            self._change(uid, over, is_over=True)

    def _change(self, uid: str, container: ContainerState, **more: object) -> None:
        state = self._states[uid]
        containers = dict.fromkeys(state.containers, container)
        self._states[uid] = replace(state, containers=containers, **more)  # type: ignore[arg-type]
        if self.tell is not None:
            self.tell(uid)

    # What must not happen

    def _check(self, order: RunOrder) -> None:
        note_violation = self._observer.note_violation
        if order.uid in self._orders:
            note_violation(f"pod {order.uid} is run a second time")
        share = self._share(order.uid)
        for uid, state in self._states.items():
            if state.is_over:
                continue
            if share and self._share(uid) == share:
                note_violation(f"pods {order.uid} and {uid} do the same work at once: {share}")
            if state.node == order.node:
                for resource, indexes in order.devices.items():
                    shared = set(indexes) & set(state.devices.get(resource, ()))
                    if shared:
                        note_violation(
                            f"{resource} {sorted(shared)} of {order.node} is given out twice"
                        )

    def _share(self, uid: str) -> str:
        """The part of a job's work that only this pod may do now; empty where there is none."""
        truth = self._observer.truth
        for pod in truth.all(PODS):
            if pod["metadata"]["uid"] == uid:
                job = job_of(pod, truth)
                return "" if job is None or is_replaceable(pod, job) else share_of(pod)
        return ""


def share_of(pod: Document) -> str:
    index = (pod["metadata"].get("annotations") or {}).get(INDEX)
    return f"{owner_uid(pod)} index {index}" if index is not None else ""
