"""What browsers load: all of it lies in the package, and is read once."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import NamedTuple

from makeway import drawing

_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


class File(NamedTuple):
    body: bytes
    content_type: str
    tag: str  # of this content


class Files:
    def __init__(self) -> None:
        own = files("makeway.dashboard").joinpath("assets")
        texts = {entry.name: entry.read_text(encoding="utf-8") for entry in own.iterdir()}
        texts |= {name: drawing.asset(name) for name in drawing.names()}
        self._files = {name: _file(name, text) for name, text in texts.items()}

    def find(self, name: str) -> File | None:
        return self._files.get(name)


def _file(name: str, text: str) -> File:
    body = text.encode()
    kind = _TYPES[name.rpartition(".")[2]]
    return File(body, kind, f'"{hashlib.sha256(body).hexdigest()[:16]}"')
