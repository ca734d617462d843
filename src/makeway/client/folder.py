"""What clients find in the data folder of `makeway up`."""

import os
from pathlib import Path

FOLDER_VARIABLE = "MAKEWAY_DATA_DIR"
SOCKET_PATH_MAX = 100  # bytes; the kernel takes no longer one


def default_folder() -> Path:
    """Where `makeway up` keeps its data if nobody says otherwise."""
    if named := os.environ.get(FOLDER_VARIABLE):
        return Path(named)
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / "makeway"


def kubeconfig_in(folder: Path) -> Path:
    return folder / "kubeconfig"


def socket_in(folder: Path) -> Path:
    """Where its owner may ask without a token: the kernel says who calls."""
    return folder / "api.sock"
