"""Collecting errors: where we are, what is wrong there."""

from collections.abc import Iterable

from makeway.api.errors import ABSENT, FieldError, step_to


class Findings:
    """Collects errors; `at` gives one for the fields below a path."""

    def __init__(self, errors: list[FieldError] | None = None, path: str = "") -> None:
        self.errors = [] if errors is None else errors
        self.path = path

    def at(self, *steps: str | int) -> "Findings":
        written = (f"[{step}]" if isinstance(step, int) else step_to(step) for step in steps)
        return Findings(self.errors, "".join((self.path, *written)).removeprefix("."))

    def add(self, value: object, problem: str, hint: str) -> None:
        self.errors.append(FieldError(self.path, value, problem, hint))


def check_unique(names: Iterable[tuple[str, Findings]], what: str) -> None:
    seen: set[str] = set()
    for name, found in names:
        if name in seen:
            found.add(name, f"names the same {what} twice", "keep one of them")
        seen.add(name)


def check_count(count: int, highest: int, what: str, found: Findings, lowest: int = 0) -> None:
    if count > highest:
        found.add(ABSENT, f"has {count} {what}, more than {highest}", f"keep at most {highest}")
    if count < lowest:
        found.add(ABSENT, f"has {count} {what}", f"list at least {lowest}")
