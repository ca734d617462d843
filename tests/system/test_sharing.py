"""A machine is shared when several people may log in."""

from pathlib import Path

import pytest

from makeway.system.sharing import is_shared

ROOT = "root:x:0:0:root:/root:/bin/bash\n"
ANN, BOB = (f"{n}:x:{u}:{u}::/home/{n}:/bin/bash\n" for n, u in (("ann", 1000), ("bob", 1001)))
NOBODY = "nobody:x:65534:65534::/:/usr/sbin/nologin\n"
CLOSED = "old:x:1002:1002::/home/old:/usr/sbin/nologin\n"


@pytest.mark.parametrize(
    ("lines", "shared"),
    [(ROOT + ANN + NOBODY + CLOSED, False), (ROOT + ANN + BOB, True), ("+::::::\n" + ANN, False)],
)
def test_people_are_counted(tmp_path: Path, lines: str, shared: bool) -> None:
    (tmp_path / "passwd").write_text(lines)

    assert is_shared(tmp_path / "passwd") is shared
