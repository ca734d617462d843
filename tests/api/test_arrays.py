"""Indexes of an array, as they are written."""

from __future__ import annotations

import pytest

from makeway.api.arrays import ArrayError, expanded, parse_indexes
from tests.harness.documents import job


@pytest.mark.parametrize(
    ("text", "values", "limit"),
    [
        ("1-4", (1, 2, 3, 4), None),
        ("7", (7,), None),
        ("1,3,7", (1, 3, 7), None),
        ("0-10:5", (0, 5, 10), None),
        ("5,1-3,2", (1, 2, 3, 5), None),
        ("1-3%2", (1, 2, 3), 2),
    ],
)
def test_every_form_is_read(text: str, values: tuple[int, ...], limit: int | None) -> None:
    assert parse_indexes(text) == (values, limit)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "1-",
        "-1",
        "3-1",
        "1-3:0",
        "1-3%0",
        "1-3%",
        "1-3%x",
        "1,,2",
        "0-10000",
        "1-9999999999",
    ],
)
def test_what_is_no_array_is_refused(text: str) -> None:
    with pytest.raises(ArrayError):
        parse_indexes(text)


def test_each_job_of_it_knows_which_one_it_is() -> None:
    document = job("sweep", {"labels": {"makeway.dev/id": "12"}})

    first, second = expanded(document, parse_indexes("4,6%1"))

    assert first["metadata"]["name"] == "sweep-4"
    assert second["metadata"]["labels"]["makeway.dev/id"] == "12_6"
    (container,) = second["spec"]["template"]["spec"]["containers"]
    told = {variable["name"]: variable["value"] for variable in container["env"]}
    assert told["JOB_COMPLETION_INDEX"] == told["MAKEWAY_ARRAY_INDEX"] == "6"
    assert (told["MAKEWAY_ARRAY_ID"], told["MAKEWAY_ARRAY_COUNT"]) == ("12", "2")
    assert "env" not in document["spec"]["template"]["spec"]["containers"][0]
