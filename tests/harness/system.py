"""A real `makeway up --system`, below a root of its own; root alone can."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from makeway.accounts import Account
from makeway.api.kinds import FLAVORS, JOBS, LOCAL_QUEUES, PODS, QUEUES
from makeway.client import Client
from makeway.client.kubeconfig import access_by_socket
from makeway.runner.processes import kill_marked
from tests.harness.accounts import SOURCE, accounts, python_for_all
from tests.harness.documents import cluster_queue, flavor, local_queue
from tests.harness.process import Document, Up, job, wait_until


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder of root's that everybody may pass through, unlike those of pytest."""
    folder = Path(tempfile.mkdtemp(prefix="makeway-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def environment_for_all(folder: Path) -> Path:
    """A Python with Makeway that every account can run; makes a virtual environment there."""
    python = python_for_all()
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
    [sites] = folder.glob("lib/*/site-packages")
    (sites / "makeway.pth").write_text(f"{sysconfig.get_path('purelib')}\n{SOURCE}\n")
    return folder / "bin" / "python"


class SystemUp(Up):
    """The process; it is asked by root, through the socket for everybody."""

    def __init__(self, root: Path, python: Path, server: str) -> None:
        super().__init__(root / "var/lib/makeway/server")
        self.root, self.state, self.python = root, root / "var/lib/makeway", python
        etc = root / "etc/makeway"
        etc.mkdir(parents=True)
        self.settings = etc / "settings.yaml"
        self.settings.write_text(f"serverAccount: {server}\nlogLevel: info\n")

    def start(self, *options: str) -> None:
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

    def client(self) -> Client:
        return Client(access_by_socket(self.root / "run/makeway/api.sock", "default").transport())

    def greet(self, account: Account) -> None:
        """Let the server see somebody for the first time: he gets a namespace."""
        ask = "from pathlib import Path; from makeway.local_socket import ask_locally; "
        ask += f"ask_locally(Path('{self.root}/run/makeway/api.sock'), 'GET', "
        ask += f"'/api/v1/namespaces/{account.name}/pods')"
        own = account.uid, account.gid
        command = [self.python, "-c", ask]
        subprocess.run(command, user=own[0], group=own[1], extra_groups=[], check=True, cwd="/")

    def make_queues(self, *namespaces: str) -> None:
        """One queue for all."""
        self.create(FLAVORS, flavor("default"))
        quotas = [{"name": "cpu", "nominalQuota": 64}, {"name": "memory", "nominalQuota": "64Gi"}]
        flavors = [{"name": "default", "resources": quotas}]
        groups = [{"coveredResources": ["cpu", "memory"], "flavors": flavors}]
        self.create(QUEUES, cluster_queue("main", resourceGroups=groups))
        for name in namespaces:
            self.create(LOCAL_QUEUES, local_queue("default", "main", namespace=name))

    @property
    def log(self) -> str:
        return (self.root / "up.log").read_text()

    def starter(self) -> int:
        return int((self.root / "run/makeway-starter/lock").read_text())

    def submitted(
        self, account: Account, name: str, script: str, *, pod: Document | None = None, **more: Any
    ) -> None:
        """A Job of one account's; `more` is of its container."""
        made = job(name, script, cpu="100m")
        made["metadata"]["namespace"] = account.name
        template = made["spec"]["template"]["spec"]
        template["containers"][0] |= more
        template |= pod or {}
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
    with accounts("mwserver") as [server], open_folder() as folder:
        up = SystemUp(folder, environment_for_all(folder / "python"), server.name)
        up.start(*options)
        try:
            yield up
        finally:
            up.stop()
            for pod in (up.state / "pods").iterdir():
                kill_marked(f"MAKEWAY_POD_UID={pod.name}")
