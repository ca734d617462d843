"""What is told of a pod to those who may not know its name: the account, and its job's number."""

from __future__ import annotations

from makeway.api.kinds import PODS
from makeway.api.labels import WORKLOAD
from makeway.plane.picture import Picture
from makeway.plane.writes import Key


def told_name(picture: Picture, pod: str) -> str:
    """By its Workload, whose name has the number (`name_of`), or by its namespace alone."""
    key = Key.parse(pod)
    annotations = (picture.get(PODS, key) or {}).get("metadata", {}).get("annotations") or {}
    return f"{key.namespace}/{annotations.get(WORKLOAD, '...')}"
