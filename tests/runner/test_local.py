"""Pods run under supervisors that outlive us: what ran is known, and nothing runs twice."""

import asyncio
import errno
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from makeway.runner import local
from makeway.runner.gpu_locks import taken
from makeway.runner.host import Ended, Mount, ProbeSettings, Program, Running, RunOrder, Waiting
from makeway.runner.leavings import Leavings, Limits
from makeway.server.logs import FileLogs
from makeway.server.messages import Request
from tests.runner.harness import (
    PATIENCE_S,
    UID,
    Machine,
    end_of,
    is_alive,
    machine_in,
    order,
    shell,
    wait_for,
)

MIB = 1024 * 1024


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with machine_in(tmp_path) as machine:
        yield machine


def test_a_pod_runs_and_its_exit_code_is_known(machine: Machine) -> None:
    state = machine.run(order(shell("exit 3")))

    end = end_of(state)
    assert (end.exit_code, end.reason, end.signal) == (3, "Error", 0)
    assert end.started_at <= end.finished_at


def test_output_and_errors_are_kept_in_the_order_of_printing(machine: Machine) -> None:
    machine.run(order(shell("echo one; echo two >&2; echo three; printf end")))

    assert machine.log() == "one\ntwo\nthree\nend"
    assert (machine.folder / "logs" / UID / "main.ended").exists()


def test_much_output_is_kept_whole(machine: Machine) -> None:
    machine.run(order(shell("seq 1 100000")))

    assert machine.log() == "".join(f"{n}\n" for n in range(1, 100_001))


def test_a_program_that_is_not_there_cannot_run(machine: Machine) -> None:
    end = end_of(machine.run(order(Program(name="main", argv=("no-such-program",)))))

    assert (end.exit_code, end.reason) == (128, "ContainerCannotRun")
    assert "no-such-program: No such file or directory" in end.message


def test_a_working_directory_that_is_not_there_is_named(machine: Machine) -> None:
    end = end_of(machine.run(order(shell("true", folder="/no/such/folder"))))

    assert end.reason == "ContainerCannotRun"
    assert "working directory /no/such/folder" in end.message


def test_a_program_that_was_killed_shows_its_signal(machine: Machine) -> None:
    end = end_of(machine.run(order(shell("kill -9 $$"))))

    assert (end.exit_code, end.signal) == (137, 9)


# Stopping


def test_a_pod_that_listens_ends_within_its_grace(machine: Machine) -> None:
    machine.host.start(
        order(shell("trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.05; done"))
    )
    machine.printed("up")

    machine.host.stop(UID, 10)

    assert end_of(machine.over()).exit_code == 7
    assert "bye" in machine.log()


def test_a_grace_counts_from_the_word_not_from_the_last_thing_that_happened(
    machine: Machine,
) -> None:
    machine.host.start(
        order(shell("trap 'sleep 0.2; echo bye; exit 7' TERM; echo up; sleep 60 & wait"))
    )
    machine.printed("up")
    time.sleep(1.5)  # longer than the grace; nothing wakes the supervisor meanwhile

    machine.host.stop(UID, 1.4)

    assert end_of(machine.over()).exit_code == 7
    assert "bye" in machine.log()


def test_a_pod_that_ignores_the_word_is_killed_with_all_its_descendants(machine: Machine) -> None:
    script = "trap '' TERM; (trap '' TERM; sleep 60) & echo $!; setsid sleep 61 & echo $!; wait"
    machine.host.start(order(shell(script)))
    wait_for(lambda: len(machine.log().split()) == 2)
    descendants = [int(pid) for pid in machine.log().split()]
    assert all(is_alive(pid) for pid in descendants)

    machine.host.stop(UID, 0.1)

    assert end_of(machine.over()).signal == signal.SIGKILL
    assert not any(is_alive(pid) for pid in descendants)


SAVES = "sh -c 'trap \"sleep 0.2; echo saved; exit 0\" TERM; echo up; while :; do sleep 0.02; done'"


@pytest.mark.parametrize("around", ["", "timeout 60", "setsid"])
def test_a_program_saves_its_work_though_the_shell_around_it_dies(
    machine: Machine, around: str
) -> None:
    """`timeout` and `setsid` have groups of their own, which hear of it from the supervisor."""
    machine.host.start(order(shell(f"{around} {SAVES}; echo never")))
    machine.printed("up")

    machine.host.stop(UID, 60)

    assert end_of(machine.over()).signal == signal.SIGTERM
    assert machine.log().split()[-1] == "saved"


def test_each_container_has_the_rest_of_the_grace_for_its_own(machine: Machine) -> None:
    """One doesn't want all of it; the other would want more than it has in the end."""
    deaf = "sh -c 'trap \"\" TERM; echo $$; exec sleep 60' & wait"
    machine.host.start(order(shell(f"{SAVES}; :"), shell(deaf, "deaf")))
    machine.printed("up")
    wait_for(lambda: machine.log(name="deaf.log") != "")

    machine.host.stop(UID, 60)

    wait_for(lambda: isinstance(machine.container().now, Ended))
    left = int(machine.log(name="deaf.log"))
    assert machine.log().split()[-1] == "saved"
    assert is_alive(left)
    machine.host.stop(UID, 0.1)
    end = end_of(machine.over(), "deaf")
    assert (end.signal, is_alive(left)) == (signal.SIGTERM, False)


def test_who_is_left_when_the_first_process_ends_is_ended(machine: Machine) -> None:
    machine.run(order(shell("sleep 60 & echo $!; setsid sleep 61 & echo $!; exit 0")))

    assert not any(is_alive(int(pid)) for pid in machine.log().split())


def test_what_an_unasked_end_leaves_does_not_use_up_the_grace_of_a_sidecar(
    machine: Machine,
) -> None:
    """It is deaf, has a session of its own, and the grace is twice as long as we wait here."""
    helper = shell("touch there; sleep 60", "helper", is_sidecar=True)
    leave = "setsid sh -c 'trap \"\" TERM; touch away; exec sleep 61' & echo $!"
    wait = "until [ -e there ] && [ -e away ]; do sleep 0.02; done"
    state = machine.run(order(shell(f"{leave}; {wait}"), init=(helper,), grace_s=2 * PATIENCE_S))

    assert end_of(state, "helper").signal == signal.SIGTERM
    assert not is_alive(int(machine.log()))


def test_a_second_word_with_less_grace_counts(machine: Machine) -> None:
    machine.host.start(order(shell("trap '' TERM; echo up; while :; do sleep 0.05; done")))
    machine.printed("up")
    machine.host.stop(UID, 60)

    machine.host.stop(UID, 0)

    assert end_of(machine.over()).exit_code == 137


def test_a_pod_stopped_right_after_its_start_ends_too(machine: Machine) -> None:
    machine.host.start(order(shell("sleep 60")))

    machine.host.stop(UID, 0)

    assert machine.over().is_over


def test_a_pod_has_a_deadline(machine: Machine) -> None:
    state = machine.run(order(shell("sleep 60"), deadline_s=0.2))

    assert state.reason == "DeadlineExceeded"
    assert end_of(state).signal == signal.SIGTERM


def test_a_deadline_may_lie_in_the_far_future(machine: Machine) -> None:
    assert end_of(machine.run(order(shell("exit 3"), deadline_s=1e9))).exit_code == 3


# Restarting


def test_a_failed_container_is_started_again_later_and_later(machine: Machine) -> None:
    script = "echo run >> runs; [ $(wc -l < runs) -ge 3 ] || exit 1; echo done"
    state = machine.run(order(shell(script), restart_policy="OnFailure"))

    container = state.containers["main"]
    assert end_of(state).exit_code == 0
    assert container.restarts == 2
    assert container.before is not None
    assert container.before.exit_code == 1


def test_what_the_run_before_printed_is_kept(machine: Machine) -> None:
    script = "[ -e second ] && { echo two; exit 0; }; touch second; echo one; exit 1"
    machine.run(order(shell(script), restart_policy="OnFailure"))

    assert machine.log() == "two\n"
    assert machine.log(name="main.previous.log") == "one\n"


def test_a_container_in_back_off_says_so(machine: Machine) -> None:
    machine.host.start(order(shell("exit 1"), restart_policy="Always", back_off_s=60.0))

    wait_for(lambda: "CrashLoopBackOff" in str(machine.container().now))
    assert isinstance(machine.container().now, Waiting)
    assert machine.container().restarts == 1
    machine.host.stop(UID, 1)
    assert machine.over().is_over


# Several containers


def test_init_containers_run_one_after_the_other_before_the_rest(machine: Machine) -> None:
    init = (shell("echo a >> order", "a"), shell("echo b >> order", "b"))
    machine.run(order(shell("cat order"), init=init))

    assert machine.log() == "a\nb\n"


def test_after_a_failed_init_container_nothing_else_runs(machine: Machine) -> None:
    state = machine.run(order(shell("echo never"), init=(shell("exit 4", "first"),)))

    assert end_of(state, "first").exit_code == 4
    assert isinstance(state.containers["main"].now, Waiting)
    assert machine.log() == ""


def test_containers_run_together_and_the_pod_is_over_with_the_last(machine: Machine) -> None:
    talks = shell("until [ -e heard ]; do sleep 0.02; done", "talks")
    state = machine.run(order(talks, shell("sleep 0.1; touch heard", "hears")))

    assert end_of(state, "talks").exit_code == end_of(state, "hears").exit_code == 0


def test_a_sidecar_runs_as_long_as_the_others(machine: Machine) -> None:
    helper = shell("touch there; sleep 60", "helper", is_sidecar=True)
    script = "until [ -e there ]; do sleep 0.02; done; echo served"
    state = machine.run(order(shell(script), init=(helper,)))

    assert machine.log() == "served\n"
    assert end_of(state).exit_code == 0
    assert end_of(state, "helper").signal == signal.SIGTERM


# Without us


def test_a_running_pod_is_found_again_after_a_restart(machine: Machine) -> None:
    machine.host.start(order(shell("echo up; until [ -e go ]; do sleep 0.02; done; exit 5")))
    machine.printed("up")

    after = machine.restarted()

    assert isinstance(after.state().containers["main"].now, Running)
    (machine.folder / "pods" / UID / "scratch" / "go").touch()
    assert end_of(after.over()).exit_code == 5
    assert after.log() == "up\n"


def test_an_exit_while_nobody_looked_is_known_afterwards(machine: Machine) -> None:
    machine.host.start(order(shell("sleep 0.1; exit 6")))
    pid = machine.supervisor()
    machine.host.close()
    wait_for(lambda: not is_alive(pid))

    assert end_of(Machine(machine.folder).state()).exit_code == 6


def test_a_pod_runs_once_however_often_it_is_started(machine: Machine) -> None:
    once = order(shell("echo run; sleep 0.3"))
    machine.host.start(once)
    machine.host.start(once)
    for _ in range(3):
        machine.host._spawn(UID)  # as after a restart that didn't see the first one

    machine.over()
    machine.host._spawn(UID)
    time.sleep(0.2)
    assert machine.log() == "run\n"


def test_a_pod_whose_start_was_cut_short_is_started_after_the_restart(machine: Machine) -> None:
    machine.host._spawn = lambda uid, gpus=(): None  # type: ignore[method-assign]
    machine.host.start(order(shell("echo run")))

    after = machine.restarted()

    assert end_of(after.over()).exit_code == 0
    assert after.log() == "run\n"


def test_a_pod_that_cannot_be_started_after_the_restart_is_forgotten(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be deleted before it is ordered again: the next restart is not to run it."""

    def refuse(*_: object, **__: object) -> int:
        raise BlockingIOError(errno.EAGAIN, "no process to be had")

    machine.host._spawn = lambda uid, gpus=(): None  # type: ignore[method-assign]
    machine.host.start(order(shell("echo run")))
    pod = str(machine.folder / "pods" / UID)  # by which the one that runs already is known
    first = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()", pod])
    with monkeypatch.context() as full:
        full.setattr(os, "posix_spawn", refuse)
        after = machine.restarted()
    assert first.wait(PATIENCE_S) == -signal.SIGKILL
    assert UID not in after.host.states()

    assert UID not in after.restarted().host.states()


def test_a_supervisor_that_runs_is_kept_though_no_descriptor_is_left_to_look_at_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: int) -> int:
        raise OSError(errno.EMFILE, "too many open files")

    with monkeypatch.context() as full:
        full.setattr(local, "started_ticks", refuse)
        machine.host.start(order(shell("echo run; until [ -e go ]; do sleep 0.02; done")))
    machine.printed("run")
    (machine.folder / "pods" / UID / "scratch" / "go").touch()

    assert end_of(machine.over()).exit_code == 0


def test_when_a_supervisor_is_killed_its_pod_ends_and_is_given_up(machine: Machine) -> None:
    machine.host.start(order(shell("setsid sleep 60 & echo $! $$; wait")))
    wait_for(lambda: len(machine.log().split()) == 2)
    processes = [int(pid) for pid in machine.log().split()]

    os.kill(machine.supervisor(), signal.SIGKILL)

    state = machine.over()
    assert (state.reason, end_of(state).exit_code) == ("ContainerStatusUnknown", 137)
    wait_for(lambda: not any(is_alive(pid) for pid in processes))
    assert machine.restarted().state() == state


def test_a_pod_that_is_over_can_be_removed_with_all_it_left(machine: Machine) -> None:
    machine.run(order(shell("echo left > behind")))

    machine.host.remove(UID)

    assert machine.host.states() == {}
    wait_for(lambda: not any((machine.folder / "trash").iterdir()))
    assert not (machine.folder / "logs" / UID).exists()


def test_supervisors_end_with_their_pods_and_leave_no_zombies(machine: Machine) -> None:
    for number in range(5):
        uid = f"{UID}-{number}"
        machine.run(order(shell("true"), uid=uid))
        machine.host.remove(uid)

    def all_reaped() -> bool:
        machine.host.look_at_all()
        return not machine.host._children

    wait_for(all_reaped)


# Surroundings


def test_volumes_are_folders_that_variables_and_links_lead_to(
    machine: Machine, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "numbers").write_text("1 2 3\n")
    mounts = (Mount(volume="in-put", path="/mnt/data"), Mount(volume="tmp", path="/tmp"))
    script = 'cat mnt/data/numbers; echo x > tmp/x; cat "$MAKEWAY_VOLUME_TMP/x"; '
    script += 'echo "$MAKEWAY_VOLUME_IN_PUT"'
    volumes = {"in-put": str(data), "tmp": ""}
    machine.run(order(shell(script, mounts=mounts), volumes=volumes))

    assert machine.log() == f"1 2 3\nx\n{data}\n"


def test_a_program_gets_its_own_variables_and_none_of_ours(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "ours")
    monkeypatch.setenv("PATH", "/bin")
    machine.run(order(Program(name="main", argv=("/usr/bin/env",), env={"A": "1"})))

    printed = machine.log().splitlines()
    assert {"A=1", f"MAKEWAY_POD_UID={UID}", "PATH=/bin"} <= {*printed}
    assert "ours" not in machine.log()


def test_a_program_has_the_umask_and_the_limits_of_the_shell_that_submitted_it(
    machine: Machine,
) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    shell_limits = {"umask": 0o027, "core": 0, "nofile": -1, "of another version": 7}
    machine.run(order(shell("umask; ulimit -c; ulimit -n"), shell_limits=shell_limits))

    assert machine.log().split() == ["0027", "0", str(hard)]


# Probes


def probed(script: str, **probes: ProbeSettings) -> RunOrder:
    return order(shell(script, probes=probes), restart_policy="Never")


def test_a_container_is_ready_when_its_probe_says_so(machine: Machine) -> None:
    probe = ProbeSettings(kind="exec", command=("test", "-e", "warm"), period_s=0.05)
    machine.host.start(probed("sleep 0.3; touch warm; sleep 60", readiness=probe))
    wait_for(lambda: machine.container().is_started)
    assert not machine.container().is_ready

    wait_for(lambda: machine.container().is_ready)


def test_a_probe_can_connect(machine: Machine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        probe = ProbeSettings(kind="tcp", port=port, period_s=0.05)
        machine.host.start(probed("sleep 60", readiness=probe))

        wait_for(lambda: machine.container().is_ready)


def test_a_container_whose_liveness_fails_is_ended(machine: Machine) -> None:
    probe = ProbeSettings(kind="exec", command=("false",), period_s=0.05, failure_threshold=2)
    state = machine.run(probed("sleep 60", liveness=probe))

    assert end_of(state).signal == signal.SIGTERM


def test_a_probe_that_hangs_has_failed(machine: Machine) -> None:
    probe = ProbeSettings(
        kind="exec", command=("sleep", "60"), period_s=0.05, timeout_s=0.1, failure_threshold=1
    )
    state = machine.run(probed("sleep 60", liveness=probe))

    assert end_of(state).signal == signal.SIGTERM


# A full disk


def test_when_the_disk_takes_no_more_output_the_program_goes_on(machine: Machine) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        machine.host.start(order(shell("seq 1 100000; exit 5")))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    assert end_of(machine.over()).exit_code == 5
    assert 0 < len(machine.log()) <= 100_000


def test_an_end_that_cannot_be_noted_is_noted_later(machine: Machine) -> None:
    machine.host.start(order(shell("until [ -e go ]; do sleep 0.02; done; exit 5")))
    wait_for(lambda: isinstance(machine.container().now, Running))
    pod = machine.folder / "pods" / UID
    obstacle = pod / f"state.json.{machine.supervisor()}.new"
    obstacle.mkdir()
    (pod / "state.json.spare").unlink()
    (pod / "scratch" / "go").touch()
    wait_for((machine.folder / "logs" / UID / "main.ended").exists)
    assert not machine.state().is_over

    obstacle.rmdir()

    assert end_of(machine.over()).exit_code == 5


def test_an_end_for_which_there_is_no_room_is_noted_in_the_spare(machine: Machine) -> None:
    machine.host.start(order(shell("until [ -e go ]; do sleep 0.02; done; exit 5")))
    wait_for(lambda: isinstance(machine.container().now, Running))
    pod = machine.folder / "pods" / UID
    obstacle = pod / f"state.json.{machine.supervisor()}.new"
    obstacle.mkdir()
    (pod / "scratch" / "go").touch()

    assert end_of(machine.over()).exit_code == 5
    assert not (pod / "state.json.spare").exists()


# A machine that refuses


def test_a_container_whose_log_cannot_be_opened_waits_until_it_can(machine: Machine) -> None:
    held = machine.folder / "go"
    script = f"while [ ! -e {held} ]; do sleep 0.02; done; [ -e {held}.twice ] && exit 0; exit 1"
    machine.host.start(order(shell(script), restart_policy="OnFailure"))
    machine.supervisor()
    logs, away = machine.folder / "logs" / UID, machine.folder / "logs-away"
    logs.rename(away)
    held.touch()

    def refused() -> bool:
        now = machine.container().now
        return isinstance(now, Waiting) and now.reason == "MachineRefused"

    wait_for(refused)
    (machine.folder / "go.twice").touch()
    away.rename(logs)

    assert end_of(machine.over()).exit_code == 0


def printed(machine: Machine, **query: str) -> bytes:
    """As the server shows it."""
    pod = {"metadata": {"uid": UID, "name": "p"}, "spec": {"containers": [{"name": "main"}]}}

    async def story() -> bytes:
        request = Request(method="GET", path="", query=query, headers={})
        pieces = await FileLogs(machine.folder / "logs").read(pod, request)
        return pieces if isinstance(pieces, bytes) else b"".join([piece async for piece in pieces])

    return asyncio.run(story())


def test_of_very_much_output_the_head_and_the_tail_are_kept_and_the_gap_is_told(
    tmp_path: Path,
) -> None:
    """8 MB of lines, where 4 MiB are kept: 1 MiB of the start and 3 MiB of the end."""
    with machine_in(tmp_path, Limits(64 * MIB)) as machine:
        machine.run(order(shell("seq -f '%015.0f' 1 500000")))

    path = machine.folder / "logs" / UID / "main.log"
    assert path.stat().st_size == 8_000_000
    assert path.stat().st_blocks * 512 <= 5 * MIB
    text = printed(machine)
    lines = text.splitlines()
    assert lines[0] == b"%015d" % 1
    assert lines[-1] == b"%015d" % 500_000
    assert b"\0" not in text
    told = [line for line in lines if line.startswith(b"[makeway:")]
    assert len(told) == 1
    assert told[0].endswith(b"bytes were printed here and not kept]")
    left_out = int(told[0].split()[1])
    assert len(text) == 8_000_000 - left_out + len(told[0]) + 2
    assert printed(machine, tailLines="2").splitlines() == lines[-2:]


def test_output_that_was_removed_is_told(machine: Machine) -> None:
    state = machine.run(order(shell("echo hello")))

    Leavings(machine.folder, Limits(max_bytes=0)).tidy({UID: end_of(state).finished_at}, ())

    why = b"all pods together have left more than 0 MiB"
    assert printed(machine) == b"[makeway: what was printed here was removed: " + why + b"]\n"
    assert not (machine.folder / "pods" / UID / "scratch").exists()
    assert machine.restarted().state() == state


# Ends are ends


def test_a_stopped_supervisor_is_woken_up_when_its_pod_is_overdue(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "OVERDUE_S", 0.2)
    machine.host.start(order(shell("sleep 60")))
    wait_for(lambda: isinstance(machine.container().now, Running))
    os.kill(machine.supervisor(), signal.SIGSTOP)

    machine.host.stop(UID, 0.1)

    assert end_of(machine.over()).signal == signal.SIGTERM


def test_a_supervisor_that_is_stopped_again_and_again_is_killed_at_last(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "OVERDUE_S", 0.2)
    machine.host.start(order(shell("sleep 60")))
    supervisor = machine.supervisor()
    os.kill(supervisor, signal.SIGSTOP)
    monkeypatch.setattr(signal, "SIGCONT", signal.SIGWINCH)  # does not wake anybody

    machine.host.stop(UID, 0.1)

    assert machine.over().reason == "ContainerStatusUnknown"
    wait_for(lambda: not is_alive(supervisor))


def test_a_stopped_supervisor_is_woken_up_though_nobody_ends_its_pod(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(local, "ASLEEP_S", 0.1)
    machine.host.start(order(shell("until [ -e go ]; do sleep 0.02; done; exit 5")))
    wait_for(lambda: isinstance(machine.container().now, Running))
    os.kill(machine.supervisor(), signal.SIGSTOP)
    (machine.folder / "pods" / UID / "scratch" / "go").touch()

    assert end_of(machine.over()).exit_code == 5
    assert "supervisor=stopped" in caplog.text


def test_without_cgroups_who_may_have_escaped_after_a_restart_is_named(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody can tell whose it was, so it isn't ended."""
    machine.host.start(order(shell("env -i setsid sleep 7654 & echo $!; sleep 60")))
    machine.printed("\n")
    escaped = int(machine.log())
    wait_for(lambda: Path(f"/proc/{escaped}/cmdline").read_bytes() == b"sleep\x007654\x00")
    try:
        again = machine.restarted()

        os.kill(again.supervisor(), signal.SIGKILL)

        assert "these processes may be left of it: " in again.over().message
        assert f'escaped={escaped} command="sleep 7654 "' in caplog.text
    finally:
        os.kill(escaped, signal.SIGKILL)


def test_a_pod_that_ran_when_the_machine_was_started_anew_was_disrupted(machine: Machine) -> None:
    machine.host.start(order(shell("sleep 60")))
    pid = machine.supervisor()
    state = machine.folder / "pods" / UID / "state.json"
    written = json.loads(state.read_text())
    os.kill(pid, signal.SIGKILL)
    written["supervisor"]["boot"] = "before"
    state.write_text(json.dumps(written))

    found = machine.restarted().over()

    assert found.reason == "NodeRebooted"
    assert found.message == "The machine was started anew while the pod ran"
    assert end_of(found).exit_code == 137


@pytest.mark.parametrize("is_anew", [True, False])
def test_what_ends_with_all_processes_of_a_machine_has_not_ended_by_itself(
    machine: Machine, is_anew: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who shuts a machine down tells everybody, in whatever order."""
    monkeypatch.setattr("makeway.runner.local.SWEPT_S", 60.0 if is_anew else 0.1)
    machine.host.start(order(shell("echo up; exec sleep 60")))
    machine.printed("up")
    pid = machine.supervisor()
    state = machine.folder / "pods" / UID / "state.json"
    told = [pid, json.loads(state.read_text())["containers"]["main"]["pid"]]
    for one in reversed(told):
        os.kill(one, signal.SIGTERM)
        time.sleep(0.05)  # it has ended by then
    wait_for(lambda: json.loads(state.read_text())["is_over"])
    if not is_anew:  # it goes on, as it turns out
        found = machine.over()
        assert (found.reason, end_of(found).exit_code) == ("", 143)
        return
    wait_for(lambda: not is_alive(pid))
    assert not machine.state().is_over
    written = json.loads(state.read_text())
    written["supervisor"]["boot"] = "before"
    state.write_text(json.dumps(written))

    assert machine.restarted().over().reason == "NodeRebooted"


# GPUs, of which others on this machine know


def test_two_hosts_never_run_pods_on_one_gpu(tmp_path: Path) -> None:
    gpus = (f"GPU-{os.getpid()}-0", f"GPU-{os.getpid()}-1")
    waiting = shell("ls -l /proc/$$/fd | grep -c socket; until [ -e go ]; do sleep 0.02; done")
    with machine_in(tmp_path / "one") as one, machine_in(tmp_path / "two") as two:
        one.host.start(order(waiting, locks=gpus))
        one.printed("\n")
        assert taken() >= {*gpus}
        with pytest.raises(OSError, match=f"another Makeway has {gpus[1]}"):
            two.host.start(order(shell("true"), uid=f"{UID}-b", locks=gpus[1:]))
        again = one.restarted()  # the supervisor has it, not the host
        assert taken() >= {*gpus}
        (one.folder / "pods" / UID / "scratch" / "go").touch()
        again.over()
        wait_for(lambda: not taken() & {*gpus})
        two.run(order(shell("true"), uid=f"{UID}-b", locks=gpus[1:]))

        assert one.log() == "0\n"  # they are no business of the container
        assert end_of(two.state(f"{UID}-b")).exit_code == 0
