"""two teams share GPUs: real jobs under a real Makeway, told as it happens

Start a Makeway in a temporary folder, give it two teams in a cohort with two
flavors, submit real jobs and tell what becomes of them, with reasons: one borrows,
one is preempted to give back what was lent and finishes later, one falls back to
another flavor, a gang preempts another as a whole. Takes about half a minute and
cleans up after itself. No GPU is needed: GPUs are counted, not used.

examples:
  makeway demo
  NO_COLOR=1 makeway demo | less

exit codes:
  0  the story was told     2  it could not be
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from textwrap import wrap

from makeway.api.kinds import JOBS, WORKLOADS
from makeway.api.manifests import read_manifests, write_yaml
from makeway.cli.command import UsageError
from makeway.cli.terminal import Pen, pen_for
from makeway.client import Client
from makeway.client.client import Document
from makeway.client.folder import kubeconfig_in
from makeway.client.kubeconfig import read_kubeconfig
from makeway.client.reflector import Reflector, Synced

# It does what a user would do: starts `makeway up` on a folder of its own, applies the objects of
# demo.yaml, submits jobs, asks why one of them waits. What it prints is read from the conditions
# that Makeway writes.
NAMESPACE = "lab"
WIDTH = 80  # the narrowest terminal that people have
MARGIN = 10  # for the time
INDENT = " " * MARGIN
PATIENCE_S = 300.0  # of a busy machine

OPENING = """\
Two teams, vision and speech, share a lab of 16 reserved GPUs and own half of
them each; what one doesn't use, the other may borrow. A real Makeway runs in a
folder of its own now, and the jobs below are real processes on two declared
nodes.
"""
CLOSING = """\
That was all real, and it is gone without a trace. What to try next:
  .venv/bin/makeway up --detach                         a Makeway of your own
  .venv/bin/makeway apply -f examples/01-queues.yaml    queues for two teams
  less src/makeway/cli/demo.yaml                        its objects
"""


class Story:
    """Prints what becomes of the jobs while it happens."""

    def __init__(self, pen: Pen) -> None:
        self._pen, self._start = pen, time.monotonic()
        self._seen: dict[str, dict[str, tuple[str, str, str]]] = {}  # by job and condition
        self._ready: set[str] = set()  # jobs that were told to run, since they were admitted
        self._heard = asyncio.Event()

    def say(self, verb: str, name: str, text: str = "") -> None:
        clock = f"{time.monotonic() - self._start:6.1f} s"
        print(f"{self._pen.paint(f'{clock:<{MARGIN}}', 'dim')}{self._pen.verb(verb)}{name}")
        for line in wrap(text, WIDTH - MARGIN - 2, break_on_hyphens=False):
            print(f"{INDENT}  {line}")

    def scene(self, text: str) -> None:
        print(f"\n{self._pen.paint(text, 'bold')}", flush=True)

    async def follow(self, client: Client) -> None:
        async for change in Reflector(client, WORKLOADS, NAMESPACE).changes():
            if isinstance(change, Synced):
                for item in change.items:
                    self._hear(item)
            else:
                self._hear(change.object)

    def _hear(self, workload: Document) -> None:
        job = job_of(workload)
        before = self._seen.get(job, {})
        now = {
            c["type"]: (c["status"], c["reason"], c["message"])
            for c in (workload.get("status") or {}).get("conditions") or ()
        }
        self._seen[job] = now
        for verb, text in news(before, now):
            if verb == "admitted":
                self._ready.discard(job)
            if verb != "runs" or job not in self._ready:  # pods that end are ready no more
                self.say(verb, job, text)
            if verb == "runs":
                self._ready.add(job)
        self._heard.set()
        sys.stdout.flush()

    async def until(self, job: str, condition: str, reason: str = "") -> None:
        """Wait for a condition of a job's workload, and for a reason if one is named."""
        deadline = self._start + PATIENCE_S
        while True:
            status, why, _ = self._seen.get(job, {}).get(condition, ("", "", ""))
            if status == "True" and reason in ("", why):
                return
            self._heard.clear()
            try:
                await asyncio.wait_for(self._heard.wait(), deadline - time.monotonic())
            except TimeoutError:
                raise UsageError(f"{job} was not {condition} within {PATIENCE_S:.0f} s") from None


def job_of(workload: Document) -> str:
    owners = workload["metadata"].get("ownerReferences") or ()
    return str(next((o["name"] for o in owners), workload["metadata"]["name"]))


Conditions = Mapping[str, tuple[str, str, str]]  # by type: status, reason, message


def news(before: Conditions, now: Conditions) -> Iterator[tuple[str, str]]:
    """What is new in the conditions of a workload, as a verb and its reason."""

    def is_new(condition: str) -> bool:
        old, new = before.get(condition), now.get(condition)
        return new is not None and new[0] == "True" and (old is None or old[0] != "True")

    if is_new("Evicted"):
        yield "evicted", now["Evicted"][2]
    if is_new("Preemptor"):
        yield "preempts", now["QuotaReserved"][2]
    if is_new("Requeued") and now["Requeued"][1] == "BackoffFinished":
        yield "requeued", now["Requeued"][2]
    if is_new("Admitted"):
        yield "admitted", now["Admitted"][2]
    if is_new("PodsReady"):
        yield "runs", "all its pods are ready"
    if is_new("Finished"):
        yield "finished", ""


async def play(client: Client, story: Story, jobs: Mapping[str, Document], folder: Path) -> None:
    """The story itself; each scene waits for what it needs."""

    async def submit(name: str) -> None:
        story.say("submitted", name)
        await client.create(JOBS, jobs[name])

    story.scene("1. speech trains on 12 GPUs: its own 8, and 4 that vision doesn't use")
    await submit("train-asr")
    await submit("sweep")
    await story.until("train-asr", "PodsReady")
    await story.until("sweep", "PodsReady")

    story.scene("2. vision wants its 8 GPUs back: speech's training has to make way")
    await submit("train-seg")
    await story.until("train-seg", "PodsReady")

    story.scene("   Why does train-asr wait now?  (makeway explain train-asr)")
    show(folder, "explain", "train-asr", "--namespace", NAMESPACE)

    story.scene("3. speech's next job would take cheap spot GPUs; they don't come: it falls back")
    await submit("transcribe")

    story.scene("4. evaluate needs every CPU of both nodes, as a whole; sweep goes as a whole")
    await submit("evaluate")
    await story.until("transcribe", "Evicted", "FlavorFallback")
    await story.until("evaluate", "Finished")

    story.scene("5. Who made way comes back, and finishes")
    for name in jobs:
        await story.until(name, "Finished")
    story.scene("   How it went  (makeway history)")
    show(folder, "history", "--namespace", NAMESPACE)


def show(folder: Path, *command: str) -> None:
    """Run a command of makeway as a user would, and print what it says."""
    done = subprocess.run(
        [sys.executable, "-m", "makeway.cli.main", *command],
        env=environment(folder) | {"COLUMNS": str(WIDTH - MARGIN)},
        capture_output=True,
        text=True,
    )
    for line in (done.stdout + done.stderr).splitlines():
        print(f"{INDENT}{line}")
    sys.stdout.flush()


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "MAKEWAY_DATA_DIR": str(folder), "KUBECONFIG": ""}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It takes none."""


def read_objects() -> list[Document]:
    text = files("makeway.cli").joinpath("demo.yaml").read_text()
    return [dict(manifest.document) for manifest in read_manifests(text, "demo.yaml").manifests]


def run(arguments: argparse.Namespace) -> int:
    pen = pen_for(sys.stdout.isatty(), sys.stdout.encoding, os.environ)
    objects = read_objects()
    with tempfile.TemporaryDirectory(prefix="makeway-demo-") as name:
        folder = Path(name)
        server = start(folder, objects)
        try:
            print(OPENING)
            asyncio.run(tell(folder, objects, pen))
        except KeyboardInterrupt:
            print("\nstopped")
        finally:
            clean_up(folder, server)
    print()
    print(CLOSING, end="")
    return 0


def start(folder: Path, objects: Iterable[Document]) -> subprocess.Popen[str]:
    """`makeway up`, with the nodes and the configuration of the story."""
    for kind, path in (("Node", "nodes.yaml"), ("Configuration", "config.yaml")):
        chosen = [document for document in objects if document["kind"] == kind]
        (folder / path).write_text(write_yaml(*chosen))
    command = [sys.executable, "-m", "makeway.cli.main", "up", "--data-dir", str(folder)]
    command += ["--port", "0", "--nodes", str(folder / "nodes.yaml"), "--log-level", "error"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert server.stdout is not None
    if not server.stdout.readline().startswith("makeway is ready"):
        raise UsageError("makeway up did not start; what it said stands above")
    return server


async def tell(folder: Path, objects: Iterable[Document], pen: Pen) -> None:
    client = Client(read_kubeconfig(kubeconfig_in(folder)).transport())
    jobs = {d["metadata"]["name"]: d for d in objects if d["kind"] == "Job"}
    try:
        for document in objects:
            if document["kind"] not in ("Node", "Configuration", "Job"):
                kind = await client.resource(document["apiVersion"], document["kind"])
                await client.create(kind, document)
        story = Story(pen)
        following = asyncio.create_task(story.follow(client))
        try:
            await play(client, story, jobs, folder)
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
    finally:
        await client.close()


def clean_up(folder: Path, server: subprocess.Popen[str]) -> None:
    """Nothing that the demo started runs on after it."""
    cancel = [sys.executable, "-m", "makeway.cli.main", "cancel", "--all", "--yes"]
    subprocess.run(
        [*cancel, "--namespace", NAMESPACE], env=environment(folder), capture_output=True
    )
    server.send_signal(signal.SIGTERM)
    server.wait()
