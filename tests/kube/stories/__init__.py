"""The stories, by name. Importing a module of this folder adds its stories."""

from tests.kube.stories import (
    cron,
    deleting,
    discovering,
    jobs,
    key_values,
    kubectl,
    objects,
    patching,
    pods,
    queues,
    reading,
    services,
    watching,
)
from tests.kube.stories.registry import STORIES

__all__ = [
    "STORIES",
    "cron",
    "deleting",
    "discovering",
    "jobs",
    "key_values",
    "kubectl",
    "objects",
    "patching",
    "pods",
    "queues",
    "reading",
    "services",
    "watching",
]
