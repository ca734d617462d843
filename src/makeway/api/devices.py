"""GPUs as resources, and how the indexes of those that somebody holds are written."""

from collections.abc import Iterable, Mapping

GPU = "nvidia.com/gpu"
GPUS = "makeway.dev/gpus"  # annotation of a pod: what it holds, "nvidia.com/gpu=0,3"
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
