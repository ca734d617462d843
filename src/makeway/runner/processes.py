"""What Linux tells about processes, and files that survive a crash.

A supervisor starts once per pod and should cost next to nothing: this file and its neighbours
`containers`, `probes` and `supervisor` import little, and nothing from other rooms.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import sys
import time

TYPE_CHECKING = False  # as type checkers know it: `typing` would double the cost of a start
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SET_DEATH_SIGNAL, _SET_SUBREAPER = 1, 36  # prctl(2)
_PUNCH_HOLE = 3  # fallocate(2): and keep the size
KILL_ROUNDS, KILL_PAUSE_S = 100, 0.002  # of a cgroup that can't be killed at once
_NO_CGROUP = (errno.ENOENT, errno.ENODEV)  # never was, or was removed meanwhile
_LISTENS = "0A"  # of a TCP socket, as /proc/net/tcp has it
_C = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """Whoever loses its parent below us becomes our child, so that none escapes us."""
    _C.prctl(_SET_SUBREAPER, 1, 0, 0, 0)


def die_with_parent(parent: int) -> None:
    """End this process when `parent` ends, however that comes about."""
    _C.prctl(_SET_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def boot_id() -> str:
    """Process ids and their start times mean nothing after the machine was started anew."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def started_ticks(pid: int) -> int | None:
    """When a process was started; together with its pid that names it. None if it doesn't live."""
    fields = _stat(pid)
    return None if fields is None or fields[0] in "ZX" else int(fields[19])


def has_ended(pid: int, ticks: int) -> bool:
    """Whether the process that was started then is gone, with all of its threads."""
    fields = _stat(pid)
    if fields is None or int(fields[19]) != ticks:
        return True
    return fields[0] in "ZX" and int(fields[17]) <= 1


def children_of(parent: int) -> list[int]:
    return [pid for pid, fields in _all() if int(fields[1]) == parent]


def has_children() -> bool:
    """Whether somebody is left below us, who adopt orphans."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def is_stopped(pid: int) -> bool:
    """By a signal, that is; a debugger is another matter."""
    fields = _stat(pid)
    return fields is not None and fields[0] == "T"


def parent_of(pid: int) -> int:
    """0 if it doesn't live."""
    fields = _stat(pid)
    return 0 if fields is None else int(fields[1])


def orphans_since(ticks: int, adopters: set[int], owner: int) -> list[int]:
    """Processes of that user that were started since, have no terminal, and lost their parent."""
    found = []
    for pid, fields in _all():
        is_young = int(fields[19]) >= ticks and fields[0] not in "ZX"
        is_lost = int(fields[1]) in adopters and fields[4] == "0"
        if is_young and is_lost and is_of(pid, owner):
            found.append(pid)
    return found


def command_of(pid: int) -> str:
    """What a process was started with, for people."""
    return (
        (read_or_none(f"/proc/{pid}/cmdline") or b"")
        .replace(b"\0", b" ")
        .decode(errors="replace")[:200]
    )


def kill_session(session: int) -> None:
    """End all that stayed in a session."""
    for pid, fields in _all():
        if int(fields[3]) == session and fields[0] not in "ZX":
            send_signal(pid, signal.SIGKILL)


def session_and_below(leader: int) -> set[int]:
    """All who stayed in a session, or have its leader as an ancestor."""
    parents, found = dict[int, int](), {leader}
    for pid, fields in _all():
        parents[pid] = int(fields[1])
        if int(fields[3]) == leader:
            found.add(pid)
    return found | _below(leader, parents)


def below(ancestor: int) -> set[int]:
    """All processes that have this one as an ancestor."""
    return _below(ancestor, {pid: int(fields[1]) for pid, fields in _all()})


def living_below(ancestor: int) -> dict[int, tuple[int, int]]:
    """The group and the session of all who have this process as an ancestor and have not ended."""
    found = dict(_all())
    members = _below(ancestor, {pid: int(fields[1]) for pid, fields in found.items()})
    return {
        pid: (int(found[pid][2]), int(found[pid][3]))
        for pid in members
        if found[pid][0] not in "ZX"
    }


def _below(ancestor: int, parents: dict[int, int]) -> set[int]:
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    found, left = set[int](), [ancestor]
    while left:
        born = children.pop(left.pop(), [])
        found.update(born)
        left += born
    return found


def listening_at(ancestor: int, port: int) -> str | None:
    """The address at which a process below this one listens at a TCP port; None if none does."""
    listening = {inode: address for inode, address, found in _listening_sockets() if found == port}
    if listening:
        for pid in below(ancestor):
            for inode in _sockets_of(pid) & listening.keys():
                return listening[inode]
    return None


def _listening_sockets() -> Iterator[tuple[str, str, int]]:
    """Inode, address to reach it at, port."""
    for table, anywhere in (("tcp", "127.0.0.1"), ("tcp6", "::1")):
        for line in (read_or_none(f"/proc/net/{table}") or b"").decode().splitlines()[1:]:
            fields = line.split()
            place, _, port = fields[1].partition(":")
            if fields[3] == _LISTENS:
                yield (
                    fields[9],
                    anywhere if not place.strip("0") else _address(place),
                    int(port, 16),
                )


def _address(place: str) -> str:
    """As the kernel writes it: words of four bytes, each in the order of this machine."""
    words = (place[start : start + 8] for start in range(0, len(place), 8))
    content = b"".join(int(word, 16).to_bytes(4, sys.byteorder) for word in words)
    if len(content) == 4:
        return ".".join(map(str, content))
    return ":".join(content[start : start + 2].hex() for start in range(0, 16, 2))


def _sockets_of(pid: int) -> set[str]:
    """The inodes of a process's sockets, as far as we may know them."""
    found = set[str]()
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return found  # it is gone, or not ours
    for name in names:
        try:
            target = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue  # closed meanwhile
        if target.startswith("socket:["):
            found.add(target[8:-1])
    return found


def signal_who_catch(session: int, number: int) -> None:
    """Send a signal to those of a session who have said what they do then; others may die of it."""
    for pid, fields in _all():
        if int(fields[3]) == session and _catches(pid, number):
            send_signal(pid, number)


def _catches(pid: int, number: int) -> bool:
    status = read_or_none(f"/proc/{pid}/status") or b""
    for line in status.split(b"\n"):  # the program's name comes first, and may hold other ends
        if line.startswith(b"SigCgt:"):
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def kill_cgroup(folder: str) -> None:
    """End all who are in a cgroup, wherever else they went; they are gone a moment later."""
    if _tell(f"{folder}/cgroup.kill", b"1"):
        return
    # Of version 1, or before Linux 5.14: who can be frozen forks no more meanwhile.
    _tell(f"{folder}/freezer.state", b"FROZEN")
    try:
        for _ in range(KILL_ROUNDS):
            left = in_cgroup(folder)
            if not left:
                return
            for pid in left:
                send_signal(pid, signal.SIGKILL)
            _tell(f"{folder}/freezer.state", b"THAWED")
            time.sleep(KILL_PAUSE_S)
    finally:
        _tell(f"{folder}/freezer.state", b"THAWED")


def in_cgroup(folder: str) -> list[int]:
    try:
        with open(f"{folder}/cgroup.procs", "rb") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError as error:
        if error.errno not in _NO_CGROUP:
            raise
        return []


def remove_cgroups(folders: Iterable[str]) -> None:
    for folder in folders:
        try:
            os.rmdir(folder)
        except OSError:
            continue  # somebody is about to end, or it is gone


def _tell(path: str, word: bytes) -> bool:
    """Write to a file of a cgroup; whether there is such a file."""
    try:
        descriptor = os.open(path, os.O_WRONLY)
    except FileNotFoundError:
        return False
    try:
        os.write(descriptor, word)
    except OSError as error:
        if error.errno not in _NO_CGROUP:
            raise
    finally:
        os.close(descriptor)
    return True


def is_of(pid: int, owner: int) -> bool:
    """Whether a process lives, and is that user's."""
    try:
        return os.stat(f"/proc/{pid}").st_uid == owner
    except FileNotFoundError:
        return False


def kill_marked(variable: str, owner: int | None = None) -> None:
    """End the processes whose environment holds `NAME=value`, wherever they went.

    Everybody can write anything there: root ends only those of the user whose they may be.
    """
    for pid, _ in _all():
        if (owner is None or is_of(pid, owner)) and is_marked(pid, variable):
            send_signal(pid, signal.SIGKILL)


def is_marked(pid: int, variable: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return variable.encode() in file.read().split(b"\0")
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        return False  # it is gone, or another user's; anything else, and we know too little


def kill_program(argument: str) -> None:
    """End the processes that were started with this as their last argument."""
    wanted = argument.encode()
    for pid, _ in _all():
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                is_meant = file.read().rstrip(b"\0").split(b"\0")[-1] == wanted
        except (FileNotFoundError, PermissionError, ProcessLookupError):
            continue
        if is_meant:
            send_signal(pid, signal.SIGKILL)


def send_signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):  # it is gone, or root's by now (sudo)
        return


def send_signal_to_group(group: int, number: int) -> None:
    send_signal(-group, number)


def _all() -> Iterator[tuple[int, list[str]]]:
    for name in os.listdir("/proc"):
        if name.isdecimal():
            fields = _stat(int(name))
            if fields is not None:
                yield int(name), fields


def _stat(pid: int) -> list[str] | None:
    """The fields after the name of the program, which may hold anything."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].decode("ascii").split()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None


def write_whole(path: str, content: bytes, *, durably: bool = False, mode: int = 0o600) -> None:
    """Replace a file: whoever reads it, or ends meanwhile, finds the old content or the new one.

    Durably, that holds for a loss of power too; it may take the disk some milliseconds.
    """
    temporary = f"{path}.{os.getpid()}.new"
    try:
        _write_file(temporary, os.O_CREAT | os.O_TRUNC, content, durably, mode)
    except OSError:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise
    _put_in_place(temporary, path, durably)


def _write_file(path: str, flags: int, content: bytes, durably: bool, mode: int = 0o600) -> None:
    descriptor = os.open(path, os.O_WRONLY | flags, mode)
    try:
        write_all(descriptor, content)
        if durably:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _put_in_place(temporary: str, path: str, durably: bool) -> None:
    os.rename(temporary, path)
    if durably:
        flush(os.path.dirname(path))


def make_spare(path: str, size: int) -> None:
    """Have room for the last word that `write_last` writes, whatever becomes of the disk."""
    _write_file(f"{path}.spare", os.O_CREAT | os.O_TRUNC, b" " * size, durably=False)


def write_last(path: str, content: bytes, *, durably: bool = False) -> None:
    """As `write_whole`, for JSON that has to be written even on a full disk: once, in the spare."""
    try:
        write_whole(path, content, durably=durably)
    except OSError:
        spare = f"{path}.spare"
        if not os.path.exists(spare) or os.path.getsize(spare) < len(content):
            raise
        # In place, with spaces to its end: the file has its blocks already.
        _write_file(spare, 0, content.ljust(os.path.getsize(spare)), durably)
        _put_in_place(spare, path, durably)


def flush(path: str) -> None:
    """Have a file or folder that others wrote reach the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def dig(descriptor: int, start: int, size: int) -> None:
    """Give the blocks of a part of a file back to the disk; what is read there is zeros."""
    if _C.fallocate(descriptor, _PUNCH_HOLE, ctypes.c_int64(start), ctypes.c_int64(size)):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def read_or_none(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError):  # or of a process that ended as we read
        return None
