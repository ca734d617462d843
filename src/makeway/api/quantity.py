"""Kubernetes quantities ("1500m", "4Gi", "1e3") to exact integers and back.

The only place that knows suffixes. A quantity is exact to 10^-9, finer parts are rounded up, and
what exceeds 2^63-1 counts as 2^63-1, all as Kubernetes has it. Amounts are integers in the smallest
unit that we count: thousandths for `cpu`, ones (bytes, devices) for everything else.
"""

import math
import re
from fractions import Fraction

NANOS_PER_UNIT = 10**9
VALUE_MAX = 2**63 - 1
TEXT_LENGTH_MAX = 64

_DECIMAL_SUFFIXES = dict(zip(("n", "u", "m", "", *"kMGTPE"), range(-9, 21, 3), strict=True))
_BINARY_SUFFIXES = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_QUANTITY = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?:[eE](?P<exponent>[+-]?[0-9]{1,9})|(?P<suffix>[numkMGTPE]|[KMGTPE]i)?)",
    re.ASCII,
)
# Resources that people read in powers of two.
_BYTES = re.compile(r"(memory|storage|ephemeral-storage|hugepages-.*|.*\.storage)")


def is_extended(resource: str) -> bool:
    """Is it a device or the like, of which there is no half and no overcommitment?"""
    return "/" in resource and "kubernetes.io/" not in resource


class QuantityError(ValueError):
    """The text is not a quantity."""


def parse_nanos(value: object) -> int:
    """Return the quantity in units of 10^-9; numbers as YAML gives them are welcome."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise QuantityError(value)
    text = repr(value) if isinstance(value, float) else str(value)
    if len(text) > TEXT_LENGTH_MAX:
        raise QuantityError(text)
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise QuantityError(text)
    whole, part = match["whole"], match["part"] or ""
    if not whole and not part:
        raise QuantityError(text)
    digits = int(whole + part)
    power = -len(part)
    suffix = match["suffix"] or ""
    if suffix in _BINARY_SUFFIXES:
        digits *= 1024 ** _BINARY_SUFFIXES[suffix]
    elif match["exponent"] is not None:
        power += int(match["exponent"])
    else:
        power += _DECIMAL_SUFFIXES[suffix]
    nanos = min(_scale_up(digits, power + 9), VALUE_MAX * NANOS_PER_UNIT)
    return -nanos if match["sign"] == "-" else nanos


def _scale_up(digits: int, power: int) -> int:
    """Return `digits` times 10^`power`, rounded up; never builds a number of absurd length."""
    if digits == 0:
        return 0
    if power >= 0:
        return digits * _power_of_ten(power)
    return -(-digits // _power_of_ten(-power))


def _power_of_ten(power: int) -> int:
    return int(10 ** min(power, 2 * TEXT_LENGTH_MAX))


def parse_quantity(value: object) -> Fraction:
    """Return the exact number of a quantity that is no amount of a resource (weight, factor)."""
    return Fraction(parse_nanos(value), NANOS_PER_UNIT)


def amount(resource: str, value: object) -> int:
    """Return how much of `resource` the quantity means, in its smallest unit, rounded up."""
    return -(-parse_nanos(value) * smallest_units(resource) // NANOS_PER_UNIT)


def smallest_units(resource: str) -> int:
    """How many of the smallest units make one."""
    return 1000 if resource == "cpu" else 1


def format_amount(resource: str, amount: int) -> str:
    """Write an amount as people write it: `1500m` of cpu, `4Gi` of memory, `9` of anything."""
    if resource == "cpu":
        whole, milli = divmod(amount, 1000)
        return str(whole) if milli == 0 else f"{amount}m"
    if amount != 0 and _BYTES.fullmatch(resource):
        return _shortest_bytes(amount)
    return str(amount)


def amount_in_object(resource: str, amount: int) -> str:
    """Write an amount as Kubernetes' clients spell it: `1k`, where people say 1000."""
    return canonical(format_amount(resource, amount))


def in_units(resource: str, amount: float) -> float:
    """An amount for charts: 1.5 for 1500 thousandths of cpu, else the amount itself."""
    return amount / 1000 if resource == "cpu" else amount


def _shortest_bytes(amount: int) -> str:
    for suffix, power in reversed(_BINARY_SUFFIXES.items()):
        if amount % 1024**power == 0:
            return f"{amount // 1024**power}{suffix}"
    for suffix in ("E", "P", "T", "G", "M", "k"):
        unit = 10 ** _DECIMAL_SUFFIXES[suffix]
        if amount % unit == 0:
            return f"{amount // unit}{suffix}"
    return str(amount)


def format_quantity(value: Fraction) -> str:
    """Write a number exactly, with the coarsest suffix that does (`2`, `500m`, `1n`)."""
    nanos = math.ceil(value * NANOS_PER_UNIT)
    for suffix in ("", "m", "u", "n"):
        unit = 10 ** (9 + _DECIMAL_SUFFIXES[suffix])
        if nanos % unit == 0:
            return f"{nanos // unit}{suffix}"
    raise AssertionError(nanos)


def canonical(value: object) -> str:
    """Write a quantity as Kubernetes does: in its sort of suffix, the coarsest that is exact."""
    nanos, text = parse_nanos(value), str(value)
    if nanos == 0:
        return "0"
    if text.endswith("i") and nanos % NANOS_PER_UNIT == 0:
        return _coarsest(nanos // NANOS_PER_UNIT, 1024, ("", *_BINARY_SUFFIXES))
    if "e" in text or ("E" in text and not text.endswith("E")):
        exponents = ("e-9", "e-6", "e-3", "", "e3", "e6", "e9", "e12", "e15", "e18")
        return _coarsest(nanos, 1000, exponents)
    return _coarsest(nanos, 1000, tuple(_DECIMAL_SUFFIXES))


def _coarsest(number: int, base: int, suffixes: tuple[str, ...]) -> str:
    place = 0
    while place < len(suffixes) - 1 and number % base == 0:
        number, place = number // base, place + 1
    return f"{number}{suffixes[place]}"
