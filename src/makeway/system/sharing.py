"""Whether several people have an account on this machine."""

from __future__ import annotations

from pathlib import Path

PASSWD = Path("/etc/passwd")
PEOPLE = range(1000, 60_000)  # the uids that people get
NO_SHELLS = ("nologin", "false", "sync")


def is_shared(passwd: Path = PASSWD) -> bool:
    """As far as its own list tells; a directory service may know more, and takes long to ask."""
    people = 0
    for line in passwd.read_text(encoding="utf-8", errors="replace").splitlines():
        fields = line.split(":")
        is_person = len(fields) == 7 and fields[2].isdecimal() and int(fields[2]) in PEOPLE
        people += is_person and not fields[6].endswith(NO_SHELLS)
    return people > 1
