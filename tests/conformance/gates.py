"""Recordings replayed with a gate that Kueue does not have, and why the answers differ then.

Each scenario is played twice, as it was recorded and with the gate, and compared cycle by cycle and
tree by tree. In the first cycle in which a tree differs, every head that is told something else
must have a reason, which is read off what the engine said and did: one of the rules below, never
the name of a scenario. Later cycles of that tree are counted but not explained, since by then two
different stories are told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from makeway.engine.decisions import (
    Cycle,
    HeldForPreemptor,
    LostToOthers,
    Reason,
    Wait,
    WaitsForOwner,
)
from makeway.engine.model import QueueName
from tests.conformance.replay import Replay


class Rule(Enum):
    """Why a head is told something else; the values are what the page says of it."""

    WAITS_FOR_OWNER = "A head that would begin to borrow waits for an owner."
    CLEARS_NOTHING = "A head that would begin to borrow makes nobody give way."
    OTHER_VICTIMS = "A head takes victims, or others, and so need not begin to borrow."
    OTHER_FLAVOR = "A head goes on to another flavor, or takes fewer pods, and so need not borrow."
    OTHER_WAIT = "A head that waits in any case waits for an owner, or is parked for one."
    WOKEN = "A head that waited for an owner is tried again, since owners leave more."
    HELD = "A head is held back: the place was cleared for a preemptor."
    CLEARED_PLACE = "A preemptor takes the place that was cleared for it, and no other."
    BESIDE = "A head leaves alone what was cleared for a preemptor, and finds another way."
    FIRST_OF_EQUALS = "A preemptor is the first of its priority in its queue, no less and no more."
    NOT_GONE_YET = "A head does not count on victims of others that have not let go."
    ONLY_RESERVED = "What is kept for a head without victims does not count as used by its queue."
    WHOLE_FLAVOR = "A flavor counts as free only where every resource is, not where one is."
    ELSEWHERE = (
        "A head leaves a flavor where victims help each resource, but not all, and finds another."
    )
    FROM_THE_FIRST = (
        "A head whose search began at a later flavor is not parked before it is repeated."
    )
    CLAIM_ENDS = "A preemptor has its place, or gives it up: whoever is parked is tried again."
    LOOKS_AGAIN = "Before a tree rests, all are tried once more, from the first flavor."
    PAUSES = "A head that has made others give way pauses before it does so again."
    FOLLOWS = "A head meets another picture: one before it in the cycle was told something else."


class Answer(NamedTuple):
    """What a head was told."""

    queue: QueueName
    mode: str
    result: str
    borrow_level: int
    pod_sets: Any  # None: not admitted
    victims: tuple[tuple[str, str], ...]


class TreePicture(NamedTuple):
    """One cycle in one tree, as far as it is compared."""

    heads: Mapping[str, Answer]
    order: tuple[str, ...]
    lines: Mapping[str, Mapping[str, list[str]]]  # who waits in line, and parked, by queue


class Background(NamedTuple):
    """What tells why; the cycle and what was before it."""

    reasons: Mapping[str, tuple[Reason, ...]]
    refused: frozenset[QueueName]  # queues that were not allowed to begin to borrow
    refused_before: frozenset[QueueName]
    preemptors: Mapping[str, str]  # who had a claim before, in which tree
    satisfied: frozenset[str]  # trees where one of them has none afterwards
    have_preempted: frozenset[str]  # who has made others give way before
    asks_for_several: frozenset[str]  # resources
    looking_again: frozenset[str]  # trees where all are tried once more


class Told(NamedTuple):
    trees: Mapping[str, TreePicture]
    background: Background


class WatchedReplay(Replay):
    """A replay that tells each cycle tree by tree, with what stands behind it."""

    refused: frozenset[QueueName] = frozenset()
    ran: Cycle | None = None

    def run_cycle(self) -> Cycle:
        self.ran = super().run_cycle()
        queues = self.engine.state.queues.values()
        self.refused = frozenset(r.queue for queue in queues for r in queue.tree.refusals)
        return self.ran

    def told(self) -> Told:
        entries, before = self.engine.state.entries, self.refused
        preemptors = self._preemptors()
        preempted = frozenset(str(k) for k, e in entries.items() if e.status.preemptions)
        again = self._looking_again()
        got = self.cycle()
        assert self.ran is not None
        background = Background(
            reasons={str(d.workload): d.reasons for d in self.ran.decisions if isinstance(d, Wait)},
            refused=self.refused,
            refused_before=before,
            preemptors=preemptors,
            satisfied=frozenset(preemptors[k] for k in preemptors.keys() - self._preemptors()),
            have_preempted=preempted,
            asks_for_several=frozenset(
                str(key)
                for key, entry in entries.items()
                if any(len(pod_set.requests) > 1 for pod_set in entry.workload.pod_sets)
            ),
            looking_again=again | self._looking_again(),
        )
        names = sorted({self._tree_of(queue) for queue in self.engine.state.queues})
        return Told({name: self._picture(name, got) for name in names}, background)

    def _preemptors(self) -> dict[str, str]:
        return {
            str(key): self._tree_of(str(entry.queue))
            for key, entry in self.engine.state.entries.items()
            if entry.status.claim is not None
        }

    def _looking_again(self) -> frozenset[str]:
        queues = self.engine.state.queues
        return frozenset(self._tree_of(name) for name in queues if queues[name].tree.is_confirming)

    def _picture(self, name: str, got: Mapping[str, Any]) -> TreePicture:
        heads = {
            o["workload"]: self._answer(o, got)
            for o in got["order"]
            if self._tree_of(o["clusterQueue"]) == name
        }
        lines = {
            which: {q: keys for q, keys in got[which].items() if self._tree_of(q) == name}
            for which in ("pending_active", "inadmissible")
        }
        return TreePicture(heads, tuple(heads), lines)

    def _answer(self, outcome: Mapping[str, Any], got: Mapping[str, Any]) -> Answer:
        head = outcome["workload"]
        return Answer(
            queue=outcome["clusterQueue"],
            mode=outcome["mode"],
            result=outcome["result"],
            borrow_level=outcome["borrowLevel"],
            pod_sets=next((a["podSets"] for a in got["admitted"] if a["workload"] == head), None),
            victims=tuple(
                (p["workload"], p["reason"]) for p in got["preempted"] if p["by"] == head
            ),
        )

    def _tree_of(self, queue: str) -> str:
        return str(self.engine.state.queues[QueueName(queue)].tree.root.name)


def played(scenario: Mapping[str, Any], gates: Mapping[str, bool]) -> Iterator[Told]:
    run = WatchedReplay(scenario, gates)
    for step in scenario["script"]:
        if step["do"] == "cycle":
            yield run.told()
        else:
            run.take(step)


# --- one scenario ---


@dataclass(slots=True)
class Differences:
    """How one scenario differs with the gates on."""

    rules: Counter[Rule] = field(default_factory=Counter)  # heads, by why they differ
    unexplained: list[str] = field(default_factory=list)
    is_decided_otherwise: bool = False  # somebody else is admitted or preempted, or elsewhere
    later: int = 0  # trees that differ in further cycles

    def __bool__(self) -> bool:
        return bool(self.rules or self.unexplained)


def differences_of(scenario: Mapping[str, Any], gates: Mapping[str, bool]) -> Differences:
    differences, differing = Differences(), dict[str, int]()
    pairs = zip(played(scenario, {}), played(scenario, gates), strict=True)
    for number, (recorded, told) in enumerate(pairs):
        for name, before in recorded.trees.items():
            after = told.trees[name]
            if before == after:
                continue
            if _given(before) != _given(after):
                differences.is_decided_otherwise = True
            differing[name] = differing.get(name, 0) + 1
            if differing[name] == 1:
                where = f"{scenario['id']}, cycle {number}, {name}"
                _explain(differences, where, name, (before, after), told.background, gates)
    differences.later = sum(1 for count in differing.values() if count > 1)
    return differences


def _given(picture: TreePicture) -> set[tuple[object, ...]]:
    """Who is admitted where, and who has to make way for whom."""
    return {
        (head, str(answer.pod_sets), answer.victims)
        for head, answer in picture.heads.items()
        if answer.pod_sets is not None or answer.victims
    }


def _explain(
    differences: Differences,
    where: str,
    tree: str,
    pictures: tuple[TreePicture, TreePicture],
    background: Background,
    gates: Mapping[str, bool],
) -> None:
    before, after = pictures
    causes = 0
    for head in dict.fromkeys(after.order + before.order):
        first, second = before.heads.get(head), after.heads.get(head)
        if first == second:
            continue
        rule = _rule_of(Case(head, tree, first, second, pictures, background), gates)
        if rule is None and causes:
            rule = Rule.FOLLOWS
        if rule is None:
            differences.unexplained.append(f"{where}, {head}: {first} -> {second}")
            continue
        causes += 1
        differences.rules[rule] += 1
    if not causes and not differences.unexplained:
        rule = _rule_of_lines(tree, pictures, background)
        if rule is None:
            differences.unexplained.append(f"{where}: {before.lines} -> {after.lines}")
        else:
            differences.rules[rule] += 1


# --- one head ---


class Case(NamedTuple):
    """A head that is told something else; one of the two answers may be missing."""

    head: str
    tree: str
    before: Answer | None
    after: Answer | None
    pictures: tuple[TreePicture, TreePicture]
    background: Background

    @property
    def queue(self) -> QueueName:
        answer = self.after or self.before
        assert answer is not None
        return answer.queue

    def before_it(self) -> list[Answer]:
        """What the heads were told that came before it in the cycle."""
        after = self.pictures[1]
        place = after.order.index(self.head)
        return [after.heads[head] for head in after.order[:place]]

    def victims_before(self) -> bool:
        return any(answer.victims for answer in self.before_it())

    def somebody_before_is(self, result: str) -> bool:
        return any(answer.result == result for answer in self.before_it())

    def was_partly_free(self) -> bool:
        """It counted as fitting and lost, though to nobody: another resource was not free."""
        assert self.before is not None
        lost = self.before.mode == "Fit" and self.before.pod_sets is None
        several = self.head in self.background.asks_for_several
        return lost and several and not self.is_told(LostToOthers)

    def goes_elsewhere(self) -> bool:
        """It had victims for each of its resources alone, and finds something for all of them."""
        assert self.before is not None
        assert self.after is not None
        several = self.head in self.background.asks_for_several
        had_none = self.before.result == "PreemptionNoCandidates"
        return several and had_none and (self.after.mode == "Fit" or bool(self.after.victims))

    def is_told(self, kind: type[Reason]) -> bool:
        return _is_told(kind, self.background.reasons.get(self.head, ()))


def _of_owners(case: Case) -> Rule | None:
    if case.before is None or case.after is None:
        return Rule.WOKEN if case.queue in case.background.refused_before else None
    if not (case.queue in case.background.refused or case.is_told(WaitsForOwner)):
        return None
    match case.after.result:
        case "Admitted":
            return Rule.OTHER_FLAVOR
        case "Preempting" | "PendingPreemption":
            return Rule.OTHER_VICTIMS
    match case.before.result:
        case "Admitted":
            return Rule.WAITS_FOR_OWNER
        case "Preempting" | "PendingPreemption":
            return Rule.CLEARS_NOTHING
    return Rule.OTHER_WAIT


def _of_holding(case: Case) -> Rule | None:
    background, before, after = case.background, case.before, case.after
    if before is None or after is None:
        return _of_other_heads(case)
    if case.is_told(HeldForPreemptor):
        return Rule.HELD
    if case.head in background.preemptors:
        return Rule.CLEARED_PLACE
    if case.is_told(LostToOthers) and before.pod_sets is not None and case.victims_before():
        return Rule.NOT_GONE_YET
    if case.was_partly_free():
        return Rule.WHOLE_FLAVOR
    if case.victims_before() and case.somebody_before_is("PreemptionNoCandidates"):
        return Rule.ONLY_RESERVED
    if case.tree in background.preemptors.values() and after.result in ("Preempting", "Admitted"):
        return Rule.BESIDE
    return Rule.ELSEWHERE if case.goes_elsewhere() else None


def _of_other_heads(case: Case) -> Rule | None:
    if case.tree in case.background.looking_again:
        return Rule.LOOKS_AGAIN
    first = [
        head
        for picture in case.pictures
        for head, answer in picture.heads.items()
        if answer.queue == case.queue
    ]
    if any(head in case.background.preemptors for head in first):
        return Rule.FIRST_OF_EQUALS
    return None


def _of_backoff(case: Case) -> Rule | None:
    if case.before is None or case.after is None:
        return None
    stays = bool(case.before.victims) and not case.after.victims
    return Rule.PAUSES if stays and case.head in case.background.have_preempted else None


RULES = {
    "OwnersFirst": _of_owners,
    "HoldForPreemptor": _of_holding,
    "PreemptionBackoff": _of_backoff,
}


def _rule_of(case: Case, gates: Mapping[str, bool]) -> Rule | None:
    found = (RULES[gate](case) for gate, is_on in gates.items() if is_on)
    return next((rule for rule in found if rule is not None), None)


def _rule_of_lines(
    tree: str, pictures: tuple[TreePicture, TreePicture], background: Background
) -> Rule | None:
    """All heads are told the same, yet others stand in line, or are parked."""
    before, after = pictures
    reasons = [reason for head in after.heads for reason in background.reasons.get(head, ())]
    if _is_told(WaitsForOwner, reasons):
        return Rule.OTHER_WAIT
    if _is_told(HeldForPreemptor, reasons):
        return Rule.HELD
    if tree in background.looking_again:
        return Rule.LOOKS_AGAIN
    if tree in background.satisfied:
        return Rule.CLAIM_ENDS
    parked = {key for keys in before.lines["inadmissible"].values() for key in keys}
    in_line = {key for keys in after.lines["pending_active"].values() for key in keys}
    return Rule.FROM_THE_FIRST if parked & in_line & after.heads.keys() else None


def _is_told(kind: type[Reason], reasons: tuple[Reason, ...] | list[Reason]) -> bool:
    return any(isinstance(reason, kind) for reason in reasons)
