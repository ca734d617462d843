"""Pipelines of others, unmodified, on a real `makeway up`: `make test-integrations`."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from makeway.api.kinds import JOBS, PODS
from tests import prerequisites
from tests.harness.process import Document, Up, running, wait_until
from tests.integrations.venvs import PROGRAMS, Venv

pytestmark = pytest.mark.integrations

RUN_TIMEOUT_S = 400.0
# Prefect 3.8 does not start with the newest FastAPI that it allows.
PREFECT = ("prefect", "prefect-kubernetes", "fastapi<0.145")
SNAKEMAKE = (
    "snakemake",
    "snakemake-executor-plugin-kubernetes",
    "snakemake-storage-plugin-fs",
)


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with running(tmp_path_factory.mktemp("pipelines") / "data") as started:
        yield started


def said(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=RUN_TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


def names(documents: Sequence[Document]) -> list[str]:
    return [document["metadata"]["name"] for document in documents]


def airflow() -> Venv:
    return Venv("airflow", "apache-airflow", "apache-airflow-providers-cncf-kubernetes")


def airflow_in(folder: Path, venv: Venv) -> Mapping[str, str]:
    """Its surroundings, with a database of its own."""
    environment = venv.environment(
        AIRFLOW_HOME=str(folder),
        AIRFLOW__CORE__LOAD_EXAMPLES="False",
        AIRFLOW__CORE__DAGS_FOLDER=str(PROGRAMS),
    )
    said(venv.command("airflow", "db", "migrate"), folder, environment)
    return environment


def test_airflow_runs_pods_one_after_the_other(up: Up, tmp_path: Path) -> None:
    venv = airflow()
    environment = airflow_in(tmp_path, venv)
    dag = venv.program("airflow_dag.py", str(up.kubeconfig), str(tmp_path / "square"))

    output = said(dag, tmp_path, environment)

    assert "the square is 144" in output  # as the pod printed it
    assert output.splitlines()[-1] == "dag success"
    pods = [pod for pod in up.listed(PODS) if pod["metadata"]["labels"].get("dag_id") == "squares"]
    assert [pod["status"]["phase"] for pod in pods] == ["Succeeded", "Succeeded"]
    assert all("kueue.x-k8s.io/managed" in pod["metadata"]["labels"] for pod in pods)


def test_airflow_hands_results_on_by_its_sidecar(up: Up, tmp_path: Path) -> None:
    """To end the sidecar, it interrupts whatever it sees that has `sh` in its command line."""
    if os.getpid() != 1:
        prerequisites.missing("others would be interrupted: this needs a PID namespace of its own")
    venv = airflow()
    environment = airflow_in(tmp_path, venv)
    dag = venv.program("airflow_xcom.py", str(up.kubeconfig))

    output = said(dag, tmp_path, environment)

    assert "the square is 144" in output
    assert output.splitlines()[-1] == "dag success"


def test_snakemake_runs_rules_as_jobs(up: Up, tmp_path: Path) -> None:
    prerequisites.program("rsync")  # of its storage plugin
    venv = Venv("snakemake", *SNAKEMAKE)
    shutil.copy(PROGRAMS / "Snakefile", tmp_path)
    environment = venv.environment(KUBECONFIG=str(up.kubeconfig), HOME=str(tmp_path))
    storage = ("--default-storage-provider", "fs", "--default-storage-prefix", str(tmp_path / "s"))
    path = f"export PATH={venv.folder}/bin:$PATH"
    command = ("snakemake", "--executor", "kubernetes", "--jobs", "2", "--precommand", path)

    output = said(venv.command(*command, *storage), tmp_path, environment)

    assert "2 of 2 steps (100%) done" in output
    assert (tmp_path / "s" / "told").read_text() == "the square is 144\n"


def test_prefect_runs_a_flow_as_a_job(up: Up, tmp_path: Path) -> None:
    venv = Venv("prefect", *PREFECT)
    port = free_port()
    environment = venv.environment(
        KUBECONFIG=str(up.kubeconfig),
        PREFECT_HOME=str(tmp_path),
        PREFECT_API_URL=f"http://127.0.0.1:{port}/api",
        PREFECT_SERVER_ANALYTICS_ENABLED="false",
    )
    server = ("prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port))
    pool = ("prefect", "work-pool", "create", "makeway", "--type", "kubernetes")
    worker = ("prefect", "worker", "start", "--pool", "makeway", "--type", "kubernetes")
    with going(venv.command(*server), tmp_path, environment):
        wait_for_answer(f"http://127.0.0.1:{port}/api/health")
        said(venv.command(*pool), tmp_path, environment)
        with going(venv.command(*worker), tmp_path, environment):
            output = said(venv.program("prefect_flow.py"), tmp_path, environment)

    assert "flow Completed" in output
    (job,) = [job for job in up.listed(JOBS) if "prefect.io/flow-name" in _labels(job)]
    assert _labels(job)["kueue.x-k8s.io/queue-name"] == "default"
    assert "sum 14" in up.makeway("logs", job["metadata"]["name"])


def test_parsl_starts_its_workers_as_pods(up: Up, tmp_path: Path) -> None:
    venv = Venv("parsl", "parsl", "kubernetes")
    environment = venv.environment(KUBECONFIG=str(up.kubeconfig))

    output = said(venv.program("parsl_apps.py", str(tmp_path / "run")), tmp_path, environment)

    assert "sum 14" in output
    wait_until(lambda: not [name for name in names(up.listed(PODS)) if "parsl" in name])


def _labels(document: Document) -> Mapping[str, str]:
    return document["metadata"].get("labels") or {}


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def wait_for_answer(address: str) -> None:
    """Such a server may take minutes to begin, on a machine with other things to do."""
    deadline = time.monotonic() + RUN_TIMEOUT_S
    while time.monotonic() < deadline:
        with suppress(OSError), urllib.request.urlopen(address, timeout=5):
            return
        time.sleep(0.5)
    raise AssertionError(f"nobody answers at {address}")


@contextmanager
def going(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """A program of which nothing is asked but to go on meanwhile."""
    with open(folder / "log", "ab") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=60)
