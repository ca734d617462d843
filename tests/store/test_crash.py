"""What was acknowledged survives `kill -9`, whenever it comes."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

from makeway.store import Key, Store

KILLS = int(os.environ.get("MAKEWAY_KILLS", "12"))
WRITER = """
import random, sys
from pathlib import Path
from makeway.store import Key, Store

store = Store(Path(sys.argv[1]), events_kept=50, first_revision=1000)
chance = random.Random(sys.argv[2])
out = sys.stdout
print("ready", store.revision, flush=True)

def done(record, failure):
    assert failure is None, failure
    out.write(f"{record.revision} {record.key.name} {record.body.decode()}\\n")

while True:
    for _ in range(chance.randint(1, 20)):
        key = Key("jobs", "", f"job-{chance.randint(0, 9)}")
        current = store.latest(key)
        text = str(chance.random()) + "x" * chance.randint(0, 5000)
        if current is not None and chance.random() < 0.2:
            store.submit(key, current.revision, lambda r: b"gone", done, is_deletion=True)
        else:
            expected = 0 if current is None else current.revision
            store.submit(key, expected, lambda r: text.encode(), done)
    store.flush()
    out.flush()
"""


def test_everything_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    path, chance = tmp_path / "makeway.db", random.Random(4)
    state: dict[str, tuple[int, str]] = {}
    last = 1000
    for turn in range(KILLS):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(turn)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(chance.random() * 0.1)
        process.kill()
        lines = process.stdout.read().split("\n")
        process.wait()
        for line in lines[:-1]:  # the last one may be cut off
            number, name, body = line.split(" ")
            assert int(number) > last, "a revision was given twice or went back"
            last = int(number)
            state[name] = (last, body)

        store = Store(path, events_kept=50)
        assert store.revision >= last
        for name, (revision, body) in state.items():
            found = store.get(Key("jobs", "", name))
            if found is not None and found.revision == revision:
                assert found.body.decode() == body
            elif found is None:
                # Deleted: acknowledged, or written without our hearing of it.
                assert body == "gone" or store.revision > last
            else:
                assert found.revision > last, (name, found.revision, revision)
        for event in store.events_since(store.oldest, "jobs"):
            if event.revision > last:
                text = "gone" if event.is_deletion else event.record.body.decode()
                state[event.record.key.name] = (event.revision, text)
        last = store.revision
        store.close()
    assert last > 1000
