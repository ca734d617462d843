"""The engine's values as data for JSON: the same of a live workload and of a simulated one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from makeway.api.codec import json_name
from makeway.engine.explain import Help, Obstacle
from makeway.translate.words import Line, obstacle_line

NUMBER_MAX = 2**63 - 1  # that JSON is written with here; what is more is written as text


def as_data(value: Any) -> Any:
    """Names as JSON has them; where a field may hold several sorts of values, `type` says which."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        sort = {"type": type(value).__name__} if isinstance(value, Obstacle | Help) else {}
        return sort | {json_name(name): as_data(getattr(value, name)) for name in value._fields}
    if is_dataclass(value):
        return {json_name(f.name): as_data(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): as_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple | frozenset):
        return [as_data(item) for item in value]
    if isinstance(value, int) and abs(value) > NUMBER_MAX:
        return str(value)
    return value


def obstacle_data(obstacle: Obstacle, now: float | None = None) -> dict[str, Any]:
    return {**as_data(obstacle), "text": str(obstacle_line(obstacle, now))}


def pieces_data(line: Line) -> list[Any]:
    """Text as it is, and the objects that it speaks of as `{kind, key}`."""
    return [piece if isinstance(piece, str) else piece._asdict() for piece in line]
