"""A namespace for everybody who comes: made at first contact, and never given to another."""

from __future__ import annotations

from makeway.api.kinds import NAMESPACES
from makeway.api.labels import ACCOUNT, ACCOUNT_UID
from makeway.server.errors import ApiError
from makeway.server.messages import decode
from makeway.server.objects import Target
from makeway.server.options import Options
from makeway.server.people import Person
from makeway.server.people_rules import account_of
from makeway.server.verbs import Verbs


class Welcome:
    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs
        self._seen: dict[str, tuple[int, tuple[str, int] | None]] = {}  # revision and whose it is

    async def settle(self, person: Person) -> None:
        """Have the person's namespace; ApiError if one of that name is not his."""
        target = Target(NAMESPACES, "v1", "", person.namespace)
        if self._verbs.store.latest(target.key) is None:
            await self._make(target, person)
        owner = self._owner(target)
        if owner != (person.name, person.uid):
            whose = "no account" if owner is None else f"the account {owner[0]} with uid {owner[1]}"
            why = (
                f"AccountGone: namespace {person.namespace} belongs to {whose}, and {person.name} "
                f"has uid {person.uid}; an admin can delete the namespace with all that is in it"
            )
            raise ApiError(403, "Forbidden", why, {})

    def _owner(self, target: Target) -> tuple[str, int] | None:
        record = self._verbs.store.latest(target.key)
        if record is None:
            return None
        revision, owner = self._seen.get(target.name, (0, None))
        if revision != record.revision:
            owner = account_of(decode(record.body))
            self._seen[target.name] = (record.revision, owner)
        return owner

    async def _make(self, target: Target, person: Person) -> None:
        marks = {ACCOUNT: person.name, ACCOUNT_UID: str(person.uid)}
        made = {"metadata": {"name": target.name, "annotations": marks}}
        try:
            await self._verbs.create(target, made, Options(is_trusted=True))
        except ApiError as error:
            if error.code != 409:  # somebody else of the same account was quicker
                raise
