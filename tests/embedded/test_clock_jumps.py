"""A running `makeway up` whose clock is set, days forward and back: nobody is harmed."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from makeway.api.kinds import FLAVORS, JOBS, LOCAL_QUEUES, PODS, QUEUES
from makeway.api.times import parse_time
from makeway.client import Client
from tests.harness.documents import flavor, local_queue, queue
from tests.harness.faked_time import FakedUp
from tests.harness.process import job, wait_until

DAY_S = 86_400


@pytest.fixture
def up(tmp_path: Path) -> Iterator[FakedUp]:
    up = FakedUp(tmp_path / "data")
    up.start()
    try:
        yield up
    finally:
        up.stop()


async def set_up(client: Client) -> None:
    await client.create(FLAVORS, flavor("default"))
    await client.create(QUEUES, queue("q", "4"))
    await client.create(LOCAL_QUEUES, local_queue("q", "q"))


def found(up: FakedUp, name: str) -> dict[str, Any]:
    return up.ask(lambda client: client.get(JOBS, name, "default"))


def submit(up: FakedUp, name: str, script: str, **spec: Any) -> None:
    up.create(JOBS, job(name, script, queue="q", **spec))


def is_done(up: FakedUp, name: str) -> bool:
    return bool(found(up, name)["status"].get("succeeded"))


def has_noticed(up: FakedUp) -> bool:
    return 'clock="was set"' in up.folder.with_suffix(".log").read_text()


def test_days_forward_and_back_and_killed_in_between(up: FakedUp, tmp_path: Path) -> None:
    """The long job may run for an hour; a job that fails is tried again ten seconds later."""
    up.ask(set_up)
    go, failed = tmp_path / "go", tmp_path / "failed"
    submit(up, "long", f"until [ -e {go} ]; do sleep 0.05; done", activeDeadlineSeconds=3600)
    wait_until(lambda: found(up, "long")["status"].get("ready"))
    before = time.time()

    up.set_clock(3 * DAY_S)
    wait_until(lambda: found(up, "long") and has_noticed(up))
    submit(up, "again", f"[ -e {failed} ] || {{ touch {failed}; exit 1; }}", backoffLimit=3)
    submit(up, "one", "true")
    wait_until(lambda: is_done(up, "one"))
    up.set_clock(-3 * DAY_S)
    submit(up, "two", "true")
    wait_until(lambda: is_done(up, "two"))
    up.kill()
    up.start()
    submit(up, "three", "true")
    wait_until(lambda: is_done(up, "three"))
    wait_until(lambda: is_done(up, "again"))
    assert not found(up, "long")["status"].get("failed")
    go.touch()
    wait_until(lambda: is_done(up, "long"))

    with urllib.request.urlopen(f"{up.address}/readyz", context=up.tls()) as answer:
        assert answer.read() == b"ok"
    pods = up.listed(PODS)
    stamps = [(one["metadata"]["name"], stamp) for one in pods for stamp in stamps_of(one)]
    assert len(stamps) > 20
    for name, stamp in stamps:
        assert before - 60 < parse_time(stamp) < time.time() + 60, (name, stamp)


def stamps_of(document: Any) -> Iterator[str]:
    """All times in an object."""
    if isinstance(document, dict):
        for name, value in document.items():
            if isinstance(value, str) and name.endswith(("Time", "Timestamp", "At")):
                yield value
            else:
                yield from stamps_of(value)
    elif isinstance(document, list):
        for value in document:
            yield from stamps_of(value)


def test_a_restart_takes_the_new_time_over_and_knows_how_long_its_pods_ran(
    up: FakedUp, tmp_path: Path
) -> None:
    up.ask(set_up)
    go = tmp_path / "go"
    submit(up, "long", f"until [ -e {go} ]; do sleep 0.05; done")
    wait_until(lambda: found(up, "long")["status"].get("ready"))
    up.stop()
    up.set_clock(-3 * DAY_S)
    up.start()
    go.touch()
    wait_until(lambda: is_done(up, "long"))

    (pod,) = up.listed(PODS)
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    began_at, ended_at = parse_time(ended["startedAt"]), parse_time(ended["finishedAt"])
    assert 0 <= ended_at - began_at < 60
    assert abs(ended_at + 3 * DAY_S - time.time()) < 60
