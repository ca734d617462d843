"""What pods use: counted between two looks, on processes of the test's."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from makeway.api.devices import GPU
from makeway.runner import usage
from makeway.runner.cgroups import Cgroups
from makeway.runner.gpu_reading import Nvml
from makeway.runner.usage import Meter
from tests.runner.harness import UID, machine_in, order, shell

BUSY_GPUS = [{"index": n, "use": use, "parts": [], "links": {}} for n, use in enumerate((50, 90))]
MORE: dict[str, object] = {"uuid": "GPU-1", "model": "A100", "memory": None, "processes": []}


def told() -> dict[int | str, float]:
    """What NVML answers: GPU 0 is busy for half of the time, GPU 1 for nine tenths."""
    answer = json.dumps([{**gpu, **MORE} for gpu in BUSY_GPUS])
    nvml = Nvml((sys.executable, "-c", f"print({answer!r})"))
    nvml.ask()
    return dict(nvml.uses)


def test_a_pod_has_used_what_its_processes_have_also_those_that_are_gone(tmp_path: Path) -> None:
    # Nothing that it starts lives for long, so all its time is that of processes that ended.
    script = "echo here; while :; do head -c 3000000 /dev/zero | tail -c 1 > x; done"
    with machine_in(tmp_path) as machine:
        machine.host.start(order(shell(script), devices={GPU: (0, 1)}))
        machine.printed("here")
        machine.state()

        async def story() -> None:
            meter = Meter(lambda: 1000.0, machine.host, "box", told)
            (use,) = (await meter.pods())[UID].values()
            whole = await meter.node("box")

            assert 0.0 < use.cpus <= whole.cpus + 0.1
            assert 1.0 <= use.window_s < 60.0
            assert use.at == 1000.0
            assert 0 < use.memory_bytes < 20_000_000
            assert use.gpus == 1.4
            assert await meter.node("elsewhere") == replace(whole, cpus=0, memory_bytes=0)

        asyncio.run(story())


def test_a_process_counts_for_the_container_whose_cgroup_it_is_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Around that are others, with names of anything but the end of a line."""
    inside = "/a\rb\x85\udcff"
    (tmp_path / inside[1:]).mkdir()
    (second,) = Cgroups(own=tmp_path / inside[1:], pids_max=None).make("u1", "second", None, None)
    Path(second, "memory.current").touch()
    line = f"0::{inside}/pod-u1/container-second\n"
    monkeypatch.setattr(usage, "CGROUPS", str(tmp_path))
    monkeypatch.setattr(usage, "read_or_none", lambda _: os.fsencode(line))

    assert usage._place_of(7, "u1", ["first", "second"]) == ("second", second)
