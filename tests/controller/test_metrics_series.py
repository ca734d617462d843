"""Series as text: what Prometheus reads back is what was counted."""

from __future__ import annotations

from math import inf, isnan, nan

import pytest

from makeway.controller.series import Counter, Family, Histogram, Readings, number_text
from tests.controller.metrics_lab import Scrape

ODD = 'a "b" \\ 100%s\nc'


def family(name: str, *labels: str, buckets: tuple[float, ...] = ()) -> Family:
    return Family(name, "Of no use.\nA second line, with a \\.", labels, buckets)


def test_odd_values_of_labels_come_back_as_they_were() -> None:
    counter = Counter(family("odd_total", "what", "role"), ("leader",))
    counter.add(ODD)
    counter.add(ODD)
    histogram = Histogram(family("odd_seconds", "what", buckets=(1.0,)))
    histogram.observe(0.5, ODD)
    readings = Readings(("leader",))
    readings.add(family("odd", "what", "role"), 3, ODD)

    scrape = Scrape(counter.text() + histogram.text() + readings.text())
    assert scrape.get("odd_total", what=ODD, role="leader") == 2
    assert scrape.get("odd_seconds_bucket", what=ODD, le="1") == 1
    assert scrape.get("odd", what=ODD, role="leader") == 3


def test_a_value_on_a_bound_belongs_below_it() -> None:
    histogram = Histogram(family("waits", buckets=(1.0, 2.5)))
    for seconds in (1.0, 2.5, 2.6, -4.0):
        histogram.observe(seconds)

    scrape = Scrape(histogram.text())
    assert scrape.get("waits_bucket", le="1") == 2  # what is below zero counts as none
    assert scrape.get("waits_bucket", le="2.5") == 3
    assert scrape.get("waits_bucket", le="+Inf") == scrape.get("waits_count") == 4
    assert scrape.get("waits_sum") == pytest.approx(6.1)


def test_forgotten_series_are_not_shown_any_more() -> None:
    counter = Counter(family("seen_total", "queue", "reason"))
    for values in (("a", "x"), ("a", "y"), ("ab", "x")):
        counter.add(*values)
    counter.forget(("a",))

    assert Scrape(counter.text()).all("seen_total") == [1]
    counter.forget(("ab",))
    assert counter.text() == ""


def test_a_value_for_each_label_and_no_more() -> None:
    counter = Counter(family("seen_total", "queue", "reason"))

    with pytest.raises(ValueError, match="zip"):
        counter.add("a")


@pytest.mark.parametrize(
    ("number", "text"),
    [(3, "3"), (3.0, "3"), (2.5, "2.5"), (True, "1"), (inf, "+Inf"), (-inf, "-Inf")],
)
def test_numbers_are_written_as_prometheus_reads_them(number: float, text: str) -> None:
    assert number_text(number) == text


def test_what_is_not_a_number_says_so() -> None:
    assert number_text(nan) == "NaN"
    assert isnan(float(number_text(nan)))
