"""The pause before the next attempt."""

import pytest

from makeway.backoff import backoff_s


@pytest.mark.parametrize(
    ("failures", "pause_s"),
    [(0, 0.0), (1, 0.5), (2, 1.0), (3, 2.0), (4, 3.0), (10_000, 3.0)],
)
def test_a_pause_doubles_up_to_its_limit(failures: int, pause_s: float) -> None:
    assert backoff_s(failures, base_s=0.5, max_s=3.0) == pause_s
