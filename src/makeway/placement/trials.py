"""What-ifs: candidates are gone and come back one by one, while the preemptor keeps its room."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from makeway.placement.candidates import Candidates
from makeway.placement.gangs import Alike, Shares, fitting
from makeway.placement.nodes import Flags, Ints


class CountingTrial:
    """Members are alike and may go anywhere: how many of them each line takes is all we keep."""

    def __init__(self, kind: Alike, needed: int, free: Ints, candidates: Candidates) -> None:
        counts = fitting(kind, free, needed)
        columns: list[int] = np.flatnonzero(kind.need).tolist()
        self._candidates = candidates
        self._surplus = int(counts.sum()) - needed  # members that fit beyond those needed
        self._counts: list[int] = counts.tolist()
        self._need: list[int] = kind.need[columns].tolist()
        self._free: list[list[int]] = [free[:, column].tolist() for column in columns]
        self._taken = [candidates.taken_lists[column] for column in columns]

    @property
    def fits(self) -> bool:
        return self._surplus >= 0

    def put_back(self, unit: int) -> bool:
        """Put a unit back where it runs, if enough members still fit somewhere."""
        counts, free, taken, need = self._counts, self._free, self._taken, self._need
        first, line_of = self._candidates.first_list, self._candidates.line_list
        loss = 0
        changes: list[tuple[int, int, int]] = []
        for entry in range(first[unit], first[unit + 1]):
            line = line_of[entry]
            before = counts[line]
            if before == 0:
                continue  # takes no member any more, whoever comes back
            after = before
            for column, amount in enumerate(need):
                fit = (free[column][line] - taken[column][entry]) // amount
                if fit < after:
                    after = fit if fit > 0 else 0
            loss += before - after
            changes.append((line, entry, after))
        if loss > self._surplus:
            return False
        self._surplus -= loss
        for line, entry, after in changes:
            counts[line] = after
            for column in range(len(need)):
                free[column][line] -= taken[column][entry]
        return True

    def in_the_way(self) -> Flags:
        """By candidate: could it matter that it comes back?"""
        return self._candidates.on(np.array(self._counts, dtype=np.int64) > 0)


class PlacedTrial:
    """Members have their nodes; a unit comes back only if all of them keep theirs."""

    def __init__(
        self, kinds: Sequence[Alike], shares: Shares, free: Ints, candidates: Candidates
    ) -> None:
        self.shares = shares
        self._candidates = candidates
        used = np.zeros(len(free), dtype=np.bool_)
        # By line that has members: what is left there of each column that they ask for.
        self._slack: dict[int, dict[int, int]] = {}
        for share in shares:
            used[share.line] = True
            slack = self._slack.setdefault(share.line, {})
            need = kinds[share.kind].need
            for column in np.flatnonzero(need).tolist():
                slack.setdefault(column, int(free[share.line, column]))
        for share in shares:
            slack, need = self._slack[share.line], kinds[share.kind].need
            for column in slack:
                slack[column] -= share.members * int(need[column])
        self._used = used

    def put_back(self, unit: int) -> bool:
        """Put a unit back where it runs, if no member loses its place."""
        first, line_of = self._candidates.first_list, self._candidates.line_list
        taken = self._candidates.taken_lists
        entries = [
            (slack, entry)
            for entry in range(first[unit], first[unit + 1])
            if (slack := self._slack.get(line_of[entry])) is not None
        ]
        for slack, entry in entries:
            for column, left in slack.items():
                if taken[column][entry] > left:
                    return False
        for slack, entry in entries:
            for column in slack:
                slack[column] -= taken[column][entry]
        return True

    def in_the_way(self) -> Flags:
        """By candidate: could it matter that it comes back?"""
        return self._candidates.on(self._used)


def put_back_all(trial: CountingTrial | PlacedTrial, gone: Flags) -> Flags:
    """Put back whoever can be, the most important first; return who stays gone."""
    left = gone & trial.in_the_way()
    for unit in np.flatnonzero(left).tolist():
        if trial.put_back(unit):
            left[unit] = False
    return left
