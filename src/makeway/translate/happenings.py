"""What happened to one workload, a sentence each: decisions as seen by it, and events."""

from __future__ import annotations

from makeway.engine import decisions as dec
from makeway.engine import events as ev
from makeway.engine.model import WorkloadKey
from makeway.translate.words import decision_text, victim_message

_EVENTS: dict[type, str] = {
    ev.WorkloadFinished: "finished",
    ev.WorkloadRemoved: "was deleted",
    ev.PodsGone: "its pods were gone, and its place was free",
    ev.Forgotten: "the last decision could not be written, and did not happen",
}


def happened_text(what: dec.Decision | ev.Event, key: WorkloadKey) -> str:
    if isinstance(what, ev.WorkloadSeen):
        return f"came to LocalQueue {what.workload.local_queue.rpartition('/')[2]}"
    if type(what) in _EVENTS:
        return _EVENTS[type(what)]
    assert isinstance(what, dec.Decision), what
    if isinstance(what, dec.Preempt) and what.preemptor != key:
        victim = next(victim for victim in what.victims if victim.workload == key)
        return f"had to make way for {what.preemptor}: {victim_message(victim, what.preemptor)}"
    text = decision_text(what)
    return f"{text.verb}: {'. '.join(text.details)}"
