"""Keeps a pod from GPUs that it was not given: the kernel refuses to open them.

NVIDIA's only: each is a device of its own, `/dev/nvidia0` and so on, and the driver tells which has
which number. Who uses a part of one (MIG) opens the GPU, and two devices more that stand for the
right to that part. A program that is attached to the pod's cgroup of version 2 refuses what is not
the pod's; where there is no such tree, the devices controller of version 1 does. Root alone can do
either.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from makeway.runner.host import GpuPart

MAJOR = 195  # of all of NVIDIA's GPUs
NVIDIA, GPU = "nvidia.com/", "nvidia.com/gpu"
DRIVER = Path("/proc/driver/nvidia/gpus")
RIGHTS = Path("/proc/driver/nvidia/capabilities")  # to parts of GPUs
NUMBERS = Path("/proc/devices")
VISIBLE = "CUDA_VISIBLE_DEVICES"

_C = ctypes.CDLL(None, use_errno=True)
_SYSCALL = {"x86_64": 321, "aarch64": 280}  # bpf(2)
_LOAD, _ATTACH = 5, 8
_OF_DEVICES, _AT_DEVICES, _BESIDE_OTHERS = 15, 6, 2
_ATTRIBUTES_BYTES = 128
# Instructions, the registers that they work on, and what the kernel says of the device.
_READ, _AND, _UNLESS, _IF, _GO, _SET, _EXIT = 0x61, 0x54, 0x55, 0x15, 0x05, 0xB7, 0x95
_ANSWER, _ASKED, _KIND, _MAJOR, _MINOR = range(5)
_CHARACTER = 2
_TO_REFUSE = 2  # lines from the answer that lets pass


class Rule(NamedTuple):
    """Of the devices with one major number these are refused, or all but these."""

    major: int
    minors: Sequence[int]
    others: bool = False  # all but these


def refused(
    devices: Mapping[str, Collection[object]], uuids: Collection[str], parts: Sequence[GpuPart] = ()
) -> list[Rule]:
    """What a pod may not open that holds these, with the uuids of all of them.

    Nothing where it can't be told which are its own, as of GPUs that are only declared.
    """
    gpus = list(map(_gpu, DRIVER.glob("*/information")))
    own = {number for uuid, number in gpus if uuid in uuids}
    has_some = any(name.startswith(NVIDIA) and held for name, held in devices.items())
    if has_some and (not uuids or len(own) + len(parts) < len(uuids)):
        return []
    own |= {part.gpu for part in parts}
    others = sorted({number for _, number in gpus} - own)
    return [*([Rule(MAJOR, others)] if others else ()), *_of_parts(parts)]


def _of_parts(own: Iterable[GpuPart]) -> Iterator[Rule]:
    """The rights to all parts but these; on version 2, also to those that are made later."""
    for line in NUMBERS.read_text().splitlines() if RIGHTS.is_dir() else ():
        number, _, name = line.strip().partition(" ")
        if name == "nvidia-caps":
            yield Rule(int(number), sorted(n for part in own for n in _rights(part)), others=True)


def _rights(part: GpuPart) -> Iterator[int]:
    """The numbers of the devices that stand for the right to a part."""
    instance = RIGHTS / f"gpu{part.gpu}" / "mig" / f"gi{part.instance}"
    for file in (instance / "access", instance / f"ci{part.compute}" / "access"):
        yield _number(file)


def _other_rights(own: Collection[int]) -> set[int]:
    """To the parts that there are now: version 1 knows no "all but these"."""
    return {*map(_number, RIGHTS.glob("gpu*/mig/**/access"))} - {*own}


def _number(right: Path) -> int:
    return int(_told(right, "DeviceFileMinor"))


def _gpu(information: Path) -> tuple[str, int]:
    """Its uuid and its number."""
    return _told(information, "GPU UUID"), int(_told(information, "Device Minor"))


def _told(file: Path, wanted: str) -> str:
    """What the driver writes, in lines of names and values."""
    for line in file.read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == wanted:
            return value.strip()
    raise OSError(errno.ENODATA, f"the driver tells no {wanted}", str(file))


def as_seen(
    variables: Mapping[str, str],
    devices: Mapping[str, Collection[int | str]],
    parts: Iterable[GpuPart] = (),
) -> dict[str, str]:
    """Who can open no other GPUs than these, and those of its parts, finds them counted from 0."""
    whole = (gpu for gpu in devices.get(GPU, ()) if isinstance(gpu, int))
    held = sorted({*whole, *(part.gpu for part in parts)})
    places = {str(gpu): str(place) for place, gpu in enumerate(held)}
    shown = variables.get(VISIBLE, "").split(",")
    renamed = ",".join(places.get(gpu, gpu) for gpu in shown)
    return {**variables, VISIBLE: renamed} if VISIBLE in variables else dict(variables)


def can_refuse(place: Path) -> bool:
    """Whether the kernel lets us do so in cgroups that are made here."""
    probe = place / f"makeway-gpus-{os.getpid()}"
    try:
        probe.mkdir()
        try:
            return refuse(probe, [Rule(MAJOR, [0])])
        finally:
            probe.rmdir()
    except OSError:
        return False


def refuse(group: Path, rules: Sequence[Rule]) -> bool:
    """Have nobody in a cgroup open these from now on; False: it is none by which that goes."""
    if (group / "cgroup.controllers").exists():
        _attach(_loaded(program(rules)), group)
        return True
    if not (group / "devices.deny").exists():
        return False
    for rule in rules:
        for minor in _other_rights(rule.minors) if rule.others else rule.minors:
            (group / "devices.deny").write_text(f"c {rule.major}:{minor} rwm")
    return True


# --- a program for the kernel ---


def program(rules: Sequence[Rule]) -> bytes:
    """Answers 0 to who asks for a device that is refused, and 1 to all others."""
    checks: list[bytes] = []
    for rule in reversed(rules):
        checks = [*_check(rule, len(checks)), *checks]
    lines = [
        _line(_READ, _KIND, _ASKED, offset=0),
        _line(_AND, _KIND, value=0xFFFF),  # above it stands for what it is asked
        _line(_READ, _MAJOR, _ASKED, offset=4),
        _line(_READ, _MINOR, _ASKED, offset=8),
        _line(_UNLESS, _KIND, offset=len(checks), value=_CHARACTER),
        *checks,
        _line(_SET, _ANSWER, value=1),
        _line(_EXIT),
        _line(_SET, _ANSWER, value=0),
        _line(_EXIT),
    ]
    return b"".join(lines)


def _check(rule: Rule, behind: int) -> Iterator[bytes]:
    """Goes on with the next rule, or to an answer; `behind` it are so many lines before these."""
    number = len(rule.minors) + rule.others
    answer = 0 if rule.others else _TO_REFUSE
    yield _line(_UNLESS, _MAJOR, offset=number, value=rule.major)
    for place, minor in enumerate(rule.minors, 1):
        yield _line(_IF, _MINOR, offset=number - place + behind + answer, value=minor)
    if rule.others:
        yield _line(_GO, offset=behind + _TO_REFUSE)


def _line(code: int, to: int = 0, of: int = 0, offset: int = 0, value: int = 0) -> bytes:
    return struct.pack("=BBhi", code, of << 4 | to, offset, value)


def _loaded(lines: bytes) -> int:
    text, license = ctypes.create_string_buffer(lines), ctypes.create_string_buffer(b"MIT")
    places = ctypes.addressof(text), ctypes.addressof(license)
    return _ask(_LOAD, struct.pack("=IIQQ", _OF_DEVICES, len(lines) // 8, *places))


def _attach(loaded: int, group: Path) -> None:
    try:
        folder = os.open(group, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _ask(_ATTACH, struct.pack("=IIII", folder, loaded, _AT_DEVICES, _BESIDE_OTHERS))
        finally:
            os.close(folder)
    finally:
        os.close(loaded)  # the cgroup has it


def _ask(command: int, attributes: bytes) -> int:
    whole = ctypes.create_string_buffer(attributes, _ATTRIBUTES_BYTES)
    answer: int = _C.syscall(_SYSCALL.get(os.uname().machine, -1), command, whole, len(whole))
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer
