"""What a subcommand says about itself."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass


class UsageError(Exception):
    """The command can't do what was asked; its text is for the user. Exit code 2."""


class RequestRefused(Exception):
    """The answer is no, or there is no such thing; the text is for the user. Exit code 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    name: str
    summary: str  # a line in the list of commands
    description: str
    examples: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]  # returns the exit code


def add_log_options(parser: argparse.ArgumentParser, default: str) -> None:
    """The log options of commands that run for long."""
    parser.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default=default,
        help=f"what to log on standard error (default: {default})",
    )
    parser.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="(default: text)"
    )
