"""Two accounts and root on one `makeway up --system`, with the commands that people type."""

from __future__ import annotations

import json
import os
import pwd
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from makeway.accounts import account_of_uid, groups_of
from makeway.api.kinds import WORKLOADS
from tests.harness.accounts import SystemUp, accounts, change_accounts, system_up
from tests.harness.process import wait_until
from tests.prerequisites import program

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: private}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        command: [sh, -c, "echo it prints a secret; exec sleep 600"]
        env: [{name: KEY, value: "ada's secret"}]
        resources: {requests: {cpu: 1}}
"""


READY = ("--for=jsonpath={.status.ready}=1", "--timeout=60s")


class Shell:
    """A terminal of an account."""

    def __init__(self, up: SystemUp, account: pwd.struct_passwd) -> None:
        self.account, self.name = account, account.pw_name
        self._of_kubectl: dict[str, str] = {}
        self._environment = {
            "PATH": f"{up.root}/bin:/usr/local/bin:/usr/bin:/bin",
            "HOME": account.pw_dir,
            "KUBECONFIG": str(up.root / "etc/makeway/kubeconfig"),
            "MAKEWAY_SOCKET": str(up.socket),
        }

    def sign_in(self) -> None:
        """Have kubectl use a token that it would else fetch anew at every call."""
        token = json.loads(self.run("makeway", "token"))["status"]["token"]
        config = json.loads(self.run("kubectl", "config", "view", "--raw", "-o", "json"))
        for user in config["users"]:
            user["user"] = {"token": token}
        path = Path(self.account.pw_dir) / "kubeconfig"
        path.write_text(json.dumps(config))
        self._of_kubectl = {"KUBECONFIG": str(path)}

    def answer(self, *command: str, text: str = "") -> tuple[int, str]:
        """The exit code, and what is printed."""
        own = self.account
        done = subprocess.run(
            command,
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            cwd=own.pw_dir,
            env={**self._environment, **(self._of_kubectl if command[0] == "kubectl" else {})},
            user=own.pw_uid,
            group=own.pw_gid,
            extra_groups=os.getgrouplist(own.pw_name, own.pw_gid),
        )
        return done.returncode, done.stdout

    def run(self, *command: str, text: str = "", code: int = 0) -> str:
        found, output = self.answer(*command, text=text)
        assert found == code, output
        return output


class Machine(NamedTuple):
    up: SystemUp
    ada: Shell
    bob: Shell
    root: Shell


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with accounts("mwada", "mwbob") as [ada, bob], system_up("--port", "0") as up:
        command = up.root / "bin" / "makeway"
        command.parent.mkdir(mode=0o755)
        command.write_text(f'#!/bin/sh\nexec {up.python} -m makeway.cli.main "$@"\n')
        command.chmod(0o755)
        root = pwd.getpwnam("root")
        up.open_queue(root, ada, bob)
        yield Machine(up, *(Shell(up, account) for account in (ada, bob, root)))


def test_kubectl_knows_who_calls(machine: Machine) -> None:
    program("kubectl")
    said = machine.ada.run("kubectl", "auth", "whoami", "-o", "json")
    info = json.loads(said)["status"]["userInfo"]
    assert info["username"] == machine.ada.name
    account = account_of_uid(machine.ada.account.pw_uid)
    assert account is not None
    assert info["groups"] == [*groups_of(account), "system:authenticated"]
    assert "system:masters" in machine.root.run("kubectl", "auth", "whoami")
    asked = ("kubectl", "auth", "can-i", "create", "jobs")
    assert machine.ada.run(*asked, "-n", machine.ada.name) == "yes\n"
    assert machine.ada.run(*asked, "-n", machine.bob.name, code=1) == "no\n"
    assert machine.root.run(*asked, "-n", machine.bob.name) == "yes\n"
    listed = machine.ada.run("kubectl", "auth", "can-i", "--list", "-n", machine.ada.name)
    assert "secrets" in listed
    assert "rolebindings" not in listed
    for shell in (machine.ada, machine.bob, machine.root):
        shell.sign_in()


def test_what_one_has_the_other_cannot_reach_by_any_verb(machine: Machine) -> None:
    program("kubectl")
    machine.ada.run("kubectl", "create", "-n", machine.ada.name, "-f", "-", text=JOB)
    there = ("-n", machine.ada.name)
    assert "ada's secret" in machine.ada.run("kubectl", "get", "jobs", *there, "-o", "yaml")
    machine.ada.run("kubectl", "wait", "job/private", *there, *READY)
    assert "it prints a secret" in machine.ada.run("kubectl", "logs", "job/private", *there)
    for words in (
        ("get", "jobs", *there),
        ("get", "jobs", "-A"),
        ("get", "job", "private", *there, "-o", "yaml"),
        ("get", "jobs", *there, "--watch", "--request-timeout=5s"),
        ("describe", "job", "private", *there),
        ("get", "workloads", *there),
        ("get", "pods", *there),
        ("get", "events", *there),
        ("logs", "job/private", *there),
        ("delete", "job", "private", *there),
        ("patch", "job", "private", *there, "-p", "{}"),
        ("label", "job", "private", "a=b", *there),
        ("annotate", "job", "private", "a=b", *there),
        ("get", "--raw", "/metrics"),
        ("get", "namespace", machine.ada.name),
        ("create", "job", "x", "--image=x", *there),
    ):
        code, said = machine.bob.answer("kubectl", *words)
        assert code != 0, words
        assert "orbidden" in said, (words, said)
        assert "secret" not in said, words
    assert machine.root.run("kubectl", "get", "job", "private", *there, "-o", "name")
    machine.ada.run("kubectl", "delete", "job", "private", *there, "--grace-period=1")


def test_the_command_uses_the_socket_and_ones_own_namespace(machine: Machine) -> None:
    mine = json.loads(machine.bob.run("makeway", "get", "jobs", "-o", "json"))
    assert mine["items"] == []
    refused = machine.bob.run("makeway", "get", "jobs", "-n", machine.ada.name, code=1)
    assert f'User "{machine.bob.name}" cannot list resource "jobs"' in refused
    found = json.loads(
        machine.ada.run("makeway", "get", "namespace", machine.ada.name, "-o", "json")
    )
    assert found["metadata"]["annotations"] == {
        "makeway.dev/account": machine.ada.name,
        "makeway.dev/uid": str(machine.ada.account.pw_uid),
    }


def test_tokens_are_made_shown_and_revoked(machine: Machine) -> None:
    secret = machine.ada.run("makeway", "token", "create", "--name", "ci", "--ttl", "1h").strip()
    server = machine.up.address
    ask = ("kubectl", "--insecure-skip-tls-verify", "--kubeconfig=/dev/null", f"--server={server}")
    assert machine.ada.name in machine.bob.run(*ask, f"--token={secret}", "auth", "whoami")
    assert " ci " in machine.ada.run("makeway", "token", "list")
    assert "ci" not in machine.bob.run("makeway", "token", "list")
    assert machine.ada.name in machine.root.run("makeway", "token", "list", "--all")
    machine.bob.run("makeway", "token", "revoke", "ci", code=1)
    assert machine.ada.run("makeway", "token", "revoke", "ci") == "token ci revoked\n"
    code, said = machine.bob.answer(*ask, f"--token={secret}", "auth", "whoami")
    assert code != 0
    assert "Unauthorized" in said or "must be logged in" in said


def test_no_secret_lies_where_others_can_read(machine: Machine) -> None:
    everything = (machine.up.root / "etc/makeway/kubeconfig").read_text()
    assert '"token"' in everything  # the command that fetches one
    assert "mw-" not in everything
    server = machine.up.state / "server"
    for path in (server, server / "makeway.db", server / "pki/server.key"):
        assert path.exists()
        code, said = machine.bob.answer("cat", str(path))
        assert code != 0
        assert "ermission denied" in said


def test_an_account_without_a_shell_is_refused(machine: Machine) -> None:
    with accounts("mwmal") as [mal]:
        change_accounts("usermod", "--shell", "/usr/sbin/nologin", mal.pw_name)
        refused = Shell(machine.up, mal).run("makeway", "token", code=1)
        assert f"account {mal.pw_name} is refused: its shell /usr/sbin/nologin" in refused


TIGHT = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: tight}
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: default, resources: [{name: cpu, nominalQuota: 1}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: brisk, labels: {makeway.dev/for: everyone}}
value: 10
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: tight, namespace: ADA}
spec: {clusterQueue: tight}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: tight, namespace: BOB}
spec: {clusterQueue: tight}
"""
SEEN = "jobs,workloads,pods,events,localqueues,clusterqueues"


def everything_seen(shell: Shell) -> str:
    """All that an account is told by the API, of its own and of the machine."""
    found = [shell.run("kubectl", "get", SEEN, "-n", shell.name, "-o", "yaml")]
    names = shell.run("kubectl", "get", "workloads", "-n", shell.name, "-o", "name").split()
    asked = "/apis/kueue.x-k8s.io/v1beta2/namespaces"
    for name in names:
        path = f"{asked}/{shell.name}/workloads/{name.rpartition('/')[2]}/explanation"
        found.append(shell.run("kubectl", "get", "--raw", path))
    return "\n".join(found)


def test_who_made_way_for_whom_is_told_by_account_and_number(machine: Machine) -> None:
    program("kubectl")
    ada, bob = machine.ada, machine.bob
    text = TIGHT.replace("ADA", ada.name).replace("BOB", bob.name)
    machine.root.run("kubectl", "apply", "-f", "-", text=text)
    submit = ("makeway", "submit", "-q", "tight", "--cpu", "1")
    ada.run(*submit, "--name", "moonshot", "--env", "KEY=adas-key", "--", "sleep", "600")
    job = ("kubectl", "wait", "job", "-l", "kueue.x-k8s.io/queue-name=tight")
    ada.run(*job, "-n", ada.name, *READY)
    bob.run(*submit, "--priority", "brisk", "--name", "sunspot", "--", "sleep", "601")
    bob.run(*job, "-n", bob.name, *READY)
    wait_until(lambda: "Preempted" in str(machine.up.listed(WORKLOADS)))
    hers, his = everything_seen(ada), everything_seen(bob)
    assert "Preempted" in hers
    assert f"{bob.name}/job-" in hers  # his account, and the number of his job
    for secret in ("sunspot", "sleep 601", '"601"'):
        assert secret not in hers, secret
    for secret in ("moonshot", "adas-key", '"600"'):
        assert secret not in his, secret
    why = ada.run("makeway", "explain", "@")
    assert re.search(rf"job \d+ sunspot of {bob.name}", why)  # as in her list of all jobs
    assert "601" not in why
    for words in (("queues",), ("history",), ("status",), ("gpu",), ("forecast", "@")):
        said = bob.run("makeway", *words)
        assert "moonshot" not in said, words
        assert "adas-key" not in said, words
    assert "held" in bob.run("makeway", "hold", "@")
    assert "resumed" in bob.run("makeway", "resume", "@")
    assert "moonshot" in ada.run("makeway", "status")
    rows = json.loads(bob.run("makeway", "status", "-A", "-o", "json"))["items"]
    [row] = [row for row in rows if row["namespace"] == ada.name]
    assert (row["name"], row["submittedBy"]) == ("moonshot", ada.name)
    assert not row["command"]
    assert not row["message"]
    assert "adas-key" not in str(rows)
    for shell in (ada, bob):
        shell.run("makeway", "cancel", "@", "-y")


def test_a_machine_is_shared_in_a_line(machine: Machine) -> None:
    ada, bob, root = machine.ada, machine.bob, machine.root
    assert "at the cluster scope" in ada.run("makeway", "share", f"{ada.name}=1", code=1)
    line = ("makeway", "share", f"{ada.name}=1", f"{bob.name}=500m", "--borrow")
    assert f"name: {ada.name}" in root.run(*line, "--dry-run")
    root.run(*line)
    assert f"as a command: makeway share {ada.name}=1 {bob.name}=500m --borrow" in ada.run(
        "makeway", "share"
    )
    assert ada.name in ada.run("kubectl", "get", "localqueues", "-n", ada.name, "-o", "name")
    assert bob.name not in ada.run("kubectl", "get", "localqueues", "-n", ada.name, "-o", "name")
    submitted = ada.run("makeway", "submit", "-q", ada.name, "--cpu", "1", "--wait", "--", "true")
    assert "Submitted job" in submitted
    assert f"removed the share {bob.name}" in root.run("makeway", "share", f"{ada.name}=1")
