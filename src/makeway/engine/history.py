"""What local queues have used lately (Kueue's admissionFairSharing).

The usage of a local queue is an average over the past in which what was held a half-life ago
counts half as much as what is held now. While it holds the amount R, usage goes from U to
R + (U - R) / 2^(time / half-life): it is known exactly at every moment, and nobody has to look at
it in between. Sampling only says how often it is written down.

Who is admitted has used nothing yet, so at one moment one local queue could have all places. Hence
an *advance*: each admission counts at once for what it will have used after one sampling interval,
and until then no more. (Kueue's entry penalty, which it takes back at the next sampling.)

The engine hears of changes between two cycles, and only a cycle knows the time. So what was held
counts until the next cycle, and what has changed from there on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from math import inf, log2
from typing import NamedTuple

from makeway.engine.model import Amounts, HistoryPolicy, LocalQueueKey, ResourceName

CPU = ResourceName("cpu")  # counted in thousandths, and weighed as a whole
SURELY_S = 1.0  # after two have crossed, no rounding hides it
Used = dict[ResourceName, float]


class Advance(NamedTuple):
    """What an admission counts before it has used that much."""

    until: float
    amounts: Mapping[ResourceName, int]


class Course(NamedTuple):
    """How usage goes on: towards `level`; what it is `above` that is halved in each half-life."""

    level: float
    above: float


class Account:
    """One local queue."""

    __slots__ = ("_ahead", "_ahead_decayed", "at", "coming", "is_recalled", "running", "used")

    def __init__(self, used: Used | None = None, at: float | None = None) -> None:
        self.used: Used = used or {}  # as of `at`, without advances
        self.at = at
        self.running: Used = {}
        self.coming: Used = {}  # what runs from the next cycle on
        self.is_recalled = at is not None  # from what was written down; who runs now has run since
        self._ahead: deque[Advance] = deque()  # by time
        self._ahead_decayed: Used = {}  # of these, what decays

    def settle(self, now: float, policy: HistoryPolicy) -> None:
        """Count until now what ran, and from now on what runs."""
        if self.is_recalled:
            self.running, self.is_recalled = dict(self.coming), False
        self._go_to(now, policy)
        self.running = {resource: held for resource, held in self.coming.items() if held}

    def advance(self, amounts: Mapping[ResourceName, int], policy: HistoryPolicy) -> None:
        """Somebody is admitted at the time that was counted to last."""
        assert self.at is not None
        self._ahead.append(Advance(self.at + policy.sampling_s, amounts))
        for resource, amount in amounts.items():
            self._ahead_decayed[resource] = self._ahead_decayed.get(resource, 0.0) + amount

    def _go_to(self, now: float, policy: HistoryPolicy) -> None:
        before = self.at
        self.at = now if before is None else max(before, now)
        left = 1.0 if before is None else decay(self.at - before, policy)
        for resource in self._resources():
            held = self.running.get(resource, 0.0)
            self.used[resource] = held + (self.used.get(resource, 0.0) - held) * left
        for resource in self._ahead_decayed:
            self._ahead_decayed[resource] *= left
        while self._ahead and self._ahead[0].until <= self.at:
            until, amounts = self._ahead.popleft()
            rest = decay(self.at - until + policy.sampling_s, policy)
            for resource, amount in amounts.items():
                self._ahead_decayed[resource] -= amount * rest

    def used_at(self, now: float, policy: HistoryPolicy) -> Used:
        """What it has used, with advances; at no earlier time than was counted to last."""
        return {r: course.level + course.above for r, course in self.courses(now, policy).items()}

    def consumed_at(self, now: float, policy: HistoryPolicy) -> Used:
        left = decay(max(0.0, now - (now if self.at is None else self.at)), policy)
        held = {resource: self.running.get(resource, 0.0) for resource in self._resources()}
        return {r: held[r] + (self.used.get(r, 0.0) - held[r]) * left for r in held}

    def _resources(self) -> list[ResourceName]:
        return sorted({*self.used, *self.running})

    def courses(self, now: float, policy: HistoryPolicy) -> dict[ResourceName, Course]:
        left = decay(max(0.0, now - (now if self.at is None else self.at)), policy)
        kept = decay(policy.sampling_s, policy)
        over = [a for a in self._ahead if a.until <= now]
        found = {}
        for resource in sorted({*self._resources(), *self._ahead_decayed}):
            held = self.running.get(resource, 0.0)
            ahead = self._ahead_decayed.get(resource, 0.0) * left
            ahead -= sum(
                a.amounts.get(resource, 0) * decay(now - a.until + policy.sampling_s, policy)
                for a in over
            )
            fixed = kept * sum(a.amounts.get(resource, 0) for a in self._ahead if a.until > now)
            above = (self.used.get(resource, 0.0) - held) * left + ahead
            found[resource] = Course(held - fixed, above)
        return found

    def next_end(self, now: float) -> float:
        """When the next advance is used up; infinite if there is none."""
        return next((a.until for a in self._ahead if a.until > now), inf)


def decay(elapsed_s: float, policy: HistoryPolicy) -> float:
    return float(0.5 ** (elapsed_s / policy.half_life_s))


class UsageHistory:
    def __init__(self) -> None:
        self._accounts: dict[LocalQueueKey, Account] = {}
        self._unsettled: dict[LocalQueueKey, Account] = {}
        self._known: dict[LocalQueueKey, float] = {}  # weighed, as of `_known_at`
        self._known_at = -inf

    def recall(self, key: LocalQueueKey, used: Mapping[ResourceName, float], at: float) -> None:
        """What was written down of a local queue; not of one that is counted already."""
        known = self._accounts.get(key)
        if known is None or known.at is None:
            account = self._accounts[key] = Account(dict(used), at)
            account.coming = {} if known is None else known.coming
            self._unsettled[key] = account

    def change(self, key: LocalQueueKey, amounts: Amounts, sign: int) -> None:
        """It holds so much more, or less, from the next cycle on."""
        account = self._account(key)
        for cell, amount in amounts.items():
            resource = cell.resource
            account.coming[resource] = account.coming.get(resource, 0.0) + sign * amount
        self._unsettled[key] = account

    def settle(self, now: float, policy: HistoryPolicy) -> None:
        """A cycle begins or ends."""
        for account in self._unsettled.values():
            account.settle(now, policy)
        if self._unsettled:
            self._known.clear()
        self._unsettled.clear()

    def admit(
        self, key: LocalQueueKey, amounts: Amounts, now: float, policy: HistoryPolicy
    ) -> None:
        account = self._account(key)
        account.settle(now, policy)
        asked: dict[ResourceName, int] = {}
        for cell, amount in amounts.items():
            asked[cell.resource] = asked.get(cell.resource, 0) + amount
        account.advance(asked, policy)
        self._known.clear()

    def used(self, key: LocalQueueKey, now: float, policy: HistoryPolicy) -> Used:
        account = self._accounts.get(key)
        return {} if account is None else account.used_at(now, policy)

    def consumed(self, key: LocalQueueKey, now: float, policy: HistoryPolicy) -> Used:
        """The same without advances, as it is written down."""
        account = self._accounts.get(key)
        return {} if account is None else account.consumed_at(now, policy)

    def is_growing(self, key: LocalQueueKey) -> bool:
        """Whether it holds something, so that time does more than let its usage decay."""
        account = self._accounts.get(key)
        return account is not None and bool(account.running)

    def usage(self, key: LocalQueueKey, weight: float, now: float, policy: HistoryPolicy) -> float:
        """As one number, for comparison; nobody comes after a local queue of weight zero."""
        if now != self._known_at:
            self._known.clear()
            self._known_at = now
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = weighed(self.used(key, now, policy), policy)
        return known / weight if weight else inf

    def overtakes_at(
        self,
        ahead: tuple[LocalQueueKey, float],
        behind: tuple[LocalQueueKey, float],
        now: float,
        policy: HistoryPolicy,
    ) -> float:
        """When one, each with its weight, may have used less than the other; infinite: never.

        Until the next advance is used up both go straight to what they hold, so they cross once
        at most. An advance that ends is a reason to look again.
        """
        courses = [self._course(key, weight, now, policy) for key, weight in (ahead, behind)]
        ends = [self._account(key).next_end(now) for key, _ in (ahead, behind)]
        level = courses[1].level - courses[0].level
        above = courses[1].above - courses[0].above
        crosses_at = inf
        if level < 0 < above and level + above > 0:
            crosses_at = now + policy.half_life_s * log2(above / -level) + SURELY_S
        return min(crosses_at, *ends)

    def _course(
        self, key: LocalQueueKey, weight: float, now: float, policy: HistoryPolicy
    ) -> Course:
        courses = self._account(key).courses(now, policy)
        level = weighed({r: course.level for r, course in courses.items()}, policy)
        above = weighed({r: course.above for r, course in courses.items()}, policy)
        return Course(level / weight, above / weight) if weight else Course(inf, 0.0)

    def _account(self, key: LocalQueueKey) -> Account:
        return self._accounts.setdefault(key, Account())


def weighed(used: Mapping[ResourceName, float], policy: HistoryPolicy) -> float:
    """All resources together, in whole units, by their weights."""
    return sum(
        policy.weights.get(resource, 1.0) * (amount / 1000 if resource == CPU else amount)
        for resource, amount in used.items()
    )
