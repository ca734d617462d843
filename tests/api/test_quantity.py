from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.api.quantity import (
    QuantityError,
    amount,
    format_amount,
    format_quantity,
    parse_quantity,
)


@pytest.mark.parametrize(
    ("resource", "text", "expected"),
    [
        ("cpu", "1", 1000),
        ("cpu", "1500m", 1500),
        ("cpu", "1.5", 1500),
        ("cpu", "0.0001", 1),
        ("cpu", "100u", 1),
        ("cpu", 2, 2000),
        ("cpu", 0.1, 100),
        ("cpu", "-1", -1000),
        ("cpu", "+1", 1000),
        ("memory", "4Gi", 4 * 2**30),
        ("memory", "1.5Ki", 1536),
        ("memory", "200M", 200_000_000),
        ("memory", "1Ei", 2**60),
        ("memory", "128974848000m", 128_974_848),
        ("memory", "1.", 1),
        ("memory", ".5k", 500),
        ("nvidia.com/gpu", "9", 9),
        ("nvidia.com/gpu", "1e3", 1000),
        ("nvidia.com/gpu", "1E3", 1000),
        ("nvidia.com/gpu", "12E", 2**63 - 1),
        ("nvidia.com/gpu", "5e-1", 1),
        ("nvidia.com/gpu", "1e+2", 100),
        ("nvidia.com/gpu", "1e999999999", 2**63 - 1),
        ("nvidia.com/gpu", "1e-999999999", 1),
        ("nvidia.com/gpu", "0e999999999", 0),
    ],
)
def test_a_quantity_means_so_much_of_a_resource(resource: str, text: object, expected: int) -> None:
    assert amount(resource, text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "abc", "1 Gi", "Gi", "1K", "1mi", "--1", "1e", "1e3Gi", "0x10", ".", "1,5", "\u0661",
     "9" * 65, True, None, [], {}, float("nan"), float("inf")],
    ids=repr,
)  # fmt: skip
def test_what_is_no_quantity_is_refused(text: object) -> None:
    with pytest.raises(QuantityError):
        amount("cpu", text)


@pytest.mark.parametrize(
    ("resource", "counted", "text"),
    [
        ("cpu", 9000, "9"),
        ("cpu", 1500, "1500m"),
        ("cpu", -1500, "-1500m"),
        ("cpu", 0, "0"),
        ("memory", 4 * 2**30, "4Gi"),
        ("memory", 1536, "1536"),
        ("memory", 1000 * 1024, "1000Ki"),
        ("memory", 200_000_000, "200M"),
        ("memory", 0, "0"),
        ("hugepages-2Mi", 2**21, "2Mi"),
        ("nvidia.com/gpu", 9000, "9000"),
    ],
)
def test_amounts_are_written_as_people_write_them(resource: str, counted: int, text: str) -> None:
    assert format_amount(resource, counted) == text


@given(
    st.sampled_from(["cpu", "memory", "ephemeral-storage", "nvidia.com/gpu", "pods"]),
    st.integers(-(2**60), 2**60),
)
def test_an_amount_survives_writing_and_reading(resource: str, counted: int) -> None:
    assert amount(resource, format_amount(resource, counted)) == counted


@given(
    st.fractions(min_value=-1000, max_value=1000).map(lambda f: Fraction(round(f * 10**9), 10**9))
)
def test_a_weight_survives_writing_and_reading(weight: Fraction) -> None:
    assert parse_quantity(format_quantity(weight)) == weight


@given(
    st.one_of(
        st.text(max_size=80), st.from_regex(r"[-+]?[0-9.]{1,5}([eE][-+]?[0-9]{1,12}|[A-Za-z]{0,2})")
    )
)
def test_any_text_is_a_quantity_or_refused_and_nothing_else(text: str) -> None:
    with suppress(QuantityError):
        assert isinstance(amount("memory", text), int)
