"""Codes of one use, sessions that outlive the server, and nothing for anybody else."""

from __future__ import annotations

import base64
import hmac
from pathlib import Path

import pytest

from makeway.dashboard.signing_in import SESSION_S, Codes, Reader, Sessions
from makeway.dashboard.signing_out import Ended

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


@pytest.mark.parametrize("name", ["ada", "ada lovelace"])
def test_a_session_of_an_older_version_is_none(name: str) -> None:
    claim = f"1700003600.000 1001 {name}".encode()
    signature = hmac.digest(b"k" * 32, claim, "sha256")
    session = ".".join(base64.urlsafe_b64encode(part).decode() for part in (claim, signature))

    assert Sessions(b"k" * 32, Clock()).read(session) is None


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


def test_who_signs_out_of_one_page_keeps_the_others_and_a_restart_brings_it_not_back(
    tmp_path: Path,
) -> None:
    clock, file = Clock(), tmp_path / "ended"
    sessions = Sessions(b"k" * 32, clock, Ended(clock, SESSION_S, file))
    first, other = sessions.issue(ADA), sessions.issue(ADA)
    read = sessions.read(first)
    assert read is not None
    clock.now += 2 * HOUR
    renewed = sessions.renewed(read)
    sessions.end(read)

    for now in (sessions, Sessions(b"k" * 32, clock, Ended(clock, SESSION_S, file))):
        assert now.read(first) is now.read(renewed) is None
        assert now.read(other) is not None
    clock.now += 13 * HOUR  # nobody has to know of it any more
    sessions.end_all(Reader("grace", 1002))
    assert b"ada" not in file.read_bytes()


def test_who_signs_out_everywhere_can_sign_in_again() -> None:
    clock = Clock()
    sessions = Sessions(b"k" * 32, clock)
    of_ada, of_grace = sessions.issue(ADA), sessions.issue(Reader("grace", 1002))
    clock.now += 1
    sessions.end_all(ADA)
    clock.now += 1

    assert sessions.read(of_ada) is None
    assert sessions.read(of_grace) is not None
    assert sessions.read(sessions.issue(ADA)) is not None


def test_a_reader_who_ends_very_many_sessions_ends_all_of_his() -> None:
    clock = Clock()
    sessions = Sessions(b"k" * 32, clock)
    kept = sessions.issue(ADA)
    for number in range(101):
        clock.now += 1
        assert (sessions.read(kept) is None) == (number > 100)
        ended = sessions.read(sessions.issue(ADA))
        assert ended is not None
        sessions.end(ended)

    assert sessions.read(kept) is None
