"""What a server says of how it fares."""

from makeway.server import health
from makeway.server.messages import Response
from makeway.watchdog import Pulse, Watchdog


def asked(path: str, *only: str, is_scheduling: bool = True, is_verbose: bool = False) -> Response:
    now = [0.0]
    slow = Pulse("collecting garbage", patience_s=10.0, clock=lambda: now[0])
    slow.turn()
    now[0] = 12.0
    dog = Watchdog(slow)
    return health.answer(path, list(only), dog, is_scheduling=is_scheduling, is_verbose=is_verbose)


def test_who_is_late_is_named_and_only_readiness_fails() -> None:
    answer = asked("readyz")
    assert answer.code == 500
    assert isinstance(answer.body, bytes)
    lines = answer.body.decode().splitlines()
    assert "[-]collecting-garbage failed (last seen 12.0 s ago)" in lines
    assert lines[-1] == "readyz check failed"
    assert (asked("livez").code, asked("livez").body) == (200, b"ok")
    detailed = asked("healthz", is_verbose=True)
    assert isinstance(detailed.body, bytes)
    assert detailed.code == 200
    assert detailed.body.endswith(b"healthz check passed\n")


def test_one_check_can_be_asked_for_alone() -> None:
    assert asked("readyz", "ping").body == b"ok"
    assert asked("readyz", "synced", is_scheduling=False).code == 500
    assert asked("livez", "collecting-garbage").code == 500
