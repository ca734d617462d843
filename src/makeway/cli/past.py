"""Finding the journal: options and errors of all commands that ask about the past."""

from __future__ import annotations

import argparse
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from makeway.api.errors import in_words
from makeway.cli import connect
from makeway.cli.command import RequestRefused, UsageError
from makeway.cli.spans import span_of
from makeway.client.folder import default_folder
from makeway.journal.coding import Unreadable
from makeway.journal.file import NAME, Journal, JournalError, Segment
from makeway.journal.past import NothingKnown

SQLITE = b"SQLite format 3\0"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(kubeconfig=None)  # which server is asked is not chosen here
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="data folder of `makeway up`")
    parser.add_argument(
        "--journal", type=Path, metavar="FILE", help="a journal (default: that of the data folder)"
    )


def is_of_all(arguments: argparse.Namespace) -> bool:
    """Whether a server for all accounts is asked: it alone reads its journal."""
    if arguments.data_dir is not None or arguments.journal is not None:
        return False
    return connect.is_for_all()


def segments_since(journal: Journal, span: str | None) -> list[Segment]:
    """Those of so long, with what was written before in the same segment.

    The last tells how things stand until another begins, however long ago it was written to.
    """
    found = journal.segments()
    since = 0.0 if span is None else time.time() - span_of("--since", span)
    found = [*(segment for segment in found[:-1] if segment.last_at >= since), *found[-1:]]
    if not found:
        raise RequestRefused(f"{journal.path}: nothing was written down yet")
    return found


def folder_of(arguments: argparse.Namespace) -> Path:
    folder: Path = arguments.data_dir or default_folder()
    return folder


@contextmanager
def open_journal(arguments: argparse.Namespace) -> Iterator[Journal]:
    """What goes wrong with it is told in a line."""
    named: Path | None = getattr(arguments, "journal", None)
    path = named or folder_of(arguments) / NAME
    if named is not None:
        expect_journal(named)
    try:
        journal = Journal(path)
    except JournalError as error:
        raise UsageError(str(error)) from None
    try:
        yield journal
    except NothingKnown as error:
        raise RequestRefused(str(error)) from None
    except (Unreadable, sqlite3.DatabaseError) as error:
        raise RequestRefused(f"{path}: {error}") from None
    finally:
        journal.close()


def expect_journal(path: Path) -> None:
    """What somebody names may be anything; the journal of the data folder can only be damaged."""
    if not path.exists():
        raise UsageError(f"{path}: no such file or directory")
    if path.is_dir():
        raise UsageError(f"{path} is a folder; its journal is asked with --data-dir {path}")
    try:
        with path.open("rb") as file:
            begins = file.read(len(SQLITE))
    except OSError as error:
        raise UsageError(f"{path}: {in_words(error)}") from None
    if begins != SQLITE:
        raise UsageError(f"{path} is no journal, nor a bundle of `makeway bundle`")
