"""Memory and CPU that come with each GPU, for containers that don't limit themselves."""

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
    """Who has a limit, or asks for more, has thought of it; `submit` asks for a CPU by itself."""
    limits, requests = (resources.get(part) or {} for part in ("limits", "requests"))
    if not isinstance(limits, dict) or not isinstance(requests, dict):
        return
    try:
        asked = {name: parse_quantity(value) for name, value in {**requests, **limits}.items()}
    except QuantityError:
        return
    gpus = sum(count for name, count in asked.items() if is_gpu(name))
    added = {
        name: format_amount(name, amount(name, format_quantity(each * gpus)))
        for name, each in per_gpu.items()
        if name not in limits and asked.get(name, Fraction(0)) < each * gpus
    }
    if added:
        resources["limits"] = {**limits, **added}
        resources["requests"] = {**requests, **added}
