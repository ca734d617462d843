"""Which job a user means: `12`, `train`, `vision/train`, `job/train`, a Workload's name, `@`."""

from __future__ import annotations

import getpass
from typing import NamedTuple

from makeway.api.labels import JOB_UID
from makeway.cli.command import Refusal
from makeway.cli.connect import is_name
from makeway.cli.reading import (
    Document,
    annotation,
    items_at,
    name_of,
    namespace_of,
    text_at,
    uid_of,
)
from makeway.cli.standing import (
    ID,
    SUBMITTED_BY,
    id_of,
    is_of,
    job_text,
    workloads_by_job,
)
from makeway.client import Client, NotFound
from makeway.client.resources import JOBS, WORKLOADS

HELP = "a number, a name, NAMESPACE/NAME, job/NAME, a Workload's name, or @ for your latest"
LATEST = ("@", "last")
DIGITS_MAX = 18  # more is no number of a job
_JOB_WORDS = frozenset(("job", "jobs", "job.batch", "jobs.batch"))
_WORKLOAD_WORDS = frozenset(("workload", "workloads", "wl", "kwl", "workload.kueue.x-k8s.io"))


class Target(NamedTuple):
    """A Job, its Workload, or both; never neither."""

    job: Document | None
    workload: Document | None

    @property
    def text(self) -> str:
        if self.job is not None:
            return job_text(self.job)
        return f"workload {name_of(self.workload or {})}"

    @property
    def namespace(self) -> str:
        return namespace_of(self.job or self.workload or {})


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


async def _find(client: Client, namespace: str, word: str) -> Target:
    if word in LATEST:
        return Target(await _latest(client), None)
    kind, slash, rest = word.partition("/")
    if slash and kind in _WORKLOAD_WORDS:
        return await _by_workload(client, namespace, rest, word)
    if slash and kind in _JOB_WORDS:
        return Target(await _by_name(client, namespace, rest, word), None)
    if slash:
        return await _named(client, kind, rest, word)
    if word.isdecimal() and word.isascii() and len(word) <= DIGITS_MAX:
        numbered = await client.list(JOBS, label_selector=f"{ID}={int(word)}")
        if numbered.items:
            return Target(numbered.items[0], None)
    return await _named(client, namespace, word, word)


async def _named(client: Client, namespace: str, name: str, word: str) -> Target:
    """A Job of that name goes before a Workload of that name."""
    try:
        return Target(await _by_name(client, namespace, name, word), None)
    except Refusal:
        return await _by_workload(client, namespace, name, word)


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
    return Target(None, workload)


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
