"""Events of the group events.k8s.io: those of the core, with other names for some of their fields.

They are kept in the core's form, so whoever reads one group sees what was written to the other.
"""

from collections.abc import Mapping
from typing import Any

from makeway.api.errors import ABSENT, FieldError
from makeway.api.versions import Converted

NOTE_MAX = 1024
_CORE = "v1"
_NEW = "events.k8s.io/v1"
# What the new group calls differently -> what the core calls it.
_CORE_NAMES: Mapping[str, str] = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_NEW_NAMES = {core: new for new, core in _CORE_NAMES.items()}
_REQUIRED = ("eventTime", "reportingController", "reportingInstance", "action", "reason")
_EMPTY_IS_ABSENT = ("reportingController", "reportingInstance", "action")


def to_core(document: Mapping[str, Any]) -> Converted:
    """The event as it is kept; what only the core has a name for is not part of this group."""
    core = {
        _CORE_NAMES.get(key, key): value for key, value in document.items() if key not in _NEW_NAMES
    }
    return Converted({"source": {}, **core, "apiVersion": _CORE}, document, dict(_NEW_NAMES))


def from_core(document: Mapping[str, Any]) -> dict[str, Any]:
    new = {_NEW_NAMES.get(key, key): value for key, value in document.items()}
    for key in _EMPTY_IS_ABSENT:
        if new.get(key) == "":
            del new[key]
    return {"deprecatedSource": {}, **new, "apiVersion": _NEW}


def problems_of_new(event: Mapping[str, Any]) -> list[FieldError]:
    """What is wrong with a new event of this group, which asks for more; given in the core's form.

    As on a real server, fields of the past go by the names of the core.
    """
    found = [
        FieldError(name, ABSENT, "is missing")
        for name in _REQUIRED
        if not event.get(_CORE_NAMES.get(name, name))
    ]
    if (kind := event.get("type")) not in ("Normal", "Warning"):
        hint = "write Normal or Warning"
        found.append(FieldError("type", kind, "is not a type of event", hint))
    if len(str(event.get("message", "")).encode()) > NOTE_MAX:
        problem = f"is longer than {NOTE_MAX} bytes"
        found.append(FieldError("message", ABSENT, problem))
    for name in ("count", "firstTimestamp", "lastTimestamp", "source"):
        if event.get(name):
            problem = "is of events before this group, and has to be unset"
            found.append(FieldError(name, event[name], problem, "leave it out"))
    return found
