"""What NVML says of the GPUs, as JSON on standard output: a program of its own.

A broken GPU makes calls of the driver hang for ever, so nobody asks in a process that has anything
else to do: `python -m makeway.runner.nvml` is started with a time limit, and left behind.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

_NEAR = 10  # what an NVLink counts for, beside the distance on the bus: more than any of these
_PARTS_MAX = 16


def collect(nvml: Any) -> list[dict[str, Any]]:
    """All GPUs by index; what a GPU or its driver does not tell is None, or left out."""
    count = nvml.nvmlDeviceGetCount()
    handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
    return [
        {
            "index": index,
            **_device(nvml, handle),
            "temperature": _ask(
                nvml, nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU
            ),
            "use": _ask(nvml, lambda one: nvml.nvmlDeviceGetUtilizationRates(one).gpu, handle),
            "links": _links(nvml, index, handles),
            "parts": list(_parts(nvml, handle)),
        }
        for index, handle in enumerate(handles)
    ]


def _device(nvml: Any, handle: Any) -> dict[str, Any]:
    """What a GPU and a part of one have in common."""
    memory = _ask(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    processes = _ask(nvml, nvml.nvmlDeviceGetComputeRunningProcesses, handle) or ()
    return {
        "uuid": _text(_ask(nvml, nvml.nvmlDeviceGetUUID, handle)),
        "model": _text(_ask(nvml, nvml.nvmlDeviceGetName, handle)),
        "memory": None if memory is None else memory.total,
        "memoryUsed": None if memory is None else memory.used,
        "processes": [process.pid for process in processes],
    }


def _links(nvml: Any, own: int, handles: list[Any]) -> dict[str, int]:
    """How near the others are: by NVLink first, then by how few steps there are on the bus."""
    found = {}
    for index, other in enumerate(handles):
        if index == own:
            continue
        link = _ask(
            *(nvml, nvml.nvmlDeviceGetP2PStatus, handles[own], other),
            nvml.NVML_P2P_CAPS_INDEX_NVLINK,
        )
        level = _ask(nvml, nvml.nvmlDeviceGetTopologyCommonAncestor, handles[own], other)
        steps = 5 if level is None else min(5, level // 10)  # 0: one board, 50: across processors
        found[str(index)] = _NEAR * (link == nvml.NVML_P2P_STATUS_OK) + 5 - steps
    return found


def _parts(nvml: Any, handle: Any) -> Iterator[dict[str, Any]]:
    """MIG devices, which are handed out in place of their GPU; its model ends with the profile."""
    mode = _ask(nvml, nvml.nvmlDeviceGetMigMode, handle)
    if not mode or not mode[0]:
        return
    for index in range(_ask(nvml, nvml.nvmlDeviceGetMaxMigDeviceCount, handle) or _PARTS_MAX):
        part = _ask(nvml, nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, index)
        if part is not None:
            found = _device(nvml, part)
            yield found | {
                "profile": found["model"].rpartition("MIG ")[2],
                "gpu": _ask(nvml, nvml.nvmlDeviceGetMinorNumber, handle),
                "instance": _ask(nvml, nvml.nvmlDeviceGetGpuInstanceId, part),
                "compute": _ask(nvml, nvml.nvmlDeviceGetComputeInstanceId, part),
            }


def _ask(nvml: Any, question: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return question(*arguments)
    except nvml.NVMLError:
        return None


def _text(found: Any) -> str:
    return found.decode() if isinstance(found, bytes) else found or ""


def main() -> int:
    import pynvml  # type: ignore[import-untyped]

    try:
        pynvml.nvmlInit()
        print(json.dumps(collect(pynvml)))
    except pynvml.NVMLError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
