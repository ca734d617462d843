"""Reading YAML in a test: what comes out, and what is complained about."""

from typing import Any

from makeway.api.intake import Intake, take_in
from makeway.api.manifests import read_manifests
from makeway.api.schema import Document


def document(text: str) -> Document:
    found = read_manifests(text)
    assert not found.troubles, [str(trouble) for trouble in found.troubles]
    (manifest,) = found.manifests
    return manifest.document


def read(text: str) -> Intake:
    return take_in(document(text))


def view(text: str) -> Any:
    intake = read(text)
    assert not intake.errors, [str(error) for error in intake.errors]
    return intake.object


def complaints(text: str) -> list[str]:
    return [str(error) for error in read(text).errors]


def unsupported(text: str) -> list[str]:
    intake = read(text)
    assert not intake.errors, [str(error) for error in intake.errors]
    return [item.path for item in intake.unsupported]
