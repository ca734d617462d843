"""The kubeconfig for everybody: root's file, without a secret, so that all may read it.

Root writes it, not the server: it names a command that whoever uses it runs.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

CLUSTER = "makeway"  # name of cluster, user and context
EXEC_VERSION = "client.authentication.k8s.io/v1"


def kubeconfig_for_all(port: int, ca: Path, socket: Path) -> str:
    """Its text; JSON, which is YAML too. A command fetches a token through the socket."""
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(ca)}
    command = {
        "apiVersion": EXEC_VERSION,
        "command": "makeway",
        "args": ["token"],
        "env": [{"name": "MAKEWAY_SOCKET", "value": str(socket)}],
        "interactiveMode": "Never",
        "installHint": "makeway should be in PATH for every account of this machine",
    }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CLUSTER, "cluster": cluster}],
        "users": [{"name": CLUSTER, "user": {"exec": command}}],
        "contexts": [{"name": CLUSTER, "context": {"cluster": CLUSTER, "user": CLUSTER}}],
        "current-context": CLUSTER,
    }
    return json.dumps(config, indent=2) + "\n"


def with_namespace(text: str, namespace: str) -> str:
    """The same for one account: its own namespace is the default."""
    config: dict[str, Any] = json.loads(text)
    for context in config["contexts"]:
        context["context"]["namespace"] = namespace
    return json.dumps(config, indent=2) + "\n"


def write_for_all(path: Path, text: str) -> None:
    """Whole or not at all, for everybody to read."""
    scratch = path.with_name(f".{path.name}.new")
    scratch.unlink(missing_ok=True)
    descriptor = os.open(scratch, os.O_CREAT | os.O_WRONLY | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(descriptor, 0o644)  # whatever the umask says
        file.write(text)
    scratch.replace(path)
