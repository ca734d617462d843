"""What root runs and reads must be changed by nobody but root; sshd calls that StrictModes."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path


def weak_spot(paths: Iterable[Path]) -> str:
    """The first of all these files and folders that others may change, and how; empty if none.

    Folders count with all that is below them, and everything with the folders above it, links with
    both of their ends.
    """
    seen: set[tuple[str, bool]] = set()
    return _first(_weak_at(os.path.abspath(path), seen, is_whole=True) for path in paths)


def _first(found: Iterable[str]) -> str:
    return next(filter(None, found), "")


def _weak_at(path: str, seen: set[tuple[str, bool]], *, is_whole: bool = False) -> str:
    """Of all that decides what is found at a path; each is looked at once."""
    if (path, is_whole) in seen or not os.path.lexists(path):
        return ""  # links may lead in a circle
    seen.add((path, is_whole))
    above, name = os.path.split(path)
    if name and (why := _weak_at(above, seen)):
        return why
    found = os.lstat(path)
    if why := _weakness(path, found):
        return why
    if stat.S_ISLNK(found.st_mode):
        target = os.path.normpath(os.path.join(above, os.readlink(path)))
        return _weak_at(target, seen, is_whole=is_whole)
    return _weak_below(path, seen) if is_whole and stat.S_ISDIR(found.st_mode) else ""


def _weak_below(folder: str, seen: set[tuple[str, bool]]) -> str:
    with os.scandir(folder) as entries:
        for entry in entries:
            why = _weakness(entry.path, entry.stat(follow_symlinks=False))
            if not why and entry.is_symlink():
                why = _weak_at(entry.path, seen)
            elif not why and entry.is_dir(follow_symlinks=False):
                why = _weak_below(entry.path, seen)
            if why:
                return why
    return ""


def _weakness(path: str, found: os.stat_result) -> str:
    if found.st_uid != 0:
        return f"{path} belongs to uid {found.st_uid}"
    if stat.S_ISLNK(found.st_mode):
        return ""  # its mode has no meaning
    if stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX:
        return ""  # others may add to it, and change nothing of root's
    if found.st_mode & stat.S_IWOTH:
        return f"{path} can be written by everybody"
    if found.st_mode & stat.S_IWGRP and found.st_gid != 0:
        return f"{path} can be written by group {found.st_gid}"
    return ""
