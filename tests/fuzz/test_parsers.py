"""Some thousand texts near those that are meant; a search that learns is `make fuzz`."""

from __future__ import annotations

import random

import pytest

from tests.fuzz.parsers import PARSERS, read

TEXTS = 400
PIECES = (
    b"",
    b"\0",
    b"-",
    b"9" * 30,
    b"{",
    b"[",
    b'"',
    b",",
    b"\xff\xfe",
    "٣".encode(),
    b"e",
    b"\n",
)


def mutated(chance: random.Random, examples: tuple[bytes, ...]) -> bytes:
    text = chance.choice(examples)
    for _ in range(chance.randint(1, 4)):
        start = chance.randint(0, len(text))
        end = min(len(text), start + chance.randint(0, 6))
        piece = chance.choice((*PIECES, bytes([chance.randrange(256)]), text[start:end] * 2))
        text = text[:start] + piece + text[end:]
    return text


@pytest.mark.parametrize("name", PARSERS)
def test_a_text_is_taken_or_refused_with_the_error_that_is_meant_for_it(name: str) -> None:
    chance, examples = random.Random(name), PARSERS[name].examples
    assert any(read(name, example) for example in examples)
    taken = [read(name, mutated(chance, examples)) for _ in range(TEXTS)]

    assert any(taken) or name == "kubeconfigs"
    assert not all(taken) or not PARSERS[name].refuses_with
