"""Two runs of one trace, job by job: who waits longer than before, who shorter, and why.

Each job is its own control, so a mean that improves can't hide the group that pays for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import nlargest
from math import inf
from typing import Any, NamedTuple

from makeway.sim.record import JobOutcome, JobRun
from makeway.sim.result import Result
from makeway.sim.spans import short_span
from makeway.translate.words import waiting_message

FOR_EVER = "for ever"
OPEN = (JobOutcome.WAITING, JobOutcome.RUNNING)
NOTICED_S = 1.0  # a smaller difference is none
ABOUT = 0.05  # a smaller change of the mean is none
CALLED_OUT = 1.25  # a group whose mean wait changes by less is not worth a sentence
GROUP_LEAST = 0.5  # ... and so many of its jobs have to go that way
GROUPS_NAMED = 3
JOBS_SHOWN = 10
TIMES_FROM = 3.0  # from here on "31x" reads better than "+3019 %"


class Pair(NamedTuple):
    first: JobRun
    second: JobRun
    before_s: float
    after_s: float
    is_lost: bool = False  # it ends in the first, and in the second it waits for ever
    is_won: bool = False  # the other way round

    @property
    def longer_s(self) -> float:
        if self.is_lost or self.is_won:
            return inf if self.is_lost else -inf
        return self.after_s - self.before_s

    @property
    def texts(self) -> tuple[str, str, str]:
        """Its wait in the first and in the second, and the change."""
        before = FOR_EVER if self.is_won else short_span(self.before_s)
        after = FOR_EVER if self.is_lost else short_span(self.after_s)
        is_plain = FOR_EVER not in (before, after)
        return before, after, change_text(self.before_s, self.after_s) if is_plain else ""


class GroupChange(NamedTuple):
    group: str
    jobs: int
    longer: int
    shorter: int
    before_s: float  # on average
    after_s: float

    @property
    def is_longer(self) -> bool:
        return self.after_s > self.before_s

    @property
    def matters(self) -> bool:
        """Did the group as such win or lose, by a factor that one would notice?"""
        low, high = sorted((self.before_s, self.after_s))
        moved = self.longer if self.is_longer else self.shorter
        return (
            high - low > NOTICED_S and high > CALLED_OUT * low and moved > GROUP_LEAST * self.jobs
        )


class PairedComparison:
    def __init__(self, first: Result, second: Result) -> None:
        self.first, self.second = first, second
        self.pairs = _pairs(first, second)
        self.whole = _change("all", self.pairs)
        self.groups = [*self._groups()]

    def _groups(self) -> Iterable[GroupChange]:
        """By queue, priority and size; a way of grouping that tells nothing apart is left out."""
        sizes = self.first.size_group_of
        ways: tuple[tuple[str, Callable[[Pair], Any]], ...] = (
            ("queue", lambda pair: pair.first.queue),
            ("priority", lambda pair: -pair.first.priority),
            ("size", lambda pair: sizes(pair.first)),
        )
        for word, key_of in ways:
            groups: dict[Any, list[Pair]] = {}
            for pair in self.pairs:
                groups.setdefault(key_of(pair), []).append(pair)
            if len(groups) > 1:
                for key in sorted(groups):
                    yield _change(f"{word} {_group_text(word, key)}", groups[key])

    def losers(self) -> list[Pair]:
        return self._most(1)

    def winners(self) -> list[Pair]:
        return self._most(-1)

    def _most(self, sign: int) -> list[Pair]:
        most = nlargest(JOBS_SHOWN, self.pairs, key=lambda p: (sign * p.longer_s, -p.first.index))
        return [pair for pair in most if sign * pair.longer_s > NOTICED_S]

    def sentences(self, names: tuple[str, str] = ("A", "B")) -> list[str]:
        """The verdict: the whole, and then every group that went the other way."""
        before, after = names
        whole = self.whole
        if not whole.longer and not whole.shorter:
            same = f"{after} against {before}: no job waits longer or shorter"
            return [same, *self._fitting(names), *self._ending(names)]
        is_about_same = abs(whole.after_s - whole.before_s) < ABOUT * whole.before_s
        verb = "longer" if whole.is_longer else "shorter"
        said = [
            f"{after} against {before}: waits are {'about as long' if is_about_same else verb} on"
            f" average ({_means(whole)}); of {whole.jobs} jobs {whole.shorter} wait less,"
            f" {whole.longer} longer",
            *self._fitting(names),
            *self._ending(names),
        ]
        others = [
            group
            for group in self.groups
            if group.matters and (is_about_same or group.is_longer != whole.is_longer)
        ]
        others.sort(key=lambda group: -abs(group.after_s - group.before_s) * group.jobs)
        for group in others[:GROUPS_NAMED]:
            moved = group.longer if group.is_longer else group.shorter
            verb = "lost" if group.is_longer else "won"
            comparative = "longer" if group.is_longer else "less"
            said.append(
                f"But {self._spoken(group.group)} {verb}: {_means(group)},"
                f" {moved} of {group.jobs} wait {comparative}"
            )
        return said

    def _fitting(self, names: tuple[str, str]) -> Iterator[str]:
        """Jobs that fit on one side only have no wait to compare."""
        before, after = names
        for here, there, left_out in (
            (before, after, _never_fit(self.first) - _never_fit(self.second)),
            (after, before, _never_fit(self.second) - _never_fit(self.first)),
        ):
            if left_out:
                jobs = "1 job fits" if len(left_out) == 1 else f"{len(left_out)} jobs fit"
                yield f"But {jobs} in {there} and can never fit in {here}"

    def _ending(self, names: tuple[str, str]) -> Iterator[str]:
        """Who ends on one side only, which no wait tells."""
        pairs = [(pair.first, pair.second) for pair in self.pairs]
        for (ends_in, other), result, both in (
            (names, self.second, pairs),
            (names[::-1], self.first, [(second, first) for first, second in pairs]),
        ):
            left = [run for ended, run in both if _is_finished(ended) and run.outcome in OPEN]
            is_one = len(left) == 1
            who = f"{left[0].key} finishes" if is_one else f"{len(left)} jobs finish"
            fate = f"{'waits' if is_one else 'wait'} for ever" if result.is_complete else "not"
            if left:
                yield f"But {who} in {ends_in} and {fate} in {other}"

    def _spoken(self, group: str) -> str:
        word, _, name = group.partition(" ")
        return f"jobs of {name} {self.first.main_resource}" if word == "size" else group


def pair_data(compared: PairedComparison) -> dict[str, Any]:
    whole = compared.whole
    return {
        "sentences": compared.sentences(),
        "jobs": whole.jobs,
        "shorter": whole.shorter,
        "longer": whole.longer,
        "groups": [
            {
                "group": group.group,
                "jobs": group.jobs,
                "shorter": group.shorter,
                "longer": group.longer,
                "meanBefore": round(group.before_s, 6),
                "meanAfter": round(group.after_s, 6),
                "change": change_text(group.before_s, group.after_s),
            }
            for group in (whole, *compared.groups)
        ],
        "losers": [_job_data(pair) for pair in compared.losers()],
        "winners": [_job_data(pair) for pair in compared.winners()],
    }


def _job_data(pair: Pair) -> dict[str, Any]:
    return {
        "job": pair.second.key,
        "queue": pair.second.queue,
        "priority": pair.second.priority,
        "size": pair.second.size,
        "waitBefore": round(pair.before_s, 6),
        "waitAfter": round(pair.after_s, 6),
        "fate": pair.second.outcome.value,
        "reason": reason_of(pair.second),
    }


def reason_of(run: JobRun) -> str:
    """The reason given last for its waiting, in words; empty where there was none."""
    return waiting_message(run.reasons) if run.reasons else ""


def change_text(before: float, after: float) -> str:
    """`same`, `-62 %`, `+40 %`, `31x`."""
    if before == after:
        return "same"
    if not before:
        return "new"
    if after >= TIMES_FROM * before:
        ratio = after / before
        return f"{ratio:.1f}x" if ratio < 10 else f"{ratio:.0f}x"
    return f"{100 * (after - before) / before:+.1f} %"


def _pairs(first: Result, second: Result) -> list[Pair]:
    """Jobs that count in the first run, and are in the second as well; neither left out there."""
    others = {_name(run): run for run in second.runs if run.outcome is not JobOutcome.NEVER_FITS}
    return [
        Pair(
            run,
            other,
            first.wait_of(run),
            second.wait_of(other),
            is_lost=_is_finished(run) and _waits_for_ever(second, other),
            is_won=_is_finished(other) and _waits_for_ever(first, run),
        )
        for run in first.counted
        if run.outcome is not JobOutcome.NEVER_FITS
        and (other := others.get(_name(run))) is not None
    ]


def _is_finished(run: JobRun) -> bool:
    return run.outcome is JobOutcome.FINISHED


def _waits_for_ever(result: Result, run: JobRun) -> bool:
    return result.is_complete and run.outcome is JobOutcome.WAITING


def _never_fit(result: Result) -> set[str]:
    return {_name(run) for run in result.counted if run.outcome is JobOutcome.NEVER_FITS}


def _name(run: JobRun) -> str:
    return run.key.partition("/")[2]


def _change(group: str, pairs: Sequence[Pair]) -> GroupChange:
    number = len(pairs) or 1
    return GroupChange(
        group=group,
        jobs=len(pairs),
        longer=sum(pair.longer_s > NOTICED_S for pair in pairs),
        shorter=sum(pair.longer_s < -NOTICED_S for pair in pairs),
        before_s=sum(pair.before_s for pair in pairs) / number,
        after_s=sum(pair.after_s for pair in pairs) / number,
    )


def _means(change: GroupChange) -> str:
    before, after = short_span(change.before_s), short_span(change.after_s)
    return f"mean {before} → {after}, {change_text(change.before_s, change.after_s)}"


def _group_text(word: str, key: Any) -> str:
    if word == "priority":
        return str(-key)
    return size_text(key) if word == "size" else str(key)


def size_text(group: tuple[int, int]) -> str:
    low, high = group
    return str(high) if low >= high else f"{low}-{high}"
