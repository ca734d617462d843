"""Damage stays local, and is named: one pod's file, a key, a certificate, a log that was lost."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from makeway.api.kinds import JOBS, PODS
from makeway.api.labels import HOLD
from makeway.embedded.copies import examine
from makeway.embedded.inside import client_in_process
from makeway.embedded.serving import serve
from makeway.embedded.settings import CannotServe, Settings
from makeway.server.identity import identity_in
from tests.harness.process import Up, job, running, wait_until


def test_a_broken_file_of_one_pod_fails_that_pod_and_names_it(tmp_path: Path) -> None:
    up = Up(tmp_path / "data")
    up.start()
    wounds: dict[str, Callable[[Path], object]] = {
        "cut": lambda pod: (pod / "state.json").write_bytes(b'{"supervisor": {"pi'),
        "empty": lambda pod: (pod / "state.json").write_bytes(b""),
        "order": lambda pod: (pod / "order.json").write_bytes(b"[]"),
        "whole": lambda pod: None,
    }
    for name in wounds:
        up.create(JOBS, job(name, f"sleep 60; : {name}", cpu="10m"))
    wait_until(lambda: Counter(phases(up)) == {"Running": 4})
    up.kill()
    for name, wound in wounds.items():
        wound(pod_folder(up, name))
    (up.folder / "pods" / "stray").write_text("hello")
    up.start()
    try:
        wait_until(lambda: Counter(phases(up)) == {"Failed": 3, "Running": 1})
        for pod in up.listed(PODS):
            is_whole = pod["metadata"]["name"].startswith("whole")
            assert ("is damaged" in pod["status"].get("message", "")) is not is_whole
        up.makeway("delete", "jobs", *wounds)
        wait_until(lambda: len(list((up.folder / "pods").iterdir())) == 1)
    finally:
        up.stop()


def phases(up: Up) -> list[str]:
    return [pod["status"]["phase"] for pod in up.listed(PODS)]


def pod_folder(up: Up, job_name: str) -> Path:
    for pod in (up.folder / "pods").iterdir():
        if f": {job_name}".encode() in (pod / "order.json").read_bytes():
            return pod
    raise AssertionError(job_name)


@pytest.mark.parametrize(
    ("wound", "said"),
    [
        (lambda pki: (pki / "server.key").unlink(), "server.key is missing; restore"),
        (lambda pki: (pki / "server.crt").write_text("no"), "server.crt is no certificate"),
        (lambda pki: (pki / "server.key").write_text("no"), "does not fit its certificate"),
    ],
    ids=["no key", "no certificate", "another key"],
)
def test_a_broken_identity_is_named_with_what_to_do(
    tmp_path: Path, wound: Callable[[Path], object], said: str
) -> None:
    identity_in(tmp_path / "data" / "pki")
    wound(tmp_path / "data" / "pki")

    async def start() -> None:
        async with serve(tmp_path / "data", Settings(port=0)):
            pass

    with pytest.raises(CannotServe, match=said):
        asyncio.run(start())
    shutil.rmtree(tmp_path / "data" / "pki")  # what it says to do
    asyncio.run(start())


def test_a_database_that_knows_less_than_it_once_did_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def write(name: str) -> None:
        async with serve(tmp_path / "data", Settings(port=0)) as running:
            await client_in_process(running.app).create(JOBS, suspended(name))

    asyncio.run(write("one"))
    shutil.copy(tmp_path / "data" / "makeway.db", tmp_path / "old.db")
    asyncio.run(write("two"))
    assert not caplog.records
    shutil.copy(tmp_path / "old.db", tmp_path / "data" / "makeway.db")
    asyncio.run(write("three"))

    assert 'database="has lost writes"' in caplog.text


@pytest.mark.parametrize("kept", [0, 32 + 5 * (24 + 4096)], ids=["lost", "cut after 5 pages"])
def test_a_write_ahead_log_that_is_lost_or_cut_is_noticed_by_what_the_pods_know(
    tmp_path: Path, kept: int
) -> None:
    """Killed, with a job that runs; of its log nothing is left, or the beginning."""
    up = Up(tmp_path / "data")
    up.start()
    for number in range(10):
        up.create(JOBS, suspended(f"filler-{number}"))
    up.create(JOBS, job("runs", "sleep 60", cpu="10m"))
    wait_until(lambda: phases(up) == ["Running"])
    up.kill()
    log = up.folder / "makeway.db-wal"
    assert log.stat().st_size > kept
    os.truncate(log, kept)
    (up.folder / "makeway.db-shm").unlink(missing_ok=True)

    assert "makeway.db-wal was lost or cut" in up.makeway(
        "check", "--data-dir", str(up.folder), code=1
    )
    up.start()
    try:
        assert 'database="has lost writes"' in up.folder.with_suffix(".log").read_text()
        wait_until(lambda: not list((up.folder / "pods").iterdir()))  # nobody knows it any more
        up.create(JOBS, suspended("after"))
    finally:
        up.stop()


def test_a_backup_is_made_while_it_runs_examined_and_served_again(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    with running(tmp_path / "data") as up:
        up.create(JOBS, suspended("one"))
        up.makeway("backup", str(copy))
        up.create(JOBS, suspended("two"))
        up.makeway("backup", str(copy), code=2)  # never over another one
        with pytest.raises(CannotServe, match="another makeway"):
            examine(up.folder)
    assert examine(copy) == []
    (copy / "pki" / "server.key").write_text("no")
    assert "does not fit" in up.makeway("check", "--data-dir", str(copy), code=1)
    shutil.copy(up.folder / "pki" / "server.key", copy / "pki" / "server.key")

    async def jobs() -> list[str]:
        async with serve(copy, Settings(port=0)) as again:
            found = (await client_in_process(again.app).list(JOBS)).items
            return [one["metadata"]["name"] for one in found]

    assert asyncio.run(jobs()) == ["one"]


def suspended(name: str) -> dict[str, Any]:
    """One that no queue begins, either."""
    made = job(name, "true", suspend=True)
    made["metadata"]["annotations"] = {HOLD: "true"}
    return made


def test_what_gets_away_from_its_supervisor_and_kills_it_is_ended_and_named(
    tmp_path: Path,
) -> None:
    with running(tmp_path / "data") as up:
        script = "env -i setsid sleep 6789 & sleep 0.3; kill -9 $PPID"
        up.create(JOBS, job("escape", script, cpu="10m"))
        wait_until(lambda: phases(up) == ["Failed"])
        wait_until(lambda: b"6789" not in commands())

    assert "escaped=" in up.folder.with_suffix(".log").read_text()


def commands() -> bytes:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(path.read_bytes())
    return b"".join(found)
