"""What was found in many stories: counted, and told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from tests.laws.examining import Finding, Verdict
from tests.laws.story import Story, as_test


class Failure(NamedTuple):
    name: str  # of the story: where it can be found again
    finding: Finding
    story: Story


class Figures:
    def __init__(self) -> None:
        self.stories = 0
        self.covered = 0  # not played, as they are like one that was
        self.rests = 0
        self.found: Counter[tuple[str, bool]] = Counter()  # by law, and whether under fair sharing
        self.backstopped: Counter[tuple[str, bool]] = Counter()  # by what, and idem
        self.issues: Counter[int] = Counter()  # how often a workload issued victims -> workloads
        self.failures: list[Failure] = []  # the first few of each kind
        self.circles: list[Failure] = []  # idem, of those that only the backstop stops

    def add(self, name: str, story: Story, verdict: Verdict, keep: int = 3) -> None:
        self.stories += 1
        self.rests += verdict.rests
        self.issues.update(verdict.issues.values())
        if verdict.finding is not None:
            self.add_finding(name, story, verdict.finding, keep)
        if verdict.backstopped is not None:
            kind = verdict.backstopped.what, story.world.config.fair_sharing
            self.backstopped[kind] += 1
            if self.backstopped[kind] == 1:
                self.circles.append(Failure(name, verdict.backstopped, story))

    def add_finding(self, name: str, story: Story, finding: Finding, keep: int = 3) -> None:
        kind = finding.law, story.world.config.fair_sharing
        self.found[kind] += 1
        if self.found[kind] <= keep:
            self.failures.append(Failure(name, finding, story))

    def merge(self, other: Figures) -> None:
        self.stories += other.stories
        self.covered += other.covered
        self.rests += other.rests
        self.found += other.found
        self.backstopped += other.backstopped
        self.issues += other.issues
        self.failures += other.failures
        self.circles += other.circles

    def lines(self) -> Iterable[str]:
        broken = sum(self.found.values())
        yield f"{self.stories} stories and {self.covered} like them: {broken} broken"
        yield f"{self.rests} rests judged"
        for (law, is_fair), count in sorted(self.found.items()):
            yield f"  {count:6} {law} ({_sharing(is_fair)})"
        if self.backstopped:
            yield f"circles that only the backstop stops: {sum(self.backstopped.values())}"
            for (what, is_fair), count in sorted(self.backstopped.items()):
                yield f"  {count:6} {what} ({_sharing(is_fair)})"
        counts = ", ".join(f"{times}: {count}" for times, count in sorted(self.issues.items()))
        yield f"workloads by how often they issued victims: {counts or 'none'}"


def _sharing(is_fair: bool) -> str:
    return "fair sharing" if is_fair else "classical"


def told(failure: Failure, story: Story) -> str:
    """A failure with its story, which may have been made smaller."""
    head = f"--- {failure.name}: {failure.finding.law}: {failure.finding.what}"
    return "\n".join([head, *(f"    {issue}" for issue in failure.finding.round), as_test(story)])
