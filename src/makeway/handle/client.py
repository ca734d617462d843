"""`makeway.Client`: what the commands do, from Python."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, Unpack

from makeway.api.arrays import Indexes, parse_indexes
from makeway.api.batch import Job as JobView
from makeway.cli import cancel, logs, status, submit
from makeway.cli.creating import Creation
from makeway.cli.following import wait_for_end
from makeway.cli.new_job import job_of
from makeway.cli.output import pods_of
from makeway.cli.references import array_members, find_job, find_target, find_targets
from makeway.cli.views import view_of
from makeway.client.client import Document
from makeway.handle.line import Line
from makeway.handle.options import Options, Which, arguments_of, word_of
from makeway.translate.job_end import JobEnd
from makeway.translate.job_names import number_of
from makeway.translate.job_rows import row_of
from makeway.translate.job_state import state_of, with_pods

T = TypeVar("T")
SHELL = "/bin/sh"  # for a command that is one text


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job that was submitted; two that mean the same are equal."""

    number: str  # 12, or 12_4 of an array; empty where a server doesn't count
    name: str
    namespace: str
    uid: str
    _client: Client = field(repr=False, compare=False)

    @property
    def word(self) -> str:
        return f"job/{self.name}"

    @property
    def status(self) -> str:
        """One word: pending, running, succeeded ..."""
        return str(self._client.describe(self)["status"])

    def wait(self, timeout: float | None = None) -> JobEnd:
        return self._client.wait(self, timeout=timeout)

    def logs(self, *, attempt: int | None = None, tail: int | None = None) -> str:
        return self._client.logs(self, attempt=attempt, tail=tail)

    def cancel(self) -> bool:
        return self._client.cancel(self)


class Client:
    """A server, found as the commands find it unless one is named.

    Any thread may use it. A server that was started again is found again.
    """

    def __init__(
        self,
        *,
        data_dir: str | Path | None = None,
        kubeconfig: str | Path | None = None,
        namespace: str | None = None,
    ) -> None:
        self._target = argparse.Namespace(
            data_dir=None if data_dir is None else Path(data_dir),
            kubeconfig=None if kubeconfig is None else Path(kubeconfig),
            namespace=namespace,
        )
        self.line = Line(self._target)

    def close(self) -> None:
        """Nothing happens to the jobs."""
        self.line.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def arguments(self, options: Options) -> argparse.Namespace:
        """The options as `makeway submit` reads them; TypeError if there is no such option."""
        return arguments_of(options, self._target)

    def submit(self, command: str | Sequence[str], **options: Unpack[Options]) -> Job:
        """Put a command in a queue; one text is a line for the shell."""
        arguments = self.arguments(options)
        (made,) = self.create(_job_of(command, arguments), arguments)
        return made

    def submit_array(
        self, command: str | Sequence[str], indexes: str, **options: Unpack[Options]
    ) -> list[Job]:
        """A job for each index, as 1-100, 1,3,7, 0-30:2 or 1-100%8: all or none."""
        arguments = self.arguments(options)
        array = indexes, parse_indexes(indexes)
        return self.create(_job_of(command, arguments), arguments, array)

    def create(
        self,
        job: Document,
        arguments: argparse.Namespace,
        array: tuple[str, Indexes] | None = None,
    ) -> list[Job]:
        """Submit a Job, as `makeway submit` does."""
        client, namespace, is_own = self.line.client, self.line.namespace, self.line.is_own

        async def made() -> list[Document]:
            indexes = None if array is None else array[1]
            await submit.look_up(client, namespace, arguments, job, indexes)
            forced = bool(arguments.force)
            await submit.refuse_hopeless(client, namespace, job, is_forced=forced)
            return await Creation(client, namespace, job, array).run(is_own=is_own)

        documents = self.line.ask(made())
        return [
            self.job_from(view_of(JobView, {**job, "metadata": d["metadata"]})) for d in documents
        ]

    def job_from(self, job: JobView) -> Job:
        metadata = job.metadata
        return Job(
            number=number_of(metadata),
            name=metadata.name,
            namespace=metadata.namespace,
            uid=metadata.uid,
            _client=self,
        )

    def wait(self, *jobs: Which, timeout: float | None = None) -> JobEnd:
        """When all have ended: how the first that failed did, else that they succeeded.

        TimeoutError after so many seconds. An eviction is not an end.
        """
        client = self.line.client

        async def ended() -> JobEnd:
            found: list[JobView] = []
            for word in map(word_of, jobs):
                members = await array_members(client, self.line.namespace, word)
                found += members or [await find_job(client, self.line.namespace, word)]
            ends = [await wait_for_end(client, job) for job in found]
            return next((end for end in ends if end.code), ends[0])

        return self.line.ask(ended(), timeout)

    def logs(self, job: Which, *, attempt: int | None = None, tail: int | None = None) -> str:
        """What a job has printed: in its last attempt, unless another is named."""
        parser = argparse.ArgumentParser(add_help=False)
        logs.add_arguments(parser)
        arguments = parser.parse_args([word_of(job)])
        arguments.attempt, arguments.tail = attempt, tail
        pieces: list[bytes] = []
        client, namespace = self.line.client, self.line.namespace
        self.line.ask(logs.print_output(client, namespace, arguments, pieces.append))
        return b"".join(pieces).decode("utf-8", "replace")

    def cancel(self, *jobs: Which) -> bool:
        """End jobs that wait or run, whoever submitted them; False if all had ended before."""
        client, keeps = self.line.client, self.line.is_own

        async def cancelled() -> bool:
            targets = []
            for word in map(word_of, jobs):
                targets += await find_targets(client, self.line.namespace, word)
            going = [target for target in targets if not cancel.has_ended(target)]
            return any([await cancel.end(client, target, keeps=keeps) for target in going])

        return self.line.ask(cancelled())

    def status(
        self, *, ended: bool = False, queue: str = "", me: bool = False, everywhere: bool = False
    ) -> list[Mapping[str, Any]]:
        """The jobs of the namespace, as `makeway status -o json` has them."""
        arguments = argparse.Namespace(queue=queue, me=me, all_namespaces=everywhere)
        wanted = "true" if ended else "false"
        client, namespace = self.line.client, self.line.namespace
        return self.line.ask(status.job_rows(client, namespace, arguments, ended=wanted))

    def describe(self, job: Which) -> Mapping[str, Any]:
        """One job, as `status` has it, whether it has ended or not."""
        client = self.line.client

        async def described() -> Mapping[str, Any]:
            target = await find_target(client, self.line.namespace, word_of(job))
            pods = target.pods if target.job is None else await pods_of(client, target.job)
            return row_of(with_pods(state_of(target, time.time()), pods))

        return self.line.ask(described())

    def map(
        self, function: Callable[..., T], *items: Iterable[Any], **options: Unpack[Options]
    ) -> list[T]:
        """What a function gives for each item, a job each; `Executor` has more."""
        from makeway.handle.executor import Executor

        with Executor(self, **options) as executor:
            return list(executor.map(function, *items))


def _job_of(command: str | Sequence[str], arguments: argparse.Namespace) -> Document:
    words = [SHELL, "-c", command] if isinstance(command, str) else list(command)
    return job_of(arguments, words)
