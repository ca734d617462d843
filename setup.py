"""Builds Makeway: pure Python, or with a compiled engine where MAKEWAY_COMPILED=1 asks for it.

All else stands in pyproject.toml. Why these modules and not others: docs/decisions/0170.
"""

import os
import shlex
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import Any

from setuptools import setup

BUILD = "build/engine"
ENGINE = Path("src/makeway/engine")
# What a cycle runs through, but for values and entries, which others copy, subclass and keep.
COMPILED = (
    *("claims", "clocks", "consequences", "cycle", "engine", "fairness", "fallback", "flavors"),
    *(
        "free_places",
        "handlers",
        "head",
        "hopeless",
        "nominate",
        "owners",
        "partial",
        "pending",
        "quota",
    ),
    *("sacrifice", "snapshot", "state", "tree", "turns", "upkeep", "victims"),
)


def is_wanted() -> bool:
    said = os.environ.get("MAKEWAY_COMPILED", "0")
    if said not in ("", "0", "1"):
        sys.exit(f"MAKEWAY_COMPILED: {said!r} is not a value of this variable; write 1 or 0")
    return said == "1"


def check_tools() -> None:
    """Say what is missing before anything is fetched for it."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    header = Path(sysconfig.get_path("include"), "Python.h")
    if shutil.which(compiler) is None:
        missing = f"a C compiler, and there is no {compiler} (on Debian: apt-get install gcc)"
    elif not header.exists():
        missing = f"Python's headers, and there is no {header} (on Debian: python3-dev)"
    else:
        return
    sys.exit(f"A compiled engine needs {missing}. Without MAKEWAY_COMPILED it is pure Python.")


def compiled() -> dict[str, Any]:
    if "editable_wheel" in sys.argv:
        sys.exit("A compiled engine can't be edited: install without -e, or `make compiled`.")
    check_tools()
    arguments: dict[str, Any] = {"setup_requires": ["mypy>=2.4,<3"]}
    if "bdist_wheel" in sys.argv:  # not while one only asks what the build needs
        from mypyc.build import mypycify

        paths = [str(ENGINE / f"{name}.py") for name in COMPILED]
        arguments["ext_modules"] = mypycify(
            ["--config-file=", "--follow-imports=silent", *paths],
            opt_level="2",
            debug_level="0",
            target_dir=BUILD,
            group_name="makeway_engine",
        )
        arguments["options"] = {"build": {"build_base": BUILD}}
    return arguments


setup(**(compiled() if is_wanted() else {}))
