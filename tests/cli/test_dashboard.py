"""`makeway dashboard`, as far as it needs no browser."""

from __future__ import annotations

from tests.harness.cli import CliServer


def test_without_a_dashboard_the_command_says_so(bare: CliServer) -> None:
    assert "this server serves no dashboard" in bare.run("dashboard", "--print", code=1)
