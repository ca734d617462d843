"""A real control plane on loopback, in a folder of its own: etcd, API server, controllers."""

import os
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from tools.kube_assets import PROGRAMS, find
from tools.make_crds import FOLDER as CRDS

from makeway.client.kubeconfig import Access

SWITCH = "MAKEWAY_KUBE"  # set by `make test-kube`
TOKEN = "admin-token"
START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 20.0

# What keeps a cluster's books. Without the job controller nothing changes that nobody asked for.
BOOKKEEPING = ("garbage-collector-controller", "namespace-controller")
ALL_CONTROLLERS = (
    *BOOKKEEPING,
    "disruption-controller",
    "job-controller",
    "pod-garbage-collector-controller",
    "ttl-after-finished-controller",
)
# Pods get no account, hence no token volume, and no tolerations that they did not ask for.
ADMISSION_OFF = ("DefaultTolerationSeconds", "ServiceAccount")


class PlaneError(Exception):
    """A program of the control plane ended, or did not get ready; with the end of its log."""


def require_assets() -> None:
    """Skip without `make test-kube`; fail if that could not get a program."""
    if not os.environ.get(SWITCH):
        pytest.skip("needs a real Kubernetes control plane: run `make test-kube`")
    missing = [program for program in PROGRAMS if find(program) is None]
    if missing:
        pytest.fail(f"not there: {', '.join(missing)}; run python tools/kube_assets.py")


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on; all held at once, so none is given twice."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for held in sockets:
            held.bind(("127.0.0.1", 0))
        return [int(held.getsockname()[1]) for held in sockets]
    finally:
        for held in sockets:
            held.close()


def kubeconfig_for(address: str) -> str:
    cluster = {"server": address, "insecure-skip-tls-verify": address.startswith("https")}
    context = {"cluster": "kube", "user": "admin", "namespace": "default"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "kube", "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": TOKEN}}],
        "contexts": [{"name": "kube", "context": context}],
        "current-context": "kube",
    }
    return yaml.safe_dump(config)


class Program:
    """One process, its log beside it."""

    def __init__(self, name: str, arguments: Sequence[str], folder: Path) -> None:
        self.name, self._log = name, folder / f"{name}.log"
        path = find(name)
        assert path is not None, f"{name} is not installed"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(path), *arguments], stdout=log, stderr=subprocess.STDOUT, cwd=folder
            )

    def check(self) -> None:
        if self._process.poll() is not None:
            raise PlaneError(f"{self.name} ended with {self._process.returncode}\n{self.log_end()}")

    def log_end(self) -> str:
        return self._log.read_bytes()[-3000:].decode("utf-8", "replace")

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Plane:
    """Running from construction to `stop`; `kubeconfig` may do everything.

    `flags` are more words for the API server; without CRDs, whoever installs Makeway brings them.
    """

    def __init__(
        self,
        folder: Path,
        controllers: Iterable[str] = ALL_CONTROLLERS,
        *,
        flags: Sequence[str] = (),
        has_crds: bool = True,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._programs, self._flags = folder, list[Program](), flags
        self._has_crds = has_crds
        self._ports = free_ports(4)
        self.address = f"https://127.0.0.1:{self._ports[2]}"
        self.access = Access(
            address=self.address,
            cluster="kube",
            namespace="default",
            token=TOKEN,
            ca="",
            is_insecure=True,
        )
        self.kubeconfig = folder / "kubeconfig"
        began = time.monotonic()
        try:
            self._start(controllers)
        except BaseException:
            self.stop()
            raise
        self.start_s = time.monotonic() - began

    def _start(self, controllers: Iterable[str]) -> None:
        self._write_files()
        self._programs.append(Program("etcd", self._etcd(), self._folder))
        self._programs.append(Program("kube-apiserver", self._apiserver(), self._folder))
        self._wait("the API server", lambda: self.fetch("/readyz") == b"ok")
        if self._has_crds:
            self._install_crds()
        arguments = self._controller_manager(controllers)
        self._programs.append(Program("kube-controller-manager", arguments, self._folder))
        self._wait("the namespace default", lambda: bool(self.fetch("/api/v1/namespaces/default")))

    def stop(self) -> None:
        for program in reversed(self._programs):
            program.stop()
        self._programs.clear()

    @property
    def etcd(self) -> str:
        return f"http://127.0.0.1:{self._ports[0]}"

    def kill(self, name: str) -> None:
        self._find(name).kill()

    def start_again(self, name: str) -> None:
        """On the same port, with the same data."""
        arguments = {"etcd": self._etcd, "kube-apiserver": self._apiserver}[name]()
        dead = self._find(name)
        self._programs[self._programs.index(dead)] = Program(name, arguments, self._folder)
        self._wait("the API server", lambda: self.fetch("/readyz") == b"ok")

    def _find(self, name: str) -> Program:
        return next(program for program in self._programs if program.name == name)

    # Files and flags

    def _write_files(self) -> None:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
        (self._folder / "accounts.key").write_bytes(pem)
        (self._folder / "tokens.csv").write_text(f'{TOKEN},admin,1,"system:masters"\n')
        self.kubeconfig.write_text(kubeconfig_for(self.address))

    def _etcd(self) -> list[str]:
        client, peer, *_ = (f"http://127.0.0.1:{port}" for port in self._ports)
        return [
            "--data-dir=etcd",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--log-level=error",
            "--unsafe-no-fsync",
        ]

    def _apiserver(self) -> list[str]:
        return [
            f"--etcd-servers={self.etcd}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._ports[2]}",
            "--cert-dir=certificates",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-account-key-file=accounts.key",
            "--service-account-signing-key-file=accounts.key",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--authorization-mode=RBAC",
            "--token-auth-file=tokens.csv",
            f"--disable-admission-plugins={','.join(ADMISSION_OFF)}",
            *self._flags,
        ]

    def _controller_manager(self, controllers: Iterable[str]) -> list[str]:
        return [
            f"--kubeconfig={self.kubeconfig}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._ports[3]}",
            "--cert-dir=certificates",
            "--leader-elect=false",
            "--use-service-account-credentials=false",
            "--service-account-private-key-file=accounts.key",
            f"--controllers={','.join(controllers)}",
        ]

    # Waiting

    def _wait(self, what: str, is_there: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            for program in self._programs:
                program.check()
            try:
                if is_there():
                    return
            except OSError:
                pass
            time.sleep(0.1)
        logs = "\n".join(f"{p.name}:\n{p.log_end()}" for p in self._programs)
        raise PlaneError(f"{what} was not there after {START_TIMEOUT_S:.0f} s\n{logs}")

    def fetch(self, path: str, body: bytes | None = None) -> bytes:
        """What a GET answers, or a POST if there is a body; OSError unless it is a good one."""
        request = urllib.request.Request(self.address + path, data=body)
        request.add_header("Authorization", f"Bearer {TOKEN}")
        request.add_header("Content-Type", "application/yaml")
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        with urllib.request.urlopen(request, timeout=30, context=trusting) as answer:
            found: bytes = answer.read()
            return found

    def _install_crds(self) -> None:
        url = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        for file in sorted(CRDS.glob("*.yaml")):
            try:
                self.fetch(url, file.read_bytes())
            except urllib.error.HTTPError as error:
                found: Any = yaml.safe_load(error.read())
                raise PlaneError(f"{file.name}: {found['message']}") from None
        for file in sorted(CRDS.glob("*.yaml")):
            spec: Any = yaml.safe_load(file.read_text())["spec"]
            path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
            self._wait(file.name, lambda path=path: bool(self.fetch(path)))  # type: ignore[misc]
