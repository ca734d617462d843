"""Memory and CPU that come with each GPU, for containers that ask for GPUs and say nothing of them."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from makeway.api.devices import is_gpu
from makeway.api.quantity import (
    QuantityError,
    amount,
    format_amount,
    format_quantity,
    parse_quantity,
)

Document = dict[str, Any]


def fill(spec: Document, per_gpu: Mapping[str, Fraction]) -> None:
    """`spec` is a pod's; what is malformed in it is refused later."""
    for place in ("containers", "initContainers"):
        containers = spec.get(place)
        for container in containers if isinstance(containers, list) else ():
            if isinstance(container, dict) and isinstance(container.get("resources"), dict):
                _fill(container["resources"], per_gpu)


def _fill(resources: Document, per_gpu: Mapping[str, Fraction]) -> None:
    limits, requests = (resources.get(part) or {} for part in ("limits", "requests"))
    if not isinstance(limits, dict) or not isinstance(requests, dict):
        return
    asked = {**requests, **limits}
    try:
        gpus = sum(parse_quantity(value) for name, value in asked.items() if is_gpu(name))
    except QuantityError:
        return
    added = {
        name: format_amount(name, amount(name, format_quantity(each * gpus)))
        for name, each in per_gpu.items()
        if gpus and name not in asked
    }
    if added:
        resources["limits"] = {**limits, **added}
