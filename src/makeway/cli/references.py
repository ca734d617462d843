"""Which job a user means: `12`, `12_4`, `train`, `vision/train`, `job/train`, `@`.

Or the name of a Workload; or what is in a queue without a Job: `pod/train`, the name of a pod or of
a group of pods.
"""

from __future__ import annotations

from makeway.api.batch import Job, Pod
from makeway.api.codec import KindT
from makeway.api.kinds import JOBS
from makeway.api.labels import ARRAY, ARRAY_INDEX, ID, JOB_UID, MANAGED, NAME, QUEUE_NAME
from makeway.api.queueing import Workload
from makeway.cli.command import RequestRefused
from makeway.cli.connect import is_name
from makeway.cli.plain import HELP as HELP
from makeway.cli.plain import LATEST, latest_job, list_seen
from makeway.cli.user import user_name
from makeway.cli.views import fetch, fetch_all, readable, view_of
from makeway.client import Client, NotFound
from makeway.translate.job_names import NUMBER, id_of, number_of
from makeway.translate.job_state import ended_at
from makeway.translate.job_targets import JobTarget, group_of, is_of, units_of, workloads_by_job

_JOB_WORDS = frozenset(("job", "jobs", "job.batch", "jobs.batch"))
_POD_WORDS = frozenset(("pod", "pods", "po"))
_WORKLOAD_WORDS = frozenset(("workload", "workloads", "wl", "kwl", "workload.kueue.x-k8s.io"))


async def find_job(client: Client, namespace: str, word: str) -> Job:
    """The Job that is meant; RequestRefused if there is none."""
    target = await _find(client, namespace, word)
    if target.job is None:
        raise RequestRefused(f"{target.text} belongs to no Job")
    return target.job


async def find_target(client: Client, namespace: str, word: str) -> JobTarget:
    """The Job and the Workload, as far as there are both."""
    target = await _find(client, namespace, word)
    if target.workload is None and target.job is not None:
        return JobTarget(target.job, await workload_of(client, target.job))
    return target


async def find_targets(client: Client, namespace: str, word: str) -> list[JobTarget]:
    """What is meant; by the number of an array, all jobs of it."""
    members = await array_members(client, namespace, word)
    if not members:
        return [await find_target(client, namespace, word)]
    workloads = workloads_by_job(await fetch_all(client, Workload, members[0].metadata.namespace))
    return [JobTarget(job, workloads.get(job.metadata.uid)) for job in members]


async def array_members(client: Client, namespace: str, word: str) -> list[Job]:
    """The jobs of the array of that number or name, by index; none if it isn't an array's."""
    if not is_name(word):
        return []
    selector = f"{ARRAY}={word}"
    if word.isdecimal():
        found = await jobs_numbered(client, namespace, selector)
    else:
        found = await fetch_all(client, Job, namespace, label_selector=selector)
    return sorted(found, key=lambda job: int(job.metadata.labels.get(ARRAY_INDEX) or 0))


async def workload_of(client: Client, job: Job) -> Workload | None:
    namespace, uid = job.metadata.namespace, job.metadata.uid
    labelled = await fetch_all(client, Workload, namespace, label_selector=f"{JOB_UID}={uid}")
    found = labelled or await fetch_all(client, Workload, namespace)
    return workloads_by_job(w for w in found if is_of(w, job)).get(uid)


# --- pods without a Job ---


async def managed_pods(client: Client, namespace: str) -> list[Pod]:
    """Pods that are in queues for themselves."""
    return await fetch_all(client, Pod, namespace, label_selector=f"{MANAGED}=true")


async def _by_pod(client: Client, namespace: str, name: str, word: str) -> JobTarget:
    """What a pod is in a queue with: its Job, its group, or itself."""
    pod = await _named_object(client, Pod, namespace, name, word)
    owner = pod.metadata.controller
    if owner is not None and owner.kind == "Job":
        return await _by_name(client, namespace, owner.name, word)
    if not pod.metadata.labels.get(MANAGED) and not pod.metadata.labels.get(QUEUE_NAME):
        raise RequestRefused(f"pod {name} is in no queue: it has no label {QUEUE_NAME}")
    if group_of(pod.metadata):
        group = await _by_group(client, namespace, group_of(pod.metadata), word)
        return group._replace(part=name)
    workloads = await fetch_all(client, Workload, namespace)
    (found,) = [unit for unit in units_of([pod], workloads) if unit.pods]
    return found


async def _by_group(client: Client, namespace: str, group: str, word: str) -> JobTarget:
    if not is_name(group) or not is_name(namespace):
        raise _missing(word, namespace)
    pods = [p for p in await managed_pods(client, namespace) if group_of(p.metadata) == group]
    try:
        workloads = [await fetch(client, Workload, group, namespace)]
    except NotFound:
        workloads = []
    for unit in units_of(pods, workloads):
        if unit.group == group:
            return unit
    raise _missing(word, namespace)


# --- words ---


async def _find(client: Client, namespace: str, word: str) -> JobTarget:
    if word in LATEST:
        return JobTarget(await _latest(client, namespace), None)
    kind, slash, rest = word.partition("/")
    if slash and kind in _WORKLOAD_WORDS:
        return await _by_workload(client, namespace, rest, word)
    if slash and kind in _JOB_WORDS:
        return await _by_name(client, namespace, rest, word)
    if slash and kind in _POD_WORDS:
        return await _by_pod(client, namespace, rest, word)
    if slash:
        return await _named(client, kind, rest, word)
    if NUMBER.fullmatch(word):
        number = word if "_" in word else str(int(word))
        numbered = await jobs_numbered(client, namespace, f"{ID}={number}")
        if numbered:
            return JobTarget(numbered[0], None)
        if members := await array_members(client, namespace, number):
            first, last = number_of(members[0].metadata), number_of(members[-1].metadata)
            raise RequestRefused(f"{word} is an array; name one of it, from {first} to {last}")
    return await _named(client, namespace, word, word)


async def _called(client: Client, namespace: str, name: str) -> Job | None:
    """The job that its user calls so: the one that has not ended, or the latest; None: no such.

    Of several that have not ended none is chosen.
    """
    if not is_name(name) or not is_name(namespace):
        return None
    found = await fetch_all(client, Job, namespace, label_selector=f"{NAME}={name}")
    under_way = [job for job in found if ended_at(job) is None]
    if len(under_way) > 1:
        under_way.sort(key=lambda job: id_of(job.metadata) or 0)
        numbers = ", ".join(number_of(job.metadata) or job.metadata.name for job in under_way)
        raise RequestRefused(f"several jobs are called {name}; say which: {numbers}")
    latest = max(found, key=lambda job: id_of(job.metadata) or 0, default=None)
    return under_way[0] if under_way else latest


async def _named(client: Client, namespace: str, name: str, word: str) -> JobTarget:
    """A Job of that name goes before a Workload, a group, or a pod of that name."""
    if (called := await _called(client, namespace, name)) is not None:
        return JobTarget(called, None)
    for way in (_by_name, _by_workload, _by_group):
        try:
            return await way(client, namespace, name, word)
        except RequestRefused:
            continue
    return await _by_pod(client, namespace, name, word)


async def _by_name(client: Client, namespace: str, name: str, word: str) -> JobTarget:
    return JobTarget(await _named_object(client, Job, namespace, name, word), None)


async def _by_workload(client: Client, namespace: str, name: str, word: str) -> JobTarget:
    workload = await _named_object(client, Workload, namespace, name, word)
    for owner in workload.metadata.owner_references:
        if owner.kind == "Job":
            try:
                return JobTarget(await fetch(client, Job, owner.name, namespace), workload)
            except NotFound:
                break
    pods = await managed_pods(client, namespace)
    units = units_of(pods, [workload])
    return next((u for u in units if u.workload is workload), JobTarget(None, workload))


async def _named_object(
    client: Client, kind: type[KindT], namespace: str, name: str, word: str
) -> KindT:
    if not is_name(name) or not is_name(namespace):
        raise _missing(word, namespace)
    try:
        return await fetch(client, kind, name, namespace)
    except NotFound:
        raise _missing(word, namespace) from None


def _missing(word: str, namespace: str) -> RequestRefused:
    return RequestRefused(
        f"there is no job {word!r} in namespace {namespace}; see `makeway status --all`"
    )


async def jobs_numbered(client: Client, namespace: str, selector: str = ID) -> list[Job]:
    return readable(Job, await list_seen(client, JOBS, namespace, selector))


async def _latest(client: Client, namespace: str) -> Job:
    found = await latest_job(client, namespace)
    if found is None:
        raise RequestRefused(f"{user_name() or 'nobody'} has not submitted a job yet")
    return view_of(Job, found)
