"""A picture made anew from the objects alone, beside one that has grown: they must be equal."""

from __future__ import annotations

from collections.abc import Iterator

from makeway.api.configuration import Configuration
from makeway.api.kinds import RESOURCES
from makeway.controller.admission import Admission
from makeway.engine.events import PodsChanged
from makeway.engine.model import CheckState, WorkloadStatus
from makeway.plane.picture import Picture
from tests.simulation.observer import Truth


def differences(live: Admission, truth: Truth, configuration: Configuration) -> Iterator[str]:
    """In what a restart would see things differently; asked only while nothing is on its way."""
    ours, theirs = live.engine.state, _reborn(truth, configuration).engine.state
    ours.build_trees()
    theirs.build_trees()
    if ours.entries.keys() != theirs.entries.keys():
        yield f"workloads {sorted(ours.entries.keys() ^ theirs.entries.keys())}"
        return
    for key in sorted(ours.entries):
        mine, other = _gist(ours.entries[key].status), _gist(theirs.entries[key].status)
        for name, known in mine.items():
            if other[name] != known:
                yield f"{key} {name}: {known} remembered, {other[name]} in the objects"
    for name in sorted(ours.queues):
        used = [
            {cell: n for cell, n in state.queues[name].used.items() if n}
            for state in (ours, theirs)
        ]
        if used[0] != used[1]:
            yield f"{name} uses {used[0]} as remembered, {used[1]} by the objects"


def _reborn(truth: Truth, configuration: Configuration) -> Admission:
    picture = Picture()
    admission = Admission(picture, configuration)
    kinds = {(r.group, r.kind): r.full_name for r in RESOURCES}
    for resource in admission.resources:
        for document in truth.all(kinds[resource.group, resource.kind]):
            change = picture.take(resource, document)
            assert change is not None
            admission.changed(change)
    # What documents say of pods is believed a while after a restart.
    for known in admission.engine.view.with_unseen_pods():
        are_ready = known.status.pods_ready
        admission.engine.apply(PodsChanged(known.workload.key, are_ready, truth.wall))
    return admission


def _gist(status: WorkloadStatus) -> dict[str, object]:
    """Without moments: in objects they are rounded."""
    if status.finished:
        return {"finished": True}
    eviction = status.eviction
    gist: dict[str, object] = {
        "finished": False,
        "assignment": status.assignment,
        "queue": status.queue,
        "is admitted": status.admitted_at is not None,
        "eviction": None if eviction is None else (eviction.reason, eviction.preemptor),
        "requeue count": status.requeue_count,
        "backs off": status.requeue_at is not None,
        "flavors tried": [(trial.flavor, trial.exhausted_at is None) for trial in status.history],
        "claim": status.claim,
        "preemptions": None if status.preemptions is None else status.preemptions.times,
        "pods given back": {name: n for name, n in status.reclaimable.items() if n},
    }
    if status.assignment is None:
        return gist
    answers = {name: s for name, s in status.checks.items() if s is not CheckState.PENDING}
    return {**gist, "pods ready": status.pods_ready, "checks": answers}
