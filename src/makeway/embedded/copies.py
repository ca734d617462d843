"""Copies of a data folder, and what may be wrong with one."""

from __future__ import annotations

import shutil
from pathlib import Path

from makeway.api.kinds import PODS
from makeway.embedded.folder import Mark, locked
from makeway.embedded.settings import CannotServe
from makeway.runner.damage import pods_in
from makeway.server.identity import (
    DamagedIdentity,
    identity_in,
)
from makeway.store import Store, StoreError


def copy_identity(folder: Path, to: Path) -> None:
    """Who the server is, and how it was told to decide; what jobs leave behind is not copied."""
    shutil.copytree(folder / "pki", to / "pki")
    if (folder / "config.yaml").exists():
        shutil.copy2(folder / "config.yaml", to / "config.yaml")


def copy_data(folder: Path, to: Path) -> None:
    """The database of a folder that nobody serves."""
    with locked(folder):
        try:
            store = Store(folder / "makeway.db")
            store.backup(to / "makeway.db")
        except StoreError as error:
            raise CannotServe(str(error)) from None
        store.close()


def examine(folder: Path) -> list[str]:
    """What is wrong with a data folder, as sentences; CannotServe if it is in use."""
    if not (folder / "makeway.db").exists():
        return [f"{folder / 'makeway.db'} is missing; {folder} is no data folder of makeway"]
    found: list[str] = []
    with locked(folder):
        try:
            if (folder / "pki").exists():
                identity_in(folder / "pki").tls()
        except DamagedIdentity as error:
            found.append(str(error))
        try:
            store = Store(folder / "makeway.db")
        except StoreError as error:
            return [*found, str(error)]
        known = len({record.key for record in store.scan(PODS.full_name)})
        pods = pods_in(folder)
        found += filter(None, [Mark(folder / "revision", store.revision).loss(pods.revision)])
        store.close()
        if pods.count > known:
            found.append(f"{pods.count} pods have folders, and the database knows {known}")
        return [*found, *pods.damages]
