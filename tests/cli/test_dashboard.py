"""`makeway dashboard`, as far as it needs no browser."""

from __future__ import annotations

from tests.harness.cli import CliServer


def test_without_a_dashboard_the_command_says_so(bare: CliServer) -> None:
    assert "this server serves no dashboard" in bare.run("dashboard", "--print", code=1)


def test_signing_out_is_of_all_pages_of_ones_own_server(bare: CliServer) -> None:
    assert "this server serves no dashboard" in bare.run("dashboard", "--sign-out", code=1)
    assert "no job is named" in bare.run("dashboard", "--sign-out", "12", code=2)
