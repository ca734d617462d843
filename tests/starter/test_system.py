"""Two people on one machine: their jobs run as they are, and neither gets at the other or at root.

One `makeway up --system` for all stories, below a root of its own, with accounts made for it.
"""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from makeway.api.kinds import CONFIG_MAPS, JOBS, NAMESPACES, PODS, SECRETS
from makeway.api.labels import ID
from makeway.api.times import format_time
from makeway.client import ApiError, Unavailable
from makeway.client.http import HttpTransport
from makeway.client.kubeconfig import access_by_socket
from makeway.client.transport import Call
from makeway.runner.cgroups import Cgroups
from tests.harness.accounts import SystemUp, accounts, change_accounts, system_up
from tests.harness.browser import browsing
from tests.harness.process import wait_until


class Lab(NamedTuple):
    up: SystemUp
    ann: pwd.struct_passwd
    bob: pwd.struct_passwd


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with accounts("mwann", "mwbob") as [ann, bob]:
        change_accounts("usermod", "-aG", bob.pw_name, ann.pw_name)
        with system_up("--port", str(free_port()), "--keep-days", "7") as up:
            up.open_queue(pwd.getpwnam("root"), ann, bob)
            yield Lab(up, ann, bob)


def free_port() -> int:
    """One with another behind it, for the pages."""
    while True:
        with suppress(OSError), socket.create_server(("127.0.0.1", 0)) as first:
            port = int(first.getsockname()[1])
            with socket.create_server(("127.0.0.1", port + 1)):
                return port


LOOK = """
import ctypes, json, os
signal = ctypes.c_int()
ctypes.CDLL(None).prctl(2, ctypes.byref(signal), 0, 0, 0)
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
umask = os.umask(0)
print(json.dumps({
    "uids": os.getresuid(), "gids": os.getresgid(), "groups": sorted(os.getgroups()),
    "caps": sum(int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")),
    "oom": open("/proc/self/oom_score_adj").read().strip(), "death": signal.value,
    "umask": umask, "session": os.getsid(0) == os.getpid(),
    "open": {n: os.readlink(f"/proc/self/fd/{n}").split(":")[0] for n in range(3, 64)
             if os.path.exists(f"/proc/self/fd/{n}")},
    "environ": dict(os.environ), "folder": os.getcwd(),
}))
"""


def test_a_job_is_its_account_and_nothing_of_root_is_left(lab: Lab) -> None:
    up, ann, bob = lab
    up.submitted(ann, "look", "", command=["/usr/bin/python3", "-c", LOOK])
    found: dict[str, Any] = json.loads(up.ended("look"))

    assert found["uids"] == [ann.pw_uid] * 3
    assert found["gids"] == [ann.pw_gid] * 3
    assert found["groups"] == sorted({ann.pw_gid, bob.pw_gid})  # she is in his group
    assert found["caps"] == 0
    assert found["death"] == signal.SIGKILL
    assert found["oom"] == "0"
    assert found["session"], "it shares a session with others"
    assert found["umask"] == 0o022
    assert found["open"] == {}
    assert found["folder"] == str(up.home("look") / "scratch")
    mine = {"HOME": ann.pw_dir, "USER": ann.pw_name, "LOGNAME": ann.pw_name, "SHELL": "/bin/sh"}
    assert found["environ"].items() >= mine.items()
    told = {"MAKEWAY_POD_UID", "MAKEWAY_JOB_ID", "MAKEWAY_ATTEMPT", "MAKEWAY_LAST_END"}
    assert found["environ"].keys() <= {*mine, *told, "PATH", "PYTHONUNBUFFERED", "LC_CTYPE"}


GREET = """
import socket, time
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    with server.accept()[0] as caller:
        caller.sendall(b"hello")
        time.sleep(1000)
"""


def test_who_joins_a_pod_is_its_account_and_others_may_not(lab: Lab) -> None:
    up, ann, bob = lab
    up.submitted(ann, "joined", "", command=["/usr/bin/python3", "-c", GREET])
    port = int(wait_until(lambda: up.printed("joined").strip()))
    words = ("exec", "-n", ann.pw_name, "joined", "--", "/usr/bin/python3", "-c", LOOK)

    found: dict[str, Any] = json.loads(up.run_as(ann, *words))
    with pytest.raises(subprocess.CalledProcessError) as refused:
        up.run_as(bob, *words)

    assert found["uids"] == [ann.pw_uid] * 3
    assert found["groups"] == sorted({ann.pw_gid, bob.pw_gid})
    assert (found["caps"], found["oom"], found["open"]) == (0, "0", {})
    assert found["death"] == signal.SIGKILL
    assert found["folder"] == str(up.home("joined") / "scratch")
    assert "is forbidden" in refused.value.stderr
    pod = up.pod("joined")["metadata"]
    assert b"hello" in asyncio.run(said_at(up, pod["name"], pod["namespace"], port))
    lines = map(json.loads, up.run_as(pwd.getpwnam("root"), "audit").splitlines())
    object_text = f"pods/exec {pod['namespace']}/{pod['name']}"
    noted = {"account": ann.pw_name, "verb": "create", "object": object_text, "code": 101}
    assert any(line.items() >= noted.items() for line in lines)
    up.delete_pod("joined")


async def said_at(up: SystemUp, pod: str, namespace: str, port: int) -> bytes:
    """The first words at a port of a pod."""
    transport = access_by_socket(up.socket, namespace).transport()
    assert isinstance(transport, HttpTransport)
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/portforward"
    call = Call(method="GET", path=path, pairs=(("ports", str(port)),))
    async with transport.join(call, ("v4.channel.k8s.io",)) as line:
        begun = [await line.receive() for _ in ("data", "errors")]
        assert begun == [bytes([n]) + port.to_bytes(2, "little") for n in (0, 1)]
        found = await line.receive()
    await transport.close()
    return found or b""


def test_a_home_is_entered_by_its_owner_alone(lab: Lab) -> None:
    up, ann, bob = lab
    for one, name in ((ann, "own"), (bob, "foreign")):
        up.submitted(one, name, "pwd; echo mine > kept; exec cat kept", workingDir=ann.pw_dir)

    assert up.ended("own") == f"{ann.pw_dir}\nmine\n"
    assert (Path(ann.pw_dir) / "kept").stat().st_uid == ann.pw_uid
    assert up.ended("foreign") == f"working directory {ann.pw_dir}: Permission denied\n"


def test_what_is_not_the_accounts_is_closed_to_it(lab: Lab) -> None:
    up, ann, bob = lab
    up.submitted(bob, "secret", "echo hidden; touch here; exec sleep 1000")
    wait_until(lambda: up.printed("secret"))
    state, uid = up.state, up.pod("secret")["metadata"]["uid"]
    places = [
        *(state, state / "pods", state / "pods" / uid, state / "logs", state / "logs" / uid),
        *(state / "homes", state / "homes" / uid / "scratch", state / "server", state / "trash"),
        up.root / "run/makeway-starter",
    ]
    tries = "; ".join(f"ls {place} 2>&1; touch {place}/x 2>&1" for place in places)
    up.submitted(ann, "curious", f"{tries}; true")

    said = up.ended("curious").splitlines()
    assert len(said) == 2 * len(places)
    assert all("Permission denied" in line for line in said), said
    up.delete_pod("secret")


def test_probes_are_asked_by_the_account(lab: Lab) -> None:
    up, ann, _ = lab
    probe = {"exec": {"command": ["sh", "-c", f"id -u > {ann.pw_dir}/asked"]}, "periodSeconds": 1}
    script = f"while [ ! -s {ann.pw_dir}/asked ]; do sleep 0.05; done; cat {ann.pw_dir}/asked"
    up.submitted(ann, "probed", script, readinessProbe=probe)

    assert up.ended("probed") == f"{ann.pw_uid}\n"
    assert (Path(ann.pw_dir) / "asked").stat().st_uid == ann.pw_uid


def test_limits_hold(lab: Lab) -> None:
    if why := Cgroups.detect().why:
        pytest.skip(f"nothing limits here: {why}")
    greedy = ["/usr/bin/python3", "-c", "bytearray(400 << 20)"]
    limits = {"limits": {"memory": "50Mi"}}
    lab.up.submitted(lab.ann, "greedy", "", command=greedy, resources=limits)
    lab.up.ended("greedy")

    [main] = lab.up.pod("greedy")["status"]["containerStatuses"]
    assert main["state"]["terminated"]["reason"] == "OOMKilled"


def test_nothing_runs_for_root(lab: Lab) -> None:
    up = lab.up
    up.submitted(pwd.getpwnam("root"), "as-root", f"touch {up.root}/ran")

    assert up.ended("as-root") == ""
    assert up.pod("as-root")["status"]["reason"] == "AccountRefused"
    assert not (up.root / "ran").exists()


def test_nothing_runs_in_a_namespace_of_nobody(lab: Lab) -> None:
    up = lab.up
    document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "makeway-none"}}
    up.create(NAMESPACES, document)
    nobody = pwd.struct_passwd(("makeway-none", "x", 0, 0, "", "/", "/bin/sh"))
    with pytest.raises(ApiError, match="belongs to no account"):
        up.submitted(nobody, "as-nobody", "true")


SERVE = """
import socket, sys
listening = socket.create_server(("127.0.0.1", int(sys.argv[1])))
asking, (_, port) = listening.accept()
asking.recv(1000)
ends = [port, int(sys.argv[1])]  # others may have a connection from the same port to elsewhere
lines = [line.split() for line in open("/proc/net/tcp")][1:]
print(*(line[7] for line in lines if [int(end.split(":")[1], 16) for end in line[1:3]] == ends))
asking.sendall(b"HTTP/1.1 200 OK\\r\\n\\r\\n")
"""


def test_the_network_is_asked_by_the_account_too(lab: Lab) -> None:
    up, ann, _ = lab
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    probe = {"httpGet": {"port": port}, "periodSeconds": 1}
    command = ["/usr/bin/python3", "-c", SERVE, str(port)]
    up.submitted(ann, "asked", "", command=command, readinessProbe=probe)

    assert up.ended("asked") == f"{ann.pw_uid}\n"


class Page:
    """The dashboard as one account's browser asks for it."""

    def __init__(self, up: SystemUp, account: pwd.struct_passwd) -> None:
        address, _, code = up.run_as(account, "dashboard", "--print").strip().partition("#")
        self._address = address.rstrip("/")
        self._headers = {"Makeway-Code": code}
        session = self.ask("POST", "/api/session")["session"]
        self._headers = {"Makeway-Session": session}

    def _open(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(self._address + path, data, self._headers, method=method)
        return urllib.request.urlopen(asked, timeout=30)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        with self._open(method, path, body) as answer:
            return json.load(answer)

    def jobs(self) -> dict[str, Any]:
        """Rows by name."""
        rows: dict[str, Any] = {}
        with self._open("GET", "/api/stream") as lines:
            for line in lines:
                message = json.loads(line)
                if message["type"] == "synced":
                    return {row["name"]: row for row in rows.values()}
                for row in message["items"] if message.get("table") == "jobs" else ():
                    rows.setdefault(row["key"], {}).update(row)  # or what is new of it
        raise AssertionError("it broke off")

    def act(self, row: Any, action: str) -> int:
        body = {"key": row["key"], "workload": row["workload"], "action": action}
        try:
            self.ask("POST", "/api/action", body)
        except urllib.error.HTTPError as refusal:
            return refusal.code
        return 200


def test_the_dashboard_is_everybodys_with_his_own_rights(lab: Lab) -> None:
    up, ann, bob = lab
    for one, name in ((ann, "anns-own"), (bob, "bobs-own")):
        up.submitted(one, name, "echo runs; exec sleep 1000")
        wait_until(lambda name=name: up.printed(name))
    page = Page(up, ann)
    rows = page.jobs()

    assert rows["anns-own"]["nodes"] != []
    theirs = rows["bobs-own"]
    assert (theirs["user"], theirs["status"], theirs["nodes"]) == ("root", "running", [])
    assert [page.act(theirs, action) for action in ("hold", "cancel")] == [403, 403]
    for path in (f"/api/job?key={theirs['key']}&workload=", output_of(up.pod("bobs-own"))):
        with pytest.raises(urllib.error.HTTPError, match="403"):
            page.ask("GET", path)
    with pytest.raises(urllib.error.HTTPError, match="403"):
        page.ask("GET", f"/api/life?namespace={bob.pw_name}&name=bobs-own")
    own_life = f"/api/life?namespace={ann.pw_name}&name={rows['anns-own']['workload']}"
    wait_until(lambda: "admitted" in [e["kind"] for e in page.ask("GET", own_life)["happened"]])
    assert page.act(rows["anns-own"], "cancel") == 200
    wait_until(lambda: page.jobs()["anns-own"]["status"] == "cancelled")
    assert up.run_as(ann, "logs", "anns-own") == "runs\n"  # it stays, as after `makeway cancel`
    assert Page(up, pwd.getpwnam("root")).act(theirs, "cancel") == 200


def test_an_account_signs_in_with_a_browser_and_out_again(lab: Lab, tmp_path: Path) -> None:
    up, ann, bob = lab
    with browsing(tmp_path / "browser") as browser:  # first: without one, nothing is left running
        for one, name in ((ann, "anns-page"), (bob, "bobs-page")):
            up.submitted(one, name, f"echo output of {name}; exec sleep 1000")
            wait_until(lambda name=name: up.printed(name))
        page = browser.page()
        page.open(up.run_as(ann, "dashboard", "--print", "job/anns-page").strip())
        page.has("output of anns-page")
        assert page.run("document.querySelector('.reader').innerText") == ann.pw_name
        page.click("Cancel")
        page.click("Yes, cancel it")
        page.wait("document.querySelector('.head .status').innerText.endsWith('cancelled')")

        page.open(f"{page.run('location.origin')}/jobs/Job/{bob.pw_name}/bobs-page")
        page.has("is forbidden")  # what he runs, she is not told
        page.click("Cancel")
        page.click("Yes, cancel it")
        page.has('cannot get resource "jobs"')
        assert "output of bobs-page" not in page.text()

        assert "signed out" in up.run_as(ann, "dashboard", "--sign-out")
        up.delete_pod("bobs-page")  # something is told to whoever still looks
        page.has("Run makeway dashboard on this machine")
        assert "bobs-page" not in page.text()


def output_of(pod: Any) -> str:
    metadata = pod["metadata"]
    return f"/api/output?namespace={metadata['namespace']}&pod={metadata['name']}&container=main"


def test_one_asks_about_ones_own_past_and_about_everybodys_use(lab: Lab) -> None:
    up, ann, bob = lab
    up.submitted(ann, "over", "echo done")
    up.ended("over")
    [number] = [
        j["metadata"]["labels"][ID] for j in up.listed(JOBS) if j["metadata"]["name"] == "over"
    ]
    up.run_as(ann, "delete", "job", "over")
    for called in ("over", number):  # there is no trace of it but in the journal and the archive
        said = up.run_as(ann, "why", called, "--at", format_time(time.time()))
        assert (
            f"\njob {number} over has ended\n" in said or f"\njob {number} over was gone\n" in said
        )
        assert "admitted: Admitted by ClusterQueue all" in said
    for asked in (f"{ann.pw_name}/over", f"{ann.pw_name}/{number}"):
        with pytest.raises(subprocess.CalledProcessError) as refused:
            up.run_as(bob, "why", asked)
        assert "is forbidden" in refused.value.stderr
    report = json.loads(up.run_as(bob, "report", "--by", "user", "-o", "json"))
    assert ann.pw_name in [item["user"] for item in report["items"] if item["finished"]]


@contextmanager
def victim(folder: Path) -> Iterator[Path]:
    """A file of root's that no job may change."""
    folder.mkdir(mode=0o700)
    (folder / "precious").write_text("root's")
    yield folder
    assert (folder / "precious").read_text() == "root's"
    assert sorted(path.name for path in folder.iterdir()) == ["precious"]
    assert folder.stat().st_uid == 0
    shutil.rmtree(folder)


PLANT = """
import json, os, sys
target, home = sys.argv[1], os.path.dirname(os.getcwd())
forged = {"supervisor": {"pid": 1, "ticks": 0, "boot": ""}, "is_over": True, "grace_s": 0}
names = ["order.json", "state.json", "stop.json", "lock", "changes", "main.log", "main.ended"]
for name in names:
    with open(name, "w") as file:
        json.dump(forged, file)
    os.makedirs("links", exist_ok=True)
    os.symlink(f"{target}/precious", f"links/{name}")
os.symlink(target, "folder")
os.symlink(target, f"{home}/volumes/data/folder")
os.rename("data", "moved")            # the link at the mount path, made by Makeway
os.symlink(target, "data")
here = os.getcwd()
for depth in range(1500):             # deeper than anybody recurses
    os.mkdir("d")
    os.chdir("d")
os.symlink(target, "deep")
os.chdir(here)
os.mkfifo("pipe")
for tried in (f"{home}/scratch2", f"{home}/volumes/other"):
    try:
        os.symlink(target, tried)
    except PermissionError:
        print("refused")
"""


def test_planted_links_and_forged_files_have_no_effect_outside(lab: Lab) -> None:
    up, ann, _ = lab
    with victim(up.root / "victim") as folder:
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "plant-1", "namespace": ann.pw_name},
            "spec": {
                "restartPolicy": "OnFailure",  # its second run meets what the first has left
                "volumes": [{"name": "data", "emptyDir": {}}],
                "containers": [
                    {
                        "name": "main",
                        "command": ["sh", "-c", 'test -e moved || { "$@"; exit 1; }', "sh"],
                        "args": ["/usr/bin/python3", "-c", PLANT, str(folder)],
                        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                    }
                ],
            },
        }
        up.create(PODS, pod)
        up.ended("plant")
        assert up.pod("plant")["status"]["phase"] == "Succeeded"
        log = up.state / "logs" / up.pod("plant")["metadata"]["uid"] / "main.previous.log"
        assert log.read_text() == "refused\n" * 2
        home = up.home("plant")
        up.delete_pod("plant")
        wait_until(lambda: not home.exists())
        wait_until(lambda: not any((up.state / "trash").iterdir()))


SEE = """
cat /settings/mode /etc/makeway-test.ini; echo result > /airflow/xcom/return.json
cd /workdir && pwd && ls /secrets 2>&1; touch /airflow/here /settings/here 2>&1
grep -E "CapEff|CapPrm|NoNewPrivs" /proc/self/status; setuid-id -u
"""


def test_volumes_are_where_the_container_wants_them(lab: Lab) -> None:
    """And lead nobody where the account may not go, nor setuid programs or our Python astray."""
    up, ann, bob = lab
    (up.root / "setuid").mkdir(mode=0o755)
    shutil.copy("/usr/bin/id", up.root / "setuid" / "setuid-id")
    (up.root / "setuid" / "setuid-id").chmod(0o4755)
    named = {"name": "app", "namespace": ann.pw_name}
    up.create(CONFIG_MAPS, {"metadata": named, "data": {"mode": "fast\n"}})
    where = [str(up.python), "-I", "-c", "import encodings; print(*encodings.__path__)"]
    codecs = subprocess.run(where, check=True, capture_output=True, text=True).stdout.strip()
    evil = {"unicode_escape.py": "print('taken over')"}
    up.create(CONFIG_MAPS, {"metadata": named | {"name": "evil"}, "data": evil})
    volumes: dict[str, dict[str, Any]] = {
        "app": {"configMap": {"name": "app"}},
        "evil": {"configMap": {"name": "evil"}},
        "xcom": {"emptyDir": {}},
        "work": {"hostPath": {"path": ann.pw_dir}},
        "bobs": {"hostPath": {"path": bob.pw_dir}},
    }

    def mounts(**paths: str) -> list[dict[str, str]]:
        return [{"name": name, "mountPath": path} for name, path in paths.items()]

    ini = {"name": "app", "mountPath": "/etc/makeway-test.ini", "subPath": "mode"}
    main = {
        "name": "main",
        "command": ["sh", "-c", SEE],
        "env": [{"name": "PATH", "value": f"/usr/bin:/bin:{up.root}/setuid"}],
        "volumeMounts": [
            {"name": "app", "mountPath": "/settings", "readOnly": True},
            *mounts(evil=codecs, xcom="/airflow/xcom", work="/workdir", bobs="/secrets"),
            ini,
        ],
    }
    read = "until [ -s /airflow/xcom/return.json ]; do sleep 0.05; done; cat /airflow/xcom/*"
    seen = mounts(xcom="/airflow/xcom")
    beside = {"name": "beside", "command": ["sh", "-c", read], "volumeMounts": seen}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "sees-1", "namespace": ann.pw_name},
        "spec": {
            "restartPolicy": "Never",
            "volumes": [{"name": name, **what} for name, what in volumes.items()],
            "containers": [main, beside],
        },
    }
    up.create(PODS, pod)

    assert up.ended("sees").splitlines() == [
        *("fast", "fast", "/workdir"),
        "ls: cannot open directory '/secrets': Permission denied",
        "touch: cannot touch '/airflow/here': Read-only file system",
        "touch: cannot touch '/settings/here': Read-only file system",
        *("CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "NoNewPrivs:\t1"),
        str(ann.pw_uid),
    ]
    uid = up.pod("sees")["metadata"]["uid"]
    assert (up.state / "logs" / uid / "beside.log").read_text() == "result\n"
    assert not Path("/airflow").exists()
    assert not Path("/etc/makeway-test.ini").exists()
    up.delete_pod("sees")


MISLEAD = """
import os, sys
print(oct(os.stat("in/key").st_mode & 0o777), os.stat("in/key").st_uid == os.getuid(), flush=True)
os.rename(os.environ["MAKEWAY_VOLUME_S"] + "/key", "kept")
os.symlink(sys.argv[1] + "/precious", os.environ["MAKEWAY_VOLUME_S"] + "/key")
"""


def test_files_of_a_secret_are_the_accounts_and_written_by_it(lab: Lab) -> None:
    up, ann, bob = lab
    with victim(up.root / "victim") as folder:
        named = {"name": "login", "namespace": ann.pw_name}
        up.create(SECRETS, {"metadata": named, "stringData": {"key": "t0p"}})
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "keep-1", "namespace": ann.pw_name},
            "spec": {
                "restartPolicy": "OnFailure",  # its second run meets what the first has left
                "volumes": [{"name": "s", "secret": {"secretName": "login", "defaultMode": 0o400}}],
                "containers": [
                    {
                        "name": "main",
                        "command": ["sh", "-c", 'test -e kept && exit; "$@"; exit 1', "sh"],
                        "args": ["/usr/bin/python3", "-c", MISLEAD, str(folder)],
                        "volumeMounts": [{"name": "s", "mountPath": "/in"}],
                    }
                ],
            },
        }
        up.create(PODS, pod)
        up.ended("keep")
        assert up.pod("keep")["status"]["phase"] == "Succeeded"
        log = up.state / "logs" / up.pod("keep")["metadata"]["uid"] / "main.previous.log"
        assert log.read_text() == "0o400 True\n"
        volume = up.home("keep") / "volumes" / "s"
        wait_until(lambda: not volume.exists())  # gone as soon as the pod is over
    with pytest.raises(subprocess.CalledProcessError):
        up.run_as(bob, "get", "secret", "login", "-n", ann.pw_name)
    up.run_as(ann, "get", "secret", "login", "-n", ann.pw_name)
    audit = up.run_as(pwd.getpwnam("root"), "audit")
    looks = [line for line in map(json.loads, audit.splitlines()) if "login" in line["object"]]
    seen = [(line["account"], line["verb"], line["code"]) for line in looks]
    assert {(ann.pw_name, "get", 200), (bob.pw_name, "get", 403)} <= set(seen)
    assert "t0p" not in up.log + audit
    up.delete_pod("keep")


def test_a_setuid_program_that_gets_away_ends_with_its_pod(lab: Lab) -> None:
    up, ann, _ = lab
    program = up.root / "setuid-sleep"
    shutil.copy("/bin/sleep", program)
    program.chmod(0o4755)
    looks = "until ps -o euser= -C setuid-sleep; do sleep 0.05; done"
    script = f"env -i setsid {program} 7654 & {looks}"
    up.submitted(ann, "escape", script)

    assert up.ended("escape") == "root\n"
    wait_until(
        lambda: f"{program}" not in subprocess.check_output(["ps", "axo", "args"], text=True)
    )


def test_jobs_outlive_both_processes_and_are_known_again(lab: Lab) -> None:
    up, ann, _ = lab
    go = Path(ann.pw_dir) / "go"
    script = f"echo here; while [ ! -e {go} ]; do sleep 0.05; done; exit 3"
    up.submitted(ann, "lasting", script)
    wait_until(lambda: up.printed("lasting"))
    starter = up.starter()
    os.kill(starter, signal.SIGKILL)
    wait_until(lambda: up.starter() not in (0, starter), claim="another starter")
    os.kill(int((up.folder / "lock").read_text()), signal.SIGKILL)
    go.touch()

    def code() -> Any:
        try:
            [main] = up.pod("lasting")["status"]["containerStatuses"]
            return main["state"].get("terminated", {}).get("exitCode")
        except (OSError, Unavailable):
            return None  # the server is about to come back

    assert wait_until(code) == 3


def test_what_flags_said_is_kept_and_down_ends_both(lab: Lab) -> None:
    up, ann, _ = lab
    up.submitted(ann, "goes-on", "echo runs; exec sleep 1000")
    wait_until(lambda: up.pod("goes-on").get("status", {}).get("phase") == "Running")
    before = up.address
    assert "stopped" in up.makeway("down", "--system", "--root", str(up.root))
    assert up.process is not None
    assert up.process.wait(timeout=30) == 0
    up.start()

    assert up.address == before
    assert "keepDays: '7'" in up.settings.read_text()
    [main] = up.pod("goes-on")["status"]["containerStatuses"]
    assert "running" in main["state"]
    up.delete_pod("goes-on")
