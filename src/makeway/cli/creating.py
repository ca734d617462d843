"""Making the Job of `submit`, or the Jobs of an array, with a number that only they have.

A server is asked first whether it would take them, so that no number is lost to a job that is
refused. A name that is taken gets an ending: for people it is a label that several may have.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from makeway.api.arrays import Indexes, expanded
from makeway.api.labels import ID, NAME
from makeway.cli.numbers import take_number
from makeway.cli.plain import JOBS
from makeway.client import ApiError, Client, Conflict, Unavailable
from makeway.client.client import Document

T = TypeVar("T")
_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def suffix() -> str:
    return "".join(random.choices(_SUFFIX_LETTERS, k=5))


class Creation:
    """What is to be made, and where."""

    def __init__(
        self, client: Client, namespace: str, job: Document, array: tuple[str, Indexes] | None
    ) -> None:
        """`array` are the indexes as they were written, and what they mean; None: one job."""
        self._client, self._namespace, self._job, self._array = client, namespace, job, array

    async def run(self, *, is_own: bool) -> list[Document]:
        """The Jobs that were made, of an array perhaps only their metadata; all of them or none.

        `is_own`: the server is Makeway's, which can make an array in one request.
        """
        await self.under_a_free_name(self._try_one)
        number = await take_number(self._client)
        if number is not None:
            self._number(number)
        return await self.under_a_free_name(lambda: self._make(is_own=is_own))

    async def try_out(self, *, is_own: bool) -> list[Document]:
        """As they would be made."""
        return await self.under_a_free_name(lambda: self._make(is_own=is_own, dry_run=True))

    def _number(self, number: int) -> None:
        self._job["metadata"]["labels"][ID] = str(number)
        for container in self._job["spec"]["template"]["spec"]["containers"]:
            told = {"name": "MAKEWAY_JOB_ID", "value": str(number)}
            container["env"] = [*(container.get("env") or ()), told]

    async def under_a_free_name(self, make: Callable[[], Awaitable[T]]) -> T:
        """Make them; under another name if that one is taken."""
        try:
            return await make()
        except Conflict:
            metadata = self._job["metadata"]
            if NAME not in metadata["labels"]:
                raise
            metadata["name"] = f"{metadata['labels'][NAME]}-{suffix()}"
            return await make()

    async def _try_one(self) -> None:
        """Have the server say that it would take such a job."""
        one = self._job if self._array is None else expanded(self._job, self._array[1])[0]
        await self._client.create(JOBS, one, namespace=self._namespace, dry_run=True)

    async def _make(self, *, is_own: bool, dry_run: bool = False) -> list[Document]:
        client, where = self._client, self._namespace
        if self._array is None:
            return [await client.create(JOBS, self._job, namespace=where, dry_run=dry_run)]
        text, indexes = self._array
        if is_own:
            made = await client.create_array(self._job, text, namespace=where, dry_run=dry_run)
            return [{"metadata": metadata} for metadata in made]
        members = expanded(self._job, indexes)
        if dry_run:
            return [await client.create(JOBS, members[0], namespace=where, dry_run=True)]
        return await self._one_by_one(members)

    async def _one_by_one(self, members: list[Document]) -> list[Document]:
        """On a cluster of others; if one is refused, those before it go again."""
        made: list[Document] = []
        try:
            for member in members:
                made.append(await self._client.create(JOBS, member, namespace=self._namespace))
        except (ApiError, Unavailable):
            for document in made:
                metadata = document["metadata"]
                with contextlib.suppress(ApiError, Unavailable):
                    await self._client.delete(
                        JOBS, metadata["name"], metadata["namespace"], uid=metadata["uid"]
                    )
            raise
        return made
