"""`kill -9` of the whole process at random moments: every job runs to its end, once at a time.

The jobs themselves keep the record: each writes a line when it starts and one when it ends.
`python -m tests.embedded.test_crashes JOBS ROUNDS SEED` plays longer ones (`make test-crashes`).
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from makeway.api.kinds import FLAVORS, JOBS, LOCAL_QUEUES, QUEUES, WORKLOADS
from makeway.client import Client
from makeway.journal.file import NAME, Journal
from makeway.journal.ledger import grouped, ledger_of
from makeway.journal.replay import replay
from tests.harness.documents import flavor, local_queue, queue
from tests.harness.process import Up, job

QUOTA = 4  # in each of two queues
NODE = """\
apiVersion: v1
kind: Node
metadata: {name: box}
status: {capacity: {cpu: "64", memory: 64Gi}}
"""


class Line(NamedTuple):
    at: float
    job: str
    what: str  # start or end


def script(name: str, record: Path, sleep_s: float = 0.2) -> str:
    def note(what: str) -> str:
        return f'echo "$(date +%s.%N) {name} {what}" >> {record}'

    return f"{note('start')}; sleep {sleep_s}; {note('end')}"


def test_jobs_survive_kill_9_of_makeway_at_random_moments(tmp_path: Path) -> None:
    lines = play(tmp_path, jobs=24, rounds=2, seed=1)

    check(lines, jobs=24)
    check_journal(tmp_path / "data", jobs=24, starts=3)


def play(folder: Path, jobs: int, rounds: int, seed: int) -> list[Line]:
    """Submit jobs, kill and start Makeway again and again, and read what the jobs have written."""
    chance, record = random.Random(seed), folder / "record"
    (folder / "nodes.yaml").write_text(NODE)
    up = Up(folder / "data", "--nodes", str(folder / "nodes.yaml"))
    up.start()
    try:
        asyncio.run(submit(up.client(), jobs, record))
        for _ in range(rounds):
            time.sleep(chance.uniform(0.1, 2.5))
            up.kill()
            up.start()
        asyncio.run(all_end(up.client(), jobs))
    finally:
        up.stop()
    return read(record)


async def submit(client: Client, jobs: int, record: Path) -> None:
    await client.create(FLAVORS, flavor("default"))
    for name in ("a", "b"):
        await client.create(QUEUES, queue(name, str(QUOTA)))
        await client.create(LOCAL_QUEUES, local_queue(name, name))
    for number in range(jobs):
        name = f"job-{number}"
        wanted = job(name, script(name, record), queue="ab"[number % 2])
        await client.create(JOBS, wanted)
    await client.close()


async def all_end(client: Client, jobs: int) -> None:
    """Until every job is complete and every workload finished."""
    deadline = time.monotonic() + 30 + jobs
    while True:
        found = (await client.list(JOBS)).items
        workloads = (await client.list(WORKLOADS)).items
        complete = [one for one in found if has(one, "Complete")]
        finished = [one for one in workloads if has(one, "Finished")]
        failed = [one["metadata"]["name"] for one in found if has(one, "Failed")]
        assert not failed, f"failed: {failed}"
        if len(complete) == len(finished) == jobs:
            break
        assert time.monotonic() < deadline, f"{len(complete)} of {jobs} jobs are complete"
        await asyncio.sleep(0.5)
    await client.close()


def has(document: dict[str, object], condition: str) -> bool:
    status = document.get("status")
    conditions = status.get("conditions") or () if isinstance(status, dict) else ()
    return any(c["type"] == condition and c["status"] == "True" for c in conditions)


def read(record: Path) -> list[Line]:
    rows = (line.split() for line in record.read_text().splitlines())
    return sorted(Line(float(at), job, what) for at, job, what in rows)


def check(lines: list[Line], jobs: int) -> None:
    """Each job ran once, from start to end, and never more at a time than quota allows."""
    assert Counter((line.job, line.what) for line in lines) == {
        (f"job-{number}", what): 1 for number in range(jobs) for what in ("start", "end")
    }
    for queue_number in (0, 1):
        assert max(at_once(lines, queue_number)) <= QUOTA


def check_journal(folder: Path, jobs: int, starts: int) -> None:
    """A segment for each start; all is replayed equal, and all jobs are in it, to their end."""
    journal = Journal(folder / NAME)
    segments = journal.segments()
    assert len(segments) == starts
    assert all(replay(journal.records(segment)).differences == () for segment in segments)
    (sums,) = grouped(ledger_of(journal, 0.0, time.time()).sums, ["user"]).values()
    assert (sums.arrived, sums.finished) == (jobs, jobs)
    journal.close()


def at_once(lines: list[Line], queue_number: int) -> Iterator[int]:
    running = 0
    for line in lines:
        if int(line.job.removeprefix("job-")) % 2 == queue_number:
            running += 1 if line.what == "start" else -1
            yield running


if __name__ == "__main__":
    jobs, rounds, seed = (int(argument) for argument in sys.argv[1:4])
    with tempfile.TemporaryDirectory() as name:
        check(play(Path(name), jobs, rounds, seed), jobs)
        check_journal(Path(name) / "data", jobs, rounds + 1)
    print(f"{jobs} jobs, {rounds} times kill -9, seed {seed}: each ran once, none was lost")
