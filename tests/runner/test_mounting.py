"""Volumes are at their mount paths for a container's processes, and nobody else sees that."""

import os
import subprocess
from pathlib import Path

import pytest

from makeway.runner.host import Mount
from makeway.runner.local import LocalHost
from tests import prerequisites
from tests.runner.harness import UID, Machine, order, shell

SOURCE = str(Path(__file__).parents[2] / "src")
PLACE = f"/makeway-{os.getpid()}/deep/inside"  # nobody has such a folder
ALONE = """
import os, sys
sys.path.append(sys.argv[1])
from makeway.runner.mounting import show_if_possible
folder, place = sys.argv[2:]
show_if_possible([(f"{folder}/volume", place), (f"{folder}/volume/file", "/etc/issue")], folder)
os.execvp("sh", ["sh", "-c", f"id -u; cat {place}/file /etc/issue; touch {place}/new; ls {place}"])
"""


def test_a_container_has_its_volume_where_it_wants_it(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.host = LocalHost(tmp_path, mounts=True)
    write = shell(f"echo from-init > {PLACE}/file", "init", mounts=(Mount(volume="v", path=PLACE),))
    read = shell(
        f"cat {PLACE}/part", mounts=(Mount(volume="v", path=f"{PLACE}/part", sub_path="file"),)
    )
    machine.run(order(read, init=(write,), volumes={"v": ""}))

    assert machine.log() == "from-init\n"
    assert not Path(PLACE).parents[1].exists()
    assert (tmp_path / "pods" / UID / "volumes" / "v" / "file").read_text() == "from-init\n"


def test_what_cannot_be_mounted_is_said(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.host = LocalHost(tmp_path, mounts=True)
    missing = {"gone": str(tmp_path / "gone")}
    machine.run(order(shell("true", mounts=(Mount(volume="gone", path=PLACE),)), volumes=missing))

    assert machine.log() == f"mountPath {PLACE}: No such file or directory\n"


def test_who_is_not_root_mounts_for_himself(tmp_path: Path) -> None:
    prerequisites.root()
    alone = ["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups"]
    if subprocess.run([*alone, "unshare", "-Urm", "true"], capture_output=True).returncode:
        pytest.skip("users may not make namespaces here")
    (tmp_path / "volume").mkdir()
    (tmp_path / "volume" / "file").write_text("kept\n")
    for path in (tmp_path, tmp_path / "volume"):
        os.chown(path, 12345, 12345)
    for parent in tmp_path.parents[:3]:
        parent.chmod(0o711)
    command = [*alone, "/usr/bin/python3", "-I", "-c", ALONE, SOURCE, str(tmp_path), PLACE]
    said = subprocess.run(command, capture_output=True, text=True, check=True)

    assert said.stdout.split() == ["12345", "kept", "kept", "file", "new"]
    assert (tmp_path / "volume" / "new").stat().st_uid == 12345
