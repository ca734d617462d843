"""Accounts made for a test and removed after it, and a Makeway for all of them; root alone can."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import makeway
from tests import prerequisites
from tests.harness.process import wait_until

SOURCE = Path(makeway.__file__).parents[1]


@contextmanager
def accounts(*names: str, system: bool = False) -> Iterator[list[pwd.struct_passwd]]:
    """With homes that only they can read; the names get our pid, so that tests don't meet."""
    prerequisites.root()
    made = [f"{name}{os.getpid()}" for name in names]
    try:
        for name in made:
            how = ["--system", "--no-create-home"] if system else ["--create-home"]
            command = ["useradd", *how, "--user-group", "--shell", "/bin/sh", name]
            subprocess.run(command, check=True, capture_output=True)
            if not system:
                os.chmod(pwd.getpwnam(name).pw_dir, 0o700)
        yield [pwd.getpwnam(name) for name in made]
    finally:
        for name in made:
            command = ["userdel", *([] if system else ["--remove"]), "--force", name]
            subprocess.run(command, check=False, capture_output=True)


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


class SystemUp:
    """`makeway up --system` below a root of its own."""

    def __init__(self, root: Path, python: Path, server: str) -> None:
        self.root, self._python = root, python
        self.state = root / "var/lib/makeway"
        etc = root / "etc/makeway"
        etc.mkdir(parents=True)
        (etc / "settings.yaml").write_text(f"serverAccount: {server}\nlogLevel: info\n")
        self.process: subprocess.Popen[str] | None = None

    def start(self, *options: str) -> None:
        command = [self._python, "-m", "makeway.cli.main", "up", "--system"]
        with open(self.root / "up.log", "ab") as log:
            self.process = subprocess.Popen(
                [*command, "--root", self.root, *options],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd="/",
            )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("makeway is ready"):
                return
        raise AssertionError(self.log)

    @property
    def log(self) -> str:
        return (self.root / "up.log").read_text()

    def stop(self) -> int:
        assert self.process is not None
        assert self.process.stdout is not None
        self.process.terminate()
        code = self.process.wait(timeout=30)
        self.process.stdout.close()
        return code

    def makeway(self, *arguments: str, code: int = 0) -> str:
        """As an administrator, who has the server's own kubeconfig."""
        done = subprocess.run(
            [self._python, "-m", "makeway.cli.main", *arguments],
            env={"PATH": os.environ["PATH"], "KUBECONFIG": str(self.state / "server/kubeconfig")},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == code, (done.stdout, done.stderr, self.log)
        return done.stdout

    def applied(self, *documents: dict[str, Any]) -> None:
        path = self.root / "applied.json"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(documents)}))
        self.makeway("apply", "-f", str(path))

    def ended(self, name: str, namespace: str) -> dict[str, Any]:
        """The Job, when it has ended."""

        def found() -> Any:
            job = json.loads(self.makeway("get", "job", name, "-n", namespace, "-o", "json"))
            ends = [c["type"] for c in job.get("status", {}).get("conditions", ())]
            return job if {"Complete", "Failed"} & {*ends} else None

        job: dict[str, Any] = wait_until(found, claim=f"the end of {name}")
        return job


@contextmanager
def system_up(*options: str) -> Iterator[SystemUp]:
    with accounts("mwserver", system=True) as [server], open_folder() as folder:
        up = SystemUp(folder, python_for_all(folder / "python"), server.pw_name)
        up.start(*options)
        try:
            yield up
        finally:
            up.stop()
