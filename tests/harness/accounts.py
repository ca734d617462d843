"""Accounts made for a test and removed after it, and a Makeway for all of them; root alone can."""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import makeway
from makeway.api.kinds import FLAVORS, JOBS, LOCAL_QUEUES, PODS, QUEUES
from makeway.client import Client
from makeway.client.kubeconfig import access_by_socket
from tests import prerequisites
from tests.harness import documents
from tests.harness.process import Document, Up, end_pods, job, wait_until

SOURCE = Path(makeway.__file__).parents[1]


@contextmanager
def accounts(*names: str, system: bool = False) -> Iterator[list[pwd.struct_passwd]]:
    """With homes that only they can read; the names get our pid, so that tests don't meet."""
    with accounts_named(*(f"{name}{os.getpid()}" for name in names), system=system) as made:
        yield made


@contextmanager
def accounts_named(*names: str, system: bool = False) -> Iterator[list[pwd.struct_passwd]]:
    prerequisites.root()
    try:
        for name in names:
            how = ["--system", "--no-create-home"] if system else ["--create-home"]
            change_accounts("useradd", *how, "--user-group", "--shell", "/bin/sh", name)
            if not system:
                os.chmod(pwd.getpwnam(name).pw_dir, 0o700)
        yield [pwd.getpwnam(name) for name in names]
    finally:
        for name in names:
            with suppress(subprocess.CalledProcessError):  # it never was
                change_accounts("userdel", *([] if system else ["--remove"]), "--force", name)


def change_accounts(*command: str) -> None:
    with account_files_locked():
        subprocess.run(command, check=True, capture_output=True)


@contextmanager
def account_files_locked() -> Iterator[None]:
    """One at a time: programs that change accounts give up at once where another is at work."""
    with open("/etc/login.defs") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder of root's that everybody may pass through, unlike those of pytest."""
    folder = Path(tempfile.mkdtemp(prefix="makeway-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def python_for_all(folder: Path) -> Path:
    """A Python with Makeway that every account can run, wherever the one of this test is."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    place = shutil.which(version, path="/usr/local/bin:/usr/bin:/bin")
    python = place or prerequisites.missing(f"there is no {version} that every account can run")
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
    sites = folder / "lib" / version / "site-packages"
    (sites / "makeway.pth").write_text(f"{sysconfig.get_path('purelib')}\n{SOURCE}\n")
    return folder / "bin" / "python"


class SystemUp(Up):
    """`makeway up --system` below a root of its own; asked by root, through its socket."""

    def __init__(self, root: Path, python: Path, server: str) -> None:
        super().__init__(root / "var/lib/makeway/server")
        self.root, self.state, self.python = root, root / "var/lib/makeway", python
        etc = root / "etc/makeway"
        etc.mkdir(parents=True)
        self.settings = etc / "settings.yaml"
        self.settings.write_text(f"serverAccount: {server}\nlogLevel: info\n")

    def start(self, *options: str) -> None:
        self._hang_up()
        command = [str(self.python), "-m", "makeway.cli.main", "up", "--system", "--root"]
        with open(self.root / "up.log", "ab") as log:
            self.process = subprocess.Popen(
                [*command, str(self.root), *options],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd="/",
            )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("makeway is ready"):
                self.address = line.split()[-1]
                return
        raise AssertionError(self.log)

    @property
    def socket(self) -> Path:
        return self.root / "run/makeway/api.sock"

    def client(self) -> Client:
        return Client(access_by_socket(self.socket, "default").transport())

    def open_queue(self, *people: pwd.struct_passwd) -> None:
        """A queue that lets everything in, for these accounts; they come for the first time."""
        self.create(FLAVORS, documents.flavor("default"))
        groups = [documents.group("cpu", "memory", nominalQuota=str(2**40))]
        self.create(QUEUES, documents.cluster_queue("all", resourceGroups=groups))
        for account in people:
            self.run_as(account, "token")
            door = documents.local_queue("default", "all", namespace=account.pw_name)
            self.create(LOCAL_QUEUES, door)

    def run_as(self, account: pwd.struct_passwd, *words: str) -> str:
        """What the command prints for an account."""
        return subprocess.run(
            [str(self.python), "-m", "makeway.cli.main", *words],
            check=True,
            capture_output=True,
            text=True,
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "MAKEWAY_SOCKET": str(self.socket)},
            user=account.pw_uid,
            group=account.pw_gid,
            extra_groups=os.getgrouplist(account.pw_name, account.pw_gid),
        ).stdout

    @property
    def log(self) -> str:
        return (self.root / "up.log").read_text()

    def starter(self) -> int:
        """Its pid; 0 while one is about to begin."""
        return int((self.root / "run/makeway-starter/lock").read_text() or 0)

    def submitted(
        self, account: pwd.struct_passwd, name: str, script: str, **container: Any
    ) -> None:
        """A Job of one account's."""
        made = job(name, script)
        made["metadata"]["namespace"] = account.pw_name
        made["spec"]["template"]["spec"]["containers"][0] |= container
        self.create(JOBS, made)

    def pod(self, name: str) -> Document:
        """That of a Job."""
        found = [p for p in self.listed(PODS) if p["metadata"]["name"].startswith(f"{name}-")]
        return found[0] if found else {}

    def ended(self, name: str) -> str:
        """Wait for the end of a Job's pod, and return what it printed."""
        over = ("Succeeded", "Failed")
        wait_until(lambda: self.pod(name).get("status", {}).get("phase") in over, claim=self.log)
        return self.printed(name)

    def printed(self, name: str) -> str:
        uid = self.pod(name).get("metadata", {}).get("uid", "not there yet")
        path = self.state / "logs" / uid / "main.log"
        return path.read_text() if path.exists() else ""

    def delete_pod(self, name: str) -> None:
        metadata = self.pod(name)["metadata"]
        which = metadata["name"], metadata["namespace"]
        self.ask(lambda client: client.delete(PODS, *which, grace_s=1))

    def home(self, name: str) -> Path:
        uid: str = self.pod(name)["metadata"]["uid"]
        return self.state / "homes" / uid


@contextmanager
def system_up(*options: str) -> Iterator[SystemUp]:
    with accounts("mwserver", system=True) as [server], open_folder() as folder:
        up = SystemUp(folder, python_for_all(folder / "python"), server.pw_name)
        up.start(*options)
        try:
            yield up
        finally:
            up.stop()
            end_pods(up.state)
