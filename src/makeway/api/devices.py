"""GPUs as resources, and how the indexes of those that somebody holds are written."""

from collections.abc import Iterable, Mapping

NVIDIA = "nvidia.com/"  # begins the names of its GPUs, and of parts of them
GPU = "nvidia.com/gpu"
GPUS = "makeway.dev/gpus"  # annotation of a pod: what it holds, "nvidia.com/gpu=0,3"
WAITING = "WaitingForGPUs"  # reason of a pod that is placed, and whose GPUs are not free yet
_OTHERS = frozenset(("gpu.intel.com/i915",))

DeviceId = int | str  # the index that its maker's tools show; of a part of a GPU, its uuid


def is_gpu(resource: str) -> bool:
    """Whether the resource is a GPU, or the part of one that a maker sells as such (MIG)."""
    return resource.endswith("/gpu") or "/mig-" in resource or resource in _OTHERS


def gpus_of(amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in amounts.items() if is_gpu(name)}


def gpu_count(amounts: Mapping[str, int]) -> int:
    return sum(gpus_of(amounts).values())


def format_devices(devices: Mapping[str, Iterable[DeviceId]]) -> str:
    """As the annotation has it: `nvidia.com/gpu=0,3;amd.com/gpu=1`."""
    parts = ((name, ",".join(map(str, ids))) for name, ids in sorted(devices.items()))
    return ";".join(f"{name}={ids}" for name, ids in parts if ids)


def parse_devices(text: str) -> dict[str, tuple[DeviceId, ...]]:
    """What such an annotation says; what is no such text says nothing."""
    pairs = (part.partition("=") for part in text.split(";"))
    return {name: tuple(map(_device, ids.split(","))) for name, _, ids in pairs if name and ids}


def _device(text: str) -> DeviceId:
    return int(text) if text.isdecimal() and text.isascii() else text


def format_indexes(devices: Iterable[DeviceId]) -> str:
    """`0-2,5` of 0, 1, 2 and 5; parts of GPUs by the beginning of their uuid."""
    indexes = sorted(device for device in devices if isinstance(device, int))
    runs: list[list[int]] = []
    for index in indexes:
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    texts = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    texts += [device[:8] for device in devices if isinstance(device, str)]
    return ",".join(texts)


# --- the GPUs of a node ---

DRAINED = "makeway.dev/drained-gpus"  # annotation of a node, written by people: "3,5"
# Annotations of a node, written by its runner: which GPUs are not handed out and why, one a line,
# and as JSON what the GPUs are.
UNAVAILABLE = "makeway.dev/unavailable-gpus"
GPU_LIST = "makeway.dev/gpu-list"


def parse_drained(text: str) -> frozenset[DeviceId]:
    return frozenset(_device(part.strip()) for part in text.split(",") if part.strip())


def format_drained(devices: Iterable[DeviceId]) -> str:
    return ",".join(sorted(map(str, devices), key=lambda text: (len(text), text)))


def format_unavailable(reasons: Mapping[DeviceId, str]) -> str:
    return "\n".join(f"{device}: {why}" for device, why in reasons.items())


def parse_unavailable(text: str) -> dict[DeviceId, str]:
    pairs = (line.partition(": ") for line in text.splitlines())
    return {_device(device): why for device, _, why in pairs if why}
