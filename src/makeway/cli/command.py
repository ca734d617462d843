"""How a command fails, and the options that several commands take."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys

EXIT_INTERRUPTED = 130  # after Ctrl-C


class UsageError(Exception):
    """The command can't do what was asked; its text is for the user. Exit code 2."""


class RequestRefused(Exception):
    """The answer is no, or there is no such thing; the text is for the user. Exit code 1."""


def announce(*lines: str) -> None:
    """Print what a server has to say; it serves on though nobody reads that."""
    try:
        print(*lines, sep="\n", flush=True)
    except OSError:
        drop_output()


def drop_output() -> None:
    """What was or will be printed goes nowhere, also when the interpreter flushes at its end."""
    with contextlib.suppress(OSError):  # a stream that is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
