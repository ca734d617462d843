"""How a job ended: the exit code of whoever waited for it, and a word for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from makeway.api.batch import Job, Pod
from makeway.translate.job_state import condition, is_true

EXIT_UNKNOWN = 1  # the job failed, and no container has an exit code
EXIT_TIMED_OUT = 124  # the exit code of `timeout`
EXIT_STOPPED = 143  # as of a program that SIGTERM has ended
REBOOTED = "NodeRebooted"  # reason of a pod whose machine was started anew


class JobEnd(NamedTuple):
    code: int
    text: str  # `succeeded`, `failed with exit code 3 (…)`, `was deleted`


class ContainerFailure(NamedTuple):
    """How a container failed; the earliest sorts first."""

    finished_at: str
    code: int
    message: str  # why the container could not be started, say; most often empty

    @property
    def text(self) -> str:
        message = " ".join(self.message.split())
        return f"exit code {self.code}" + (f": {message}" if message else "")


def end_of(job: Job, pods: Iterable[Pod]) -> JobEnd:
    """What became of a job that has ended."""
    failed = condition(job, "Failed")
    if failed is None or is_true(job, "Complete"):
        return JobEnd(0, "succeeded")
    why = failed.message or failed.reason
    if failed.reason == "DeadlineExceeded":
        return JobEnd(EXIT_TIMED_OUT, f"ran out of time ({why})")
    if failed.reason == "Cancelled":
        return JobEnd(EXIT_STOPPED, f"was {why[:1].lower()}{why[1:]}")
    if failed.reason == "TerminatedOnPreemption":
        return JobEnd(EXIT_STOPPED, f"had to make way ({why})")
    failure = first_failure(pods)
    if failure is None:
        return JobEnd(EXIT_UNKNOWN, f"failed ({why})")
    return JobEnd(failure.code, f"failed with {failure.text} ({why})")


def first_failure(pods: Iterable[Pod]) -> ContainerFailure | None:
    """The failure of the container that failed first; None if none did.

    Who ended because the machine was started anew has not failed.
    """
    failures: list[ContainerFailure] = []
    own = [pod for pod in pods if pod.status.reason != REBOOTED]
    for status in (status for pod in own for status in container_statuses(pod)):
        for state in (status.get("state"), status.get("lastState")):
            ended = (state or {}).get("terminated") or {}
            if ended.get("exitCode"):
                when, message = ended.get("finishedAt") or "", ended.get("message") or ""
                failures.append(ContainerFailure(when, ended["exitCode"], message))
    return min(failures, default=None)


def container_statuses(pod: Pod) -> Iterator[dict[str, Any]]:
    document: Any = pod.document or {}
    for part in ("initContainerStatuses", "containerStatuses"):
        yield from (document.get("status") or {}).get(part) or ()
