"""One unit at a time, as recorded decisions, properties and benchmarks ask."""

from __future__ import annotations

from makeway.placement.decisions import BindPods, PreemptUnits, WaitForNodes
from makeway.placement.model import Unit
from makeway.placement.state import PlacementState


def place_one(
    state: PlacementState, unit: Unit, now: float
) -> BindPods | PreemptUnits | WaitForNodes | None:
    """Decide about one pod or gang; None if nothing of it waits or it is not known."""
    ask = state._ask(unit)
    return None if ask is None else state._settle(ask, now)
