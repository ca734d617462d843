"""A container ends as a whole, and limits are set, where the system lets us; else that is said.

Limits are tried on plain files: the machine of a test may have no cgroup that it can change. Ends
are tried on real ones, of either version, where there are some.
"""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from makeway.runner import gpu_locks
from makeway.runner.cgroups import Cgroups, around, leave_account
from makeway.runner.host import Running
from makeway.runner.processes import in_cgroup, kill_cgroup, remove_cgroups
from tests.runner.harness import UID, Machine, end_of, is_alive, machine_in, order, shell, wait_for

# Leaves its session and empties its environment, in which it would be found.
ESCAPE = "env -i setsid sleep 6543 & sleep 0.2; "


def mounted(path: Path, kind: str, options: str = "rw") -> str:
    return f"{kind} {path} {kind} {options} 0 0\n"


def test_a_container_with_limits_gets_a_cgroup_of_its_own(tmp_path: Path) -> None:
    own = tmp_path / "user" / "app"
    own.mkdir(parents=True)
    cgroups = Cgroups.detect(mounted(tmp_path, "cgroup2"), "0::/user/app\n")

    [group] = map(Path, cgroups.make("u1", "main", 2**30, 1500))

    assert (own / "makeway" / "cgroup.procs").read_text() == str(os.getpid())
    assert group == own / "pod-u1" / "container-main"
    assert files(group) == {
        "memory.max": str(2**30),
        "memory.swap.max": "0",
        "cpu.max": "150000 100000",
    }
    [free] = map(Path, cgroups.make("u1", "free", None, None))
    assert (free.parent, files(free)) == (group.parent, {})
    assert files(group.parent) == {
        "pids.max": "8192",  # of the pod, however many containers it has
        "cgroup.subtree_control": "+cpu +memory +pids",
    }


def test_names_of_what_others_mount_are_no_cgroups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One is no text, and one has all in it that ends words and lines for Python."""
    own, fake = tmp_path / "own", tmp_path / "fake"
    own.mkdir()
    fake.mkdir()
    forged = f"/home/a\x1fext4\x1frw\x0c\x85\rb\x1f{fake}\x1fcgroup2\x1frw"
    mounts = f"fuse /home/\udcff fuse rw 0 0\nfuse {forged} fuse rw 0 0\n{mounted(own, 'cgroup2')}"
    told = {"mounts": os.fsencode(mounts), "cgroup": b"0::/\xff\x0c\n"}
    monkeypatch.setattr(Path, "read_bytes", lambda path: told[path.name])

    assert Cgroups.detect(is_root=True).own == own / "makeway"
    assert list(fake.iterdir()) == []


def files(group: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in group.iterdir() if path.is_file()}


@pytest.fixture
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders of a test have no files that the kernel would put there."""
    monkeypatch.setattr("makeway.runner.cgroups._may_have_children", Path.is_dir)


@pytest.mark.usefixtures("_plain")
def test_limits_go_to_whichever_hierarchy_has_the_controller(tmp_path: Path) -> None:
    """Hybrid: groups to end by in version 2, which has no controllers; limits in version 1."""
    for name in ("unified", "memory/jobs", "cpu,cpuacct"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "unified" / "cgroup.subtree_control").mkdir()  # nothing can be written there
    mounts = mounted(tmp_path / "unified", "cgroup2")
    mounts += mounted(tmp_path / "memory", "cgroup", "rw,memory")
    mounts += mounted(tmp_path / "cpu,cpuacct", "cgroup", "rw,cpu,cpuacct")
    cgroups = Cgroups.detect(mounts, "4:memory:/jobs\n3:cpu,cpuacct:/\n0::/\n", is_root=False)
    made = {Path(one).parents[1]: Path(one) for one in cgroups.make("u1", "main", 2**30, 1500)}

    assert list(made) == [tmp_path / n for n in ("unified", "memory/jobs", "cpu,cpuacct")]
    assert files(made[tmp_path / "memory/jobs"]) == {
        "memory.limit_in_bytes": str(2**30),
        "memory.memsw.limit_in_bytes": str(2**30),
    }
    assert files(made[tmp_path / "cpu,cpuacct"])["cpu.cfs_quota_us"] == "150000"
    assert cgroups.why.startswith("pids: ")
    assert set(cgroups.of("u1")) == {str(o) for one in made.values() for o in (one, one.parent)}


@pytest.mark.usefixtures("_plain")
def test_root_makes_a_group_below_the_mount_where_its_own_lies_outside(tmp_path: Path) -> None:
    cgroups = Cgroups.detect(mounted(tmp_path, "cgroup2"), "0::/../outside\n", is_root=True)
    [group] = map(Path, cgroups.make("u1", "main", 2**30, None))

    assert group.parents[1] == tmp_path / "makeway"
    assert (group / "memory.max").read_text() == str(2**30)
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+pids"  # the last of all


def test_without_cgroups_limits_are_said_to_be_ignored_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cgroups = Cgroups.detect(mounted(tmp_path / "none", "cgroup", "rw,freezer"), "4:freezer:/\n")
    with caplog.at_level(logging.WARNING):
        made = [cgroups.make(uid, "main", 2**30, 1500) for uid in ("u1", "u2")]

    assert made == [[], []]
    assert caplog.text.count("limits=ignored") == 1


def test_a_cgroup_that_cannot_be_made_keeps_only_who_has_limits_from_running(
    tmp_path: Path,
) -> None:
    cgroups = Cgroups.detect(mounted(tmp_path, "cgroup2"), "0::/\n")
    (tmp_path / "pod-u1").write_text("in the way")

    assert cgroups.make("u1", "main", None, None) == []
    with pytest.raises(FileExistsError):
        cgroups.make("u1", "main", 2**30, None)


def test_nobody_elses_pod_runs_without_its_cgroup(tmp_path: Path) -> None:
    """There its processes are counted, whatever the container is called."""
    cgroups = Cgroups.detect(mounted(tmp_path, "cgroup2"), "0::/\n")
    pod = tmp_path / "account-1001" / "pod-u1"
    pod.mkdir(parents=True)
    (pod / "tasks").touch()  # as version 1 has it in each cgroup

    assert cgroups.make("u1", "tasks", None, None, 1001) == [str(pod / "container-tasks")]
    (tmp_path / "account-1001" / "pod-u2").write_text("in the way")
    with pytest.raises(FileExistsError):
        cgroups.make("u2", "main", None, None, 1001)


def test_a_billion_cpus_are_no_more_than_ten_thousand(tmp_path: Path) -> None:
    cgroups = Cgroups.detect(mounted(tmp_path, "cgroup2"), "0::/\n")
    [group] = cgroups.make("u1", "main", None, 10**12)

    assert (Path(group) / "cpu.max").read_text() == "1000000000 100000"


@pytest.fixture(params=["cgroup2", "cgroup"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machine]:
    """With a real cgroup of one version."""
    lines = Path("/proc/self/mounts").read_text().splitlines(keepends=True)
    cgroups = Cgroups.detect("".join(line for line in lines if line.split()[2] == request.param))
    if not (made := cgroups.make(UID, "probe", None, None)):
        pytest.skip(f"there is no {request.param} here that we may change")
    remove_cgroups([*made, *around(made)])
    with machine_in(tmp_path, cgroups=cgroups) as machine:
        yield machine
        wait_for(lambda: not machine.state().is_over or not machine.host._left_groups)
    assert cgroups.of(UID) == []


def escaped() -> list[int]:
    """Those of this test: `sleep 6543`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes() == b"sleep\x006543\0":
                found.append(int(path.parent.name))
        except OSError:
            continue
    return [pid for pid in found if is_alive(pid)]


def test_who_escapes_and_kills_the_supervisor_after_a_restart_is_ended_and_named(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    machine.host.start(order(shell(f"{ESCAPE} echo away; sleep 60")))
    machine.printed("away")
    assert len(escaped()) == 1
    again = machine.restarted()

    os.kill(again.supervisor(), signal.SIGKILL)

    assert again.over().reason == "ContainerStatusUnknown"
    wait_for(lambda: not escaped())
    wait_for(lambda: again.state().is_over and not again.host._left_groups)
    assert caplog.text.count("escaped=") == 1
    assert 'command="sleep 6543' in caplog.text
    machine.host = again.host


def test_what_a_container_leaves_ends_with_it_though_others_go_on(machine: Machine) -> None:
    first = shell(f"{ESCAPE} exit 0", "first")
    machine.host.start(order(first, shell("until [ -e go ]; do sleep 0.02; done", "main")))
    wait_for(lambda: "first" in machine.state().containers)
    wait_for(lambda: machine.state().containers["first"].has_succeeded)

    wait_for(lambda: not escaped())
    assert isinstance(machine.container().now, Running)
    (machine.folder / "pods" / UID / "scratch" / "go").touch()
    machine.over()


def test_its_cgroup_goes_with_a_pod_though_nobody_looks(machine: Machine) -> None:
    machine.host.start(order(shell("until [ -e go ]; do sleep 0.02; done")))
    wait_for(lambda: isinstance(machine.container().now, Running))
    groups = machine.host._groups[UID]
    assert all(map(os.path.isdir, groups))

    (machine.folder / "pods" / UID / "scratch" / "go").touch()

    wait_for(lambda: not any(map(os.path.isdir, groups)))
    machine.over()


def test_a_start_that_fails_leaves_no_cgroup_behind(machine: Machine) -> None:
    """Another has its GPU; the pod may be gone before that is free."""
    gpu = f"GPU-{os.getpid()}-{machine.folder.name}"  # the one of before may not be let go yet
    pod = order(shell("true"), locks=(gpu,))
    held = gpu_locks.take([gpu])
    with pytest.raises(OSError, match=f"another Makeway has {gpu}"):
        machine.host.start(pod)
    assert machine.host._cgroups.of(UID) == []
    assert not (machine.folder / "pods" / UID / "order.json").exists()  # nobody starts it anew
    gpu_locks.release(held)

    assert end_of(machine.run(pod)).exit_code == 0


def test_who_forks_faster_than_it_is_killed_ends_too(machine: Machine) -> None:
    """Each moment it is another process, in a session of its own."""
    comet = 'cat > c.sh; chmod +x c.sh; setsid sh -c "exec sh c.sh" & echo up; sleep 60'
    script = "[ -e stop ] || { setsid sh c.sh & exit; }"
    machine.host.start(order(shell(f"echo '{script}' | {{ {comet}; }}")))
    machine.printed("up")

    machine.host.stop(UID, 0.1)

    machine.over()


# What the kernel does about it


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Machine]:
    cgroups = Cgroups.detect()
    if cgroups.why:
        pytest.skip(f"nothing limits here: {cgroups.why}")
    with machine_in(tmp_path, cgroups=cgroups) as machine:
        yield machine
        wait_for(lambda: not machine.host._left_groups)
    assert cgroups.of(UID) == []


def test_who_takes_more_memory_than_its_limit_is_ended_with_that_reason(limited: Machine) -> None:
    greedy = shell("exec python3 -c 'bytearray(400 << 20)'", memory_bytes=50 << 20)
    end = end_of(limited.run(order(greedy)))

    assert (end.exit_code, end.reason) == (137, "OOMKilled")


def test_who_takes_more_cpu_than_its_limit_gets_no_more(limited: Machine) -> None:
    """Less than half a second of computing, at a fifth of a processor."""
    spin = "from time import *; s = monotonic(); all(iter(lambda: process_time() < 0.4, False))"
    busy = shell(f"exec python3 -c '{spin}; print(monotonic() - s)'", cpu_milli=200)
    limited.run(order(busy))

    assert float(limited.log()) > 1.0


def test_a_fork_bomb_ends_at_the_number_of_its_processes(tmp_path: Path) -> None:
    cgroups = Cgroups.detect(pids_max=20)
    if "pids" in cgroups.why:
        pytest.skip(f"nothing limits here: {cgroups.why}")
    with machine_in(tmp_path, cgroups=cgroups) as machine:
        script = "for i in $(seq 40); do sleep 30 & done; echo survived"
        machine.run(order(shell(script)))
        assert "fork" in machine.log()
        assert "survived" not in machine.log()


BOMB = """
import os, sys, time
for group in sys.argv[1:]:
    open(f"{group}/cgroup.procs", "w").write("0")
count = 1
try:
    while count < 100:
        if os.fork() == 0:
            time.sleep(60)
        count += 1
except BlockingIOError:
    pass
print(count, flush=True)
time.sleep(60)
"""


def test_all_pods_of_an_account_have_so_many_processes_together() -> None:
    cgroups = Cgroups.detect(pids_max=20, account_pids_max=30)
    if "pids" in cgroups.why:
        pytest.skip(f"nothing limits here: {cgroups.why}")
    account, counts, made = os.getpid(), list[int](), list[str]()
    with ExitStack() as bombs:
        for n in range(3):
            groups = cgroups.make(f"{UID}-{n}", "main", None, None, account)
            made += groups
            command = [sys.executable, "-I", "-c", BOMB, *groups]
            bomb = bombs.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            bombs.callback(kill_cgroup, groups[0])
            assert bomb.stdout is not None
            counts.append(int(bomb.stdout.readline()))
    assert counts == [20, 10, 1]  # one may come in, and have no children
    wait_for(lambda: not any(map(in_cgroup, made)))
    remove_cgroups([*made, *around(made)])
    for group in around(made):
        leave_account(group)
    assert not any(place.exists() for group in made for place in Path(group).parents[:2])
