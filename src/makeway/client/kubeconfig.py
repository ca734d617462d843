"""Which server, and by which right: from a kubeconfig, or from what a pod finds around itself."""

import base64
import binascii
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from makeway.api.errors import in_words
from makeway.api.manifests import read_manifests
from makeway.client.credentials import (
    EXEC_VERSIONS,
    Command,
    CommandSource,
    Credential,
    Fixed,
    Source,
    TokenFile,
)
from makeway.client.folder import default_folder as default_folder
from makeway.client.folder import kubeconfig_in as kubeconfig_in
from makeway.client.transport import Transport
from makeway.logs import Fields

log = logging.getLogger("makeway.kubeconfig")

CLUSTER = "makeway"  # the name under which Makeway writes itself
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
IN_CLUSTER = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")
EXEC_EXTENSION = "client.authentication.k8s.io/exec"  # what a cluster has to say to commands
# Ways to say who one is that we don't know; better no answer than an anonymous one.
_UNKNOWN_WAYS = ("auth-provider", "username", "password", "as", "as-uid", "as-groups")


class KubeconfigError(Exception):
    """The text is for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    address: str
    cluster: str  # its name in the file
    namespace: str
    token: str = ""  # where it is fixed
    ca: str  # PEM; empty: the system's
    is_insecure: bool = False
    server_name: str = ""  # in the server's certificate; empty: as in the address
    source: Source | None = None  # of credentials; None: the token is all there is
    is_for_all: bool = False  # its credentials come from the socket of this machine's server

    def transport(self) -> Transport:
        from makeway.client.http import HttpTransport, Trust

        return HttpTransport(
            self.address,
            source=self.source or Fixed(Credential(token=self.token)),
            trust=Trust(ca=self.ca, is_insecure=self.is_insecure, server_name=self.server_name),
        )


def access_by_socket(path: Path, namespace: str) -> Access:
    """A server that knows from the kernel who calls."""
    return Access(address=f"unix:{path}", cluster=CLUSTER, namespace=namespace, ca="")


def access_in_cluster(
    environment: Mapping[str, str], folder: Path = SERVICE_ACCOUNT
) -> Access | None:
    """What a pod is given to reach the server of its cluster; None if this is no pod."""
    host, port = (environment.get(name, "") for name in IN_CLUSTER)
    if not host or not port:
        return None
    try:
        ca = (folder / "ca.crt").read_text()
        namespace = (folder / "namespace").read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        folder_text = f"{folder} can't be read: {in_words(error)}"
        raise KubeconfigError(f"{IN_CLUSTER[0]} is set, but {folder_text}") from None
    return Access(
        address=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        cluster="in-cluster",
        namespace=namespace,
        ca=ca,
        source=TokenFile(folder / "token"),
    )


def read_kubeconfig(path: Path, context: str = "") -> Access:
    """Read a context of a kubeconfig; the current one unless another is named."""
    file = _File(path)
    chosen = file.named("contexts", context or file.config.get("current-context"), "context")
    cluster = file.named("clusters", chosen.text("cluster"), "cluster")
    user = file.named("users", chosen.text("user"), "user") if chosen.has("user") else None
    address = cluster.text("server")
    if not address.startswith(("http://", "https://")):
        raise cluster.error("server", "write the server's address, as https://HOST:PORT")
    if cluster.has("proxy-url"):
        log.warning(Fields(field=cluster.path, problem="ignored"))
    ca = cluster.data("certificate-authority")
    token = "" if user is None else user.text("token")
    return Access(
        address=address,
        cluster=chosen.text("cluster"),
        namespace=chosen.text("namespace") or "default",
        token=token,
        ca=ca,
        is_insecure=bool(cluster.fields.get("insecure-skip-tls-verify")),
        server_name=cluster.text("tls-server-name"),
        source=None if user is None else _source(user, token, cluster, ca),
        is_for_all=user is not None and _fetches_tokens(user),
    )


class _Part:
    """A mapping of the file, and where it stands."""

    def __init__(self, file: Path, path: str, fields: Mapping[str, Any]) -> None:
        self._file, self.path, self.fields = file, path, fields

    def has(self, name: str) -> bool:
        return self.fields.get(name) not in (None, "", (), [], {})

    def error(self, name: str, what: str) -> KubeconfigError:
        return KubeconfigError(f"{self._file}: {self.path}.{name}: {what}")

    def text(self, name: str) -> str:
        value = self.fields.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.error(name, "write a text")
        return value

    def data(self, name: str) -> str:
        """What stands in `name-data` in base64, or in the file that `name` names."""
        field = f"{name}-data"
        if encoded := self.text(field):
            try:
                return base64.b64decode(encoded, validate=True).decode()
            except (binascii.Error, UnicodeDecodeError):
                raise self.error(field, "this is not base64 of a PEM text") from None
        if not self.has(name):
            return ""
        named = self.beside(name)
        try:
            return named.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise self.error(name, f"{named} can't be read: {in_words(error)}") from None

    def beside(self, name: str) -> Path:
        """A file named by a field; names are relative to the kubeconfig."""
        return self._file.parent / self.text(name)

    def part(self, name: str) -> "_Part":
        value = self.fields.get(name)
        if not isinstance(value, dict):
            raise self.error(name, "write a mapping")
        return _Part(self._file, f"{self.path}.{name}", value)

    def list(self, name: str) -> list[Any]:
        value = self.fields.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.error(name, "write a list")
        return value


class _File:
    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise KubeconfigError(f"{path} can't be read: {in_words(error)}") from None
        found = read_manifests(text, str(path))
        if found.troubles or len(found.manifests) != 1:
            why = str(found.troubles[0]) if found.troubles else "it is not one document"
            raise KubeconfigError(f"{path} is not a kubeconfig: {why}")
        self.config: Mapping[str, Any] = found.manifests[0].document

    def named(self, listed: str, name: Any, inner: str) -> _Part:
        entries = self.config.get(listed) or ()
        for index, entry in enumerate(entries if isinstance(entries, list) else ()):
            if isinstance(entry, dict) and entry.get("name") == name:
                return _Part(self.path, f"{listed}[{index}]", entry).part(inner)
        raise KubeconfigError(f"{self.path}: {listed}: there is no {inner} {name!r} in it")


def _source(user: _Part, token: str, cluster: _Part, ca: str) -> Source | None:
    """Where credentials come from; None if a fixed token, or nothing, is all there is."""
    for name in _UNKNOWN_WAYS:
        if user.has(name):
            raise user.error(name, "Makeway can't do that; write a token, a certificate or exec")
    certificate, key = user.data("client-certificate"), user.data("client-key")
    if bool(certificate) != bool(key):
        raise user.error("client-key", "a client certificate and its key go together")
    if certificate:
        return Fixed(Credential(token=token, certificate=certificate, key=key))
    if token:
        return None
    if user.has("tokenFile"):
        return TokenFile(user.beside("tokenFile"))
    if user.has("exec"):
        return CommandSource(_command(user.part("exec"), cluster, ca))
    return None


def _fetches_tokens(user: _Part) -> bool:
    command = user.part("exec").text("command") if user.has("exec") else ""
    return Path(command).name == CLUSTER


def _command(part: _Part, cluster: _Part, ca: str) -> Command:
    version = part.text("apiVersion")
    if version not in EXEC_VERSIONS:
        raise part.error("apiVersion", f"{version!r}; write {' or '.join(EXEC_VERSIONS)}")
    if not part.has("command"):
        raise part.error("command", "write the program that gives credentials")
    if part.text("interactiveMode") == "Always":
        raise part.error("interactiveMode", "Always: nobody is there to answer it")
    name = part.text("command")
    # A name with a slash is meant beside the kubeconfig; one without is looked for in PATH.
    program = str(part.beside("command")) if "/" in name else name
    return Command(
        path=part.path,
        words=(program, *map(str, part.list("args"))),
        variables=_variables(part),
        api_version=version,
        hint=" ".join(part.text("installHint").split()),
        cluster=_told(cluster, ca) if part.fields.get("provideClusterInfo") else None,
    )


def _variables(part: _Part) -> dict[str, str]:
    variables: dict[str, str] = {}
    for index, entry in enumerate(part.list("env")):
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise part.error(f"env[{index}]", "write a name and a value")
        variables[entry["name"]] = str(entry.get("value") or "")
    return variables


def _told(cluster: _Part, ca: str) -> dict[str, Any]:
    """The server, as a command is told of it."""
    told: dict[str, Any] = {"server": cluster.text("server")}
    if ca:
        told["certificate-authority-data"] = base64.b64encode(ca.encode()).decode()
    if cluster.has("tls-server-name"):
        told["tls-server-name"] = cluster.text("tls-server-name")
    if cluster.fields.get("insecure-skip-tls-verify"):
        told["insecure-skip-tls-verify"] = True
    for extension in cluster.list("extensions"):
        if isinstance(extension, dict) and extension.get("name") == EXEC_EXTENSION:
            told["config"] = extension.get("extension")
    return told
