"""Keeps a pod from GPUs that it was not given: the kernel refuses to open them.

NVIDIA's only: each is a device of its own, `/dev/nvidia0` and so on, and the driver tells which has
which number. A program that is attached to the pod's cgroup of version 2 refuses them; where there
is no such tree, the devices controller of version 1 does. Root alone can do either.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Collection, Mapping
from pathlib import Path

MAJOR = 195  # of all of NVIDIA's GPUs
NVIDIA, GPU = "nvidia.com/", "nvidia.com/gpu"
DRIVER = Path("/proc/driver/nvidia/gpus")
VISIBLE = "CUDA_VISIBLE_DEVICES"

_C = ctypes.CDLL(None, use_errno=True)
_SYSCALL = {"x86_64": 321, "aarch64": 280}  # bpf(2)
_LOAD, _ATTACH = 5, 8
_OF_DEVICES, _AT_DEVICES, _BESIDE_OTHERS = 15, 6, 2
_ATTRIBUTES_BYTES = 128
# Instructions, the registers that they work on, and what the kernel says of the device.
_READ, _AND, _UNLESS, _IF, _SET, _EXIT = 0x61, 0x54, 0x55, 0x15, 0xB7, 0x95
_ANSWER, _ASKED, _KIND, _MAJOR, _MINOR = range(5)
_CHARACTER = 2


def refused(devices: Mapping[str, Collection[object]], uuids: Collection[str]) -> list[int]:
    """The numbers of the GPUs that a pod may not open, which holds these.

    None where it can't be told which are its own: of GPUs that are only declared nothing is known,
    and a part of a GPU has no number of its own.
    """
    gpus = list(map(_gpu, DRIVER.glob("*/information")))
    own = {number for uuid, number in gpus if uuid in uuids}
    has_some = any(name.startswith(NVIDIA) and held for name, held in devices.items())
    if has_some and (not uuids or len(own) < len(uuids)):
        return []
    return sorted({number for _, number in gpus} - own)


def _gpu(information: Path) -> tuple[str, int]:
    """Its uuid and its number."""
    pairs = (line.partition(":") for line in information.read_text().splitlines())
    told = {name.strip(): value.strip() for name, _, value in pairs}
    return told["GPU UUID"], int(told["Device Minor"])


def as_seen(
    variables: Mapping[str, str], devices: Mapping[str, Collection[int | str]]
) -> dict[str, str]:
    """Who can open no other GPUs than these finds them counted from 0 on."""
    held = sorted(gpu for gpu in devices.get(GPU, ()) if isinstance(gpu, int))
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
            return refuse(probe, [0])
        finally:
            probe.rmdir()
    except OSError:
        return False


def refuse(group: Path, numbers: Collection[int]) -> bool:
    """Have nobody in a cgroup open these GPUs from now on; False: it is none by which that goes."""
    if (group / "cgroup.controllers").exists():
        _attach(_loaded(program(numbers)), group)
        return True
    if not (group / "devices.deny").exists():
        return False
    for number in numbers:
        (group / "devices.deny").write_text(f"c {MAJOR}:{number} rwm")
    return True


# --- a program for the kernel ---


def program(numbers: Collection[int]) -> bytes:
    """Answers 0 to who asks for one of these GPUs, of which there are some, and 1 to all others."""
    lines = [
        _line(_READ, _KIND, _ASKED, offset=0),
        _line(_AND, _KIND, value=0xFFFF),  # above it stands for what it is asked
        _line(_READ, _MAJOR, _ASKED, offset=4),
        _line(_READ, _MINOR, _ASKED, offset=8),
        _line(_UNLESS, _KIND, offset=len(numbers) + 1, value=_CHARACTER),
        _line(_UNLESS, _MAJOR, offset=len(numbers), value=MAJOR),
        *(
            _line(_IF, _MINOR, offset=len(numbers) - place + 1, value=number)
            for place, number in enumerate(numbers)
        ),
        _line(_SET, _ANSWER, value=1),
        _line(_EXIT),
        _line(_SET, _ANSWER, value=0),
        _line(_EXIT),
    ]
    return b"".join(lines)


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
