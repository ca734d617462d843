"""Volumes stand where a container wants them: a view of the machine's files for its processes.

Everything else is where it is for others. Where a mount path isn't there it is made: in the last
folder that is, if the account may write to it, else in a double of that folder in memory.

All of it is done by a process that is the account's already and has of root's rights the one to
mount, so what the account can't enter it can't mount either. It gets no new rights by setuid
programs from then on: they would believe files that it chose. Without root, it is the account's
right to do so in a namespace of its own, if the kernel grants that.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    # What is shown, where, and whether only to be read; orders of before say nothing of that.
    Shown = tuple[str, str] | tuple[str, str, bool]

ENTRIES_MAX = 512  # of a folder that gets a double
MOUNTS_MAX = 8192  # besides those of the machine: what the kernel can have is shared by all
KEPT = ("/proc", "/sys", "/dev")  # nothing is mounted there or below
RIGHT_TO_MOUNT = 1 << 21  # capabilities(7): CAP_SYS_ADMIN

_C = ctypes.CDLL(None, use_errno=True)
_KEEP_CAPABILITIES = 8  # prctl(2)
_CAPABILITIES_VERSION = 0x20080522  # capset(2)
_OWN_MOUNTS, _OWN_USERS = 0x20000, 0x10000000  # unshare(2)
_READ_ONLY, _NO_SUID, _NO_DEVICES, _REMOUNT = 1, 2, 4, 32  # mount(2)
_KEPT_FLAGS = {b"nosuid": _NO_SUID, b"nodev": _NO_DEVICES, b"noexec": 8, b"nosymfollow": 256}
_BIND, _RECURSIVE, _UNBINDABLE, _PRIVATE, _SLAVE = (1 << n for n in (12, 14, 17, 18, 19))
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}  # syscall(2)
_DETACH = 2  # umount2(2)
_PLACE = os.O_PATH | os.O_CLOEXEC
_OF_DESCRIPTOR, _AS_KNOWN = 0x1000, 0x4000  # statx(2): AT_EMPTY_PATH, AT_STATX_DONT_SYNC
_TELLS_MOUNT, _MOUNT_ROOT = 0x1000, 0x2000  # a bit of what it fills in, one of the attributes


class NotShown(OSError):
    """Why a volume can't be where it should."""


def is_possible() -> bool:
    """Whether the kernel lets us; tried by a child, since there is no way back."""
    child = os.fork()
    if child == 0:
        try:
            _separate()
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    return status == 0


def with_right_to_mount(become: Callable[[], None], act: Callable[[], None]) -> None:
    """Become another account, act with this one right of root's, and give it up.

    Nothing is imported meanwhile, codecs included: a volume may lie over Python's own files.
    """
    finders = sys.meta_path[:]
    _C.prctl(_KEEP_CAPABILITIES, 1, 0, 0, 0)
    become()
    _have(RIGHT_TO_MOUNT)
    try:
        sys.meta_path.clear()
        act()
    finally:
        _have(0)
        sys.meta_path[:] = finders


def _have(capabilities: int) -> None:
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION, 0)
    # Effective, permitted, inheritable; then the same of those above 31.
    data = (ctypes.c_uint32 * 6)(capabilities, capabilities, 0, 0, 0, 0)
    _demand(_C.capset(header, data), "capabilities")


def show_if_possible(volumes: list[Shown], stage: str) -> None:
    """Where the kernel refuses, there are only the links, through which everything is writable."""
    if is_possible():
        show(volumes, stage)
        return
    for _, path, *is_read_only in volumes:
        if any(is_read_only):
            raise NotShown(f"mountPath {path}: readOnly can't be held: the kernel mounts nothing")


def show(volumes: list[Shown], stage: str) -> None:
    """Have what is at each first path stand at the second, for us and whom we start.

    Some only to be read. The stage is a folder that we may enter, whatever it is else.
    """
    _separate()
    most = _mounts() + MOUNTS_MAX
    doubles: dict[str, int] = {}  # and descriptors: by then something else may lie on top of one
    path = ""
    try:
        for source, path, *_ in volumes:
            _make_room(path, os.path.isdir(source), stage, doubles)
            _bind(source, path)
            if _mounts() > most:
                raise OSError(errno.ENOSPC, "too much is mounted below its volume")
        # Now that all are there: what is bound from one of these would be read-only, too.
        for _, path, *is_read_only in volumes:
            if any(is_read_only):
                _make_read_only(os.path.realpath(path), os.path.realpath(stage))
    except OSError as error:
        raise NotShown(f"mountPath {path}: {error.strerror or error}") from None
    for double in doubles.values():
        flags = _REMOUNT | _BIND | _READ_ONLY | _NO_SUID | _NO_DEVICES
        _mount(_named(double), flags)
        os.close(double)


def _mounts() -> int:
    with open("/proc/self/mounts", "rb") as file:
        return sum(1 for _ in file)


def _make_read_only(path: str, stage: str) -> None:
    """With all that is mounted below it; what else was forbidden there stays so."""
    if f"{stage}/".startswith(f"{path}/"):
        raise OSError(errno.EBUSY, "readOnly can't be held: the pod's own folder lies there")
    at = os.open(path, _PLACE)
    try:
        # What the machine mounts below from now on doesn't come here, where it would be writable.
        _mount(_named(at), _PRIVATE | _RECURSIVE)
        mounted = _mounted()
        _remount_read_only(at, mounted)
    finally:
        os.close(at)
    for place in {place for place, _ in mounted.values() if place.startswith(f"{path}/")}:
        _make_read_only_below(place, mounted)


def _make_read_only_below(place: str, mounted: dict[int, tuple[str, int]]) -> None:
    try:
        at = os.open(place, _PLACE | os.O_NOFOLLOW)
    except (PermissionError, FileNotFoundError, NotADirectoryError):
        return  # where the account can't get to, or something lies on top, it writes nothing
    try:
        _remount_read_only(at, mounted)
    finally:
        os.close(at)


def _remount_read_only(at: int, mounted: dict[int, tuple[str, int]]) -> None:
    """By descriptor and number: whoever changes the paths can't give one mount another's flags."""
    number, is_root = _mount_of(at)
    if not is_root:
        return  # something lies on top of the mount that was meant, and has its own turn
    if number not in mounted:
        raise OSError(errno.EBUSY, "its path changes meanwhile")
    _, flags = mounted[number]
    _mount(_named(at), _REMOUNT | _BIND | _READ_ONLY | flags)


def _mount_of(at: int) -> tuple[int, bool]:
    """The number of the mount that a descriptor is in, and whether it is at its root.

    No file system is asked. Not by /proc/self/fdinfo, which Linux before 5.14 keeps from a process
    that has changed its uid.
    """
    found = _known_of(at)
    if not found[0] & _TELLS_MOUNT:
        raise OSError(errno.ENOSYS, "readOnly can't be held: that takes Linux 5.8 or newer")
    return found[18], bool(found[1] & _MOUNT_ROOT)


def _device_of(at: int) -> bytes:
    """The number of its file system, as mountinfo has it; kernels before 5.8 tell that, too."""
    return b"%d:%d" % (*memoryview(bytes(_known_of(at))).cast("I")[34:36],)


def _known_of(at: int) -> ctypes.Array[ctypes.c_uint64]:
    """What statx(2) tells of a descriptor."""
    found = (ctypes.c_uint64 * 32)()
    _demand(_C.statx(at, b"", _OF_DESCRIPTOR | _AS_KNOWN, 0, found), "statx")
    return found


def _mounted() -> dict[int, tuple[str, int]]:
    """By number: where something is mounted, as we see it, and with which of the flags to keep."""
    return {int(line[0]): (_plain(line[4]), _flags(line[5])) for line in _mount_lines()}


def _mount_lines() -> list[list[bytes]]:
    """By what the kernel puts between words, and in no name: other white space may be in one."""
    with open("/proc/self/mountinfo", "rb") as file:
        return [line.rstrip(b"\n").split(b" ") for line in file]


def _flags(options: bytes) -> int:
    return sum(_KEPT_FLAGS.get(word, 0) for word in options.split(b","))


def _plain(place: bytes) -> str:
    """Spaces and the like stand there in octal."""
    first, *rest = place.split(b"\\")
    return os.fsdecode(first + b"".join(bytes([int(part[:3], 8)]) + part[3:] for part in rest))


def _separate() -> None:
    """Others see nothing of what we mount; we see what they mount later."""
    if _C.unshare(_OWN_MOUNTS) < 0:
        _own_ourselves()
        _demand(_C.unshare(_OWN_MOUNTS), "unshare")
    _mount("/", _RECURSIVE | _SLAVE)


def _own_ourselves() -> None:
    """Have rights like root's over what we do, as whom we are."""
    uid, gid = os.getuid(), os.getgid()
    if uid == 0:  # what root starts is others', and nobody else is known in there
        raise OSError(errno.EPERM, "unshare: root may not mount here")
    _demand(_C.unshare(_OWN_USERS), "unshare")
    said = {"setgroups": "deny", "uid_map": f"{uid} {uid} 1", "gid_map": f"{gid} {gid} 1"}
    for name, text in said.items():
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def _bind(source: str, path: str, double: int | None = None) -> None:
    """By descriptors: whoever changes the paths meanwhile leads us nowhere else.

    What belongs in a double is put nowhere but there.
    """
    of, at = os.open(source, _PLACE), os.open(path, _PLACE)
    try:
        if _is_kept(os.readlink(_named(at))) if double is None else not _is_in(at, double):
            raise OSError(errno.EPERM, "nothing is mounted there")
        _mount(_named(at), _BIND | _RECURSIVE, _named(of))
    finally:
        os.close(of)
        os.close(at)


def _is_in(at: int, double: int) -> bool:
    return _device_of(at) == _device_of(double)


def is_shown(path: str) -> bool:
    """Whether a volume can have this mount path; else there is only the link to it."""
    return not _is_kept(os.path.normpath(path))


def _is_kept(path: str) -> bool:
    return path == "/" or any(path == kept or path.startswith(f"{kept}/") for kept in KEPT)


# --- room for what isn't there ---


def _make_room(path: str, is_folder: bool, stage: str, doubles: dict[str, int]) -> None:
    if os.path.exists(path):
        return
    folder = os.path.dirname(path)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    folder = os.path.realpath(folder)
    is_open = folder != "/" and os.access(folder, os.W_OK)
    if folder not in doubles and not is_open:
        doubles[folder] = _double_root(stage) if folder == "/" else _double(folder)
    os.makedirs(path if is_folder else os.path.dirname(path), exist_ok=True)
    if not is_folder:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))


def _double(folder: str) -> int:
    """Have a folder in memory in the place of this one, with everything that is in it.

    By descriptors, as the folders above it may be the account's: nothing is led into /proc.
    """
    if _is_kept(folder):
        raise OSError(errno.EPERM, "nothing is mounted there")
    old = _opened(folder)
    try:
        # Of a folder that we can't enter nothing was to be had.
        is_open = os.access(_named(old), os.R_OK | os.X_OK)
        found = _entries(_named(old), folder) if is_open else []
        double = _memory_over(old, folder)
        _fill(_named(old), found, double)
    finally:
        os.close(old)
    return double


def _memory_over(old: int, folder: str) -> int:
    """What was mounted just now, and surely nothing else that has its path meanwhile."""
    known = _in_memory()
    _mount_memory(_named(old))
    double = _opened(folder)
    if _device_of(double) not in _in_memory() - known:
        raise OSError(errno.EBUSY, "its path changes meanwhile")
    return double


def _in_memory() -> set[bytes]:
    """The devices of what is mounted of this kind; nobody but root can add to them meanwhile."""
    lines = _mount_lines()
    return {line[2] for line in lines if line[line.index(b"-", 6) + 1] == b"tmpfs"}


def _opened(folder: str) -> int:
    """A folder whose path has no links in it."""
    at = os.open(folder, _PLACE)
    if os.readlink(_named(at)) != folder:
        raise OSError(errno.EBUSY, "its path changes meanwhile")
    return at


def _double_root(stage: str) -> int:
    """The same of the folder above all, over which nothing can be put: another takes its place."""
    found, folder = _entries("/", "/"), os.path.realpath(stage)
    old = _opened(folder)
    double = _memory_over(old, folder)
    _mount(_named(double), _UNBINDABLE)  # not a part of what it shows
    _fill("", found, double)
    os.fchdir(double)
    os.close(old)
    os.close(double)
    number = _PIVOT_ROOT.get(os.uname().machine, -1)
    _demand(_C.syscall(number, b".", b"."), "pivot_root")  # the old one lies on top of it now
    _demand(_C.umount2(b".", _DETACH), "umount2")
    os.chdir("/")
    _mount("/", _PRIVATE)
    return os.open("/", _PLACE)


def _entries(folder: str, name: str) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as found:
        entries = list(found)
    if len(entries) > ENTRIES_MAX:
        raise OSError(errno.EMLINK, f"{name} has {len(entries)} entries, too many to add one")
    return entries


def _fill(folder: str, entries: list[os.DirEntry[str]], double: int) -> None:
    """No entry is asked what it is: somebody else's file system may refuse, or never answer."""
    for entry in entries:
        source, place = f"{folder}/{entry.name}", f"{_named(double)}/{entry.name}"
        try:
            if entry.is_symlink():
                os.symlink(os.readlink(source), place)
                continue
            if entry.is_dir(follow_symlinks=False):
                os.mkdir(place, 0o755)
            else:
                os.close(os.open(place, os.O_CREAT | os.O_WRONLY, 0o600))
            _bind(source, place, double)
        except FileNotFoundError:
            continue  # it went meanwhile


def _mount_memory(place: str) -> None:
    _mount(place, _NO_SUID | _NO_DEVICES, "tmpfs", "tmpfs", "size=4m,mode=755")


def _named(descriptor: int) -> str:
    """For the kernel: what was opened, whatever its path leads to by now."""
    return f"/proc/self/fd/{descriptor}"


def _mount(place: str, flags: int, source: str = "", kind: str = "", options: str = "") -> None:
    words = [os.fsencode(word) or None for word in (source, place, kind)]
    _demand(_C.mount(*words, ctypes.c_ulong(flags), os.fsencode(options) or None), "mount")


def _demand(answer: int, what: str) -> None:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
