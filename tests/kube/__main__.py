"""The protocol suite by hand.

python -m tests.kube record [STORY ...]   # tell stories to a real server, keep its answers
python -m tests.kube compare [STORY ...]  # tell them to the embedded one, show differences
python -m tests.kube document             # write what is meant into docs/api-server.md
"""

import argparse
import tempfile
import time
from pathlib import Path

from tests.harness.served import embedded_server
from tests.kube.comparison import (
    GOLDEN,
    PAGE,
    compare,
    documented,
    not_meant,
    read_deliberate,
    read_golden,
    write_golden,
)
from tests.kube.plane import BOOKKEEPING, Plane
from tests.kube.stories import STORIES
from tests.kube.telling import tell


def record(folder: Path, stories: list[str]) -> None:
    plane = Plane(folder / "plane", BOOKKEEPING)
    print(f"the control plane was ready after {plane.start_s:.1f} s")
    try:
        for name in stories:
            began = time.monotonic()
            write_golden(name, tell(name, plane.access, plane.kubeconfig, folder))
            print(f"{time.monotonic() - began:6.2f} s  {name}")
    finally:
        plane.stop()
    for stale in {file.stem for file in GOLDEN.glob("*.json")} - set(STORIES):
        (GOLDEN / f"{stale}.json").unlink()


def show_differences(folder: Path, stories: list[str]) -> int:
    deliberate, count = read_deliberate(), 0
    with embedded_server(folder / "embedded") as server:
        for name in stories:
            transcript = tell(name, server.access, server.kubeconfig, folder)
            found = not_meant(compare(name, read_golden(name), transcript), deliberate)
            count += len(found)
            print(*found, sep="\n", end="\n" if found else "")
    print(f"{count} differences that are not meant")
    return int(count > 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=("record", "compare", "document"))
    parser.add_argument("stories", nargs="*", metavar="STORY")
    arguments = parser.parse_args()
    stories = arguments.stories or list(STORIES)
    if arguments.what == "document":
        PAGE.write_text(documented(PAGE.read_text()))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        if arguments.what == "compare":
            return show_differences(Path(folder), stories)
        record(Path(folder), stories)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
