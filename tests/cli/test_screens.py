"""The screens in docs/status-and-top.md are what a terminal shows: captured from tmux, compared.

`MAKEWAY_WRITE_SCREENS=1` writes them anew. Times of day and spans differ from run to run and are
made equal before the comparison, in as many columns as they take.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from makeway.cli.main import main
from tests.harness.process import running, wait_until
from tests.prerequisites import missing

PAGE = Path(__file__).parents[2] / "docs" / "status-and-top.md"
QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: {name}}}
spec:
  cohortName: lab
  namespaceSelector: {{}}
  preemption: {{reclaimWithinCohort: Any, withinClusterQueue: LowerPriority}}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors: [{{name: a100, resources: [{{name: nvidia.com/gpu, nominalQuota: 4}}]}}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: {name}}}
spec: {{clusterQueue: {name}}}
"""
FLAVOR = "{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: a100}}\n"
NODE = """
apiVersion: v1
kind: Node
metadata: {name: gpubox}
status: {capacity: {cpu: "64", memory: 512Gi, nvidia.com/gpu: "8"}}
"""
LIMIT = "3d"  # an end that is on another day at any time of the day: it has its weekday, always
JOBS = [
    ("ann", "--name", "train-resnet", "-q", "vision", "--gpu", "2", "--time-limit", LIMIT),
    ("ann", "--name", "tune-lr", "-q", "vision", "--gpu", "3"),
    ("bob", "--name", "asr-large", "-q", "speech", "--gpu", "2", "--time-limit", LIMIT),
    ("bob", "--name", "asr-huge", "-q", "speech", "--gpu", "4"),
    ("cem", "--name", "everything", "-q", "vision", "--gpu", "16", "--force"),
    ("cem", "--name", "nightly-eval", "-q", "vision", "--gpu", "1", "--hold"),
]
SCREENS = {
    "status": ("status",),
    "gpu": ("gpu",),
    "explain": ("explain", "asr-huge"),
    "top": ("top",),
}
_SIZES = ("COLUMNS", "LINES")  # which would count for more than the terminal's own
LAST = {"status": "held by", "gpu": "7 ", "explain": "more quota", "top": "held by"}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The surroundings of a command beside a `makeway up` with jobs of three people."""
    if shutil.which("tmux") is None:
        missing("tmux is not installed")
    folder = tmp_path_factory.mktemp("data")
    (folder / "nodes.yaml").write_text(NODE)
    queues = [QUEUE.format(name=name) for name in ("vision", "speech")]
    (folder / "queues.yaml").write_text("---".join([FLAVOR, *queues]))
    at = ["--data-dir", str(folder)]
    with running(folder, "--nodes", str(folder / "nodes.yaml")):
        assert main(["apply", "-f", str(folder / "queues.yaml"), *at]) == 0
        with pytest.MonkeyPatch.context() as patch:
            for user, *options in JOBS:
                patch.setenv("LOGNAME", user)
                command = ["submit", *options, *at, "--no-env", "--", "sleep", "3000"]
                assert main(command) == 0
                time.sleep(0.05)  # jobs of one moment have no order
        assert main(["gpu", "drain", "7", *at]) == 0
        own = {name: value for name, value in os.environ.items() if name not in _SIZES}
        yield {
            **own,
            "MAKEWAY_DATA_DIR": str(folder),
            "KUBECONFIG": "",
            "LOGNAME": "cem",
            "TMUX_TMPDIR": str(folder),
            "LC_ALL": "C.UTF-8",
            "TERM": "screen",
        }
        main(["cancel", "--all", "-y", *at])
        main(["wait", "1", "2", "3", *at])  # those that ran; a server that is gone ends nobody


def captured(name: str, width: int, lab: dict[str, str]) -> str:
    """What stands on a terminal of that width."""

    def tmux(*words: str) -> str:
        own_server = f"{name}-{width}"  # one that is just ending would take the next session along
        command = ["tmux", "-f", "/dev/null", "-L", own_server, *words]
        return subprocess.run(command, env=lab, capture_output=True, text=True).stdout

    shell = f"{sys.executable} -m makeway.cli.main {' '.join(SCREENS[name])}; sleep 60"
    tmux("new-session", "-d", "-x", str(width), "-y", "30", shell)
    try:

        def whole() -> str:
            shown = tmux("capture-pane", "-p")
            is_there = LAST[name] in shown and (name != "top" or "GPUs" in shown)
            return shown if is_there else ""

        return str(wait_until(whole, claim=f"{name} at {width} columns"))
    finally:
        tmux("kill-server")


def settled(text: str) -> str:
    """Without what differs from run to run, and without what happened last."""
    text = text.partition("What happened to it last:")[0]
    text = re.sub(r"\b([A-Z][a-z]{2} )?\d\d:\d\d(:\d\d)?\b", _clock, text)
    text = re.sub(r"\b(\d+m)?\d+s\b *(?=\S|$)", _span, text, flags=re.MULTILINE)
    lines = [line.rstrip() for line in text.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    return "\n".join(lines)


def _clock(found: re.Match[str]) -> str:
    return ("Thu " if found[1] else "") + ("16:40:00" if found[2] else "16:40")


def _span(found: re.Match[str]) -> str:
    return "12s".ljust(len(found[0]))


@pytest.mark.parametrize("name", list(SCREENS))
@pytest.mark.parametrize("width", [80, 120])
def test_a_screen_of_the_page_is_what_a_terminal_shows(
    name: str, width: int, lab: dict[str, str]
) -> None:
    screen = settled(captured(name, width, lab))
    page = PAGE.read_text()
    mark = f"<!-- screen: {name} {width} -->\n```text\n"
    before, found, rest = page.partition(mark)
    assert found, f"docs/status-and-top.md has no place for {name} at {width} columns"
    written, end, after = rest.partition("\n```\n")
    if os.environ.get("MAKEWAY_WRITE_SCREENS"):
        PAGE.write_text(before + found + screen + end + after)
        written = screen

    assert max(map(len, screen.splitlines())) <= width
    assert screen == written, "MAKEWAY_WRITE_SCREENS=1 writes the page anew"
