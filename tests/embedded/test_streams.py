"""Who joins a pod that runs, by kubectl or makeway: exec, attach, cp, port-forward."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from makeway.api.kinds import PODS
from tests.harness.process import Up, running_on, wait_until
from tests.harness.terminal import TRAP, UNTIL_CAUGHT, Terminal, terminal, until_sized
from tests.prerequisites import library, program

__all__ = ["terminal"]
BOX = {"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": "2"}
Document = dict[str, object]
LONG, LONGER, LONGEST = (str(31_000_000 + 10 * os.getpid() + place) for place in range(3))


class Web(NamedTuple):
    pod: str
    port: int


def pod(name: str, script: str, **container: object) -> Document:
    main = {"name": "main", "command": ["sh", "-c", script], **container}
    spec = {"restartPolicy": "Never", "containers": [main]}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    program("kubectl")
    with running_on(BOX, tmp_path_factory.mktemp("streams")) as started:
        started.create(
            PODS,
            pod(
                "box",
                f"exec sleep {LONG}",
                env=[{"name": "COLOUR", "value": "red"}],
                resources={"limits": {"nvidia.com/gpu": "1"}},
            ),
        )
        until_running(started, "box")
        yield started
    for pid in (*processes_with(LONG), *processes_with(str(started.folder / "port"))):
        os.kill(pid, signal.SIGTERM)  # pods outlive their server


def phase_of(up: Up, name: str) -> str:
    found = [pod for pod in up.listed(PODS) if pod["metadata"]["name"] == name]
    return found[0]["status"]["phase"] if found else ""


def until_running(up: Up, name: str) -> None:
    wait_until(lambda: phase_of(up, name) == "Running")


def kubectl(up: Up, *words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["kubectl", *words], env=up.environment, input=given, capture_output=True, timeout=60
    )


def begun(up: Up, *words: str, streams: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["kubectl", *words], env=up.environment, stdin=streams, stdout=streams, stderr=streams
    )


def processes_with(text: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if text.encode() in words and b"kubectl" not in words:
                found.append(int(entry.name))
    return found


def test_a_command_has_the_surroundings_of_the_pod_and_tells_its_exit_code(up: Up) -> None:
    script = "echo $COLOUR $CUDA_VISIBLE_DEVICES; pwd; cat; echo aside >&2; exit 3"
    large = b"x" * 1_000_000 + b"\n"

    done = kubectl(up, "exec", "-i", "box", "--", "sh", "-c", script, given=large)

    uid = up.listed(PODS)[0]["metadata"]["uid"]
    folder = str(up.folder / "pods" / uid / "scratch")
    assert done.stdout.split(b"\n", 2) == [b"red 0", folder.encode(), large]
    assert done.stderr == b"aside\ncommand terminated with exit code 3\n"
    assert done.returncode == 3


def test_what_cannot_be_run_is_told_as_by_a_shell(up: Up) -> None:
    done = kubectl(up, "exec", "box", "--", "no-such-program")

    assert done.returncode == 127
    assert b"no-such-program: No such file or directory" in done.stderr


def test_on_a_terminal_it_is_typed_resized_and_interrupted_there(
    up: Up, terminal: Terminal
) -> None:
    terminal.resize(33, 77)
    sized = f"{until_sized(33, 77)}; echo sized"
    script = f"{TRAP}; {sized}; read line; echo got $line; {UNTIL_CAUGHT}; exit 4"
    process = begun(up, "exec", "-it", "box", "--", "sh", "-c", script, streams=terminal.theirs)
    terminal.until("sized")

    terminal.type("typed\n")
    terminal.until("got typed")
    terminal.type("\x03")
    terminal.until("caught")

    assert process.wait(timeout=30) == 4


def test_when_the_client_is_gone_all_that_it_started_ends(up: Up) -> None:
    script = f"sleep {LONGER} & setsid sleep {LONGER} & exec sleep {LONGER}"
    process = begun(up, "exec", "box", "--", "sh", "-c", script)
    wait_until(lambda: len(processes_with(LONGER)) == 3)

    process.kill()
    process.communicate()

    wait_until(lambda: not processes_with(LONGER))
    assert phase_of(up, "box") == "Running"


def test_who_reads_slowly_makes_the_program_wait(up: Up) -> None:
    process = begun(up, "exec", "box", "--", "yes", LONGEST)
    (pid,) = wait_until(lambda: processes_with(LONGEST))

    def written() -> int:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("wchar")))

    def stands_still() -> bool:
        before = written()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        return 0 < written() == before

    wait_until(stands_still)
    process.kill()
    process.communicate()


def test_attached_one_sees_what_comes_and_types_where_input_is_asked_for(up: Up) -> None:
    """`kubectl run -i` creates a pod with `stdin` and `stdinOnce`, and attaches to it."""
    words = ("run", "-i", "--rm", "--restart=Never", "--image=none", "reader", "--command")
    script = "read line; echo got $line; cat; exit 6"

    done = kubectl(up, *words, "--", "sh", "-c", script, given=b"one\ntwo\n")

    assert b"got one\ntwo\n" in done.stdout
    assert done.returncode == 6


def test_a_container_with_a_terminal_is_attached_to(up: Up, terminal: Terminal) -> None:
    up.create(PODS, pod("shell", "exec sh", stdin=True, tty=True))
    until_running(up, "shell")
    terminal.resize(20, 60)
    process = begun(up, "attach", "-it", "shell", streams=terminal.theirs)
    terminal.until("command prompt")  # kubectl says that, and then it is there

    terminal.type(f"{until_sized(20, 60)}; tty\n")
    terminal.until("/dev/pts/")
    terminal.type("exit 0\n")

    assert process.wait(timeout=30) == 0
    wait_until(lambda: phase_of(up, "shell") == "Succeeded")


def test_version_4_of_the_protocol_as_clients_of_python_speak_it(up: Up) -> None:
    library("kubernetes.stream")
    kubernetes = library("kubernetes")
    client = kubernetes.config.new_client_from_config(str(up.kubeconfig))
    call = kubernetes.client.CoreV1Api(client).connect_get_namespaced_pod_exec
    script = "read line; echo got $line; echo aside >&2; exit 7"
    asked = {"command": ["sh", "-c", script], "stdin": True, "stdout": True, "stderr": True}

    joined = kubernetes.stream.stream(
        call, "box", "default", **asked, tty=False, _preload_content=False
    )
    joined.write_stdin("it\n")
    joined.run_forever(timeout=30)

    assert (joined.read_stdout(), joined.read_stderr()) == ("got it\n", "aside\n")
    assert joined.returncode == 7


def test_who_cannot_be_joined_is_told_why(up: Up) -> None:
    up.create(PODS, pod("brief", "true"))
    wait_until(lambda: phase_of(up, "brief") == "Succeeded")

    over = kubectl(up, "exec", "brief", "--", "true")
    other = kubectl(up, "exec", "-c", "other", "box", "--", "true")
    old = subprocess.run(
        ["kubectl", "exec", "box", "--", "true"],
        env={**up.environment, "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false"},
        capture_output=True,
        timeout=60,
    )

    assert b"a completed pod; current phase is Succeeded" in over.stderr
    assert b"container other is not valid for pod box" in other.stderr
    assert b"the client asked for SPDY; kubectl 1.31 and later does" in old.stderr


@pytest.fixture(scope="module")
def web(up: Up) -> Web:
    """A job that serves what it is asked for, and a megabyte; and notes who has said all."""
    script = """
import http.server, pathlib, socketserver, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/all":
            pathlib.Path(sys.argv[1] + "-said").write_bytes(self.rfile.read())
        self.send_response(200); self.end_headers()
        self.wfile.write(b"x" * 1_000_000 if self.path == "/large" else self.path.encode())
with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answer) as server:
    pathlib.Path(sys.argv[1]).write_text(str(server.server_address[1]))
    server.serve_forever()
"""
    noted = up.folder / "port"
    up.makeway("submit", "--name", "web", "--", sys.executable, "-c", script, str(noted))
    port = int(wait_until(lambda: noted.exists() and noted.read_text()))
    (name,) = (p["metadata"]["name"] for p in up.listed(PODS) if "web" in p["metadata"]["name"])
    return Web(name, port)


def asked(port: int, path: str) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
        content: bytes = answer.read()
        return content


def forwarded(process: subprocess.Popen[bytes]) -> int:
    """The port here that a command has told on its first line."""
    assert process.stdout is not None
    return int(process.stdout.readline().split()[2].rpartition(b":")[2])


def test_kubectl_forwards_a_port_to_many_at_once_and_only_to_where_the_pod_listens(
    up: Up, web: Web
) -> None:
    own = int(up.address.rpartition(":")[2])  # the server's
    process = begun(up, "port-forward", "--address", "127.0.0.1", web.pod, f":{web.port}")
    here = forwarded(process)
    other = begun(up, "port-forward", "--address", "127.0.0.1", web.pod, f":{own}")
    foreign = forwarded(other)

    with ThreadPoolExecutor(4) as pool:
        sizes = list(pool.map(lambda _: len(asked(here, "/large")), range(4)))
    with pytest.raises(ConnectionError):
        asked(foreign, "/")

    assert sizes == [1_000_000] * 4
    assert asked(here, "/hello") == b"/hello"
    _, told = other.communicate(timeout=30)
    assert f"no process of the pod listens at port {own}".encode() in told
    process.kill()
    process.communicate()


def test_clients_that_speak_in_channels_have_a_port_forwarded(up: Up, web: Web) -> None:
    library("kubernetes.stream")
    kubernetes = library("kubernetes")
    client = kubernetes.config.new_client_from_config(str(up.kubeconfig))
    call = kubernetes.client.CoreV1Api(client).connect_get_namespaced_pod_portforward

    joined = kubernetes.stream.portforward(call, web.pod, "default", ports=str(web.port))
    line = joined.socket(web.port)
    line.settimeout(30)
    line.sendall(b"GET /there HTTP/1.0\r\n\r\n")
    answer = b""
    while piece := line.recv(4096):
        answer += piece

    assert answer.endswith(b"/there")
    assert joined.error(web.port) is None


def command(up: Up, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "makeway.cli.main", *words],
        env=up.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_makeway_execs_in_a_job(up: Up, web: Web) -> None:
    script = "cat; echo $MAKEWAY_JOB_ID aside >&2; exit 5"
    process = command(up, "exec", "web", "-c", "main", "--", "sh", "-c", script)

    printed, told = process.communicate(b"through\n", timeout=60)

    assert (process.returncode, printed, told) == (5, b"through\n", b"1 aside\n")
    assert "runs no container other" in up.makeway("exec", "web", "-c", "other", code=1)


def test_makeway_forwards_a_port_until_the_job_ends(up: Up, web: Web) -> None:
    process = command(up, "port-forward", "web", f":{web.port}")
    here = forwarded(process)
    assert asked(here, "/hello") == b"/hello"

    said = up.folder / "port-said"
    with socket.create_connection(("127.0.0.1", here), timeout=30) as line:
        line.sendall(b"GET /all HTTP/1.0\r\n\r\nall")
        line.shutdown(socket.SHUT_WR)  # the pod hears that, and its answer still comes
        assert line.makefile("rb").read().endswith(b"/all")
    assert said.read_bytes() == b"all"

    process.send_signal(signal.SIGINT)

    process.communicate(timeout=30)
    assert process.returncode == 130


def test_files_are_copied_both_ways(up: Up, web: Web, tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    (there / "deep").mkdir(parents=True)
    (there / "deep" / "file").write_text("content")
    here.mkdir()

    up.makeway("cp", f"web:{there}", str(here))  # into a folder that is there
    up.makeway("cp", f"web:{there}/deep/file", str(here / "renamed"))
    up.makeway("cp", str(here / "renamed"), f"web:{there}/brought")
    done = kubectl(up, "cp", f"{web.pod}:{there}/deep", str(here / "by-kubectl"))

    assert (here / "there" / "deep" / "file").read_text() == "content"
    assert (here / "renamed").read_text() == (there / "brought").read_text() == "content"
    assert (done.returncode, (here / "by-kubectl" / "file").read_text()) == (0, "content")
    assert "JOB:PATH" in up.makeway("cp", "one", "two", code=2)


def test_makeway_attaches_to_a_job_and_not_to_one_that_has_a_terminal_elsewhere(up: Up) -> None:
    up.create(PODS, pod("talker", "read line; echo got $line; read line", stdin=True))
    until_running(up, "talker")
    process = command(up, "attach", "pod/talker")
    assert process.stdin is not None
    assert process.stdout is not None

    process.stdin.write(b"it\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"got it\n"
    process.stdin.write(b"more\n")
    process.communicate(timeout=30)
    assert process.returncode == 0

    own = command(up, "run", "--name", "own", "--", "sleep", LONGER)
    hint = "`makeway exec own` opens a shell"
    wait_until(lambda: hint in up.makeway("attach", "own", code=1))
    up.makeway("cancel", "own", "--yes")
    own.communicate(timeout=60)


def test_top_tells_what_pods_and_nodes_use_and_over_which_time(up: Up) -> None:
    up.create(
        PODS, pod("busy", "x=$(head -c 50000000 /dev/zero | tr '\\0' x); while :; do :; done")
    )
    until_running(up, "busy")
    path = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods"

    def measured() -> dict[str, Any]:
        items = json.loads(up.kubectl("get", "--raw", path))["items"]
        found = {item["metadata"]["name"]: item for item in items}
        has_begun = "busy" in found and found["busy"]["containers"][0]["usage"]["cpu"] != "0n"
        return found if has_begun else {}

    found = wait_until(measured)
    (busy,), (box,) = found["busy"]["containers"], found["box"]["containers"]
    assert 0 < int(busy["usage"]["cpu"].removesuffix("n")) < 2e9
    assert 1.0 <= float(found["busy"]["window"].removesuffix("s")) < 60.0
    assert int(busy["usage"]["memory"].removesuffix("Ki")) > 40_000
    assert int(box["usage"]["memory"].removesuffix("Ki")) < 5_000
    head, row = up.kubectl("top", "pod", "busy").splitlines()
    assert head.split() == ["NAME", "CPU(cores)", "MEMORY(bytes)"]
    assert row.split()[0] == "busy"
    assert up.kubectl("top", "node", "--no-headers").split()[0] == "box"
    up.kubectl("delete", "pod", "busy", "--now")


def test_a_server_that_goes_ends_what_was_joined_and_the_pod_goes_on(up: Up) -> None:
    """The last story of this server."""
    process = begun(up, "exec", "box", "--", "sleep", LONGEST)
    wait_until(lambda: processes_with(LONGEST))

    assert up.stop() == 0

    _, told = process.communicate(timeout=30)
    assert b"the server is shutting down" in told
    wait_until(lambda: not processes_with(LONGEST))
    assert processes_with(LONG)
