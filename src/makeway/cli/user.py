"""Who sits at this terminal."""

from __future__ import annotations

import getpass


def user_name() -> str:
    """The user of this terminal; empty where the system does not know."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
