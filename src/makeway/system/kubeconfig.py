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
_PROFILE = r"""# Makeway for every account: kubectl and client libraries find it by themselves.
if [ -z "${KUBECONFIG:-}" ] && [ -r @FILE@ ]; then
    KUBECONFIG=@FILE@
    if [ -O "${XDG_RUNTIME_DIR:-/nowhere}" ]; then
        makeway_namespace=$(id -un)
        case $makeway_namespace in
            *[!a-z0-9-]* | -* | *- | default | kube-* | makeway*) makeway_namespace=u-$(id -u) ;;
            u-*[!0-9]*) ;;
            u-[0-9]*) makeway_namespace=u-$(id -u) ;;
        esac
        if sed "s/\"cluster\": \"makeway\"/&, \"namespace\": \"$makeway_namespace\"/" @FILE@ \
            > "$XDG_RUNTIME_DIR/makeway.kubeconfig" 2> /dev/null; then
            KUBECONFIG=$XDG_RUNTIME_DIR/makeway.kubeconfig
        fi
        unset makeway_namespace
    fi
    export KUBECONFIG
fi
"""


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


def profile_for(kubeconfig: Path) -> str:
    """What a login shell does with it: kubectl finds it, and begins in the account's namespace.

    The copy with the namespace lies where the login has a folder of its own for such things.
    """
    return _PROFILE.replace("@FILE@", str(kubeconfig))


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
