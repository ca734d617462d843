"""A pod opens the GPUs that it holds and no others, where the kernel lets root see to that.

The machine of a test has none: other devices stand for them.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from makeway.runner import gpu_guard
from makeway.runner.cgroups import Cgroups
from makeway.runner.gpu_guard import Rule, as_seen, refused
from makeway.runner.host import GpuPart
from tests.runner.harness import machine_in, order, shell

INFORMATION = """\
Model: \t\t NVIDIA H200
IRQ:   \t\t 64
GPU UUID: \t {uuid}
Video BIOS: \t 96.00.74.00.01
Bus Location: \t 0000:{number:02}:00.0
Device Minor: \t {number}
"""


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the driver would tell of its GPUs."""
    place = tmp_path / "driver"
    monkeypatch.setattr(gpu_guard, "DRIVER", place)
    return place


def tell(driver: Path, uuids: dict[int, str]) -> None:
    for number, uuid in uuids.items():
        place = driver / f"0000:{number:02}:00.0"
        place.mkdir(parents=True)
        (place / "information").write_text(INFORMATION.format(uuid=uuid, number=number))


def test_a_pod_is_refused_all_gpus_but_its_own(driver: Path) -> None:
    assert refused({}, ()) == []  # there are none
    tell(driver, {0: "GPU-a", 1: "GPU-b", 2: "GPU-c"})

    assert refused({}, ()) == [Rule(195, [0, 1, 2])]
    assert refused({"nvidia.com/gpu": (1,)}, ("GPU-b",)) == [Rule(195, [0, 2])]
    assert refused({"nvidia.com/gpu": (0, 1, 2)}, ("GPU-a", "GPU-b", "GPU-c")) == []
    # Whose these are can't be told: declared, a part of who knows what, one without a name.
    assert refused({"nvidia.com/gpu": (1,)}, ()) == []
    assert refused({"nvidia.com/mig-1g.5gb": ("MIG-x",)}, ("MIG-x",)) == []
    assert refused({"nvidia.com/gpu": (0, 1)}, ("GPU-a", "GPU-?")) == []


@pytest.fixture
def divide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Tells which devices stand for the right to a part and to its first compute instance."""

    def tell_rights(major: int, rights: dict[GpuPart, tuple[int, int]]) -> None:
        monkeypatch.setattr(gpu_guard, "RIGHTS", tmp_path / "capabilities")
        monkeypatch.setattr(gpu_guard, "NUMBERS", tmp_path / "devices")
        (tmp_path / "devices").write_text(f"Character devices:\n  1 mem\n{major} nvidia-caps\n")
        for part, minors in rights.items():
            place = tmp_path / "capabilities" / f"gpu{part.gpu}/mig/gi{part.instance}"
            for folder, minor in zip((place, place / f"ci{part.compute}"), minors, strict=True):
                folder.mkdir(parents=True)
                (folder / "access").write_text(f"DeviceFileMinor: {minor}\nDeviceFileMode: 292\n")

    return tell_rights


def test_who_holds_a_part_of_a_gpu_is_refused_the_other_parts_and_gpus(
    driver: Path, divide: Callable[..., None]
) -> None:
    tell(driver, {0: "GPU-a", 1: "GPU-b"})
    first, second = (GpuPart(gpu=0, instance=n, compute=0) for n in (1, 11))
    divide(241, {first: (12, 13), second: (102, 103)})
    held = {"nvidia.com/mig-3g.71gb": ("MIG-x",)}

    others = Rule(195, [1])
    assert refused(held, ("MIG-x",), [first]) == [others, Rule(241, [12, 13], others=True)]
    whole = {"nvidia.com/gpu": (1,)}
    assert refused(whole, ("GPU-b",)) == [Rule(195, [0]), Rule(241, [], others=True)]


def test_gpus_are_counted_as_who_opens_no_others_counts_them() -> None:
    shown = {"CUDA_VISIBLE_DEVICES": "5,2", "A": "5"}
    devices = {"nvidia.com/gpu": (2, 3, 5), "nvidia.com/mig-1g.5gb": ("MIG-x",)}

    assert as_seen(shown, devices) == {"CUDA_VISIBLE_DEVICES": "2,0", "A": "5"}
    assert as_seen({"CUDA_VISIBLE_DEVICES": ""}, {}) == {"CUDA_VISIBLE_DEVICES": ""}
    assert as_seen({"A": "5"}, devices) == {"A": "5"}
    part = GpuPart(gpu=0, instance=1, compute=0)  # it opens that GPU, too, which is counted then
    assert as_seen(shown, devices, [part])["CUDA_VISIBLE_DEVICES"] == "3,1"


TRY = "for one in null zero full fuse; do head -c 0 /dev/$one && echo $one; done"


@pytest.mark.parametrize("kind", ["cgroup2", "cgroup"])
def test_the_kernel_refuses_what_a_pod_does_not_hold(
    kind: str,
    driver: Path,
    divide: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Devices 1:5 and 1:7 stand for two GPUs, 10:229 for the right to a part of the second.

    Of a pod without any, one with the second, and one with that part of it.
    """
    monkeypatch.setattr(gpu_guard, "MAJOR", 1)
    own = f"GPU-full-{os.getpid()}"
    tell(driver, {5: "GPU-zero", 7: own})
    lines = Path("/proc/self/mounts").read_text().splitlines(keepends=True)
    mounts = "".join(line for line in lines if line.split()[2] == kind)
    cgroups = Cgroups.detect(mounts, guards_gpus=True)
    if cgroups.guard is None:
        pytest.skip(f"there is no {kind} here by which we can refuse devices")
    part = GpuPart(gpu=7, instance=1, compute=0)
    divide(10, {part: (229, 228)})
    gpu: dict[str, Any] = {"devices": {"nvidia.com/gpu": (7,)}, "locks": (own,)}
    mig = {"devices": {"nvidia.com/mig-1g": ("MIG-x",)}, "locks": (f"MIG-{own}",), "parts": (part,)}
    with machine_in(tmp_path, cgroups=cgroups) as machine:
        for name, held, seen in (
            ("none", {}, ["null"]),
            ("full", gpu, ["null", "full"]),
            ("part", mig, ["null", "full", "fuse"]),
        ):
            uid = f"{name}-{os.getpid()}"
            machine.run(order(shell(f"({TRY}) 2> /dev/null"), uid=uid, **held))
            assert machine.log(uid).split() == seen
