"""Folders that others may write into meanwhile: by descriptors, so that no link leads elsewhere."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Collection, Iterator
from itertools import count, islice
from pathlib import Path

DEPTH_MAX = 100  # what lies deeper is not counted; each level is an open file
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
AT_ONCE = 1000  # names that are read
ROUNDS_MAX = 100_000  # of reading names: who goes on to make files must not keep us for ever
_numbers = count()


def make_owned(path: Path, uid: int, gid: int, mode: int) -> None:
    """Make a folder for an account, in one where nobody but us can put anything."""
    path.mkdir(mode=0o700, exist_ok=True)
    with opened(path) as folder:
        os.fchown(folder, uid, gid)
        os.fchmod(folder, mode)


@contextlib.contextmanager
def opened(path: Path | str, within: int | None = None) -> Iterator[int]:
    descriptor = os.open(path, _OPEN, dir_fd=within)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def discard(path: Path, trash: Path) -> None:
    """Have a folder out of the way at once; `empty` deletes it. Both are on one disk."""
    with contextlib.suppress(FileNotFoundError):
        path.rename(trash / f"{os.getpid()}-{next(_numbers)}")


def empty(trash: Path) -> None:
    """Delete all that was thrown away, however deep it is; what can't go stays."""
    with contextlib.suppress(OSError), opened(trash) as top:
        kept: set[str] = set()
        while left := _some(top, kept):
            kept |= {name for name in left if not _is_deleted(name, top)}


def _some(folder: int, but: Collection[str] = ()) -> list[str]:
    """Names of what is in a folder, not all at once: there may be millions."""
    with os.scandir(folder) as found:
        return list(islice((one.name for one in found if one.name not in but), AT_ONCE))


def _is_deleted(name: str, top: int) -> bool:
    """A folder goes when what is below it went up: two open files, whatever its depth."""
    try:
        with opened(name, top) as folder:
            for _ in range(ROUNDS_MAX):
                if not (found := _some(folder)):
                    break
                for below in found:
                    _take_up(below, folder, top)
        os.rmdir(name, dir_fd=top)
    except NotADirectoryError:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=top)
    except FileNotFoundError:
        pass
    except OSError:
        return False
    return True


def _take_up(name: str, folder: int, top: int) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except IsADirectoryError:
        os.rename(name, f"{os.getpid()}-{next(_numbers)}", src_dir_fd=folder, dst_dir_fd=top)
    except FileNotFoundError:
        return  # another one deletes, too


def tree_bytes(path: Path) -> int:
    """What the files below a folder take of its disk; links and other disks are not followed."""
    try:
        with opened(path) as folder:
            return _bytes_below(folder, os.fstat(folder).st_dev, 0)
    except OSError:
        return 0


def _bytes_below(folder: int, disk: int, depth: int) -> int:
    total = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):  # gone meanwhile, or nothing that we may open
                found = entry.stat(follow_symlinks=False)
                if not stat.S_ISDIR(found.st_mode):
                    total += found.st_blocks * 512
                elif depth < DEPTH_MAX and found.st_dev == disk:
                    with opened(entry.name, folder) as below:
                        total += _bytes_below(below, disk, depth + 1)
    return total
