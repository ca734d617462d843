"""Which job a user means: `12`, `train`, `vision/train`, `job/train`, a Workload's name, `@`.

Or what stands in a queue without a Job: `pod/train`, the name of a pod or of a group of pods.
"""

from __future__ import annotations

import getpass
from collections.abc import Iterable
from typing import NamedTuple

from makeway.api.labels import IS_GROUP, JOB_UID, MANAGED, QUEUE_NAME
from makeway.api.meta import controller_of
from makeway.cli.command import Refusal
from makeway.cli.connect import is_name
from makeway.cli.reading import (
    Document,
    annotation,
    items_at,
    label,
    name_of,
    namespace_of,
    text_at,
    uid_of,
)
from makeway.cli.standing import (
    ID,
    SUBMITTED_BY,
    group_of,
    id_of,
    is_group,
    is_of,
    job_text,
    workloads_by_job,
)
from makeway.client import Client, NotFound
from makeway.client.resources import JOBS, PODS, WORKLOADS

HELP = (
    "a number, a name, NAMESPACE/NAME, job/NAME, pod/NAME, the name of a Workload or of a group of "
    "pods, or @ for your latest"
)
LATEST = ("@", "last")
DIGITS_MAX = 18  # more is no number of a job
_JOB_WORDS = frozenset(("job", "jobs", "job.batch", "jobs.batch"))
_POD_WORDS = frozenset(("pod", "pods", "po"))
_WORKLOAD_WORDS = frozenset(("workload", "workloads", "wl", "kwl", "workload.kueue.x-k8s.io"))


class Target(NamedTuple):
    """A Job, its Workload, or both; or pods without a Job. Never nothing of it."""

    job: Document | None
    workload: Document | None
    pods: tuple[Document, ...] = ()  # without a Job, the first come first
    part: str = ""  # the pod that was named, where its whole group is meant

    @property
    def group(self) -> str:
        """The name of a group of pods; empty: it is none."""
        if not is_group(self.pods, self.workload):
            return ""
        return group_of(self.pods[0]) if self.pods else name_of(self.workload or {})

    @property
    def text(self) -> str:
        if self.job is not None:
            return job_text(self.job)
        if self.group:
            return f"group {self.group}"
        if self.pods:
            return f"pod {name_of(self.pods[0])}"
        return f"workload {name_of(self.workload or {})}"

    @property
    def namespace(self) -> str:
        return namespace_of(self.job or self.workload or self.pods[0])


def user_name() -> str:
    """Who sits here; empty where nobody can say."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


async def find_job(client: Client, namespace: str, word: str) -> Document:
    """The Job that is meant; Refusal if there is none."""
    target = await _find(client, namespace, word)
    if target.job is None:
        raise Refusal(f"{target.text} belongs to no Job")
    return target.job


async def find_target(client: Client, namespace: str, word: str) -> Target:
    """The Job and the Workload, as far as there are both."""
    target = await _find(client, namespace, word)
    if target.workload is None and target.job is not None:
        return Target(target.job, await workload_of(client, target.job))
    return target


async def workload_of(client: Client, job: Document) -> Document | None:
    namespace = namespace_of(job)
    labelled = await client.list(WORKLOADS, namespace, label_selector=f"{JOB_UID}={uid_of(job)}")
    found = labelled.items or (await client.list(WORKLOADS, namespace)).items
    return workloads_by_job(w for w in found if is_of(w, job)).get(uid_of(job))


# --- pods without a Job ---


async def managed_pods(client: Client, namespace: str) -> list[Document]:
    """Pods that stand in queues for themselves."""
    return (await client.list(PODS, namespace, label_selector=f"{MANAGED}=true")).items


def units_of(pods: Iterable[Document], workloads: Iterable[Document]) -> list[Target]:
    """What stands in queues without a Job: pods, groups of pods, and Workloads for themselves."""
    members: dict[tuple[str, str], list[Document]] = {}
    for pod in sorted(pods, key=_when):
        members.setdefault((namespace_of(pod), group_of(pod) or uid_of(pod)), []).append(pod)
    found: list[Target] = []
    for workload in workloads:
        owner = controller_of(workload)
        key = "" if owner is None else owner.uid
        if annotation(workload, IS_GROUP) == "true":
            key = name_of(workload)
        elif owner is not None and owner.kind != "Pod":
            continue
        own = members.pop((namespace_of(workload), key), [])
        found.append(Target(None, workload, tuple(own)))
    return [*found, *(Target(None, None, tuple(own)) for own in members.values())]


def _when(document: Document) -> tuple[str, str]:
    return text_at(document, "metadata", "creationTimestamp"), name_of(document)


async def _by_pod(client: Client, namespace: str, name: str, word: str) -> Target:
    """What a pod stands in a queue with: its Job, its group, or itself."""
    if not is_name(name) or not is_name(namespace):
        raise _missing(word, namespace)
    try:
        pod = await client.get(PODS, name, namespace)
    except NotFound:
        raise _missing(word, namespace) from None
    owner = controller_of(pod)
    if owner is not None and owner.kind == "Job":
        return Target(await _by_name(client, namespace, owner.name, word), None)
    if not label(pod, MANAGED) and not label(pod, QUEUE_NAME):
        raise Refusal(f"pod {name} is in no queue: it has no label {QUEUE_NAME}")
    if group_of(pod):
        group = await _by_group(client, namespace, group_of(pod), word)
        return group._replace(part=name)
    workloads = (await client.list(WORKLOADS, namespace)).items
    (found,) = [unit for unit in units_of([pod], workloads) if unit.pods]
    return found


async def _by_group(client: Client, namespace: str, group: str, word: str) -> Target:
    if not is_name(group) or not is_name(namespace):
        raise _missing(word, namespace)
    pods = [p for p in await managed_pods(client, namespace) if group_of(p) == group]
    try:
        workloads = [await client.get(WORKLOADS, group, namespace)]
    except NotFound:
        workloads = []
    for unit in units_of(pods, workloads):
        if unit.group == group:
            return unit
    raise _missing(word, namespace)


# --- words ---


async def _find(client: Client, namespace: str, word: str) -> Target:
    if word in LATEST:
        return Target(await _latest(client), None)
    kind, slash, rest = word.partition("/")
    if slash and kind in _WORKLOAD_WORDS:
        return await _by_workload(client, namespace, rest, word)
    if slash and kind in _JOB_WORDS:
        return Target(await _by_name(client, namespace, rest, word), None)
    if slash and kind in _POD_WORDS:
        return await _by_pod(client, namespace, rest, word)
    if slash:
        return await _named(client, kind, rest, word)
    if word.isdecimal() and word.isascii() and len(word) <= DIGITS_MAX:
        numbered = await client.list(JOBS, label_selector=f"{ID}={int(word)}")
        if numbered.items:
            return Target(numbered.items[0], None)
    return await _named(client, namespace, word, word)


async def _named(client: Client, namespace: str, name: str, word: str) -> Target:
    """A Job of that name goes before a Workload, a group, or a pod of that name."""
    try:
        return Target(await _by_name(client, namespace, name, word), None)
    except Refusal:
        pass
    for way in (_by_workload, _by_group):
        try:
            return await way(client, namespace, name, word)
        except Refusal:
            continue
    return await _by_pod(client, namespace, name, word)


async def _by_name(client: Client, namespace: str, name: str, word: str) -> Document:
    if not is_name(name) or not is_name(namespace):
        raise _missing(word, namespace)
    try:
        return await client.get(JOBS, name, namespace)
    except NotFound:
        raise _missing(word, namespace) from None


async def _by_workload(client: Client, namespace: str, name: str, word: str) -> Target:
    if not is_name(name) or not is_name(namespace):
        raise _missing(word, namespace)
    try:
        workload = await client.get(WORKLOADS, name, namespace)
    except NotFound:
        raise _missing(word, namespace) from None
    for owner in items_at(workload, "metadata", "ownerReferences"):
        if owner.get("kind") == "Job":
            try:
                return Target(await client.get(JOBS, text_at(owner, "name"), namespace), workload)
            except NotFound:
                break
    pods = await managed_pods(client, namespace)
    units = units_of(pods, [workload])
    return next((u for u in units if u.workload is workload), Target(None, workload))


def _missing(word: str, namespace: str) -> Refusal:
    return Refusal(f"there is no job {word!r} in namespace {namespace}; see `makeway status --all`")


async def _latest(client: Client) -> Document:
    """Of this user: on a shared machine, somebody else's would be a nasty surprise."""
    user = user_name()
    listing = await client.list(JOBS, label_selector=ID)
    mine = [job for job in listing.items if annotation(job, SUBMITTED_BY) == user]
    if not mine:
        raise Refusal(f"{user or 'nobody'} has not submitted a job yet")
    return max(mine, key=lambda job: id_of(job) or 0)
