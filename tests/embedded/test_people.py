"""Two accounts and root on one server, over the real socket, with the commands that people type."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from makeway.accounts import account_named
from makeway.embedded import Running, Settings, serve
from makeway.server.people import People
from tests.harness.accounts import Shell, accounts, install_for_all
from tests.prerequisites import program

NAMES = ("mwt-ada", "mwt-bob")
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: private}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: main, command: [sleep, "600"], env: [{name: KEY, value: "ada's secret"}]}
"""


class Machine:
    """A machine with a server for all of its accounts."""

    def __init__(self, folder: Path, running: Running, shells: dict[str, Shell]) -> None:
        self.folder, self.running = folder, running
        self.ada, self.bob = (shells[name] for name in NAMES)
        self.root = shells["root"]


@contextmanager
def served(folder: Path, people: People) -> Iterator[Running]:
    """A server in a thread of its own."""
    ready, over = threading.Event(), asyncio.Event()
    found: list[Running] = []
    loop = asyncio.new_event_loop()

    async def run() -> None:
        async with serve(folder / "data", Settings(port=0, people=people)) as running:
            found.append(running)
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()))
    thread.start()
    try:
        assert ready.wait(30)
        yield found[0]
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(30)
        loop.close()


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with accounts(*NAMES) as made:
        # Not below /tmp, which accounts can write to.
        folder = Path(tempfile.mkdtemp(prefix="makeway-test-", dir="/run"))
        folder.chmod(0o755)
        people = People(socket=folder / "api.sock", kubeconfig=folder / "kubeconfig")
        commands = install_for_all(folder / "bin")
        root = account_named("root")
        assert root is not None
        variables = {"MAKEWAY_SOCKET": str(people.socket), "KUBECONFIG": str(people.kubeconfig)}
        shells = {a.name: Shell(a, commands, **variables) for a in (*made, root)}
        try:
            with served(folder, people) as running:
                yield Machine(folder, running, shells)
        finally:
            shutil.rmtree(folder)


def test_kubectl_knows_who_calls(machine: Machine) -> None:
    program("kubectl")
    said = machine.ada.run("kubectl", "auth", "whoami", "-o", "json")
    info = json.loads(said)["status"]["userInfo"]
    assert info["username"] == "mwt-ada"
    assert info["groups"] == [*machine.ada.groups, "system:authenticated"]
    assert "system:masters" in machine.root.run("kubectl", "auth", "whoami")
    asked = ("kubectl", "auth", "can-i", "create", "jobs")
    assert machine.ada.run(*asked, "-n", "mwt-ada") == "yes\n"
    assert machine.ada.run(*asked, "-n", "mwt-bob", code=1) == "no\n"
    assert machine.root.run(*asked, "-n", "mwt-bob") == "yes\n"
    listed = machine.ada.run("kubectl", "auth", "can-i", "--list", "-n", "mwt-ada")
    assert "secrets" in listed
    assert "rolebindings" not in listed


def test_what_one_has_the_other_cannot_reach_by_any_verb(machine: Machine) -> None:
    program("kubectl")
    machine.ada.run("kubectl", "create", "-n", "mwt-ada", "-f", "-", text=JOB)
    assert "ada's secret" in machine.ada.run(
        "kubectl", "get", "jobs", "-n", "mwt-ada", "-o", "yaml"
    )
    there = ("-n", "mwt-ada")
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
        ("get", "namespace", "mwt-ada"),
        ("create", "job", "x", "--image=x", *there),
    ):
        code, said = machine.bob.answer("kubectl", *words)
        assert code != 0, words
        assert "orbidden" in said, (words, said)
        assert "secret" not in said, words
    assert machine.root.run("kubectl", "get", "job", "private", *there, "-o", "name")


def test_the_command_uses_the_socket_and_ones_own_namespace(machine: Machine) -> None:
    mine = json.loads(machine.bob.run("makeway", "get", "jobs", "-o", "json"))
    assert mine["items"] == []
    refused = machine.bob.run("makeway", "get", "jobs", "-n", "mwt-ada", code=1)
    assert 'User "mwt-bob" cannot list resource "jobs"' in refused
    found = json.loads(machine.ada.run("makeway", "get", "namespace", "mwt-ada", "-o", "json"))
    assert found["metadata"]["annotations"] == {
        "makeway.dev/account": "mwt-ada",
        "makeway.dev/uid": str(machine.ada.account.uid),
    }


def test_tokens_are_made_shown_and_revoked(machine: Machine) -> None:
    secret = machine.ada.run("makeway", "token", "create", "--name", "ci", "--ttl", "1h").strip()
    server = machine.running.address
    ask = ("kubectl", "--insecure-skip-tls-verify", "--kubeconfig=/dev/null", f"--server={server}")
    assert "mwt-ada" in machine.bob.run(*ask, f"--token={secret}", "auth", "whoami")
    assert " ci " in machine.ada.run("makeway", "token", "list")
    assert "ci" not in machine.bob.run("makeway", "token", "list")
    assert "mwt-ada" in machine.root.run("makeway", "token", "list", "--all")
    machine.bob.run("makeway", "token", "revoke", "ci", code=1)
    assert machine.ada.run("makeway", "token", "revoke", "ci") == "token ci revoked\n"
    code, said = machine.bob.answer(*ask, f"--token={secret}", "auth", "whoami")
    assert code != 0
    assert "Unauthorized" in said or "must be logged in" in said


def test_no_secret_lies_where_others_can_read(machine: Machine) -> None:
    everything = (machine.folder / "kubeconfig").read_text()
    assert "token" in everything  # the command that fetches one
    assert "mw-" not in everything
    for path in ("data", "data/makeway.db", "data/pki/token", "data/pki/server.key"):
        code, said = machine.bob.answer("cat", str(machine.folder / path))
        assert code != 0
        assert "ermission denied" in said or "directory" in said


def test_a_locked_account_is_refused(machine: Machine) -> None:
    with accounts("mwt-eve") as (eve,):
        subprocess.run(["usermod", "--password", "x", eve.name], check=True)
        subprocess.run(["usermod", "--lock", eve.name], check=True)
        commands = machine.folder / "bin"
        shell = Shell(eve, commands, MAKEWAY_SOCKET=str(machine.folder / "api.sock"))
        refused = shell.run("makeway", "token", code=1)
        assert "account mwt-eve is refused: it is locked" in refused
