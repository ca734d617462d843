"""What-ifs: candidates are gone and come back one by one, while the preemptor keeps its room."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from makeway.placement.candidates import Candidates
from makeway.placement.nodes import Flags, Ints
from makeway.placement.packing import Packing, SameShapePods, fitting


class CountingTrial:
    """Members have one shape and may go anywhere: we only keep how many each node takes."""

    def __init__(
        self, shape: SameShapePods, needed: int, free: Ints, candidates: Candidates
    ) -> None:
        counts = fitting(shape, free, needed)
        columns: list[int] = np.flatnonzero(shape.need).tolist()
        self._candidates = candidates
        self._surplus = int(counts.sum()) - needed  # members that fit beyond the needed number
        self._counts: list[int] = counts.tolist()
        self._need: list[int] = shape.need[columns].tolist()
        self._free: list[list[int]] = [free[:, column].tolist() for column in columns]
        self._taken = [candidates.taken_lists[column] for column in columns]

    @property
    def fits(self) -> bool:
        return self._surplus >= 0

    def put_back(self, unit: int) -> bool:
        """Put a unit back where it runs, if enough members still fit somewhere."""
        counts, free, taken, need = self._counts, self._free, self._taken, self._need
        first, room_row_of = self._candidates.first_list, self._candidates.room_row_list
        loss = 0
        changes: list[tuple[int, int, int]] = []
        for entry in range(first[unit], first[unit + 1]):
            room_row = room_row_of[entry]
            before = counts[room_row]
            if before == 0:
                continue  # the node takes no member any more
            after = before
            for column, amount in enumerate(need):
                fit = (free[column][room_row] - taken[column][entry]) // amount
                if fit < after:
                    after = fit if fit > 0 else 0
            loss += before - after
            changes.append((room_row, entry, after))
        if loss > self._surplus:
            return False
        self._surplus -= loss
        for room_row, entry, after in changes:
            counts[room_row] = after
            for column in range(len(need)):
                free[column][room_row] -= taken[column][entry]
        return True

    def in_the_way(self) -> Flags:
        """By candidate: could its coming back matter?"""
        return self._candidates.on(np.array(self._counts, dtype=np.int64) > 0)


class PlacedTrial:
    """Members have their nodes; a unit comes back only if all of them keep theirs."""

    def __init__(
        self, shapes: Sequence[SameShapePods], packing: Packing, free: Ints, candidates: Candidates
    ) -> None:
        self.packing = packing
        self._candidates = candidates
        used = np.zeros(len(free), dtype=np.bool_)
        # By room row that has members: what is left there of each column that they ask for.
        self._slack: dict[int, dict[int, int]] = {}
        for part in packing:
            used[part.room_row] = True
            slack = self._slack.setdefault(part.room_row, {})
            need = shapes[part.shape_index].need
            for column in np.flatnonzero(need).tolist():
                slack.setdefault(column, int(free[part.room_row, column]))
        for part in packing:
            slack, need = self._slack[part.room_row], shapes[part.shape_index].need
            for column in slack:
                slack[column] -= part.members * int(need[column])
        self._used = used

    def put_back(self, unit: int) -> bool:
        """Put a unit back where it runs, if no member loses its place."""
        first, room_row_of = self._candidates.first_list, self._candidates.room_row_list
        taken = self._candidates.taken_lists
        entries = [
            (slack, entry)
            for entry in range(first[unit], first[unit + 1])
            if (slack := self._slack.get(room_row_of[entry])) is not None
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
        """By candidate: could its coming back matter?"""
        return self._candidates.on(self._used)


def put_back_all(trial: CountingTrial | PlacedTrial, gone: Flags) -> Flags:
    """Put back the units that can be, the most important first; return the units left gone."""
    left = gone & trial.in_the_way()
    for unit in np.flatnonzero(left).tolist():
        if trial.put_back(unit):
            left[unit] = False
    return left
