"""One job's life, from the journal: when it came, ran, had to make way and for whom; also when it
is long deleted. Others in it are references, never words in a text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from makeway.engine import decisions as dec
from makeway.engine import events as ev
from makeway.engine.model import WorkloadKey
from makeway.journal.file import Journal
from makeway.journal.past import Happened, Name, find_latest, job_name, life_of
from makeway.translate.happenings import happened_line

_EVENTS: dict[type, str] = {
    ev.WorkloadSeen: "came",
    ev.WorkloadFinished: "finished",
    ev.WorkloadRemoved: "deleted",
    ev.PodsGone: "let go",
    ev.Forgotten: "forgotten",
}
_DECISIONS: dict[type, str] = {
    dec.Admit: "admitted",
    dec.Reserve: "reserved",
    dec.Evict: "evicted",
    dec.Deactivate: "deactivated",
    dec.Requeue: "requeued",
    dec.StartOver: "starts over",
}


UNKNOWN_LIFE: dict[str, Any] = {"workload": "", "created": None, "happened": []}


def life_in(journal: Journal, name: Name, now: float) -> dict[str, Any]:
    """Of whom the journal knows nothing, nothing happened."""
    workload = find_latest(journal, name)
    if workload is None:
        return UNKNOWN_LIFE
    key = workload.key
    happened = [_entry(one, key) for one in life_of(journal, key, workload.created_at, now)]
    return {"workload": key, "created": workload.created_at, "happened": happened}


def _entry(one: Happened, key: WorkloadKey) -> dict[str, Any]:
    what, others = one.what, list[WorkloadKey]()
    if isinstance(what, dec.Preempt):
        is_preemptor = what.preemptor == key
        kind = "preempts" if is_preemptor else "preempted"
        others = [v.workload for v in what.victims] if is_preemptor else [what.preemptor]
    else:
        kind = _EVENTS.get(type(what)) or _DECISIONS[type(what)]
    return {
        "at": one.at,
        "kind": kind,
        "others": [{"workload": other, "name": job_name(other)} for other in others],
        "text": str(happened_line(what, key)),
    }


def without_others(life: dict[str, Any], sees: Callable[[str], bool]) -> dict[str, Any]:
    """The same for who may not know the names of all others: neither they nor texts that have them.

    `sees` says it of a namespace.
    """
    happened = []
    for entry in life["happened"]:
        seen = [other for other in entry["others"] if sees(other["workload"].partition("/")[0])]
        is_whole = len(seen) == len(entry["others"])
        happened.append({**entry, "others": seen, "text": entry["text"] if is_whole else ""})
    return {**life, "happened": happened}


def namespaces_in(life: dict[str, Any]) -> set[str]:
    others = (other for entry in life["happened"] for other in entry["others"])
    return {other["workload"].partition("/")[0] for other in others}
