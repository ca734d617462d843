"""`makeway up` and the commands for people without kubectl."""

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from makeway.cli.main import main
from tests.harness.process import Up, running

QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: vision}
spec:
  cohort: lab
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: spot, resources: [{name: cpu, nominalQuota: 4}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: team}
spec: {clusterQueue: vision}
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: train, labels: {team: vision}}
spec:
  suspend: true
  template: {spec: {restartPolicy: Never, containers: [{name: main, image: python}]}}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with running(tmp_path_factory.mktemp("data")) as started:
        yield started


Run = Callable[..., str]


@pytest.fixture
def makeway(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def run(
        *arguments: str, text: str = "", code: int = 0, environment: dict[str, str] | None = None
    ) -> str:
        """What the command prints, both streams; its exit code must be `code`."""
        for name, value in (environment or {}).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        found = main(arguments)
        printed = capsys.readouterr()
        assert found == code, printed
        return printed.out + printed.err

    return run


def test_objects_from_a_file_to_the_end_of_their_life(server: Up, makeway: Run) -> None:
    where = {"MAKEWAY_DATA_DIR": str(server.folder)}

    def run(*arguments: str, text: str = "", code: int = 0) -> str:
        return makeway(*arguments, text=text, code=code, environment=where)

    assert run("apply", "-f", "-", text=QUEUES) == (
        "clusterqueue.kueue.x-k8s.io/vision created\nlocalqueue.kueue.x-k8s.io/team created\n"
    )
    assert run("apply", "-f", "-", text=QUEUES).count("unchanged") == 2
    more = QUEUES.replace("Quota: 4", "Quota: 8")
    assert "vision configured" in run("apply", "-f", "-", text=more)
    bad = QUEUES.replace("Quota: 4", "Quota: lots")
    assert 'Invalid value: "lots"' in run("apply", "-f", "-", text=bad, code=1)

    lines = run("get", "cq").splitlines()
    assert lines[0].split() == ["NAME", "COHORT", "PENDING", "WORKLOADS"]
    assert lines[1].split()[0] == "default"  # the automatic one, which is held now
    assert lines[2].split() == ["vision", "lab"]
    assert run("get", "lq", "-A").splitlines()[2].split()[:3] == ["default", "team", "vision"]
    assert json.loads(run("get", "cq/vision", "-o", "json"))["spec"]["cohortName"] == "lab"
    assert "cohortName: lab" in run("get", "cq", "vision", "-o", "yaml")
    assert "no jobs in namespace default" in run("get", "jobs")
    assert '"nope"' in run("get", "nope", code=1)

    run("apply", "-f", "-", text=JOB)
    assert run("get", "jobs", "-l", "team=vision", "-o", "name") == "job.batch/train\n"
    described = run("describe", "job", "train")
    assert "Suspend: True" in described
    assert "Events:" in described
    run("wait", "job/train", "--for=jsonpath={.spec.suspend}=true")
    assert "timed out" in run(
        "wait", "job/train", "--for=condition=Complete", "--timeout=100ms", code=1
    )
    assert run("delete", "job", "train") == "job.batch/train deleted\n"
    assert "not found" in run("delete", "job", "train", code=1)
    run("delete", "job", "train", "--ignore-not-found")
    run("wait", "job/train", "--for=delete")
    assert run("delete", "-f", "-", text=QUEUES).count("deleted") == 2


def test_the_server_is_found_by_kubeconfig_variable_or_folder(server: Up, makeway: Run) -> None:
    path, nowhere = str(server.kubeconfig), {"MAKEWAY_DATA_DIR": "/nonexistent", "KUBECONFIG": ""}
    assert "default" in makeway("get", "ns", "--kubeconfig", path, environment=nowhere)
    assert "default" in makeway("get", "ns", environment={**nowhere, "KUBECONFIG": path})
    folder = str(server.folder)
    assert "default" in makeway("get", "ns", "--data-dir", folder, environment=nowhere)
    assert "start a server with `makeway up`" in makeway("get", "ns", code=2, environment=nowhere)
    assert makeway("kubeconfig", "--data-dir", folder, "--path") == f"{path}\n"
    assert json.loads(makeway("kubeconfig", "--data-dir", folder))["kind"] == "Config"


def test_the_kubeconfig_of_another_cluster_is_not_taken_for_ours(
    server: Up, tmp_path: Path, makeway: Run
) -> None:
    other = json.loads(server.kubeconfig.read_text())
    other["clusters"][0]["name"] = other["contexts"][0]["context"]["cluster"] = "production"
    (tmp_path / "config").write_text(json.dumps(other))
    environment = {"KUBECONFIG": str(tmp_path / "config"), "MAKEWAY_DATA_DIR": "/nonexistent"}
    assert "/nonexistent/kubeconfig" in makeway("get", "ns", code=2, environment=environment)


def test_secrets_are_for_their_owner_only(server: Up) -> None:
    files = [server.kubeconfig, *(server.folder / "pki").iterdir(), server.folder / "makeway.db"]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert (server.folder / "pki").stat().st_mode & 0o777 == 0o700


def test_a_second_server_on_the_same_folder_is_refused(server: Up, makeway: Run) -> None:
    said = makeway("up", "--data-dir", str(server.folder), "--port", "0", code=2)
    assert f"another makeway (process {server.pid}) is running on" in said


def test_it_stops_cleanly_and_everything_is_there_again(tmp_path: Path, makeway: Run) -> None:
    folder = tmp_path / "data"
    started = Up(folder)
    started.start()
    makeway("apply", "-f", "-", "--data-dir", str(folder), text=QUEUES)
    token = (folder / "pki" / "token").read_text()
    assert started.stop() == 0
    assert not list(folder.glob("*.db-wal"))
    assert "is `makeway up` running?" in makeway("get", "cq", "--data-dir", str(folder), code=2)
    with running(folder, "--insecure-http") as again:
        assert again.address.startswith("http://127.0.0.1:")
        assert "vision" in makeway("get", "cq", "--data-dir", str(folder))
        assert (folder / "pki" / "token").read_text() == token


def test_a_taken_port_is_told(server: Up, tmp_path: Path, makeway: Run) -> None:
    port = server.address.rpartition(":")[2]
    said = makeway("up", "--data-dir", str(tmp_path), "--port", port, code=2)
    assert "address already in use" in said


def test_a_damaged_file_is_reported(tmp_path: Path, makeway: Run) -> None:
    (tmp_path / "makeway.db").write_bytes(b"nonsense" * 1000)
    said = makeway("up", "--data-dir", str(tmp_path), "--port", "0", code=2)
    assert "is damaged" in said


def test_converting_needs_no_server(tmp_path: Path, makeway: Run) -> None:
    (tmp_path / "old.yaml").write_text(QUEUES)
    new = makeway("convert", "-f", str(tmp_path / "old.yaml"))
    assert "cohortName: lab" in new
    assert "v1beta1" not in new
    old = makeway("convert", "-f", "-", "--to", "v1beta1", text=new)
    assert "cohort: lab" in old
