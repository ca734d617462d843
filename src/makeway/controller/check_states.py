"""What admission checks say of a Workload, as entries in its status; the words are Kueue's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from makeway.api.times import format_time
from makeway.client.client import Document
from makeway.engine.model import CheckName, CheckState
from makeway.translate import messages

_PENDING, _RETRY = CheckState.PENDING.value, CheckState.RETRY.value


def checks_in(document: Document) -> set[str]:
    """Those that stand in the status of a Workload."""
    states = (document.get("status") or {}).get("admissionChecks") or ()
    return {state["name"] for state in states}


def reset(states: Iterable[Document], now: float) -> list[Document]:
    """An answer counts for one stay: the next time all of them are asked anew.

    Whoever asked for a retry finds how often it did, to make its pauses longer by that.
    """
    return [state if state.get("state") == _PENDING else _reset(state, now) for state in states]


def _reset(state: Document, now: float) -> Document:
    message = messages.CHECK_RESET.format(state.get("state"))
    again = _pending(state["name"], message, now)
    if state.get("requeueAfterSeconds") is not None:
        again["requeueAfterSeconds"] = state["requeueAfterSeconds"]
    if state.get("state") == _RETRY:
        again["retryCount"] = (state.get("retryCount") or 0) + 1
    return again


def asked(states: Sequence[Document], checks: Iterable[CheckName], now: float) -> list[Document]:
    """Those that are asked, each as it stands or new; the rest is of no concern any more."""
    there = {state["name"]: state for state in states}
    return [there.get(name) or _pending(name, "", now) for name in sorted(checks)]


def _pending(name: str, message: str, now: float) -> Document:
    moment = format_time(now)
    return {"name": name, "state": _PENDING, "message": message, "lastTransitionTime": moment}
