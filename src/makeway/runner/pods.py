"""Runs the pods that are bound to our nodes, and tells the server what becomes of them.

What a kubelet does, with processes in place of containers. The host is the memory: a pod that it
knows was started, one that it doesn't know was not, unless the pod's own status says so; then its
trace is lost, and the pod has failed rather than run a second time.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import islice

from makeway.api.batch import Node, pod_requests
from makeway.api.codec import decode_as, decode_unconverted
from makeway.api.devices import GPUS, WAITING, DeviceId, format_devices, gpus_of
from makeway.api.kinds import (
    CONFIG_MAPS,
    ENDPOINT_SLICES,
    NODES,
    PODS,
    SECRETS,
    SERVICES,
    Resource,
)
from makeway.api.programs import PodOfPrograms
from makeway.client.client import Document
from makeway.logs import Fields
from makeway.plane.parts import NOTHING, Plan, Reconciler
from makeway.plane.picture import Change, Picture
from makeway.plane.writes import Delete, Key, Say, Write, status_patch
from makeway.runner import gpus
from makeway.runner.environment import FindValues, NotYet, Refused
from makeway.runner.host import Host, PodState, Unwelcome
from makeway.runner.node_gpus import NodeGpus, look_again_at, unavailable_text
from makeway.runner.orders import order_for
from makeway.runner.services import ServiceVariables
from makeway.runner.status import (
    has_begun,
    is_finished,
    lost_state,
    refused_state,
    status_of,
    unread_state,
)

log = logging.getLogger("makeway.runner")

FORCED_GRACE_S = 2.0  # for pods that are gone from the server already
STARTS_AT_ONCE = 5  # some milliseconds each; then others get their turn
START_AGAIN_S = 5.0  # after the machine refused (disk full, too many processes)

_VALUES = (CONFIG_MAPS, SECRETS)  # what pods read


class PodRunner(Reconciler):
    resources: tuple[Resource, ...] = (NODES, PODS, *_VALUES, SERVICES, ENDPOINT_SLICES)

    def __init__(
        self,
        picture: Picture,
        host: Host,
        nodes: Iterable[Document] = (),
        gpus: NodeGpus | None = None,
    ) -> None:
        """Every node runs here: those given, and those that the server has besides."""
        super().__init__()
        self._picture, self._host = picture, host
        self._gpus = gpus or NodeGpus(host)
        self._nodes: dict[str, Mapping[str, int]] = {}  # what each has to give
        self._short_of_gpus: dict[Key, None] = {}
        # By namespace: pods that read what isn't there, and what was said about it.
        self._short_of_values: dict[str, dict[Key, str]] = {}
        for node in nodes:
            self._hear_node(node)
        self._pods = picture.index(PODS, lambda pod: (pod.uid, None))
        self._services = ServiceVariables(picture)
        self._strays: dict[str, None] | None = None  # run, but the server has them no more
        self._stopped: dict[str, float] = {}  # by uid: the grace that was given
        self._to_start: dict[Key, None] = {}  # have to wait for their turn
        self._starts = 0  # in this turn

    # Hearing

    def changed(self, change: Change) -> None:
        if change.resource == PODS:
            for uid in self._pods.groups(change):
                if self._strays is not None and not self._pods.has(uid):
                    self._strays[uid] = None
            self.mark(change.key)
        elif change.resource in _VALUES:
            self.mark(*self._short_of_values.get(change.key.namespace, ()))
        elif change.resource == NODES and change.new is not None:
            self._hear_node(change.new.document)

    def _hear_node(self, document: Document) -> None:
        name, node = document["metadata"]["name"], decode_as(Node, document).object
        if node is None:  # what runs there goes on as the node was
            log.error(Fields(kind="Node", name=name, problem="unreadable"))
        else:
            capacity, allocatable = node.status.capacity, node.status.allocatable
            # Of GPUs that are not handed out for now, a pod that needs them waits.
            self._nodes[name] = {**capacity, **allocatable, **gpus_of(capacity)}
            self._gpus.hear(node)
            self.try_waiting()

    def noticed(self, uid: str) -> None:
        """The host has news about a pod."""
        if self._pods.has(uid):
            self.mark(*self._pods.keys(uid))
        elif self._strays is not None:
            self._strays[uid] = None
        state = self._host.states().get(uid)
        if state is not None and state.is_over:
            self.try_waiting()

    def try_waiting(self) -> None:
        """GPUs may have become free."""
        self.mark(*self._short_of_gpus)
        self._short_of_gpus.clear()

    # Acting

    def act(self, now: float) -> Plan:
        if self._strays is None:
            known = self._host.states().keys()
            self._strays = {uid: None for uid in known if not self._pods.has(uid)}
        strays_at = self._end_strays(now)
        self._starts = 0
        for key in list(islice(self._to_start, STARTS_AT_ONCE)):
            del self._to_start[key]
            self.mark(key)
        plan = super().act(now)
        if self._to_start:
            return Plan(plan.writes, now)
        due = [at for at in (plan.next_at, strays_at) if at is not None]
        return Plan(plan.writes, min(due, default=None))

    def _end_strays(self, now: float) -> float | None:
        """End those that nobody wants; when to try again with whom it didn't work."""
        assert self._strays is not None
        for uid in list(self._strays):
            try:
                self._end_stray(uid)
                del self._strays[uid]
            except OSError as error:
                log.warning(Fields(pod_uid=uid, end="failed", error=error))
        return now + START_AGAIN_S if self._strays else None

    def _end_stray(self, uid: str) -> None:
        state = self._host.states().get(uid)
        if state is None:
            return
        if state.is_over:
            self._host.remove(uid)
            self._stopped.pop(uid, None)
        else:
            self._stop(uid, FORCED_GRACE_S)

    def _stop(self, uid: str, grace_s: float) -> None:
        """Asked once for each grace; the news that it is over brings us back."""
        if grace_s < self._stopped.get(uid, float("inf")):
            self._host.stop(uid, grace_s)
            self._stopped[uid] = grace_s

    def reconcile(self, key: Key, now: float) -> Plan:
        found = self._picture.find(PODS, key)
        if found is None:
            self._has_values(key)
            return NOTHING
        document = found.document
        state = self._host.states().get(found.uid)
        if state is None and (document.get("spec") or {}).get("nodeName") not in self._nodes:
            return NOTHING
        decoded = decode_unconverted(PodOfPrograms, document)
        if decoded.object is None:
            why = "; ".join(str(error) for error in decoded.errors)
            return self._refuse(document, "InvalidPod", why)
        try:
            return self._bring_on(key, document, decoded.object, state, now)
        except OSError as error:
            return self._later(key, document, error, now)

    def _later(self, key: Key, document: Document, error: OSError, now: float) -> Plan:
        """The machine refused (no room, no descriptors, too many processes): that may pass."""
        log.warning(Fields(pod=key, error=error))
        message = f"The pod can't be started or ended now: {error.strerror}"
        saying = Say(about=document, reason="MachineRefused", message=message, type="Warning")
        return Plan([saying], now + START_AGAIN_S)

    def _bring_on(
        self, key: Key, document: Document, pod: PodOfPrograms, state: PodState | None, now: float
    ) -> Plan:
        grace_s = pod.metadata.deletion_grace_period_seconds
        is_leaving = pod.metadata.deletion_timestamp is not None
        if is_finished(document):
            if state is not None and not state.is_over:
                self._stop(state.uid, pod.spec.termination_grace_period_seconds)
            elif is_leaving and grace_s:
                return Plan([Delete(resource=PODS, key=key, uid=pod.metadata.uid, grace_s=0)])
            return NOTHING
        if state is None and has_begun(document):
            state = lost_state(pod, now)
        elif state is not None and state.is_over and not state.containers:
            state = lost_state(pod, now, state)
        if is_leaving:
            if state is None:
                return self._refuse(document, "Deleted", "The pod was deleted before it began")
            if not state.is_over:
                self._stop(state.uid, grace_s or 0)
        if state is None:
            if self._starts == STARTS_AT_ONCE:
                self._to_start[key] = None
                return NOTHING
            return self._start(key, document, pod, now)
        return self._report(document, pod, state, now)

    def _start(self, key: Key, document: Document, pod: PodOfPrograms, now: float) -> Plan:
        allocatable = self._nodes[pod.spec.node_name]
        wanted = gpus_of(self._requests(key))
        for name, count in wanted.items():
            if count > allocatable.get(name, 0):
                has = f"node {pod.spec.node_name} has {allocatable.get(name, 0)}"
                return self._refuse(document, "OutOfDevices", f"{count} {name}: {has}")
        devices = self._devices_for(wanted, pod.spec.node_name)
        if devices is None:
            self._short_of_gpus[key] = None
            return self._wait_for_gpus(document, pod.spec.node_name, now)
        try:
            uuids = self._gpus.uuids_of(pod.spec.node_name)
            held = [one for of_kind in devices.values() for one in of_kind]
            order = order_for(
                *(pod, allocatable, devices, uuids),
                parts=self._gpus.parts_of(pod.spec.node_name, held),
                find=self._values_in(key.namespace),
                services=self._services.of(key.namespace),
            )
        except NotYet as missing:
            return self._wait_for_values(key, document, pod, missing, now)
        except Refused as refused:
            state = refused_state(pod, str(refused), now)
            plan = self._report(document, pod, state, now)
            return Plan([*plan.writes, _failure(document, str(refused))])
        self._has_values(key)
        self._starts += 1
        try:
            self._host.start(order)
        except Unwelcome as refusal:
            return self._refuse(document, refusal.reason, str(refusal))
        log.info(Fields(pod=key, uid=order.uid, started="true", devices=devices))
        return NOTHING

    def _devices_for(
        self, wanted: Mapping[str, int], node: str
    ) -> dict[str, tuple[DeviceId, ...]] | None:
        if not wanted:  # else every pod that runs is looked at
            return {}
        held = gpus.held_on(node, self._host.states().values())
        return gpus.take(wanted, self._gpus.pools(node), held)

    def _wait_for_gpus(self, document: Document, node: str, now: float) -> Plan:
        pools = self._gpus.pools(node)
        why = unavailable_text(pools) or "other pods on its node still hold them"
        message = f"The pod waits for GPUs: {why}"
        before = document.get("status") or {}
        reasons = (why for pool in pools.values() for why in pool.barred.values())
        again_at = look_again_at(now, reasons)
        if before.get("message") == message:
            return Plan(next_at=again_at)
        status = {"phase": "Pending", "reason": WAITING, "message": message}
        saying = Say(about=document, reason=WAITING, message=message)
        return Plan([status_patch(PODS, document, status), saying], again_at)

    def _values_in(self, namespace: str) -> FindValues:
        @cache  # of one pod, which may read a thousand keys of one object
        def find(resource: Resource, name: str) -> Mapping[str, bytes] | None:
            found = self._picture.find(resource, Key(namespace, name))
            values: dict[str, bytes] | None = None
            if found is not None and found.view is not None:
                values = found.view.values()
            return values

        return find

    def _wait_for_values(
        self, key: Key, document: Document, pod: PodOfPrograms, missing: NotYet, now: float
    ) -> Plan:
        writes: list[Write] = []
        before = document.get("status") or {}
        status = status_of(pod, unread_state(pod, missing), before, now)
        status["message"] = str(missing)
        if any(before.get(name) != value for name, value in status.items()):
            writes.append(status_patch(PODS, document, status))
        waiting = self._short_of_values.setdefault(key.namespace, {})
        message = f"Error: {missing}" if missing.container else str(missing)
        if waiting.get(key) != message:
            waiting[key] = message
            reason = "Failed" if missing.container else "FailedMount"
            writes.append(Say(about=document, reason=reason, message=message, type="Warning"))
        return Plan(writes)

    def _has_values(self, key: Key) -> None:
        """It waits for none any more."""
        waiting = self._short_of_values.get(key.namespace, {})
        waiting.pop(key, None)
        if not waiting:
            self._short_of_values.pop(key.namespace, None)

    def _requests(self, key: Key) -> Mapping[str, int]:
        found = self._picture.find(PODS, key)
        return {} if found is None or found.view is None else pod_requests(found.view.spec)

    # Telling

    def _report(self, document: Document, pod: PodOfPrograms, state: PodState, now: float) -> Plan:
        before = document.get("status") or {}
        if state.began_at is None and not state.is_over:
            return NOTHING  # its supervisor is about to tell
        status = status_of(pod, state, before, now)
        if before.get("message"):  # of what it waited for
            status = {"reason": None, "message": None} | status
        annotations = {GPUS: format_devices(state.devices)} if state.devices else {}
        is_told = annotations.items() <= pod.metadata.annotations.items()
        if is_told and all(before.get(name) == value for name, value in status.items()):
            return NOTHING
        return Plan([status_patch(PODS, document, status, annotations)])

    def _refuse(self, document: Document, reason: str, message: str) -> Plan:
        """The pod will never run: say why, where its owner looks."""
        if is_finished(document):
            return NOTHING
        status = {"phase": "Failed", "reason": reason, "message": message}
        return Plan([status_patch(PODS, document, status), _failure(document, message)])


def _failure(document: Document, message: str) -> Say:
    return Say(about=document, reason="Failed", message=message, type="Warning")
