"""What happened to one workload, a sentence each: decisions as seen by it, and events."""

from __future__ import annotations

from makeway.engine import decisions as dec
from makeway.engine import events as ev
from makeway.engine.model import WorkloadKey
from makeway.translate.words import (
    Line,
    Ref,
    decision_text,
    victim_reason,
    waiting_message,
    workload,
)

_EVENTS: dict[type, str] = {
    ev.WorkloadFinished: "ended",  # by itself or by somebody: the engine is not told
    ev.WorkloadRemoved: "was deleted",
    ev.PodsGone: "its pods were gone, and its place was free",
    ev.Forgotten: "the last decision could not be written, and did not happen",
}


def happened_line(what: dec.Decision | ev.Event, key: WorkloadKey) -> Line:
    if isinstance(what, ev.WorkloadSeen):
        return Line(f"came to LocalQueue {what.workload.local_queue.rpartition('/')[2]}")
    if type(what) in _EVENTS:
        return Line(_EVENTS[type(what)])
    assert isinstance(what, dec.Decision), what
    if isinstance(what, dec.Preempt):
        return _made_way(what, key) if what.preemptor != key else _preempts(what)
    text = decision_text(what)
    return Line(f"{text.verb}: {'. '.join(text.details)}")


def _made_way(what: dec.Preempt, key: WorkloadKey) -> Line:
    victim = next(victim for victim in what.victims if victim.workload == key)
    return Line("had to make way for ", workload(what.preemptor), f", {victim_reason(victim)}")


def _preempts(what: dec.Preempt) -> Line:
    """What was missing, and who has to make way for it."""
    pieces: list[str | Ref] = []
    for victim in what.victims:
        pieces += ["; ", workload(victim.workload), f" has to make way, {victim_reason(victim)}"]
    return Line(f"preempts: {waiting_message(what.reasons)}", *pieces)
