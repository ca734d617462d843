"""What a journal costs: CPU and bytes per workload to write it, CPU to read it back.

Workloads come, are admitted, get ready, finish and are deleted, one after the other; what the
engine is told and decides is collected first, so that only the journal is on the clock. It is
flushed after every ten workloads, as a server under load does it.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.worlds import BEST_EFFORT, NO_PREEMPTION, NOW, Load, World
from makeway.engine import events as ev
from makeway.forecast.recorded_past import ended_jobs
from makeway.journal.file import NAME, Journal, JournalFile
from makeway.journal.ledger import ledger_of
from makeway.journal.recorder import Writer
from makeway.journal.records import Decided, Heard, Record

TOGETHER = 10
RUN_S = 60.0
LOAD_MS = 2.9  # what `make bench-load` takes of a server for each of its 15 000 workloads


def lives(count: int) -> Iterator[list[Record]]:
    """All that is written of each workload."""
    world = World()
    world.add(Load(name="lab", quota=8), BEST_EFFORT, NO_PREEMPTION)
    for number in range(count):
        at = NOW + number * RUN_S
        key = world.submit("lab", 1, 0)
        known = world.engine.view[key]
        found: list[Record] = [Heard(at, ev.WorkloadSeen(known.workload))]
        found.append(Decided(at, world.engine.run_cycle(at).decisions))
        for later_s, event in (
            (1.0, ev.PodsChanged(key, are_ready=True, at=at + 1.0)),
            (RUN_S, ev.WorkloadFinished(key)),
            (RUN_S, ev.WorkloadRemoved(key)),
        ):
            world.engine.apply(event)
            found.append(Heard(at + later_s, event))
        yield found


def write(path: Path, written: list[list[Record]]) -> float:
    """CPU seconds."""
    writer = Writer(JournalFile(path))
    began_s = time.process_time()
    writer.begin(NOW, ())
    for number, life in enumerate(written):
        for record in life:
            writer.put(record)
        if number % TOGETHER == 0:
            writer.flush()
    writer.flush()
    took_s = time.process_time() - began_s
    writer.close()
    return took_s


def main(arguments: list[str]) -> None:
    count = 1_000 if "--quick" in arguments else 10_000
    written = list(lives(count))
    with tempfile.TemporaryDirectory(prefix="makeway-journal-") as name:
        path = Path(name) / NAME
        took_ms = 1000 * write(path, written) / count
        journal = Journal(path)
        size = sum(segment.size for segment in journal.segments())
        began_s = time.process_time()
        found = ledger_of(journal, 0.0, NOW + count * RUN_S)
        booked_s = time.process_time()
        learnt = list(ended_jobs(journal.newest(size)))
        learnt_s = time.process_time()
        journal.close()
    assert len(found.gone) == len(learnt) == count
    print(f"journal of {count} workloads, CPU milliseconds per workload")
    print(f"  written {took_ms:.3f}, {100 * took_ms / LOAD_MS:.1f} % of what bench-load takes")
    print(f"  read for a report {1000 * (booked_s - began_s) / count:.3f}", end=", ")
    print(f"for a forecast {1000 * (learnt_s - booked_s) / count:.3f}")
    print(f"  {size / count:.0f} bytes per workload")


if __name__ == "__main__":
    main(sys.argv[1:])
