"""A pod opens the GPUs that it holds and no others, where the kernel lets root see to that.

The machine of a test has none: other devices stand for them.
"""

import os
from pathlib import Path

import pytest

from makeway.runner import gpu_guard
from makeway.runner.cgroups import Cgroups
from makeway.runner.gpu_guard import as_seen, refused
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

    assert refused({}, ()) == [0, 1, 2]
    assert refused({"nvidia.com/gpu": (1,)}, ("GPU-b",)) == [0, 2]
    assert refused({"nvidia.com/gpu": (0, 1, 2)}, ("GPU-a", "GPU-b", "GPU-c")) == []
    # Whose these are can't be told: declared, a part of a GPU, one that the driver doesn't name.
    assert refused({"nvidia.com/gpu": (1,)}, ()) == []
    assert refused({"nvidia.com/mig-1g.5gb": ("MIG-x",)}, ("MIG-x",)) == []
    assert refused({"nvidia.com/gpu": (0, 1)}, ("GPU-a", "GPU-?")) == []


def test_gpus_are_counted_as_who_opens_no_others_counts_them() -> None:
    shown = {"CUDA_VISIBLE_DEVICES": "5,2", "A": "5"}
    devices = {"nvidia.com/gpu": (2, 3, 5), "nvidia.com/mig-1g.5gb": ("MIG-x",)}

    assert as_seen(shown, devices) == {"CUDA_VISIBLE_DEVICES": "2,0", "A": "5"}
    assert as_seen({"CUDA_VISIBLE_DEVICES": ""}, {}) == {"CUDA_VISIBLE_DEVICES": ""}
    assert as_seen({"A": "5"}, devices) == {"A": "5"}


TRY = "for one in null zero full; do head -c 0 /dev/$one && echo $one; done"


@pytest.mark.parametrize("kind", ["cgroup2", "cgroup"])
def test_the_kernel_refuses_what_a_pod_does_not_hold(
    kind: str, driver: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Devices 1:5 and 1:7 stand for two GPUs; of a pod without any, one with the second."""
    monkeypatch.setattr(gpu_guard, "MAJOR", 1)
    own = f"GPU-full-{os.getpid()}"
    tell(driver, {5: "GPU-zero", 7: own})
    lines = Path("/proc/self/mounts").read_text().splitlines(keepends=True)
    mounts = "".join(line for line in lines if line.split()[2] == kind)
    cgroups = Cgroups.detect(mounts, guards_gpus=True)
    if cgroups.guard is None:
        pytest.skip(f"there is no {kind} here by which we can refuse devices")
    with machine_in(tmp_path, cgroups=cgroups) as machine:
        for name, uuids in {"none": (), "full": (own,)}.items():
            held = {"nvidia.com/gpu": (7,)} if uuids else {}
            uid = f"{name}-{os.getpid()}"
            machine.run(order(shell(f"({TRY}) 2> /dev/null"), uid=uid, devices=held, locks=uuids))
            assert machine.log(uid).split() == ["null", "full"][: len(uuids) + 1]
