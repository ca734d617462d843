"""How the server fares, in the form in which Kubernetes tells it.

Alive is who answers; ready, whose tasks are all on time. Asked for details, every check has a line,
`[+]name ok` or `[-]name failed`, and the last line is the sum of them.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from makeway.server import errors
from makeway.server.messages import Response
from makeway.watchdog import Watchdog

PATHS = ("healthz", "livez", "readyz")


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    is_well: bool = True
    remark: str = ""

    def __str__(self) -> str:
        remark = f" ({self.remark})" if self.remark else ""
        return f"[+]{self.name} ok{remark}" if self.is_well else f"[-]{self.name} failed{remark}"


def answer(
    asked: str, only: list[str], watchdog: Watchdog, *, is_scheduling: bool, is_verbose: bool
) -> Response:
    """`asked` is one of the paths, `only` the check that is named after it, if one is."""
    checks = [Check("ping"), *_readiness(watchdog, is_scheduling)]
    if only:
        checks = [check for check in checks if [check.name] == only]
        if not checks:
            raise errors.no_such_path()
    failed = [check for check in checks if not check.is_well] if asked == "readyz" or only else []
    if not failed and not is_verbose:
        return _text(200, "ok")
    sum_of_them = f"{asked} check {'failed' if failed else 'passed'}"
    return _text(500 if failed else 200, "\n".join([*map(str, checks), sum_of_them, ""]))


def _readiness(watchdog: Watchdog, is_scheduling: bool) -> Iterable[Check]:
    late = watchdog.late()
    yield Check("synced", is_scheduling, "" if is_scheduling else "not ready yet")
    for pulse in watchdog.pulses:
        name, _, remark = str(pulse).partition(": ")
        yield Check(name.replace(" ", "-"), pulse not in late, remark)


def _text(code: int, text: str) -> Response:
    return Response(code=code, body=text.encode(), content_type="text/plain; charset=utf-8")
