"""Everything that is checked of a world."""

from __future__ import annotations

from tests.simulation.checkers import (
    AdmissionBeforePods,
    CircleChecker,
    EvictionChecker,
    GateChecker,
    JobChecker,
    NodeChecker,
    OrphanChecker,
    PreemptionChecker,
    QuotaChecker,
    ReleaseChecker,
)
from tests.simulation.idleness import IdlenessChecker
from tests.simulation.necessity import NecessityChecker
from tests.simulation.observer import Checker
from tests.simulation.worlds import World


def all_checkers(world: World, stale_s: float) -> list[Checker]:
    waiting = world.configuration.pods_ready
    blocks = waiting is not None and waiting.block_admission
    return [
        QuotaChecker(stale_s),
        PreemptionChecker(stale_s),
        NecessityChecker(stale_s),
        EvictionChecker(),
        AdmissionBeforePods(),
        GateChecker(),
        ReleaseChecker(),
        JobChecker(),
        NodeChecker(),
        OrphanChecker(),
        CircleChecker(),
        IdlenessChecker(stale_s + 30.0, waits_for_pods=blocks),
    ]
