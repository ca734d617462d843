"""What ended pods leave goes by age and by size; a clock that is set makes nothing old."""

from __future__ import annotations

from pathlib import Path

import pytest

from makeway.runner.leavings import DAY_S, FIRST_BY_AGE_S, Leavings, Limits

KIB, MIB = 1024, 1024 * 1024


class House:
    """Pods that have ended, each with a folder and output; clocks of the test's."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self.folder, self._limits = folder, limits
        self.wall, self.ticks = 1_800_000_000.0, 50.0
        self.ended: dict[str, float] = {}
        self.begin()

    def begin(self) -> None:
        self.leavings = Leavings(self.folder, self._limits, lambda: self.wall, lambda: self.ticks)

    def left(
        self, uid: str, size: int = 128 * KIB, *, is_running: bool = False, account: str = ""
    ) -> None:
        """Half of it in the pod's folder, half in its output."""
        for folder in (self.folder / "pods" / uid / "scratch" / "deep", self.folder / "logs" / uid):
            folder.mkdir(parents=True)
            (folder / "main.log").write_bytes(b"x" * (size // 2))
        (self.folder / "pods" / uid / "state.json").write_text("{}")
        if account:
            (self.folder / "logs" / uid / "account").write_text(account)
        if not is_running:
            self.ended[uid] = self.wall

    def after(self, seconds: float) -> None:
        self.wall += seconds
        self.ticks += seconds

    def tidied(self, *running: str) -> str:
        """Who still has what it left."""
        self.leavings.tidy(self.ended, running)
        return " ".join(sorted(uid for uid in self.ended if self.has(uid)))

    def has(self, uid: str) -> bool:
        scratch = (self.folder / "pods" / uid / "scratch").exists()
        assert scratch is not (self.folder / "logs" / uid / "removed").exists()
        assert (self.folder / "pods" / uid / "state.json").exists()  # it is known that it ran
        return scratch


def test_what_is_older_than_allowed_goes(tmp_path: Path) -> None:
    house = House(tmp_path, Limits(MIB, max_age_s=2 * DAY_S))
    house.left("old")
    house.after(DAY_S)
    house.left("new")
    assert house.tidied() == "new old"
    house.after(DAY_S + 1)
    assert house.tidied() == "new"
    house.after(DAY_S)
    assert house.tidied() == ""


def test_of_too_much_the_oldest_goes_and_output_of_who_runs_counts(tmp_path: Path) -> None:
    house = House(tmp_path, Limits(448 * KIB))
    for uid in ("a", "b", "c"):
        house.left(uid)  # 128 KiB each
        house.after(1)
    house.left("runs", is_running=True)  # its folder doesn't count, its 64 KiB of output do
    assert house.tidied("runs") == "a b c"
    house.left("d")
    assert house.tidied("runs") == "b c d"
    house.begin()  # after a restart the same holds, and what is gone counts no more
    assert house.tidied("runs") == "b c d"


@pytest.mark.parametrize("step_s", [400 * DAY_S, -400 * DAY_S])
def test_a_clock_that_is_set_makes_nothing_old(tmp_path: Path, step_s: float) -> None:
    house = House(tmp_path, Limits(MIB, max_age_s=2 * DAY_S))
    house.left("a")
    house.tidied()
    house.wall += step_s
    house.after(FIRST_BY_AGE_S + 1)
    assert house.tidied() == "a"


def test_a_machine_that_comes_up_in_another_year_has_an_hour_to_be_set_right(
    tmp_path: Path,
) -> None:
    house = House(tmp_path, Limits(MIB, max_age_s=2 * DAY_S))
    house.left("a")
    house.wall += 400 * DAY_S
    house.begin()
    assert house.tidied() == "a"
    house.wall -= 400 * DAY_S
    house.after(FIRST_BY_AGE_S)
    assert house.tidied() == "a"


def test_what_all_may_print_together_is_dealt_out(tmp_path: Path) -> None:
    """Each gets a part of what is left: 64 MiB at the most, and a little is always left."""
    limits, granted, given = Limits(1024 * MIB), 0, list[int]()
    for _ in range(100):
        given.append(limits.allowance(granted, 1))
        granted += 2 * given[-1]  # this run, and the one before

    assert given[0] == 64 * MIB
    assert given[:20] == sorted(given[:20], reverse=True)
    assert given[-1] == MIB
    assert granted < (1024 + 2 * 100) * MIB  # beyond the limit, a little for each
    assert Limits(1024 * MIB).allowance(0, containers=4) == 16 * MIB


def test_who_leaves_much_loses_his_own(tmp_path: Path) -> None:
    house = House(tmp_path, Limits(MIB))
    for uid, size, account in (
        ("ann1", 300 * KIB, "1001"),
        ("bob1", 300 * KIB, "1002"),
        ("bob2", 200 * KIB, "1002"),
        ("bob3", 300 * KIB, "1002"),
    ):
        house.left(uid, size, account=account)
        house.after(1)

    assert house.tidied() == "ann1 bob2 bob3"  # hers is the oldest, and he has the most
    house.left("bob4", 320 * KIB, is_running=True, account="1002")
    house.left("ann2", 200 * KIB, account="1001")
    assert house.tidied("bob4") == "ann1 ann2 bob3"
