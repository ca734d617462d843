"""Functions that run as jobs; they import little, as every job does that anew."""

from __future__ import annotations

import os
import time


def square(number: int) -> int:
    print("squaring", number)
    return number * number


def refuse(why: str) -> None:
    raise Odd(why, "twice")


def die() -> None:
    os._exit(7)


def which_attempt() -> int:
    """Only a second attempt comes to an end."""
    attempt = int(os.environ["MAKEWAY_ATTEMPT"])
    if attempt == 1:
        time.sleep(60)
    return attempt


class Odd(Exception):
    """It takes two arguments and keeps one, so a pickled one can't be read."""

    def __init__(self, why: str, how: str) -> None:
        super().__init__(f"{why} {how}")
