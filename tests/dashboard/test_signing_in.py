"""Codes of one use, sessions that outlive the server, and nothing for anybody else."""

from __future__ import annotations

import pytest

from makeway.dashboard.signing_in import Codes, Reader, Sessions

HOUR = 3600.0
ADA = Reader("ada lovelace", 1001)


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


def test_a_code_lets_its_reader_in_once() -> None:
    codes = Codes(Clock())
    code = codes.issue(ADA)

    assert codes.redeem(code) == ADA
    assert codes.redeem(code) is None
    assert codes.redeem("guessed") is None


def test_a_code_is_good_for_a_minute() -> None:
    clock = Clock()
    codes = Codes(clock)
    early, late = codes.issue(ADA), codes.issue(ADA)

    clock.now += 59
    assert codes.redeem(early) == ADA
    clock.now += 2
    assert codes.redeem(late) is None


def test_of_very_many_codes_the_latest_are_kept() -> None:
    codes = Codes(Clock())
    first = codes.issue(ADA)
    later = [codes.issue(Reader("somebody", uid)) for uid in range(1000)]

    assert codes.redeem(first) is None
    assert codes.redeem(later[-1]) == Reader("somebody", 999)


def test_nobody_spoils_the_codes_of_others_by_asking_for_many() -> None:
    codes = Codes(Clock())
    of_ada, first = codes.issue(ADA), codes.issue(Reader("eve", 1002))
    many = [codes.issue(Reader("eve", 1002)) for _ in range(2000)]

    assert codes.redeem(of_ada) == ADA
    assert codes.redeem(first) is None
    assert codes.redeem(many[-1]) == Reader("eve", 1002)


def test_a_session_is_read_by_the_next_server_with_the_same_key() -> None:
    clock = Clock()
    session = Sessions(b"k" * 32, clock).issue(ADA)

    read = Sessions(b"k" * 32, clock).read(session)
    assert read is not None
    assert read.reader == ADA
    assert Sessions(b"x" * 32, clock).read(session) is None


@pytest.mark.parametrize("text", ["", ".", "abc", "abc.def", "é.é", "MTc=.MTc=", "a" * 10_000])
def test_what_is_no_session_is_none(text: str) -> None:
    assert Sessions(b"k" * 32, Clock()).read(text) is None


def test_a_session_ends_after_half_a_day_and_is_renewed_before() -> None:
    clock = Clock()
    sessions = Sessions(b"k" * 32, clock)
    first = sessions.issue(ADA)
    read = sessions.read(first)
    assert read is not None
    assert sessions.renewed(read) == ""

    clock.now += 11 * HOUR
    second = sessions.renewed(read)
    clock.now += 2 * HOUR

    assert sessions.read(first) is None
    renewed = sessions.read(second)
    assert renewed is not None
    assert renewed.reader == ADA
