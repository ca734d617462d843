"""An order is taken as the server gives it, or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest

from makeway.runner.host import GpuPart, Mount, ProbeSettings, Program, RunOrder
from makeway.starter.orders import BadOrder, checked

ORDER = RunOrder(
    uid="0b7c",
    namespace="ann",
    init=(Program(name="first", argv=("true",)),),
    containers=(
        Program(
            name="main",
            argv=("sh", "-c", "sleep 1"),
            env={"A": "ü"},
            folder="/home/ann",
            mounts=(Mount(volume="data", path="/data"),),
            probes={"readiness": ProbeSettings(kind="tcp", port=80, timeout_s=1)},
            memory_bytes=2**30,
        ),
    ),
    volumes={"data": "", "host": "/srv"},
    devices={"nvidia.com/gpu": (0, 3), "nvidia.com/mig-1g.18gb": ("MIG-c56465ed",)},
    parts=(GpuPart(gpu=1, instance=11, compute=0),),
    deadline_s=5.0,
)


def sent(order: RunOrder = ORDER) -> Any:
    return json.loads(json.dumps(asdict(order)))


def test_an_order_arrives_as_it_was_sent() -> None:
    assert checked(sent()) == ORDER


def main(change: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], object]:
    return lambda order: change(order["containers"][0])


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda o: o.update(uid="../../etc"), id="uid leads elsewhere"),
        pytest.param(lambda o: o.update(uid=""), id="no uid"),
        pytest.param(lambda o: o.update(uid="a/b"), id="uid with a slash"),
        pytest.param(lambda o: o.update(uid="a\n"), id="uid with a newline"),
        pytest.param(lambda o: o.update(namespace="."), id="namespace"),
        pytest.param(lambda o: o.update(volumes={"..": ""}), id="volume leads elsewhere"),
        pytest.param(lambda o: o.update(owner={"uid": 0}), id="a field that no order has"),
        pytest.param(lambda o: o.pop("grace_s"), id="a field is missing"),
        pytest.param(lambda o: o.update(containers=[]) or o.update(init=[]), id="nothing to run"),
        pytest.param(lambda o: o["init"].append(o["init"][0]), id="one name twice"),
        pytest.param(lambda o: o.update(deadline_s="5"), id="a number as a text"),
        pytest.param(lambda o: o.update(grace_s=float("nan")), id="no number"),
        pytest.param(lambda o: o.update(grace_s=10**400), id="more seconds than a float holds"),
        pytest.param(lambda o: o.update(restart_policy="Sometimes"), id="no such policy"),
        pytest.param(lambda o: o.update(devices={"gpu": [True]}), id="no index"),
        pytest.param(lambda o: o.update(devices={"gpu": [None]}), id="no index at all"),
        pytest.param(lambda o: o["parts"][0].update(instance="../1"), id="part leads elsewhere"),
        pytest.param(main(lambda c: c.update(name="main.log")), id="name of a file"),
        pytest.param(main(lambda c: c.update(argv=[])), id="no command"),
        pytest.param(main(lambda c: c.update(argv=["a\0b"])), id="NUL in the command"),
        pytest.param(main(lambda c: c.update(env={"A=B": "1"})), id="a variable's name"),
        pytest.param(main(lambda c: c.update(folder="home")), id="a folder of where?"),
        pytest.param(main(lambda c: c.update(is_sidecar=1)), id="neither true nor false"),
        pytest.param(main(lambda c: c.update(memory_bytes=True)), id="no amount"),
        pytest.param(main(lambda c: c.update(mounts=["data"])), id="no mount"),
        pytest.param(main(lambda c: c["mounts"][0].update(volume="x")), id="no such volume"),
    ],
)
def test_anything_else_is_refused(change: Callable[[Any], object]) -> None:
    order = sent()
    change(order)

    with pytest.raises(BadOrder):
        checked(order)


@pytest.mark.parametrize("document", [None, [], "pod", 7])
def test_what_is_no_object_is_refused(document: object) -> None:
    with pytest.raises(BadOrder):
        checked(document)
