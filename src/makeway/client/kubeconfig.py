"""Which server, and by which right: the parts of a kubeconfig that matter."""

import base64
import binascii
import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from makeway.api.manifests import read_manifests
from makeway.client.transport import Transport

CLUSTER = "makeway"  # the name under which Makeway writes itself
FOLDER_VARIABLE = "MAKEWAY_DATA_DIR"


class KubeconfigError(Exception):
    """The text is for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    address: str
    cluster: str  # its name in the file
    namespace: str
    token: str
    ca: str  # PEM; empty: the system's
    is_insecure: bool = False

    def transport(self) -> Transport:
        from makeway.client.http import HttpTransport

        tls = None
        if self.address.startswith("https://"):
            tls = ssl.create_default_context(cadata=self.ca or None)
            if self.is_insecure:
                tls.check_hostname = False
                tls.verify_mode = ssl.CERT_NONE
        return HttpTransport(self.address, token=self.token, tls=tls)


def default_folder() -> Path:
    """Where `makeway up` keeps its data if nobody says otherwise."""
    if named := os.environ.get(FOLDER_VARIABLE):
        return Path(named)
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / "makeway"


def kubeconfig_in(folder: Path) -> Path:
    return folder / "kubeconfig"


def read_kubeconfig(path: Path) -> Access:
    """Read the current context of a kubeconfig."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise KubeconfigError(f"{path} can't be read: {error}") from None
    found = read_manifests(text, str(path))
    if found.troubles or len(found.manifests) != 1:
        why = str(found.troubles[0]) if found.troubles else "it is not one document"
        raise KubeconfigError(f"{path} is not a kubeconfig: {why}")
    config: Any = found.manifests[0].document
    context = _named(config, "contexts", config.get("current-context"), "context", path)
    cluster_name = context.get("cluster")
    cluster = _named(config, "clusters", cluster_name, "cluster", path)
    user = _named(config, "users", context.get("user"), "user", path)
    address = cluster.get("server")
    if not isinstance(address, str) or not address:
        raise KubeconfigError(f"{path}: the cluster {cluster_name!r} has no server")
    return Access(
        address=address,
        cluster=str(cluster_name),
        namespace=str(context.get("namespace") or "default"),
        token=_token(user, path),
        ca=_ca(cluster, path),
        is_insecure=bool(cluster.get("insecure-skip-tls-verify")),
    )


def _named(config: Any, part: str, name: Any, inner: str, path: Path) -> dict[str, Any]:
    for entry in config.get(part) or ():
        if isinstance(entry, dict) and entry.get("name") == name:
            found = entry.get(inner)
            return found if isinstance(found, dict) else {}
    raise KubeconfigError(f"{path}: there is no {inner} {name!r} in it")


def _token(user: dict[str, Any], path: Path) -> str:
    if isinstance(user.get("token"), str):
        return str(user["token"])
    file = user.get("tokenFile")
    if isinstance(file, str):
        return (path.parent / file).read_text().strip()
    return ""


def _ca(cluster: dict[str, Any], path: Path) -> str:
    data, file = cluster.get("certificate-authority-data"), cluster.get("certificate-authority")
    if isinstance(data, str):
        try:
            return base64.b64decode(data).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise KubeconfigError(f"{path}: certificate-authority-data is not base64") from None
    return (path.parent / file).read_text() if isinstance(file, str) else ""
