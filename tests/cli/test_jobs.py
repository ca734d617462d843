"""Commands about jobs: how they stand, why they wait, and what one can do to them."""

from __future__ import annotations

import io
import json
import re

import pytest

from makeway.cli.main import main
from makeway.client import ApiError, Client, Unavailable
from tests.harness.cli import CliServer, failed, rows_of, said, succeeded

SHORT = "insufficient unused quota for nvidia.com/gpu in flavor a100, 3 more needed"


@pytest.fixture
def train(cli: CliServer) -> CliServer:
    """A server with job 1, `train`, submitted."""
    cli.run("submit", "--name", "train", "--gpu", "4", "--", "python", "train.py")
    return cli


# --- status ---


@pytest.mark.parametrize(
    ("conditions", "status"),
    [
        ([said("QuotaReserved", "False", "WaitingForQuota", SHORT)], "pending"),
        ([said("QuotaReserved"), said("Admitted", "False")], "reserved"),
        ([said("QuotaReserved"), said("Admitted")], "admitted"),
        ([said("QuotaReserved"), said("Admitted"), said("Evicted")], "evicting"),
    ],
)
def test_the_word_for_how_a_job_stands(
    train: CliServer, conditions: list[dict[str, str]], status: str
) -> None:
    train.enqueue("train", *conditions, priority=7)

    row = rows_of(train.run("status"))["train"]

    shown = [row[title] for title in ("ID", "USER", "QUEUE", "STATUS", "PRIO", "GPUS")]
    assert shown == ["1", "ada", "team", status, "7", "4"]


def test_who_waits_is_told_why_in_the_same_line(train: CliServer) -> None:
    train.enqueue("train", said("QuotaReserved", "False", "WaitingForQuota", SHORT))

    assert "needs 4 GPUs, 1 free" in train.run("status").splitlines()[1]
    (item,) = json.loads(train.run("status", "-o", "json"))["items"]
    assert (item["id"], item["status"], item["gpus"]) == (1, "pending", 4)
    assert (item["reason"], item["message"]) == ("needs 4 GPUs, 1 free", SHORT)
    assert item["command"] == ["python", "train.py"]


def test_a_running_job_runs(train: CliServer) -> None:
    train.enqueue("train", said("QuotaReserved"), said("Admitted"))
    train.job_status("train", active=1, ready=1)

    assert rows_of(train.run("status"))["train"]["STATUS"] == "running"


def test_a_job_whose_pods_are_not_ready_does_not_run_yet(train: CliServer) -> None:
    train.enqueue("train", said("QuotaReserved"), said("Admitted"))
    train.job_status("train", active=1)

    assert rows_of(train.run("status"))["train"]["STATUS"] == "admitted"


def test_the_ended_are_shown_on_request(train: CliServer) -> None:
    train.job_status("train", succeeded())

    assert "there is no job in namespace default that has not ended" in train.run("status")
    assert rows_of(train.run("status", "--all"))["train"]["STATUS"] == "succeeded"


def test_a_job_without_a_workload_says_so(train: CliServer) -> None:
    assert "no Workload was made for it yet" in train.run()


def test_filters_and_forms_of_the_list(train: CliServer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert train.run("status", "-o", "name") == "job.batch/train\n"
    assert "job 1" not in train.run("status", "-q", "elsewhere")
    assert train.run("status", "-A").splitlines()[0].split()[0] == "NAMESPACE"
    assert "WORKLOAD" in train.run("status", "-o", "wide").splitlines()[0]
    assert "submittedBy: ada" in train.run("status", "-o", "yaml")
    monkeypatch.setattr("getpass.getuser", lambda: "bob")
    assert "there is no job" in train.run("status", "--me")


def test_an_object_that_cannot_be_read_hides_no_other(train: CliServer) -> None:
    train.run("submit", "--name", "broken", "--", "true")
    train.job_status("broken", startTime="yesterday")
    train.job_status("train", succeeded())
    workload = train.enqueue("train")
    train.stands(workload, requeueState={"count": 1, "requeueAt": "tomorrow"})

    for command in (("status", "--all"), ("history",)):
        printed = train.run(*command)
        assert rows_of(printed)["train"]["STATUS"] == "succeeded"
        assert "makeway: can't read Job broken of the server: status.startTime" in printed
        assert f"makeway: can't read Workload {workload} of the server" in printed


def test_without_a_server_it_says_how_to_start_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MAKEWAY_DATA_DIR", "/nonexistent")
    monkeypatch.delenv("KUBECONFIG", raising=False)

    assert main(["status"]) == 2
    assert "start a server with `makeway up`" in capsys.readouterr().err


def test_the_run_counts_from_when_pods_are_ready(train: CliServer) -> None:
    train.enqueue("train", said("QuotaReserved"), said("Admitted"))
    assert rows_of(train.run("status", "-o", "wide"))["train"]["RUN"] == "-"

    ready = {**said("PodsReady", reason="Started"), "lastTransitionTime": "2026-01-01T00:00:00Z"}
    train.stands("job-train", said("QuotaReserved"), said("Admitted"), ready)
    train.job_status("train", active=1, ready=1)

    assert "d" in rows_of(train.run("status"))["train"]["SINCE"]


def test_a_run_that_has_ended_counts_in_whole_seconds_as_its_end_does(train: CliServer) -> None:
    """It slept for a second, from 0.2 to 1.2; the Job says that it ended at 1."""
    train.enqueue("train")
    at = {"lastTransitionTime": "2026-01-01T00:00:00.2Z"}
    begun = [said(name) | at for name in ("QuotaReserved", "Admitted", "PodsReady")]
    train.stands("job-train", *begun)
    train.job_status("train", succeeded(), completionTime="2026-01-01T00:00:01Z")

    assert rows_of(train.run("history"))["train"]["RUN"] == "1s"


def test_an_admission_check_is_named_with_what_it_says(train: CliServer) -> None:
    train.enqueue("train")
    check = {"name": "budget", "state": "Pending", "message": "asks the treasurer"}
    check["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    train.stands("job-train", said("QuotaReserved"), admissionChecks=[check])

    line = "admission check budget is Pending: asks the treasurer"
    assert "admission check budget is Pending: asks…" in train.run("status").splitlines()[1]
    assert line in train.run("explain", "1")


# --- which job is meant ---


@pytest.mark.parametrize(
    "word",
    [
        *("1", "train", "default/train", "job/train", "job.batch/train", "@", "last"),
        *("job-train", "workload/job-train", "wl/job-train", "default/job-train"),
    ],
)
def test_a_job_goes_by_many_names(train: CliServer, word: str) -> None:
    train.enqueue("train")

    assert train.run("hold", word) == "job 1 (train) held\n"


def test_the_latest_is_ones_own(train: CliServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "bob")

    assert "bob has not submitted a job yet" in train.run("cancel", "@", code=1)


@pytest.mark.parametrize("word", ["2", "nope", "job/nope", "wl/nope", "../x", "a/b/c", "%2e", ""])
def test_a_job_that_is_not_there(train: CliServer, word: str) -> None:
    assert f"there is no job {word!r}" in train.run("explain", word, code=1)


# --- explain ---


def test_without_an_explanation_of_the_server_the_conditions_tell(train: CliServer) -> None:
    train.enqueue(
        "train",
        said("QuotaReserved", "False", "WaitingForQuota", SHORT),
        said("Evicted", reason="Preempted", message="Preempted to accommodate default/urgent"),
        said("Preempted", reason="InClusterQueue", message="Preempted for default/urgent"),
    )

    printed = train.run("explain", "1")

    assert f"train is pending: {SHORT}" in printed
    assert re.search(r"It was stopped before:\n- Evicted=True \(Preempted, \d+s ago\): ", printed)
    document = json.loads(train.run("explain", "1", "-o", "json"))
    assert document["kind"] == "Explanation"
    assert len(document["lines"]) == len(printed.splitlines())


def test_a_job_in_no_queue_is_told_so(cli: CliServer) -> None:
    cli.apply(
        "{apiVersion: batch/v1, kind: Job, metadata: {name: loose}, spec: {suspend: true,"
        " template: {spec: {restartPolicy: Never, containers: [{name: m, image: x}]}}}}"
    )

    assert "loose is in no queue: it has no label" in cli.run("explain", "loose")


# --- logs ---


def test_the_output_of_one_pod_is_as_it_is(train: CliServer) -> None:
    train.start_pod("train", "train-0", "one\ntwo\nno newline", code=0)

    assert train.run("logs", "1") == "one\ntwo\nno newline"
    assert train.run("logs", "1", "--tail", "1") == "no newline"


def test_lines_of_several_pods_are_named(train: CliServer) -> None:
    train.start_pod("train", "train-0", "one\ntwo", code=0)
    train.start_pod("train", "train-1", "three\n", code=0)

    assert train.run("logs", "1") == "[train-0] one\n[train-0] two\n[train-1] three\n"
    assert train.run("logs", "1", "--pod", "train-1") == "three\n"
    assert "it has train-0, train-1" in train.run("logs", "1", "--pod", "x", code=1)


def test_a_job_without_pods_says_how_it_stands(train: CliServer) -> None:
    train.enqueue("train", said("QuotaReserved", "False", "WaitingForQuota", SHORT))

    assert f"has no pods, it is pending: {SHORT}" in train.run("logs", "1", code=1)


def test_following_ends_with_the_job(train: CliServer) -> None:
    steps = train.later(
        lambda: train.start_pod("train", "train-0", "done\n", code=0),
        lambda: train.job_status("train", succeeded()),
    )

    assert train.run("logs", "-f", "@") == "done\n"
    steps.join()


# --- wait ---


def test_waiting_for_several_exits_as_the_first_that_failed(train: CliServer) -> None:
    train.run("submit", "--name", "eval", "--", "true")
    train.job_status("train", succeeded())
    train.start_pod("eval", "eval-0", "", code=7)
    train.job_status("eval", failed())

    printed = train.run("wait", "1", "2", code=7)

    assert "job 1 (train) succeeded\njob 2 (eval) failed with exit code 7" in printed


def test_out_of_time_is_124(train: CliServer) -> None:
    assert "timed out; the jobs go on" in train.run("wait", "1", "--timeout", "100ms", code=124)
    train.job_status("train", failed("DeadlineExceeded"))
    assert "ran out of time" in train.run("wait", "1", code=124)


def test_a_job_that_is_deleted_has_an_end(train: CliServer) -> None:
    steps = train.later(lambda: train.delete("train"))

    assert "job 1 (train) was deleted" in train.run("wait", "1", code=1)
    steps.join()


# --- cancel, hold, resume, priority ---


def test_cancelling(train: CliServer) -> None:
    train.run("submit", "--name", "eval", "--", "true")

    printed = train.run("cancel", "1", "9", code=1)

    assert "job 1 (train) cancelled" in printed
    assert "there is no job '9'" in printed
    assert rows_of(train.run("status"))["train"]["STATUS"] == "ending"
    noted = train.job("train")["metadata"]["annotations"]
    assert noted["makeway.dev/cancelled-by"] == "ada"


def test_a_cancelled_job_is_kept_with_who_cancelled_it(train: CliServer) -> None:
    ended = said("Failed", reason="Cancelled", message="Cancelled by bob")
    train.job_status("train", ended)

    row = rows_of(train.run("history"))["train"]
    assert (row["STATUS"], row["EXIT"]) == ("cancelled", "143")
    assert "was cancelled by bob" in train.run("wait", "1", code=143)


def test_cancelling_all_wants_a_yes(train: CliServer) -> None:
    train.run("submit", "--name", "done", "--", "true")
    train.job_status("done", succeeded())

    assert "write -y to mean it" in train.run("cancel", "--all", code=2)
    assert train.run("cancel", "--all", "-y") == "job 1 (train) cancelled\n"
    assert rows_of(train.run("status"))["train"]["STATUS"] == "ending"
    assert "has ended already" in train.run("cancel", "done")


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1), ("", 1)])
def test_on_a_terminal_it_asks(
    train: CliServer, answer: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal(answer))

    assert main(["cancel", "1"]) == code


def test_holding_and_resuming_a_job(train: CliServer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert train.run("hold", "1") == "job 1 (train) held\n"  # before it has a Workload
    assert train.job("train")["metadata"]["annotations"]["makeway.dev/hold"] == "true"
    train.enqueue("train")

    train.run("hold", "1")
    row = rows_of(train.run("status"))["train"]
    assert (row["STATUS"], row["UNTIL / REASON"]) == ("held", "held by you")
    monkeypatch.setattr("getpass.getuser", lambda: "bob")
    assert rows_of(train.run("status"))["train"]["UNTIL / REASON"] == "held by ada"
    assert train.run("resume", "1") == "job 1 (train) resumed\n"
    assert train.workload("job-train")["spec"]["active"] is True


@pytest.mark.parametrize(
    ("words", "kind", "name"),
    [
        (["queue", "team"], "LocalQueue", "team"),
        (["lq/team"], "LocalQueue", "team"),
        (["clusterqueue", "vision"], "ClusterQueue", "vision"),
    ],
)
def test_holding_a_queue(cli: CliServer, words: list[str], kind: str, name: str) -> None:
    assert cli.run("hold", *words) == f"{kind} {name} held\n"
    assert cli.get(kind, name)["spec"]["stopPolicy"] == "Hold"
    assert cli.run("hold", *words, "--drain") == f"{kind} {name} held and drained\n"
    assert cli.get(kind, name)["spec"]["stopPolicy"] == "HoldAndDrain"
    assert cli.run("resume", *words) == f"{kind} {name} resumed\n"
    assert cli.get(kind, name)["spec"]["stopPolicy"] == "None"


def test_a_queue_that_is_not_there(cli: CliServer) -> None:
    assert "not found" in cli.run("hold", "queue", "nope", code=1)
    assert "name a queue" in cli.run("hold", "queue", code=2)


def test_priority_names_a_class_that_is_there(train: CliServer) -> None:
    assert "there is none" in train.run("priority", "1", "high", code=1)
    train.apply(
        "{apiVersion: kueue.x-k8s.io/v1beta2, kind: WorkloadPriorityClass,"
        " metadata: {name: high}, value: 100}"
    )

    train.run("priority", "1", "high", "--preemption", "high")

    metadata = train.job("train")["metadata"]
    assert metadata["labels"]["kueue.x-k8s.io/priority-class"] == "high"
    assert metadata["annotations"]["makeway.dev/preemption-priority-class"] == "high"


def test_the_priority_of_what_has_ended_is_nobodys_concern(train: CliServer) -> None:
    train.job_status("train", succeeded())

    assert "job 1 (train) has ended" in train.run("priority", "1", "high", code=1)


# --- history ---


def test_history_has_exit_codes_and_evictions(train: CliServer) -> None:
    train.enqueue("train", said("QuotaReserved"), said("Admitted"))
    evictions = [{"reason": "Preempted", "underlyingCause": "", "count": 2}]
    conditions = [said("QuotaReserved"), said("Admitted")]
    train.stands("job-train", *conditions, schedulingStats={"evictions": evictions})
    train.start_pod("train", "train-0", "", code=9)
    train.job_status("train", failed())
    train.run("submit", "--name", "runs", "--", "true")

    printed = train.run("history")

    assert list(rows_of(printed)) == ["train"]
    row = rows_of(printed)["train"]
    assert (row["STATUS"], row["EXIT"], row["EVICTIONS"]) == ("failed", "9", "2")
    (item,) = json.loads(train.run("history", "-o", "json", "--since", "1h"))["items"]
    assert (item["exitCode"], item["evictions"]) == (9, 2)
    assert "no job has ended" in train.run("history", "--since", "0s", "-q", "x")


def test_a_command_that_could_not_be_started_is_named(train: CliServer) -> None:
    message = "there is no program 'trian'"
    train.start_pod("train", "train-0", "", code=128, message=message)
    train.job_status("train", failed())

    assert f"failed with exit code 128: {message}" in train.run("wait", "1", code=128)
    assert message in train.run("history")


# --- a server in trouble ---


@pytest.mark.parametrize("words", [["wait", "1"], ["logs", "-f", "1"]])
def test_who_stays_finds_a_server_that_comes_back_elsewhere(
    train: CliServer, words: list[str]
) -> None:
    steps = train.later(train.move, lambda: train.job_status("train", succeeded()))

    printed = train.run(*words)

    steps.join()
    assert printed.count("makeway: no answer from http://127.0.0.1:") == 1
    assert ", trying again\n" in printed


def test_what_a_broken_server_says_is_passed_on(
    cli: CliServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def breaks(*arguments: object, **options: object) -> None:
        raise Unavailable("the disk is full") from ApiError(500, "InternalError", "")

    monkeypatch.setattr(Client, "list", breaks)

    assert cli.run("status", code=1) == "makeway: the server can't answer: the disk is full\n"


def test_a_server_that_is_not_there_is_told_in_plain_words(
    bare: CliServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = bare.folder / "kubeconfig"
    file.write_text(re.sub(r"127.0.0.1:\d+", "127.0.0.1:1", file.read_text()))

    assert bare.run("status", code=2) == (
        "makeway: no answer from http://127.0.0.1:1: connection refused; is `makeway up` running?\n"
    )
    assert "nope can't be read: no such file" in bare.run("status", "--kubeconfig", "nope", code=2)


def test_ctrl_c_leaves_the_job_alone(train: CliServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("makeway.cli.following.wait_for_end", interrupted)

    printed = train.run("submit", "--wait", "--name", "eval", "--", "true", code=130)

    assert "`makeway logs -f 2` follows it" in printed
    assert "eval" in train.run("status")
