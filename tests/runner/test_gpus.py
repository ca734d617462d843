"""GPUs are handed out by index, never twice at once, and those near to each other together."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from makeway.api.batch import Node, NodeStatus
from makeway.api.devices import (
    DRAINED,
    UNAVAILABLE,
    DeviceId,
    format_devices,
    format_indexes,
    parse_devices,
    parse_unavailable,
)
from makeway.api.kinds import NODES
from makeway.api.labels import GPU_UUIDS
from makeway.api.meta import ObjectMeta
from makeway.plane.picture import Picture
from makeway.plane.writes import Key
from makeway.runner import gpu_locks
from makeway.runner.gpu_reading import Device, GpuProcess, Nvml, capacity_of, devices_in
from makeway.runner.gpus import Pool, held_on, take, visible
from makeway.runner.host import GpuPart, PodState
from makeway.runner.node_gpus import (
    BY_ANOTHER,
    LETTING_GO,
    GpuOffers,
    NodeGpus,
    look_again_at,
    unavailable_text,
)
from makeway.runner.nvml import collect
from makeway.runner.processes import started_ticks
from tests.harness.process import wait_until

GPU = "nvidia.com/gpu"
RECORDED = Path(__file__).parent / "nvml"


def holder(uid: str, *indexes: DeviceId, node: str = "n1", is_over: bool = False) -> PodState:
    return PodState(uid=uid, node=node, devices={GPU: indexes}, is_over=is_over)


def given(count: int, pool: Pool, *pods: PodState) -> tuple[DeviceId, ...] | None:
    taken = take({GPU: count}, {GPU: pool}, held_on("n1", pods))
    return None if taken is None else taken[GPU]


def test_the_lowest_free_indexes_are_given() -> None:
    assert given(2, Pool(range(4)), holder("a", 1)) == (0, 2)


def test_what_is_held_is_not_given() -> None:
    assert given(1, Pool(range(2)), holder("a", 0), holder("b", 1)) is None


def test_what_a_pod_held_that_is_over_is_free() -> None:
    assert given(1, Pool(range(1)), holder("a", 0, is_over=True)) == (0,)


def test_each_node_counts_its_own() -> None:
    assert given(1, Pool(range(1)), holder("a", 0, node="n2")) == (0,)


def test_who_asks_for_none_gets_none() -> None:
    assert take({}, {GPU: Pool(range(1))}, {GPU: {0}}) == {}


def test_what_is_drained_or_used_by_others_is_not_given() -> None:
    pool = Pool(range(3), {0: "drained", 1: "used by ann (python, pid 12)"})

    assert given(1, pool) == (2,)
    assert given(2, pool) is None
    expected = "GPU 0 is drained, GPU 1 is used by ann (python, pid 12)"
    assert unavailable_text({GPU: pool}) == expected


# --- neighbours ---

PAIRS = {one: {two: 14 if one // 2 == two // 2 else 1 for two in range(4)} for one in range(4)}


def test_neighbours_are_given_together() -> None:
    assert given(2, Pool(range(4), {}, PAIRS), holder("a", 0)) == (2, 3)


def test_one_alone_is_taken_where_no_pair_is_torn() -> None:
    """Two pairs; of the first one is taken: who asks for one leaves the second whole."""
    pool = Pool(range(4), {}, PAIRS)

    assert given(1, pool, holder("a", 3)) == (2,)
    assert given(3, pool) == (0, 1, 2)


# --- NVML ---


def recorded(name: str) -> tuple[Device, ...]:
    return devices_in(json.loads((RECORDED / f"{name}.json").read_text()))


def test_all_of_a_machine_with_a_switch_are_near_to_each_other() -> None:
    devices = recorded("a100x8")

    assert capacity_of(devices) == {GPU: "8"}
    assert [device.id for device in devices] == [*range(8)]
    assert (devices[3].model, devices[3].memory_bytes) == ("NVIDIA A100-SXM4-80GB", 80 * 2**30)
    assert set(devices[0].links.values()) == {10, 13}


def test_pairs_by_bridge_are_found() -> None:
    pool = Pool(range(4), {}, {d.id: d.links for d in recorded("a6000x4") if isinstance(d.id, int)})

    assert given(2, pool, holder("a", 1)) == (2, 3)


def test_parts_of_a_gpu_are_handed_out_by_uuid_in_its_place() -> None:
    devices = recorded("a100-mig")

    assert capacity_of(devices) == {
        "nvidia.com/mig-3g.40gb": "1",
        "nvidia.com/mig-2g.20gb": "2",
        GPU: "1",
    }
    small = [d.id for d in devices if d.resource == "nvidia.com/mig-2g.20gb"]
    assert all(str(part).startswith("MIG-") for part in small)
    taken = take({"nvidia.com/mig-2g.20gb": 1}, {"nvidia.com/mig-2g.20gb": Pool(small)}, {})
    assert taken == {"nvidia.com/mig-2g.20gb": (small[0],)}
    of_node = {GPU: 1, "nvidia.com/mig-2g.20gb": 2}
    assert visible(of_node, taken)["CUDA_VISIBLE_DEVICES"] == small[0]
    assert visible(of_node, {GPU: (1,)})["CUDA_VISIBLE_DEVICES"] == "1"


def test_a_part_that_another_makeway_holds_is_barred_and_whose_it_is_the_driver_knows() -> None:
    devices = [d._replace(uuid=f"{d.uuid}-{os.getpid()}") for d in recorded("a100-mig")]
    gpus = NodeGpus(Pods(), "n1", lambda: devices)  # type: ignore[arg-type]
    locks = gpu_locks.take([devices[1].uuid])

    assert gpus.barred("n1") == {devices[1].id: BY_ANOTHER}
    gpu_locks.release(locks)
    assert gpus.parts_of("n1", [devices[1].id, 1]) == (GpuPart(gpu=0, instance=3, compute=0),)


def test_when_parts_are_taken_away_nobody_gets_a_whole_gpu_instead() -> None:
    part = "nvidia.com/mig-2g.20gb"
    gpus = NodeGpus(Pods(), "n1", lambda: recorded("a100x8"))  # type: ignore[arg-type]
    gpus.hear(Node(metadata=ObjectMeta(name="n1"), status=NodeStatus(capacity={part: 2, GPU: 8})))

    assert gpus.free_of("n1") == {part: 0, GPU: 8}


class FakeNvml:
    """NVML as far as it is asked: two GPUs with a link, of which one tells no temperature."""

    NVML_TEMPERATURE_GPU, NVML_P2P_CAPS_INDEX_NVLINK, NVML_P2P_STATUS_OK = 0, 2, 0

    class NVMLError(Exception):
        pass

    class _Answer:
        def __init__(self, **fields: int) -> None:
            self.__dict__.update(fields)

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> bytes:
        return f"GPU-{handle}".encode()  # bytes in older versions

    def nvmlDeviceGetName(self, handle: int) -> str:
        return "NVIDIA H200"

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:
        return self._Answer(total=141 * 2**30, used=2**30)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> Any:
        return [self._Answer(pid=77)] if handle else []

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> int:
        if handle:
            raise self.NVMLError("Not Supported")
        return 41

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:
        return self._Answer(gpu=99)

    def nvmlDeviceGetP2PStatus(self, one: int, other: int, what: int) -> int:
        return self.NVML_P2P_STATUS_OK

    def nvmlDeviceGetTopologyCommonAncestor(self, one: int, other: int) -> int:
        return 40  # one processor

    def nvmlDeviceGetMigMode(self, handle: int) -> Any:
        raise self.NVMLError("Not Supported")


def test_what_a_gpu_does_not_tell_is_left_open() -> None:
    first, second = collect(FakeNvml())

    assert (first["uuid"], first["temperature"], first["use"]) == ("GPU-0", 41, 99)
    assert (second["temperature"], second["processes"], second["parts"]) == (None, [77], [])
    assert first["links"] == {"1": 11}
    assert [device.id for device in devices_in([first, second])] == [0, 1]


def test_a_driver_that_hangs_is_not_waited_for() -> None:
    nvml = Nvml([sys.executable, "-c", "import time; time.sleep(60)"], limit_s=0.2)

    assert nvml.ask() is None


@pytest.mark.parametrize("program", ["print('nonsense')", "raise SystemExit(1)"])
def test_an_answer_that_is_none_is_none(program: str) -> None:
    assert Nvml([sys.executable, "-c", program]).ask() is None


# --- nodes ---


class Pods:
    def __init__(self, *pods: PodState) -> None:
        self._pods = {pod.uid: pod for pod in pods}

    def states(self) -> Mapping[str, PodState]:
        return self._pods

    def end(self, uid: str) -> None:
        del self._pods[uid]


def node_of(count: int, drained: str = "") -> Node:
    return Node(
        metadata=ObjectMeta(name="n1", annotations={DRAINED: drained}),
        status=NodeStatus(capacity={"cpu": 8000, GPU: count}),
    )


def test_a_node_offers_what_may_be_handed_out_and_what_pods_still_hold() -> None:
    gpus = NodeGpus(Pods(holder("a", 3)))  # type: ignore[arg-type]
    gpus.hear(node_of(8, drained="3,5"))

    assert gpus.free_of("n1") == {GPU: 7}  # all but 5; whoever holds 3 is counted by its pod
    assert gpus.barred("n1") == {3: "drained", 5: "drained"}


def test_a_gpu_that_somebody_uses_outside_is_barred_and_the_reason_says_whose() -> None:
    used = [
        Device(
            index, GPU, f"GPU-{index}", "H200", None, (GpuProcess(os.getpid(), None),) * (index > 0)
        )
        for index in range(3)
    ]
    gpus = NodeGpus(Pods(holder("a", 2)), "n1", lambda: used)  # type: ignore[arg-type]
    gpus.hear(node_of(3))

    (reason,) = gpus.barred("n1").values()  # GPU 2 is used by the pod that holds it
    own = pwd.getpwuid(os.getuid()).pw_name
    assert reason.startswith(f"used by {own} (")
    assert reason.endswith(f", pid {os.getpid()})")
    assert gpus.free_of("n1") == {GPU: 2}
    assert gpus.barred("elsewhere") == {}


def test_whoever_used_a_gpu_when_it_was_last_looked_at_and_is_gone_since_bars_nobody() -> None:
    """GPUs are looked at every ten seconds, and the next job starts at once."""
    with subprocess.Popen(["sleep", "60"]) as last_job:
        told = {"index": 0, "uuid": "GPU-0", "model": "H200", "memory": None}
        devices = devices_in([{**told, "parts": [], "links": {}, "processes": [last_job.pid]}])
        gpus = NodeGpus(Pods(), "n1", lambda: devices)  # type: ignore[arg-type]
        gpus.hear(node_of(1))
        assert gpus.free_of("n1") == {GPU: 0}

        last_job.kill()

    assert gpus.barred("n1") == {}
    assert gpus.free_of("n1") == {GPU: 1}


def test_a_process_whose_first_thread_has_ended_uses_its_gpu_on() -> None:
    thread = "threading.Thread(target=time.sleep, args=(60,)).start()"
    program = f"import ctypes, threading, time; {thread}; ctypes.CDLL(None).pthread_exit(None)"
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        seen = GpuProcess(process.pid, started_ticks(process.pid))
        wait_until(lambda: started_ticks(process.pid) is None)  # a zombie, by its first thread

        assert not seen.is_gone()
        process.kill()
    assert seen.is_gone()


def test_what_another_makeway_holds_is_barred_as_long_as_its_lock_is_there() -> None:
    uuids = [f"GPU-test-{os.getpid()}-{index}" for index in range(3)]
    gpus = NodeGpus(Pods(holder("a", 2)))  # type: ignore[arg-type]
    node = node_of(3)
    labelled = {GPU_UUIDS: ",".join(uuids)}
    gpus.hear(replace(node, metadata=replace(node.metadata, annotations=labelled)))
    locks = gpu_locks.take(uuids[1:])

    assert gpus.barred("n1") == {1: BY_ANOTHER}  # 2 is ours
    assert gpus.free_of("n1") == {GPU: 2}
    gpu_locks.release(locks)
    assert gpus.barred("n1") == {}


def test_whose_job_has_just_ended_is_offered_and_handed_out_when_it_has_let_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its supervisor holds the lock for a moment longer; after ten seconds it is somebody else."""
    uuid, node = f"GPU-ends-{os.getpid()}", node_of(1)
    pods = Pods(holder("a", 0))
    gpus = NodeGpus(pods)  # type: ignore[arg-type]
    gpus.hear(replace(node, metadata=replace(node.metadata, annotations={GPU_UUIDS: uuid})))
    locks = gpu_locks.take([uuid])
    assert gpus.barred("n1") == {}

    pods.end("a")
    assert gpus.barred("n1") == {0: LETTING_GO}
    assert gpus.free_of("n1") == {GPU: 1}
    assert look_again_at(100.0, [LETTING_GO]) == 100.1
    drained = {GPU_UUIDS: uuid, DRAINED: "0"}
    gpus.hear(replace(node, metadata=replace(node.metadata, annotations=drained)))
    assert gpus.barred("n1") == {0: "drained"}
    assert gpus.free_of("n1") == {GPU: 0}
    gpus.hear(replace(node, metadata=replace(node.metadata, annotations={GPU_UUIDS: uuid})))
    later = time.monotonic() + 10
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert gpus.barred("n1") == {0: BY_ANOTHER}
    assert gpus.free_of("n1") == {GPU: 0}
    gpu_locks.release(locks)


def test_what_a_node_offers_follows_what_it_may_hand_out() -> None:
    """Two GPUs, one drained and one with another Makeway: nothing; later, both."""
    uuids = [f"GPU-offer-{os.getpid()}-{index}" for index in range(2)]
    picture = Picture()
    offers = GpuOffers(picture, NodeGpus(Pods()))  # type: ignore[arg-type]

    def patch_for(revision: int, drained: str) -> tuple[Any, float | None]:
        metadata = {"name": "n1", "uid": "n1", "resourceVersion": str(revision)}
        annotations = {GPU_UUIDS: ",".join(uuids), DRAINED: drained}
        status = {"capacity": {GPU: "2"}, "allocatable": {GPU: "2"}}
        picture.take(NODES, {"metadata": metadata | {"annotations": annotations}, "status": status})
        plan = offers.reconcile(Key("", "n1"), now=100.0)
        return [getattr(write, "patch", None) for write in plan.writes], plan.next_at

    locks = gpu_locks.take(uuids[1:])
    (patch,), again_at = patch_for(1, drained="0")
    assert patch["status"] == {"allocatable": {GPU: "0"}}
    told = {UNAVAILABLE: f"0: drained\n1: {BY_ANOTHER}"}
    assert patch["metadata"]["annotations"] == told
    assert again_at == 105.0  # nobody tells when the other has ended

    gpu_locks.release(locks)
    assert patch_for(2, drained="") == ([], None)


def test_devices_are_written_as_they_are_read() -> None:
    devices: dict[str, tuple[DeviceId, ...]] = {GPU: (0, 3), "nvidia.com/mig-1g.5gb": ("MIG-a1",)}

    assert format_devices(devices) == "nvidia.com/gpu=0,3;nvidia.com/mig-1g.5gb=MIG-a1"
    assert parse_devices(format_devices(devices)) == devices
    assert parse_devices("nonsense") == {}
    assert parse_unavailable("3: drained\nMIG-a: used by x") == {3: "drained", "MIG-a": "used by x"}


@pytest.mark.parametrize(
    ("devices", "text"),
    [
        ([], ""),
        ([3], "3"),
        ([0, 1, 2, 5], "0-2,5"),
        ([2, 0], "0,2"),
        (["MIG-12345678"], "MIG-1234"),
    ],
)
def test_indexes_for_people(devices: list[DeviceId], text: str) -> None:
    assert format_indexes(devices) == text
