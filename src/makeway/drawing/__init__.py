"""Scripts and styles that every page of Makeway draws with: live pages, and reports of simulations.

They are ES modules. A page that is one file has no modules to load, so `joined` makes one script of
several.
"""

from __future__ import annotations

import re
from importlib.resources import files

_IMPORT = re.compile(r"^import [^;]*;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(async )?function|const|class)", re.MULTILINE)


def asset(name: str) -> str:
    return files("makeway.drawing").joinpath("assets", name).read_text(encoding="utf-8")


def names() -> list[str]:
    return sorted(entry.name for entry in files("makeway.drawing").joinpath("assets").iterdir())


def joined(*modules: str) -> str:
    """Modules as one script, in this order: what they import from each other is simply there."""
    return "".join(_EXPORT.sub("", _IMPORT.sub("", asset(name))) for name in modules)
