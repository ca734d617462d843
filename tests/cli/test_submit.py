"""`makeway submit` makes a Job of a command, with everything it needs to run as typed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from makeway.cli.main import main
from makeway.cli.surroundings import captured
from tests.harness.cli import CliServer, failed, said, succeeded
from tests.harness.forked import Forked
from tests.harness.process import command


def built(*arguments: str) -> dict[str, Any]:
    """The Job that would be submitted."""
    printed = command("submit", "--dry-run=client", "-ojson", *arguments)
    document: dict[str, Any] = json.loads(printed)
    return document


def test_a_command_becomes_a_job_in_the_only_queue(cli: CliServer, monkeypatch: Any) -> None:
    monkeypatch.setenv("EPOCHS", "3")

    assert cli.run("submit", "--name", "train", "--gpu", "2", "--", "python3", "train.py") == (
        "Submitted job 1 (train)\n"
    )

    job = cli.job("train")
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"
    assert job["metadata"]["annotations"]["makeway.dev/submitted-by"] == "ada"
    assert job["spec"]["suspend"] is True
    assert job["spec"]["backoffLimit"] == 0
    assert container["command"] == ["python3", "train.py"]
    assert container["workingDir"] == str(Path.cwd())
    assert container["resources"]["requests"] == {"nvidia.com/gpu": "2"}
    assert {"name": "EPOCHS", "value": "3"} in container["env"]


def test_numbers_count_up_and_none_is_lost_to_a_job_that_is_refused(cli: CliServer) -> None:
    cli.run("submit", "--name", "a", "--", "true")
    assert "Invalid" in cli.run("submit", "--name", "B", "--", "true", code=1)

    again = cli.run("submit", "--name", "a", "--", "true")

    assert re.fullmatch(r"Submitted job 2 \(a-[a-z0-9]{5}\)\n", again)


def test_submitting_at_once_gives_no_number_twice(cli: CliServer, tmp_path: Path) -> None:
    line = ("submit", "--no-env", "--", "true")
    processes = [Forked(line, tmp_path / "errors") for _ in range(6)]

    lines = [process.stdout.read() for process in processes]

    assert sorted(int(line.split()[2]) for line in lines) == [1, 2, 3, 4, 5, 6]


def test_without_a_queue_the_choice_is_told(bare: CliServer) -> None:
    assert "there is none" in bare.run("submit", "--", "true", code=1)
    for name in ("team-a", "team-b"):
        bare.apply(
            "{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue,"
            f" metadata: {{name: {name}}}, spec: {{clusterQueue: x}}}}"
        )
    assert "there are: team-a, team-b" in bare.run("submit", "--", "true", code=1)
    assert "no LocalQueue team-c" in bare.run("submit", "-q", "team-c", "--", "true", code=1)
    assert "Submitted job 1" in bare.run("submit", "-q", "team-b", "--", "true")


def test_an_array_is_a_job_for_each_index() -> None:
    jobs = built("--name", "part", "--array", "0-6:3%2", "--", "true")["items"]

    assert [job["metadata"]["name"] for job in jobs] == ["part-0", "part-3", "part-6"]
    assert {job["metadata"]["annotations"]["makeway.dev/array-limit"] for job in jobs} == {"2"}


def test_the_variable_chooses_among_queues(cli: CliServer, monkeypatch: Any) -> None:
    monkeypatch.setenv("MAKEWAY_QUEUE", "nope")

    refused = cli.run("submit", "--", "true", code=1)

    assert "no LocalQueue nope in namespace default (from MAKEWAY_QUEUE)" in refused
    assert "Submitted" in cli.run("submit", "-q", "team", "--", "true")


def test_times_retries_and_counts() -> None:
    spec = built(
        *("--time-limit", "2h", "--ttl", "1d", "--retries", "3", "--parallelism", "4"),
        *("--", "true"),
    )["spec"]

    assert spec["activeDeadlineSeconds"] == 7200
    assert spec["ttlSecondsAfterFinished"] == 86400
    assert spec["backoffLimit"] == 3
    assert (spec["parallelism"], spec["completions"]) == (4, 4)


def test_dollars_reach_the_command_as_typed() -> None:
    container = built("--", "sh", "-c", "echo $$ $(date) $HOME")["spec"]["template"]["spec"]

    # A container's command knows $$ and $(NAME); doubled, they stand for themselves.
    assert container["containers"][0]["command"][2] == "echo $$$ $$(date) $HOME"


def test_a_script_brings_its_options_and_the_command_line_wins(tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text(
        "#!/bin/bash -e\n#MAKEWAY --gpu 2 --env A=1  # two will do\n#MAKEWAY --name from-script\n"
        "\necho $1\n#MAKEWAY --gpu 9\n"
    )

    job = built("--gpu", "4", "--env", "B=2", "--no-env", str(script), "--not-ours")

    container = job["spec"]["template"]["spec"]["containers"][0]
    assert job["metadata"]["name"] == "from-script"
    assert container["resources"]["requests"] == {"nvidia.com/gpu": "4"}
    assert container["env"] == [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    assert container["command"] == ["/bin/bash", "-e", str(script), "--not-ours"]


def test_a_wrong_line_of_a_script_has_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "train.sh"
    script.write_text("#!/bin/sh\n#MAKEWAY --gpus 2\n")

    assert main(["submit", "--dry-run=client", str(script)]) == 2
    assert f"{script}:2: " in capsys.readouterr().err


def test_the_session_stays_behind() -> None:
    here = {
        "PATH": "/bin",
        "SSH_AUTH_SOCK": "/tmp/x",
        "DISPLAY": ":0",
        "CUDA_VISIBLE_DEVICES": "0",
        "BASH_FUNC_x%%": "() {}",
        "BROKEN": "\udcff",
    }

    assert captured(here) == {"PATH": "/bin"}


CLUSTER = """
clusters: [{name: prod, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: prod, context: {cluster: prod}}]
current-context: prod
"""


def test_nothing_of_this_machine_goes_to_a_cluster(tmp_path: Path, monkeypatch: Any) -> None:
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(CLUSTER)
    monkeypatch.setenv("API_KEY", "secret")
    words = ("--kubeconfig", str(kubeconfig), "--env", "EPOCHS=3", "--", "train")

    assert "--image: name one that has the command" in command("submit", *words, code=2)
    job = built("--image", "team/train:1", *words)

    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container == {
        "name": "main",
        "image": "team/train:1",
        "command": ["train"],
        "env": [{"name": "EPOCHS", "value": "3"}],
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "say what to run"),
        (["--cpu", "many", "--", "true"], "--cpu many: write a quantity"),
        (["--array", "9-5", "--", "true"], "--array 9-5: 9-5 has no indexes"),
        (["--env", "A", "--", "true"], "--env A: write NAME=VALUE"),
        (["--retries", "-1", "--", "true"], "--retries -1: write 0 or more"),
        (["--gpu", "0.5", "--", "true"], "--gpu 0.5: nvidia.com/gpu comes in whole numbers"),
        (["--workdir", "/nope", "--", "true"], "--workdir /nope: there is no such directory"),
        (["./nope.sh"], "there is no script ./nope.sh here"),
        (["--time-limit", "soon", "--", "true"], "--time-limit soon: write for example"),
    ],
)
def test_wrong_options_are_named(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["submit", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_class_that_is_not_there_is_refused(cli: CliServer) -> None:
    printed = cli.run("submit", "--priority", "nosuch", "--", "true", code=1)

    assert "no WorkloadPriorityClass nosuch; there is none" in printed
    assert "there is no job" in cli.run("status")


def test_a_command_that_is_not_here_is_warned_of(cli: CliServer) -> None:
    assert "there is no command 'nosuch' here" in cli.run("submit", "--", "nosuch")
    assert "warning" not in cli.run("submit", "--image", "x", "--", "nosuch")
    assert "warning" not in cli.run("submit", "--", "true")


def test_waiting_exits_as_the_job_does(cli: CliServer) -> None:
    evicted = said("Evicted", reason="Preempted")
    steps = cli.later(
        lambda: (cli.enqueue("train", said("Admitted")), None)[1],
        lambda: cli.stands("job-train", evicted),  # not the end
        lambda: cli.start_pod("train", "train-0", "", code=3),
        lambda: cli.job_status("train", failed()),
    )

    printed = cli.run("submit", "--wait", "--name", "train", "--", "false", code=3)

    steps.join()
    assert "job 1 (train) failed with exit code 3" in printed


def test_following_goes_on_over_an_eviction(cli: CliServer) -> None:
    steps = cli.later(
        lambda: (cli.enqueue("train", said("Admitted")), None)[1],
        lambda: cli.start_pod("train", "train-0", "step 1\n", code=143),
        lambda: cli.stands("job-train", said("QuotaReserved", "False", message="no GPUs free")),
        lambda: cli.start_pod("train", "train-1", "step 1\nstep 2\n", code=0),
        lambda: cli.job_status("train", succeeded()),
    )

    printed = cli.run("submit", "--follow", "--name", "train", "--", "x")

    steps.join()
    assert "step 1\nstep 1\nstep 2\n" in printed
    assert "makeway: job 1 (train) is pending: no GPUs free" in printed
    assert "job 1 (train) succeeded" in printed


def test_held_from_the_start_until_it_is_resumed(cli: CliServer) -> None:
    cli.run("submit", "--hold", "--name", "train", "--", "true")
    assert cli.job("train")["metadata"]["annotations"]["makeway.dev/hold"] == "true"

    cli.enqueue("train")
    cli.run("resume", "train")

    assert "makeway.dev/hold" not in cli.job("train")["metadata"]["annotations"]
    assert cli.workload("job-train")["spec"]["active"] is True


def test_a_dry_run_on_the_server_leaves_nothing_behind(cli: CliServer) -> None:
    assert "kueue.x-k8s.io/queue-name: team" in cli.run("submit", "--dry-run=server", "--", "true")
    assert "there is no job" in cli.run("status", "--all")
    assert "Submitted job 1 " in cli.run("submit", "--", "true")
