"""Makeway from Python: commands and functions as jobs of a real `makeway up`."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import pytest

from makeway import AutoExecutor, CallFailed, Client, Executor, JobFailed, RequestRefused
from makeway.cli import submit
from makeway.cli.suggesting import SuggestingParser
from makeway.handle.options import Options
from makeway.handle.post import JobFuture
from tests.handle import functions
from tests.harness import documents
from tests.harness.process import Up, running_on, wait_until

BOX = {"cpu": "4", "memory": "16Gi"}
PAGE = Path(__file__).parents[2] / "docs" / "python.md"
BLOCK = re.compile(r"^```python up\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Two queues: of 3 cores, and of one that the more important take from the less important."""
    narrow = documents.queue("narrow", 1, preemption={"withinClusterQueue": "LowerPriority"})
    objects = (
        documents.flavor("default"),
        documents.queue("wide", 3),
        documents.local_queue("default", "wide"),
        narrow,
        documents.local_queue("narrow", "narrow"),
        documents.queueing("WorkloadPriorityClass", "urgent", value=1000),
    )
    with running_on(BOX, tmp_path_factory.mktemp("handle"), *objects) as started:
        yield started


@pytest.fixture(scope="module")
def client(up: Up) -> Iterator[Client]:
    with Client(data_dir=up.folder) as opened:
        yield opened


@pytest.fixture(scope="module")
def executor(client: Client) -> Iterator[Executor]:
    with Executor(client, cpu=1) as opened:
        yield opened


def test_a_command_is_submitted_waited_for_and_read(client: Client) -> None:
    job = client.submit("echo $GREETING; exit 3", env={"GREETING": "hello"}, cpu=1, time_limit=60)

    assert job.wait(TIMEOUT_S).code == 3
    assert job.logs() == "hello\n"
    assert job.status == "failed"
    assert client.describe(job.number)["limitSeconds"] == 60
    assert job.name in [row["name"] for row in client.status(ended=True)]
    assert not job.cancel()  # it has ended


def test_an_array_is_waited_for_as_a_whole(client: Client) -> None:
    jobs = client.submit_array("exit $MAKEWAY_ARRAY_INDEX", "0-2", cpu=1)

    assert client.wait(*jobs, timeout=TIMEOUT_S).code == 1
    assert [client.wait(job).code for job in jobs] == [0, 1, 2]


def test_what_is_wrong_is_said_before_anything_is_made(client: Client) -> None:
    with pytest.raises(TypeError, match=r"no option 'gpus' \(did you mean gpu\?\)"):
        client.submit("true", gpus=1)  # type: ignore[call-arg]
    with pytest.raises(RequestRefused, match="no LocalQueue nowhere"):
        client.submit("true", queue="nowhere")


def test_the_options_are_those_of_the_command() -> None:
    parser = SuggestingParser()
    submit.add_arguments(parser)
    here = {"words", "array", "follow", "wait", "dry_run", "preview", "output", "help"}
    server = {"namespace", "kubeconfig", "data_dir"}

    dests = {action.dest for action in parser._actions}
    assert set(Options.__annotations__) == dests - here - server


def test_a_function_gives_what_it_gives(executor: Executor) -> None:
    sent = executor.submit(functions.square, 3)

    assert sent.result(TIMEOUT_S) == 9
    assert sent.job.logs() == "squaring 3\n"
    assert sent.job.name.startswith("square-")


def test_a_map_is_one_array_and_keeps_its_order(executor: Executor) -> None:
    assert list(executor.map(functions.square, [3, 1, 2], timeout=TIMEOUT_S)) == [9, 1, 4]
    assert list(executor.map(functions.square, range(5), chunksize=3)) == [0, 1, 4, 9, 16]


def test_what_a_function_raises_is_raised_here(executor: Executor) -> None:
    with pytest.raises(ValueError, match="invalid literal") as raised:
        executor.submit(int, "twelve").result(TIMEOUT_S)
    assert "In the job:" in raised.value.__notes__[0]

    with pytest.raises(CallFailed, match="Odd: no twice"):
        executor.submit(functions.refuse, "no").result(TIMEOUT_S)


def test_a_job_that_dies_fails_with_its_exit_code(executor: Executor) -> None:
    with pytest.raises(JobFailed, match="exit code 7") as raised:
        executor.submit(functions.die).result(TIMEOUT_S)
    assert raised.value.code == 7


def test_a_call_that_runs_can_be_cancelled_and_its_callbacks_may_send_others(
    executor: Executor,
) -> None:
    followed: list[futures.Future[int]] = []
    sent = executor.submit(time.sleep, 60)
    sent.add_done_callback(lambda _: followed.append(executor.submit(functions.square, 2)))
    wait_until(sent.running)

    assert sent.cancel()

    assert sent.cancelled()
    assert futures.wait([sent], timeout=0).done == {sent}
    wait_until(lambda: sent.job.status == "cancelled")
    assert followed[0].result(TIMEOUT_S) == 4


def test_who_is_cancelled_by_others_is_cancelled(client: Client, executor: Executor) -> None:
    sent = executor.submit(time.sleep, 60)

    client.cancel(sent.job.number)

    with pytest.raises(futures.CancelledError):
        sent.result(TIMEOUT_S)


def test_a_call_that_has_to_make_way_is_begun_again(client: Client, executor: Executor) -> None:
    sent = executor.options(queue="narrow").submit(functions.which_attempt)
    wait_until(sent.running)

    urgent = client.submit("true", queue="narrow", cpu=1, priority="urgent")

    assert urgent.wait(TIMEOUT_S).code == 0
    assert sent.result(TIMEOUT_S) == 2
    assert client.describe(sent.job)["evictions"] == 1


def test_an_executor_that_is_shut_takes_nothing_and_cancels_what_waits(client: Client) -> None:
    executor = Executor(client, hold=True)
    waiting = executor.submit(functions.square, 1)

    executor.shutdown(cancel_futures=True)

    assert waiting.cancelled()
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(functions.square, 2)


def test_a_call_is_cancelled_once_whoever_says_so_at_the_same_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By its user, and by who reads that its job was cancelled."""
    future: JobFuture[int] = JobFuture(None, "call")  # type: ignore[arg-type]
    cancel, both = futures.Future.cancel, threading.Barrier(2)

    def together(self: futures.Future[Any]) -> bool:
        is_cancelled = cancel(self)
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.3)  # nobody comes where one waits for the other
        return is_cancelled

    monkeypatch.setattr(futures.Future, "cancel", together)
    with futures.ThreadPoolExecutor(2) as threads:
        said = [threads.submit(future.note_cancelled) for _ in range(2)]

    assert [one.result() for one in said] == [None, None]
    assert future.cancelled()


def test_functions_are_sent_as_with_submitit(client: Client, tmp_path: Path) -> None:
    executor = AutoExecutor(tmp_path / "calls", client)
    executor.update_parameters(timeout_min=5, cpus_per_task=1, slurm_array_parallelism=1)

    one = executor.submit(functions.square, 5)
    several = executor.map_array(functions.square, [1, 2])

    assert [one.result(), *(job.result() for job in several)] == [25, 1, 4]
    assert (one.state, one.done(), one.stdout()) == ("COMPLETED", True, "squaring 5\n")
    assert several[1].job_id.endswith("_1")
    with pytest.raises(TypeError, match=r"'mem_gbs' .* \(did you mean mem_gb\?\)"):
        executor.update_parameters(mem_gbs=4)
    assert not list((tmp_path / "calls").iterdir())


def test_the_package_alone_loads_nothing() -> None:
    script = "import sys, makeway; print(*(m for m in sys.modules if m.startswith('makeway')))"

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert done.stdout.split() == ["makeway"]


@pytest.mark.parametrize("block", BLOCK.findall(PAGE.read_text(encoding="utf-8")))
def test_examples_run(up: Up, tmp_path: Path, block: str) -> None:
    """As a script of its own: what is `__main__` there is found by the jobs, too."""
    script = tmp_path / "example.py"
    script.write_text(block)

    done = subprocess.run(
        [sys.executable, str(script)],
        env={**up.environment, "MAKEWAY_DATA_DIR": str(up.folder)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )

    assert done.returncode == 0, done.stderr
    expected = [line.partition("# ")[2] for line in block.splitlines() if "print(" in line]
    assert done.stdout.splitlines() == expected
