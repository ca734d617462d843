"""Why a job waits, in at most forty characters made of numbers, for the line of a table.

`obstacles.py` says it of what the engine finds at this moment. Where only objects can be had, on a
cluster, the same numbers are taken from a condition's text here: its phrases are Kueue's, which is
why they hold still.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from makeway.api import quantity
from makeway.api.devices import is_gpu
from makeway.api.quantity import QuantityError, format_amount

BRIEF_MAX = 40
NEVER = "never: "  # begins the reason of who waits in vain
OWNER_FIRST = "the quota's owner waits, and goes first"
NO_FLAVOR_FITS = f"{NEVER}no flavor fits its node rules"
_SHORT = re.compile(r"insufficient unused quota for (\S+) in flavor \S+, (\S+) more needed")
_EXCEEDS = re.compile(r"insufficient quota for (\S+) in flavor .*?> maximum capacity \((\S+?)\)")
_NOT_COVERED = re.compile(r"resource (\S+) unavailable in ClusterQueue")
_TAINT = re.compile(r"untolerated taint .* in flavor (\S+?)(?:,|\.? |$)")
_AFFINITY = re.compile(r"flavor \S+ doesn't match node affinity")
_BEHIND = re.compile(r"Waits in ClusterQueue \S+( behind \S+)?")
_NO_NODE = re.compile(r"Insufficient (\S+?)[.,]?(?: |$)")
# Reasons of a condition whose obstacles stay.
_FOR_GOOD = "ExceedsMaxQuota"
_NO_FLAVOR = "NoMatchingFlavor"

Requests = Mapping[str, int]


def cut(text: str, width: int = BRIEF_MAX) -> str:
    return text if len(text) <= width else text[: width - 1].rstrip() + "…"


def amount_in_brief(resource: str, amount: int) -> str:
    """`4 GPUs`, `64Gi memory`, `500m cpu`."""
    if is_gpu(resource):
        return f"{amount} GPU{'' if amount == 1 else 's'}"
    return f"{format_amount(resource, amount)} {resource.rpartition('/')[2]}"


def short_of(resource: str, asked: int, missing: int) -> str:
    free = format_amount(resource, max(0, asked - missing))
    return f"needs {amount_in_brief(resource, asked)}, {free} free"


def never(resource: str, asked: int, most: int) -> str:
    what = str(asked) if is_gpu(resource) else amount_in_brief(resource, asked)
    return f"{NEVER}{what} asked, {format_amount(resource, most)} exist"


def behind(jobs: int) -> str:
    return "first in line" if jobs == 0 else f"behind {jobs} job{'' if jobs == 1 else 's'}"


def queue_lacks(resource: str) -> str:
    return f"{NEVER}its queue has no {'GPUs' if is_gpu(resource) else resource}"


def tainted(flavor: str) -> str:
    return f"{NEVER}a taint of flavor {flavor}"


def message_in_brief(reason: str, message: str, requests: Requests) -> str:
    """The same of a condition's reason and text; what is not known is cut.

    Of several flavors each has its obstacle: what is too much for one may fit another.
    """
    if reason == _FOR_GOOD and (most := _most_there_is(message)):
        return cut(never(most[0], requests.get(most[0], 0), most[1]))
    if reason == _NO_FLAVOR and (mismatch := _mismatch(message)):
        return cut(mismatch)
    if message.startswith("Owners first: "):
        return OWNER_FIRST
    if lacks := _NOT_COVERED.search(message):
        return cut(queue_lacks(lacks[1]))
    shortages = [(m[1], _amount(m[1], m[2])) for m in _SHORT.finditer(message)]
    if shortages:
        resource, missing = min(shortages, key=lambda one: (not is_gpu(one[0]), one[1]))
        return cut(short_of(resource, requests.get(resource, missing), missing))
    if _BEHIND.match(message):
        return "in line"
    return cut(message)


def _mismatch(message: str) -> str:
    """The first that the text has; empty if it is of another sort."""
    taint, affinity = _TAINT.search(message), _AFFINITY.search(message)
    if taint and not (affinity and affinity.start() < taint.start()):
        return tainted(taint[1])
    return NO_FLAVOR_FITS if affinity else ""


def _most_there_is(message: str) -> tuple[str, int] | None:
    """The resource of which too much is asked for, and how much the largest flavor has."""
    found = [(m[1], _amount(m[1], m[2])) for m in _EXCEEDS.finditer(message)]
    return max((one for one in found if one[0] == found[0][0]), default=None)


def no_node_in_brief(message: str, requests: Requests) -> str:
    """Of what a scheduler says of a pod for which it has found no node."""
    for match in _NO_NODE.finditer(message):
        if match[1] in requests:
            return cut(f"no node has {amount_in_brief(match[1], requests[match[1]])} free")
    return "no node for its pods; see explain"


def _amount(resource: str, text: str) -> int:
    try:
        return quantity.amount(resource, text)
    except QuantityError:
        return 0
