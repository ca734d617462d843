"""What would happen, as text and as a word."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from makeway.api.times import format_span
from makeway.engine.model import HOLDING, Phase, WorkloadKey
from makeway.engine.preview import Change, Difference, Loser, Preview
from makeway.translate.categories import can_never_run
from makeway.translate.explanation import Moment, explanation_lines
from makeway.translate.words import Line, Ref, amount_text, rule_text, stopped_text, workload


class Outcome(Enum):
    STARTS = "Starts"
    PREEMPTS = "Preempts"  # it starts when others have made way
    WAITS = "Waits"
    NEVER = "Never"


def outcome_of(preview: Preview) -> Outcome:
    if preview.phase in HOLDING:
        return Outcome.PREEMPTS if preview.victims else Outcome.STARTS
    return Outcome.NEVER if can_never_run(preview.explanation.obstacles) else Outcome.WAITS


def preview_lines(
    preview: Preview, outcome: Outcome, now: float, moment: Moment | None = None
) -> Iterator[Line]:
    match outcome:
        case Outcome.STARTS:
            yield Line("It would start now", *_where(preview))
        case Outcome.PREEMPTS:
            yield Line("It would start", *_where(preview), " when these have made way:")
            yield from (_loser(loser) for loser in preview.victims)
        case Outcome.WAITS:
            yield Line("It would wait:")
            yield from explanation_lines(preview.explanation, now, moment)
        case Outcome.NEVER:
            yield Line("It would never run as it is:")
            yield from explanation_lines(preview.explanation, now, moment)
    if preview.phase is Phase.RESERVED:
        yield Line("It would hold its quota, and start when its admission checks said Ready")
    others = [loser for loser in preview.losers if loser.preemptor != preview.workload]
    if others:
        yield Line("Besides, these would have to stop:")
        yield from (_loser(loser, loser.preemptor) for loser in others)
    if not preview.is_at_rest:
        yield Line("This is how it stands after very many decisions; more would follow")


def _where(preview: Preview) -> Line:
    assert preview.queue is not None
    assert preview.assignment is not None
    amounts = ", ".join(
        f"{amount_text(cell, used)} of flavor {cell.flavor}"
        for cell, used in sorted(preview.assignment.usage().items())
    )
    queue = Ref("ClusterQueue", preview.queue)
    return Line(" in ClusterQueue ", queue, f" with {amounts}" if amounts else "")


def _loser(loser: Loser, preemptor: WorkloadKey | None = None) -> Line:
    """Whose it is, by which rule, what it loses, and for whom where that is to be said."""
    owner = f" of LocalQueue {loser.owner} (ClusterQueue {loser.queue})"
    why = stopped_text(loser.reason) if loser.rule is None else rule_text(loser.rule)
    lost = f"; loses {format_span(loser.lost_s)} of work" if loser.lost_s else ""
    by = () if preemptor is None else (", for ", workload(preemptor))
    return Line("- ", workload(loser.workload), f"{owner}: {why}", *by, lost)


def difference_lines(difference: Difference) -> Iterator[Line]:
    losers = {loser.workload: loser for loser in difference.losers}
    for change in difference.changes:
        yield Line("- ", workload(change.workload), f" {change_text(change)}")
    for key, loser in losers.items():
        if key not in {change.workload for change in difference.changes}:
            yield Line("- ", workload(key), " would have to stop, and would start again")
        yield _loser(loser, loser.preemptor)
    if not difference.is_at_rest:
        yield Line("This is how it stands after very many decisions; more would follow")


def change_text(change: Change) -> str:
    held, holds = change.before in HOLDING, change.after in HOLDING
    if holds and not held:
        return f"would be admitted, on {'+'.join(change.flavors_after) or 'nothing'}"
    if held and not holds:
        return "would be evicted" if change.after is Phase.PENDING else "would be stopped for good"
    if held and holds and change.flavors_before != change.flavors_after:
        before, after = "+".join(change.flavors_before), "+".join(change.flavors_after)
        return f"would move from {before} to {after}"
    return f"would be {change.after.value} instead of {change.before.value}"
