"""Amounts and times that are surely mistaken: asked about before they wait in a queue for ever."""

from __future__ import annotations

import re

from makeway.api.devices import is_gpu
from makeway.api.quantity import NANOS_PER_UNIT, QuantityError, parse_nanos
from makeway.cli.command import UsageError

MEMORY_LEAST = 2**20  # no program runs in less
MEMORY_MOST = 2**50
CPU_MOST = 4096
GPUS_MOST = 1024
FORCE = "if you mean it, write --force as well"
_BYTES = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgtp])(i?)b?", re.IGNORECASE)


def check_amount(option: str, resource: str, text: str, *, is_forced: bool) -> None:
    """UsageError where this is no amount; and, unless forced, where it can hardly be meant."""
    try:
        amount = parse_nanos(text) / NANOS_PER_UNIT
    except QuantityError:
        raise UsageError(_unreadable(option, resource, text)) from None
    if amount < 0:
        raise UsageError(_unreadable(option, resource, text))
    doubt = "" if is_forced else _doubt(resource, amount, text)
    if doubt:
        raise UsageError(f"{option} {text}: {doubt}; {FORCE}")


def _unreadable(option: str, resource: str, text: str) -> str:
    found = _BYTES.fullmatch(text)
    if resource == "memory" and found:
        number, unit = found[1], found[2].upper()
        decimal = "k" if unit == "K" else unit
        return f"{option} {text}: did you mean {number}{unit}i, or {number}{decimal}?"
    return f'{option} {text}: write a quantity such as 2, "500m" or "4Gi"'


def _doubt(resource: str, amount: float, text: str) -> str:
    """Why an amount can hardly be meant; empty: it can."""
    if resource == "memory" and 0 < amount < MEMORY_LEAST:
        number = text.rstrip("numkKMGTPEi")
        if text.endswith("m"):
            return f"m is a thousandth, so this is {amount:g} bytes; did you mean {number}Mi?"
        return f"this is {amount:g} bytes; did you mean {number}Gi?"
    if resource == "memory" and amount > MEMORY_MOST:
        return "no machine has so much memory"
    if resource == "cpu" and amount > CPU_MOST:
        return f"this is {amount:g} cores; a thousandth of a core is written m, as in 500m"
    if is_gpu(resource) and amount > GPUS_MOST:
        return f"this is {amount:g} GPUs"
    return ""
