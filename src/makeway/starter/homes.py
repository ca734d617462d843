"""Homes of pods: folders of root's, in which an account has folders of its own.

Root makes them, by descriptors, in folders where nobody else can put anything. What is below them
belongs to the account: root deletes it and counts its bytes, and believes nothing that is there.
"""

from __future__ import annotations

from pathlib import Path

from makeway.runner.folders import make_owned
from makeway.runner.homes import Home
from makeway.runner.host import RunOrder
from makeway.starter.table import Owner

PASSED_THROUGH = 0o711  # by everybody, and listed by root alone


class AccountHomes:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._owners: dict[str, Owner] = {}
        make_owned(folder, 0, 0, PASSED_THROUGH)

    def expect(self, uid: str, owner: Owner) -> None:
        """The pod will be this account's."""
        self._owners[uid] = owner

    def settle(self, order: RunOrder) -> Home:
        owner, home = self._owners.pop(order.uid), self.folder / order.uid
        own = [
            home / "scratch",
            *(home / "volumes" / n for n, at in order.volumes.items() if not at),
        ]
        for path in (home, home / "volumes"):
            make_owned(path, 0, 0, PASSED_THROUGH)
        for path in own:
            make_owned(path, owner.account.uid, owner.account.gid, 0o700)
        return Home(home, owner.environment(), owner.dropped(order.shell_limits))
